"""The files by which a control plane knows its users, and the kubeconfigs handed to them.

The admin (group system:masters) has a token; any other user gets a client certificate when asked for; a
ServiceAccount gets a token from the TokenRequest API, and with it exactly the rights that RBAC gives it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from fluence_extender.localcluster.api import Api
from fluence_extender.localcluster.components import Layout
from fluence_extender.localcluster.credentials import (
    Authority,
    Credential,
    key_pem,
    kubeconfig_text,
    new_key,
    write_private,
)

TOKEN_SECONDS = 24 * 3600


class Access:
    """Writes what the components need to start; then hands out kubeconfigs."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        layout.credentials.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._authority = Authority(layout.credentials)
        server = self._authority.server()
        self._write("server.crt", server.certificate)
        self._write("server.key", server.key)
        if not (layout.credentials / "serviceaccounts.key").exists():
            self._write("serviceaccounts.key", key_pem(new_key()))
        admin = Credential(token=self._admin_token())
        write_private(layout.kubeconfig, self._text(admin).encode())

    @property
    def authority_file(self) -> Path:
        """The certificate that vouches for the API server's, kube-scheduler's and the controller manager's."""
        return self._layout.credentials / "ca.crt"

    def for_user(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of ``user`` in ``groups``, by client certificate."""
        return self._hand_out(user, self._authority.client(user, tuple(groups)))

    def for_token(self, name: str, token: str) -> Path:
        """A kubeconfig with a bearer ``token``; ``name`` only names the file."""
        return self._hand_out(name, Credential(token=token))

    def for_service_account(self, api: Api, namespace: str, name: str) -> Path:
        """A kubeconfig of the ServiceAccount ``name``, which must exist; good for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = api.request("POST", path, asked)["status"]["token"]
        return self.for_token(f"{namespace}.{name}", token)

    def _admin_token(self) -> str:
        table = self._layout.credentials / "tokens.csv"
        if not table.exists():
            write_private(table, f'{secrets.token_hex(32)},admin,admin,"system:masters"\n'.encode())
        return table.read_text().partition(",")[0]

    def _hand_out(self, name: str, credential: Credential) -> Path:
        file = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
        path = self._layout.folder / "kubeconfigs" / f"{file}.kubeconfig"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return write_private(path, self._text(credential).encode())

    def _text(self, credential: Credential) -> str:
        return kubeconfig_text(self._layout.api_url, self._authority.pem, credential)

    def _write(self, name: str, content: bytes) -> None:
        write_private(self._layout.credentials / name, content)
