"""The users of a local control plane: certificates, tokens, and the kubeconfigs that contain them.

Each control plane has a certificate authority, which signs the certificates of the API server and of users, and a
second key, which signs ServiceAccount tokens. All files lie in its folder, readable by their owner only. They are
created only where they are missing, so that credentials issued before a crash stay valid after it. The admin (group
system:masters) has a token. Any other user gets a client certificate on demand. A ServiceAccount gets a token from the
TokenRequest API, and with it exactly the rights that RBAC gives it.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
import yaml

from tests.localcluster.api import Api
from tests.localcluster.components import FRONT_PROXY, Layout

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
TOKEN_SECONDS = 24 * 3600
ADMISSION = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": []}
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True, slots=True)
class Credential:
    """What identifies a client: a bearer token, or a certificate with its key (both PEM)."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


def write_private(path: Path, content: bytes) -> Path:
    """Write the whole file ``path`` or nothing, readable by its owner only."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    return scratch.replace(path)


def kubeconfig_text(url: str, authority: bytes, credential: Credential) -> str:
    """Return a kubeconfig with one cluster, one user and one context, and all data inline."""
    user: dict[str, Any] = {}
    if credential.token:
        user["token"] = credential.token
    if credential.certificate:
        user["client-certificate-data"] = base64.b64encode(credential.certificate).decode()
        user["client-key-data"] = base64.b64encode(credential.key).decode()
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    return yaml.safe_dump(document, sort_keys=False)


class LocalAuthority:
    """The certificate authority of one control plane, kept in ``folder`` (ca.crt, ca.key)."""

    def __init__(self, folder: Path) -> None:
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if not certificate.exists():
            made = trustme.CA()
            write_private(key, made.private_key_pem.bytes())
            write_private(certificate, made.cert_pem.bytes())
        self.pem = certificate.read_bytes()
        self._authority = trustme.CA.from_pem(self.pem, key.read_bytes())

    def server(self, addresses: Sequence[str] = ()) -> Credential:
        """Return a serving certificate for the loopback address, the in-cluster names and these ``addresses``."""
        return _credential(self._authority.issue_cert(*SERVER_NAMES, *SERVER_ADDRESSES, *addresses))

    def client(self, user: str, group: str = "") -> Credential:
        """Return a client certificate.

        Kubernetes reads the user from its common name, the group from its organization.
        """
        # Go refuses a certificate of trustme's that has no name beside its subject.
        return _credential(
            self._authority.issue_cert("client.invalid", common_name=user, organization_name=group or None)
        )


def _credential(leaf: trustme.LeafCert) -> Credential:
    (certificate,) = (blob.bytes() for blob in leaf.cert_chain_pems)
    return Credential(certificate=certificate, key=leaf.private_key_pem.bytes())


class Access:
    """The credentials of one control plane: those that the components need to start, and kubeconfigs for users.

    ``addresses`` are those at which the API server is reached, beside the loopback address.
    """

    def __init__(self, layout: Layout, addresses: Sequence[str] = ()) -> None:
        self._layout = layout
        layout.credentials.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._authority = LocalAuthority(layout.credentials)
        server = self._authority.server(addresses)
        self._write("server.crt", server.certificate)
        self._write("server.key", server.key)
        # Tests add what a provider of clusters sets there.
        self._write("admission.yaml", yaml.safe_dump(ADMISSION).encode())
        # An authority of its own: no client certificate that it didn't sign may name other users in headers.
        layout.front_proxy.mkdir(mode=0o700, exist_ok=True)
        proxy = LocalAuthority(layout.front_proxy).client(FRONT_PROXY)
        write_private(layout.front_proxy / "client.crt", proxy.certificate)
        write_private(layout.front_proxy / "client.key", proxy.key)
        if not (layout.credentials / "serviceaccounts.key").exists():
            self._write("serviceaccounts.key", trustme.CA().private_key_pem.bytes())
        admin = Credential(token=self._admin_token())
        write_private(layout.kubeconfig, self._text(admin).encode())

    @property
    def authority_file(self) -> Path:
        """The CA certificate for the certificates of API server, kube-scheduler and controller manager."""
        return self._layout.credentials / "ca.crt"

    def for_user(self, user: str, group: str = "") -> Path:
        """Return a kubeconfig of ``user`` in ``group``, with a client certificate."""
        return self._write_kubeconfig(user, self._authority.client(user, group))

    def for_token(self, name: str, token: str) -> Path:
        """Return a kubeconfig with a bearer ``token``; ``name`` only names the file."""
        return self._write_kubeconfig(name, Credential(token=token))

    def for_service_account(self, api: Api, namespace: str, name: str) -> Path:
        """Return a kubeconfig of the ServiceAccount ``name``, which must exist; its token is valid for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = api.request("POST", path, body)["status"]["token"]
        return self.for_token(f"{namespace}.{name}", token)

    def _admin_token(self) -> str:
        table = self._layout.credentials / "tokens.csv"
        if not table.exists():
            write_private(table, f'{secrets.token_hex(32)},admin,admin,"system:masters"\n'.encode())
        return table.read_text().partition(",")[0]

    def _write_kubeconfig(self, name: str, credential: Credential) -> Path:
        file = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
        path = self._layout.folder / "kubeconfigs" / f"{file}.kubeconfig"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return write_private(path, self._text(credential).encode())

    def _text(self, credential: Credential) -> str:
        return kubeconfig_text(self._layout.api_url, self._authority.pem, credential)

    def _write(self, name: str, content: bytes) -> None:
        write_private(self._layout.credentials / name, content)
