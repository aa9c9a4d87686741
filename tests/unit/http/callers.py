"""An API server that says who callers are and what they may do, and how often it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.types import Scope

from fluence_extender.cluster.errors import NoAnswer
from fluence_extender.http.listeners.serving import PEER
from fluence_extender.model.access import Caller, Right


@dataclass
class KnownCallers:
    """`gate.Reviews` in memory: the callers by token, and their rights by name."""

    tokens: dict[str, Caller] = field(default_factory=dict)
    rights: dict[str, set[Right]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: bool = False

    async def caller(self, token: str) -> Caller | None:
        self._ask(f"whose is {token}")
        return self.tokens.get(token)

    async def allowed(self, caller: Caller, right: Right) -> bool:
        self._ask(f"may {caller.name} {right}")
        return right in self.rights.get(caller.name, set())

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if self.away:
            raise NoAnswer("it gave no answer")


def request_of(token: str = "", peer: bytes = b"", **headers: str) -> Scope:
    """The scope of a request, with a bearer token, a client certificate and headers (``_`` stands for ``-``)."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if token:
        sent.append((b"authorization", f"Bearer {token}".encode()))
    request = {"type": "http", "method": "GET", "path": "/v1/gangs", "headers": sent}
    return {**request, "state": {PEER: peer} if peer else {}}
