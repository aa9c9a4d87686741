"""The body of a request, read within limits, and plain responses.

Invariants: a request that can't be accepted gets a 4xx with a text that names the problem. A request that is cut short
leaves nothing behind.
"""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

MAX_BODY = 32 * 1024 * 1024
BODY_TIMEOUT = 10.0

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


class RequestRefused(Exception):
    """The request is refused with this status; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


async def posted_json(
    scope: Scope,
    receive: Receive,
    what: str,
    max_body: int = MAX_BODY,
    limit: float = BODY_TIMEOUT,
    advice: str = "",
) -> bytes:
    """Return the JSON body of a POST.

    ``what`` names the endpoint in messages; ``advice`` is added to the message about a body that is too large. Raises
    `Disconnected`, and `RequestRefused` for another method, another content type or encoding, a body over ``max_body``
    bytes, or one that takes longer than ``limit`` seconds.
    """
    _check_head(scope, what, max_body, advice)
    try:
        async with asyncio.timeout(limit):
            return await _read(receive, max_body, advice)
    except TimeoutError:
        raise RequestRefused(408, f"the body didn't arrive within {limit:g} seconds") from None


async def refuse(send: Send, status: int, text: str) -> None:
    """Send an HTTP error."""
    headers = []
    if status == 405:
        headers = [(b"allow", b"POST")]
    if status == 408:
        headers = [(b"connection", b"close")]
    await respond(send, status, TEXT, text.encode(errors="replace"), headers)


async def respond(
    send: Send, status: int, kind: bytes, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a response with its whole body."""
    length = str(len(body)).encode()
    head = [(b"content-type", kind), (b"content-length", length), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _check_head(scope: Scope, what: str, max_body: int, advice: str) -> None:
    if scope["method"] != "POST":
        raise RequestRefused(405, f"{what} is called with POST, not {scope['method']}")
    for name, value in scope["headers"]:
        if name == b"content-type" and value.partition(b";")[0].strip().lower() != JSON:
            sent = value.decode("latin-1")
            raise RequestRefused(415, f"the body of {what} is application/json, not {sent}")
        if name == b"content-encoding" and value.lower() != b"identity":
            raise RequestRefused(415, f"the body of {what} can't be compressed")
        if name == b"content-length" and value.isdigit() and int(value) > max_body:
            raise _too_large(max_body, advice)


async def _read(receive: Receive, limit: int, advice: str) -> bytes:
    parts: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        part: bytes = message.get("body", b"")
        parts.append(part)
        length += len(part)
        if length > limit:
            raise _too_large(limit, advice)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int, advice: str) -> RequestRefused:
    return RequestRefused(413, f"the body is over {limit} bytes" + (f"; {advice}" if advice else ""))
