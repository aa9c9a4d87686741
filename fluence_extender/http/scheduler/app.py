"""The application of the four verbs for the kube-scheduler in the same pod.

It trusts its callers, so it belongs on a loopback listener of its own.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fluence_extender.http.listeners.bodies import MAX_BODY
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.endpoint import VerbEndpoint
from fluence_extender.http.scheduler.pending import PendingBinds
from fluence_extender.http.scheduler.port import Placements
from fluence_extender.http.scheduler.verbs import (
    Verbs,
    failed_filter,
    failed_preempt,
    failed_prioritize,
)
from fluence_extender.http.scheduler.wire import binding_result


class VerbsApp(Starlette):
    """The verbs and a liveness probe."""

    def __init__(self, placements: Placements, metrics: Metrics, max_body: int = MAX_BODY) -> None:
        self.pending_binds = PendingBinds()
        verbs = Verbs(placements, self.pending_binds)
        self._verbs: dict[str, ASGIApp] = {
            f"/{verb}": VerbEndpoint(verb, answer, failed, metrics, max_body)
            for verb, answer, failed in (
                ("filter", verbs.filter, failed_filter),
                ("prioritize", verbs.prioritize, failed_prioritize),
                ("bind", verbs.bind, binding_result),
                ("preempt", verbs.preempt, failed_preempt),
            )
        }
        super().__init__(routes=[Route("/healthz", _alive)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. The verbs need none of Starlette's layers, which cost more than a look-up."""
        verb = self._verbs.get(scope["path"]) if scope["type"] == "http" else None
        await (super().__call__ if verb is None else verb)(scope, receive, send)

    async def stop(self, grace: float) -> None:
        """Take no more bindings; give those that wait ``grace`` seconds to end."""
        await self.pending_binds.stop(grace)


async def _alive(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")
