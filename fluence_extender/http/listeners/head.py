"""HEAD, answered as GET without the body (RFC 9110, 9.3.2).

Invariant: of an answer that comes in pieces only the first is made, however large it would be.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _Told(OSError):
    """The head is out. Who still sends is told what it would be told of a client that has gone."""


class HeadAsGet:
    """Middleware that lets ``app``, whose routes take GET, answer HEAD as well."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({"type": "http.response.body", "body": b""})
            if message.get("more_body", False):
                raise _Told

        try:
            await self._app({**scope, "method": "GET"}, receive, send_head)
        except (_Told, ClientDisconnect):
            return
