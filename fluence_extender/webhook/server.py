"""Serve ``POST /mutate`` with TLS, and probes and metrics on the same port.

Invariants: a body that can't be read gets a 4xx whose text names the problem. Before the webhook knows the cluster it
answers 503, which the API server treats as an outage.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fluence_extender.http.listeners.bodies import (
    JSON,
    Bodies,
    Disconnected,
    RequestRefused,
    refuse,
    respond,
)
from fluence_extender.http.listeners.gate import AccessGate, AccessRefused
from fluence_extender.http.listeners.serving import Address, actual, listen, uvicorn_server
from fluence_extender.model.access import METRICS
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.metrics import ReviewResult, WebhookMetrics
from fluence_extender.webhook.registration import MUTATE, RegistrationReconciler
from fluence_extender.webhook.review import BadReview

MAX_BODY = 4 * 1024 * 1024
"""The most bytes of a body. The API server accepts no object of more than 3 MiB."""

ROOM = 64 * 1024 * 1024
"""The most bytes of all bodies that arrive or are answered at the same time."""

MOST_BODIES = 1024
"""The most bodies that arrive at the same time. An API server makes a few hundred calls at once."""

MOST_CONNECTIONS = 2048

LARGE = 64 * 1024
"""Bytes. Larger reviews take turns."""

CLOSE = [(b"connection", b"close")]

log = structlog.get_logger(__name__)


class WebhookApp(Starlette):
    """The webhook over HTTP. ``missing`` returns why reviews can't be answered yet, "" once they can.

    ``gate`` decides who sees metrics.

    While it is ``draining``, each answer tells the client to open another connection, which leads to another replica.
    """

    def __init__(
        self,
        admission: Admission,
        registration: RegistrationReconciler,
        metrics: WebhookMetrics,
        missing: Callable[[], str],
        gate: AccessGate,
    ) -> None:
        self.draining = False
        self._admission = admission
        self._registration = registration
        self._metrics = metrics
        self._missing = missing
        self._gate = gate
        self._turn = asyncio.Lock()
        self._bodies = Bodies(MAX_BODY, ROOM, MOST_BODIES)
        super().__init__(
            routes=[
                Route("/healthz", _alive),
                Route("/readyz", self._ready),
                Route("/metrics", self._exposition),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Reviews need none of Starlette's layers."""
        if scope["type"] == "http" and scope["path"] == MUTATE:
            await self._mutate(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _mutate(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            body = await self._bodies.posted_json(scope, receive, MUTATE)
            if missing := self._missing():
                self._count(ReviewResult.NOT_READY, began)
                await refuse(send, 503, f"not ready: {missing}")
                return
            answer, result, warnings = await self._decided(body)
        except Disconnected:
            self._count(ReviewResult.BAD_REQUEST, began)
            return
        except (RequestRefused, BadReview) as error:
            self._count(ReviewResult.BAD_REQUEST, began)
            status = error.status if isinstance(error, RequestRefused) else 400
            log.warning("a review was refused", status=status, problem=str(error))
            await refuse(send, status, str(error))
            return
        if warnings:
            self._metrics.warnings.inc(warnings)
        self._count(result, began)
        await respond(send, 200, JSON, answer, CLOSE if self.draining else None)

    async def _decided(self, body: bytes) -> tuple[bytes, ReviewResult, int]:
        self._bodies.held += len(body)
        try:
            if len(body) > LARGE:
                # Large reviews begin one by one, with a round of the event loop after each for the small ones.
                async with self._turn:
                    await asyncio.sleep(0)
            return await self._admission.decide(body)
        finally:
            self._bodies.held -= len(body)

    def _count(self, result: ReviewResult, began: float) -> None:
        self._metrics.observe(result, time.perf_counter() - began)

    async def _ready(self, request: Request) -> PlainTextResponse:
        """Answer 200 once reviews can be answered and the API server knows where to send them."""
        registration = self._registration
        reason = self._missing() or ("" if registration.registered else registration.problem)
        reason = "stopping" if self.draining else reason
        return PlainTextResponse(f"not ready: {reason}\n", 503) if reason else PlainTextResponse("ok\n")

    async def _exposition(self, request: Request) -> Response:
        try:
            await self._gate.demand(request.scope, METRICS)
        except AccessRefused as error:
            return PlainTextResponse(f"{error}\n", error.status)
        self._metrics.update(self._registration)
        body, content_type = self._metrics.render(request.headers.get("accept", ""))
        return Response(body, media_type=content_type)


async def _alive(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@contextlib.asynccontextmanager
async def serve_https(app: ASGIApp, address: Address, tls: ssl.SSLContext) -> AsyncIterator[Address]:
    """Serve ``app`` with ``tls`` while the context lasts. Yield the address with the actual port.

    At the end, the socket closes first, and open answers have seconds to finish. Raises `CannotListen`.
    """
    server = uvicorn_server(app, tls, MOST_CONNECTIONS)
    with listen(address) as opened:
        await server.startup(sockets=[opened])
        try:
            yield actual(address, opened)
        finally:
            await server.shutdown(sockets=[opened])
