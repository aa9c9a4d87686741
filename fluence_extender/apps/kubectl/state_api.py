"""Client of the service's state API (``/v1``): through the API server with the user's kubeconfig, or at its address.

The API server passes ``/apis/fluence.flux-framework.org/v1`` on to the service and tells it who the user is, so every
kind of kubeconfig works. At its own address the service knows a user by the bearer token of ``--token`` alone; on
loopback it may ask for none.

Every failure becomes a `StateApiError`: one line that says what to do. Nothing is ever written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fluence_extender import __version__
from fluence_extender.apps.kubectl.errors import (
    CommandError,
    KubectlFailed,
    NotFound,
    StateApiError,
    Withheld,
)
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.terminal import tell_note, waiting
from fluence_extender.model.names import DEFAULT_NAMESPACE, STATE_GROUP, STATE_VERSION

if TYPE_CHECKING:
    from ssl import SSLContext

SERVICE = "fluence"
API_GROUP = f"/apis/{STATE_GROUP}"
ROLE = "fluence-view"
SIMULATE_ROLE = "fluence-simulate"
PATIENCE = 60.0
"""Seconds for one answer."""

Item = dict[str, Any]


class StateApiClient:
    """Reads from the service. ``server`` is its URL, or empty for the API server.

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
        self.server = server.rstrip("/")
        self._patience = patience
        self._noted: set[str] = set()

    def items(self, path: str, **query: object) -> list[Item]:
        """Return the items of a list. Raise `StateApiError` if there is no such list."""
        document = self.document(path, **query)
        if not isinstance(document, dict) or not isinstance(document.get("items"), list):
            raise self._missing(path)
        metadata = document.get("metadata", {})
        if not metadata.get("leading", True):
            self._note_once("answered by a standby replica: it shows what it sees of the cluster")
        if metadata.get("restricted"):
            self._note_once("only your own work is counted, and that in namespaces whose pods you may list")
        if metadata.get("hidden"):
            self._note_once("more are in namespaces whose pods you may not list", f"{metadata['hidden']} ")
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
                return self._direct(whole, body) if self.server else self._proxied(whole, body)
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
        flags = [word for word in self.connection if word.startswith(("--kubeconfig=", "--context="))]
        try:
            return kubectl_output([*arguments, *flags], 10).decode().strip() or "default"
        except CommandError:
            return "" if self.server else "default"

    def _note_once(self, note: str, count: str = "") -> None:
        if note not in self._noted:
            self._noted.add(note)
            tell_note(f"{count}{note}")

    def _where(self) -> str:
        return self.server or f"the service {self.service_namespace}/{SERVICE}"

    def _missing(self, path: str) -> NotFound:
        return NotFound(
            f"{self._where()} has no {path} as kubectl-fluence {__version__} reads it;"
            " use the same version of both (pip install . in its clone, or update the Deployment)"
        )

    def _proxied(self, path: str, body: bytes | None) -> bytes:
        below = path if path.startswith(f"/{STATE_VERSION}/") else f"/{STATE_VERSION}{path}"
        try:
            return self._raw(API_GROUP + below, body)
        except KubectlFailed as error:
            if "(NotFound)" in str(error):
                raise self._absent() from None
            raise self._explained(str(error), ROLE if body is None else SIMULATE_ROLE) from None

    def _raw(self, path: str, body: bytes | None = None) -> bytes:
        verb = ["get"] if body is None else ["create", "-f", "-"]
        arguments = [*verb, "--raw", path, *self.connection]
        if not any(word.startswith("--request-timeout") for word in self.connection):
            arguments.append(f"--request-timeout={self._patience:.0f}s")
        return kubectl_output(arguments, self._patience + 5, body)

    def _absent(self) -> StateApiError:
        """Return the error for a path that nothing serves: the service has no such path, or isn't installed."""
        try:
            self._raw(API_GROUP)
        except KubectlFailed as error:
            if "(NotFound)" in str(error):
                return StateApiError(
                    f"the cluster serves no {API_GROUP}; install the service (kubectl apply -k deploy),"
                    " or say where it is with --server URL"
                )
        return NotFound("the service has nothing under this path")

    def _explained(self, message: str, role: str) -> StateApiError:
        """Return the error that kubectl's ``message`` means here."""
        if "(Forbidden)" in message and "forbidden: User" in message:
            return StateApiError(
                f"you may not ask {self._where()}; an administrator allows it with kubectl create clusterrolebinding"
                f" {role} --clusterrole={role} --user=YOU"
            )
        if "(Forbidden)" in message:
            return Withheld(message.removeprefix("(Forbidden): "))
        if "(Unauthorized)" in message or "must be logged in" in message:
            return StateApiError("the cluster doesn't know you; log in again, or check kubectl config view")
        if any(part in message for part in ("(ServiceUnavailable)", "no endpoints", "(InternalError)")):
            return StateApiError(
                f"no replica of {self._where()} leads now; ask again in a few seconds, or see"
                f" kubectl get pods -n {self.service_namespace} -l app.kubernetes.io/name={SERVICE}"
            )
        if message.startswith("Error from server: "):
            return StateApiError(message.removeprefix("Error from server: "))
        return StateApiError(f"the cluster can't be asked: {message}; check it with kubectl cluster-info")

    def _direct(self, path: str, body: bytes | None) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        if not self.server.startswith(("http://", "https://")):
            raise StateApiError(
                f'--server "{self.server}" is no URL; write e.g. --server http://127.0.0.1:8889'
            )
        try:
            kind = {} if body is None else {"Content-Type": "application/json"}
            request = Request(self.server + path, body, kind | self.authorization())
            with urlopen(request, timeout=self._patience, context=self.tls()) as response:
                content: bytes = response.read()
                return content
        except HTTPError as error:
            with error:
                message = _detail(error.read()) or str(error.reason)
            if error.code == 404:
                raise NotFound(message) from None
            if error.code == 401:
                raise StateApiError(
                    f"{self._where()} doesn't know you: {message}; give --token TOKEN, or leave out --server"
                ) from None
            if error.code == 403:
                raise Withheld(message) from None
            raise StateApiError(f"{self._where()}: {message}") from None
        except (OSError, ValueError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise StateApiError(f"{self._where()} can't be reached: {why}; check --server") from None

    def authorization(self) -> dict[str, str]:
        """Return the header by which the service knows the user at its own address."""
        token = self._flag("token")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self) -> SSLContext | None:
        """Return how to verify the service's certificate, by kubectl's flags. Raise `StateApiError`."""
        if not self.server.startswith("https://"):
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self._flag("certificate-authority") or None)
        except OSError as error:
            raise StateApiError(f"--certificate-authority can't be read: {error}") from None
        if "--insecure-skip-tls-verify" in self.connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _flag(self, name: str) -> str:
        """Return the value of a flag of kubectl, "" if it isn't given."""
        given = [word.partition("=")[2] for word in self.connection if word.startswith(f"--{name}=")]
        return given[-1] if given else ""


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return ""
