"""Client of the service's state API (``/v1``): through the API server's proxy with the user's kubeconfig and rights, or
straight at the service's address.

Every failure becomes a `StateApiError`: one line that says what to do. Nothing is ever written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fluence_extender import __version__
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed, NotFound, StateApiError
from fluence_extender.apps.kubectl.options import DEFAULT_NAMESPACE
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.terminal import tell_note, waiting

SERVICE = "fluence"
PORT = "api"
ROLE = "fluence-view"
SIMULATE_ROLE = "fluence-simulate"
PATIENCE = 60.0
"""Seconds for one answer."""

Item = dict[str, Any]


class StateApiClient:
    """Reads from the service. ``server`` is its URL, or empty for the API server's proxy.

    ``connection`` are kubectl's flags that say which cluster is meant and who the user is; ``patience`` is in seconds.
    """

    def __init__(
        self,
        server: str = "",
        service_namespace: str = DEFAULT_NAMESPACE,
        connection: Sequence[str] = (),
        patience: float = PATIENCE,
    ) -> None:
        self.service_namespace = service_namespace
        self.connection = list(connection)
        self._server = server.rstrip("/")
        self._patience = patience
        self._noted_standby = False

    def items(self, path: str, **query: object) -> list[Item]:
        """Return the items of a list. Raise `StateApiError` if there is no such list."""
        document = self.document(path, **query)
        if not isinstance(document, dict) or not isinstance(document.get("items"), list):
            raise self._missing(path)
        if not document.get("metadata", {}).get("leading", True) and not self._noted_standby:
            self._noted_standby = True
            tell_note("answered by a standby replica: it shows what it sees of the cluster")
        found: list[Item] = document["items"]
        return found

    def document(self, path: str, body: bytes | None = None, /, **query: object) -> Any:
        """Return the JSON document under ``path``, or the answer to ``body``. Raise `NotFound` or `StateApiError`."""
        text = self.text(path, body, **query)
        try:
            return json.loads(text)
        except ValueError:
            raise StateApiError(
                f"{self._where()} gave no JSON for {path}; is it the service's address?"
            ) from None

    def text(self, path: str, body: bytes | None = None, /, **query: object) -> bytes:
        """Return the content under ``path``, or the answer to ``body``, as it is.

        Raise `NotFound` or `StateApiError`.
        """
        parameters = {name: str(value) for name, value in query.items() if value not in ("", None, False)}
        whole = quote(path) + (f"?{urlencode(parameters)}" if parameters else "")
        try:
            with waiting(f"asking {self._where()}"):
                return self._direct(whole, body) if self._server else self._proxied(whole, body)
        except NotFound:
            raise self._missing(path) from None

    def namespace(self, named: str, everywhere: bool = False) -> str:
        """Return the namespace to ask about: ``named``, else that of the kubeconfig's context.

        An empty string means all namespaces: if ``everywhere``, or if a service at an address is asked without a
        usable kubeconfig.
        """
        if everywhere:
            return ""
        if named:
            return named
        # jsonpath prints nothing for a context without a namespace.
        arguments = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"]
        which = [word for word in self.connection if word.startswith(("--kubeconfig=", "--context="))]
        try:
            return kubectl_output([*arguments, *which], 10).decode().strip() or "default"
        except CommandError:
            return "" if self._server else "default"

    def _where(self) -> str:
        return self._server or f"the service {self.service_namespace}/{SERVICE}"

    def _missing(self, path: str) -> NotFound:
        return NotFound(
            f"{self._where()} has no {path} as kubectl-fluence {__version__} reads it;"
            " use the same version of both (pip install -U fluence-extender, or update the Deployment)"
        )

    def _proxied(self, path: str, body: bytes | None) -> bytes:
        proxy = f"/api/v1/namespaces/{self.service_namespace}/services/http:{SERVICE}:{PORT}/proxy{path}"
        verb = ["get"] if body is None else ["create", "-f", "-"]
        arguments = [*verb, "--raw", proxy, *self.connection]
        if not any(word.startswith("--request-timeout") for word in self.connection):
            arguments.append(f"--request-timeout={self._patience:.0f}s")
        try:
            return kubectl_output(arguments, self._patience + 5, body)
        except KubectlFailed as error:
            raise self._explained(str(error), ROLE if body is None else SIMULATE_ROLE) from None

    def _explained(self, message: str, role: str) -> StateApiError:
        """Return the error that kubectl's ``message`` means here."""
        if "(NotFound)" in message and "services" not in message:
            return NotFound(message)
        if "(NotFound)" in message:
            return StateApiError(
                f"there is no service {self.service_namespace}/{SERVICE}; install it (kubectl apply -k deploy),"
                " or say where it is with --fluence-ns NAMESPACE or --server URL"
            )
        if "(Forbidden)" in message:
            return StateApiError(
                f"you may not ask {self._where()}; an administrator allows it with kubectl create rolebinding"
                f" {role} -n {self.service_namespace} --clusterrole={role} --user=YOU"
            )
        if "(Unauthorized)" in message or "must be logged in" in message:
            return StateApiError("the cluster doesn't know you; log in again, or check kubectl config view")
        if any(part in message for part in ("(ServiceUnavailable)", "no endpoints", "(InternalError)")):
            return StateApiError(
                f"no replica of {self._where()} is ready; see"
                f" kubectl get pods -n {self.service_namespace} -l app.kubernetes.io/name={SERVICE}"
            )
        if role == SIMULATE_ROLE and message.startswith("Error from server: "):
            return StateApiError(message.removeprefix("Error from server: "))
        return StateApiError(f"the cluster can't be asked: {message}; check it with kubectl cluster-info")

    def _direct(self, path: str, body: bytes | None) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import urlopen

        if not self._server.startswith(("http://", "https://")):
            raise StateApiError(
                f'--server "{self._server}" is no URL; write e.g. --server http://127.0.0.1:8889'
            )
        try:
            with urlopen(self._server + path, body, timeout=self._patience) as response:
                content: bytes = response.read()
                return content
        except HTTPError as error:
            with error:
                message = _detail(error.read()) or str(error.reason)
            if error.code == 404:
                raise NotFound(message) from None
            raise StateApiError(f"{self._where()}: {message}") from None
        except (OSError, ValueError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise StateApiError(f"{self._where()} can't be reached: {why}; check --server") from None


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return ""
