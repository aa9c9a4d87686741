"""Asking the service: through the API server's proxy with the user's kubeconfig and rights, or straight at its URL.

Whatever goes wrong is told in one line that says what to do. Nothing is ever written.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from fluence_extender import __version__
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.program import ask_kubectl
from fluence_extender.apps.kubectl.question import Question
from fluence_extender.apps.kubectl.terminal import tell_note, waiting

SERVICE = "fluence"
PORT = "api"
ROLE = "fluence-view"
SIMULATE_ROLE = "fluence-simulate"
PATIENCE = 60.0
"""Seconds for one answer."""

Item = dict[str, Any]


class NotThere(Exception):
    """The service has nothing under that path."""


class NoAnswer(CommandError):
    """The service can't be asked; the text says why and what to do."""


class Service:
    """The service that a question is for."""

    def __init__(self, question: Question, patience: float = PATIENCE) -> None:
        self._server = question.server.rstrip("/")
        self._namespace = question.service_namespace
        self._connection = question.connection
        self._patience = patience
        self._told_standby = False

    def items(self, path: str, **query: object) -> list[Item]:
        """The items of a list. Raises `CommandError`."""
        try:
            document = self.document(path, **query)
        except NotThere:
            raise self._too_old(path) from None
        if not isinstance(document, dict) or not isinstance(document.get("items"), list):
            raise self._too_old(path)
        if not document.get("metadata", {}).get("leading", True) and not self._told_standby:
            self._told_standby = True
            tell_note("answered by a replica that stands by: it shows what it sees of the cluster")
        found: list[Item] = document["items"]
        return found

    def one(self, path: str, **query: object) -> Item | None:
        """One item, None where there is none. Raises `CommandError`."""
        try:
            found: Item = self.document(path, **query)
        except NotThere:
            return None
        return found

    def document(self, path: str, **query: object) -> Any:
        """What the service says under ``path``. Raises `NotThere` and `NoAnswer`."""
        text = self.text(path, **query)
        try:
            return json.loads(text)
        except ValueError:
            raise NoAnswer(f"{self._where()} gave no JSON for {path}; is it the service's address?") from None

    def text(self, path: str, **query: object) -> bytes:
        """The same, as it is. Raises `NotThere` and `NoAnswer`."""
        asked = {name: str(value) for name, value in query.items() if value not in ("", None, False)}
        whole = quote(path) + (f"?{urlencode(asked)}" if asked else "")
        with waiting(f"asking {self._where()}"):
            return self._direct(whole) if self._server else self._proxied(whole)

    def ask(self, path: str, body: bytes, **query: object) -> Any:
        """What the service says to a question that has a body. Raises `NoAnswer`."""
        asked = urlencode({name: str(value) for name, value in query.items() if value})
        whole = quote(path) + (f"?{asked}" if asked else "")
        with waiting(f"asking {self._where()}"):
            try:
                text = self._direct(whole, body) if self._server else self._proxied(whole, body)
            except NotThere:
                raise self._too_old(path) from None
        return json.loads(text)

    def _where(self) -> str:
        return self._server or f"the service {self._namespace}/{SERVICE}"

    def _too_old(self, path: str) -> CommandError:
        return NoAnswer(
            f"{self._where()} has no {path} as kubectl-fluence {__version__} reads it;"
            " use the same version of both (pip install -U fluence-extender, or update the Deployment)"
        )

    def _proxied(self, path: str, body: bytes | None = None) -> bytes:
        proxy = f"/api/v1/namespaces/{self._namespace}/services/http:{SERVICE}:{PORT}/proxy{path}"
        verb = ["get"] if body is None else ["create", "-f", "-"]
        arguments = [*verb, "--raw", proxy, *self._connection]
        if not any(word.startswith("--request-timeout") for word in self._connection):
            arguments.append(f"--request-timeout={self._patience:.0f}s")
        try:
            return ask_kubectl(arguments, self._patience + 5, body)
        except KubectlFailed as error:
            raise self._explained(str(error), ROLE if body is None else SIMULATE_ROLE) from None

    def _explained(self, told: str, role: str) -> Exception:
        """What kubectl's words mean here."""
        if "(NotFound)" in told and "services" not in told:
            return NotThere(told)
        if "(NotFound)" in told:
            return NoAnswer(
                f"there is no service {self._namespace}/{SERVICE}; install it (kubectl apply -k deploy),"
                " or say where it is with --fluence-ns NAMESPACE or --server URL"
            )
        if "(Forbidden)" in told:
            return NoAnswer(
                f"you may not ask {self._where()}; an administrator allows it with kubectl create rolebinding"
                f" {role} -n {self._namespace} --clusterrole={role} --user=YOU"
            )
        if "(Unauthorized)" in told or "must be logged in" in told:
            return NoAnswer("the cluster doesn't know you; log in again, or check kubectl config view")
        if "(ServiceUnavailable)" in told or "no endpoints" in told or "(InternalError)" in told:
            return NoAnswer(
                f"no replica of {self._where()} is ready; see"
                f" kubectl get pods -n {self._namespace} -l app.kubernetes.io/name={SERVICE}"
            )
        if role == SIMULATE_ROLE and told.startswith("Error from server: "):
            return NoAnswer(told.removeprefix("Error from server: "))
        return NoAnswer(f"the cluster can't be asked: {told}; check it with kubectl cluster-info")

    def _direct(self, path: str, body: bytes | None = None) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import urlopen

        if not self._server.startswith(("http://", "https://")):
            raise NoAnswer(f'--server "{self._server}" is no URL; write e.g. --server http://127.0.0.1:8889')
        try:
            with urlopen(self._server + path, body, timeout=self._patience) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as error:
            with error:
                told = _detail(error.read()) or str(error.reason)
            if error.code == 404:
                raise NotThere(told) from None
            raise NoAnswer(f"{self._where()}: {told}") from None
        except (OSError, ValueError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise NoAnswer(f"{self._where()} can't be reached: {why}; check --server") from None


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return ""


def namespace_of(question: Question) -> str:
    """The namespace that is asked about: the one named, that of the kubeconfig's context, or all (``""``)."""
    if "all-namespaces" in question.switches:
        return ""
    if question.namespace:
        return question.namespace
    # jsonpath prints nothing for a context without a namespace.
    arguments = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"]
    wanted = [word for word in question.connection if word.startswith(("--kubeconfig=", "--context="))]
    pairs = zip(question.connection, question.connection[1:], strict=False)
    wanted += [f"{flag}={value}" for flag, value in pairs if flag in ("--kubeconfig", "--context")]
    try:
        return ask_kubectl([*arguments, *wanted], 10).decode().strip() or "default"
    except (KubectlFailed, CommandError):
        return "" if question.server else "default"
