"""The bodies of requests, read within limits, and plain responses.

Invariants: a request that can't be accepted gets a 4xx with a text that names the problem. A request that is cut short
leaves nothing behind. Arriving bodies are bounded in number and in bytes. If there is no room for more, the one that
has been arriving longest is cut, because honest senders need only milliseconds.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

MAX_BODY = 32 * 1024 * 1024
BODY_TIMEOUT = 10.0
LONGEST_LENGTH = 20
"""The most digits of a declared length; the server itself refuses longer ones."""

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


class RequestRefused(Exception):
    """The request is refused with this status; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


class Bodies:
    """Reads bodies of at most ``largest`` bytes. At most ``most`` bodies arrive at once, with ``room`` bytes together.

    A body that takes longer than ``limit`` seconds is cut. ``advice`` is added to the message about a body that is too
    large. The caller may add the bytes of bodies that are being answered to ``held``; they also take up room.
    """

    def __init__(
        self,
        largest: int = MAX_BODY,
        room: float = math.inf,
        most: float = math.inf,
        limit: float = BODY_TIMEOUT,
        advice: str = "",
    ) -> None:
        self.largest = largest
        self.held = 0
        self._room = room
        self._most = most
        self._limit = limit
        self._advice = f"; {advice}" if advice else ""
        self._arriving: dict[_Arrival, None] = {}
        self._bytes = 0

    async def posted_json(self, scope: Scope, receive: Receive, endpoint: str) -> bytes:
        """Return the JSON body of a POST. ``endpoint`` names the endpoint in messages.

        Raises `RequestRefused` for another method, content type or encoding, and the errors of `read`.
        """
        length = _check_head(scope, endpoint)
        if length > self.largest:
            raise self._too_large()
        return await self.read(receive)

    async def read(self, receive: Receive) -> bytes:
        """Return a body. Raises `Disconnected`, and `RequestRefused` for one that is too large, or too slow."""
        try:
            async with asyncio.timeout(self._limit) as timeout:
                arrival = _Arrival(timeout)
                self._arriving[arrival] = None
                try:
                    return await self._collected(receive, arrival)
                finally:
                    self._drop(arrival)
        except TimeoutError:
            why = (
                "others needed the room for bodies that arrive"
                if arrival.cut
                else f"the body didn't arrive within {self._limit:g} seconds"
            )
            raise RequestRefused(408, why) from None

    async def _collected(self, receive: Receive, arrival: _Arrival) -> bytes:
        parts: list[bytes] = []
        while True:
            self._make_room()
            message = await receive()
            if message["type"] != "http.request":
                raise Disconnected
            part: bytes = message.get("body", b"")
            parts.append(part)
            arrival.length += len(part)
            if not arrival.cut:
                self._bytes += len(part)
            if arrival.length > self.largest:
                raise self._too_large()
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _make_room(self) -> None:
        """Cut the bodies that have been arriving longest, until the others have room."""
        while self._arriving and (len(self._arriving) > self._most or self._bytes + self.held > self._room):
            oldest = next(iter(self._arriving))
            oldest.cut = True
            self._drop(oldest)
            oldest.timeout.reschedule(0)

    def _drop(self, arrival: _Arrival) -> None:
        if arrival in self._arriving:
            del self._arriving[arrival]
            self._bytes -= arrival.length

    def _too_large(self) -> RequestRefused:
        return RequestRefused(413, f"the body is over {self.largest} bytes{self._advice}")


@dataclass(eq=False, slots=True)
class _Arrival:
    """An arriving body: the bytes so far, the limit of its time, and whether it was cut before."""

    timeout: asyncio.Timeout
    length: int = 0
    cut: bool = False


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


def _check_head(scope: Scope, endpoint: str) -> int:
    """Return the length that the head declares, 0 if it declares none. Raises `RequestRefused`."""
    length = 0
    if scope["method"] != "POST":
        raise RequestRefused(405, f"{endpoint} is called with POST, not {scope['method']}")
    for name, value in scope["headers"]:
        if name == b"content-type" and value.partition(b";")[0].strip().lower() != JSON:
            sent = value.decode("latin-1")
            raise RequestRefused(415, f"the body of {endpoint} is application/json, not {sent}")
        if name == b"content-encoding" and value.lower() != b"identity":
            raise RequestRefused(415, f"the body of {endpoint} can't be compressed")
        if name == b"content-length" and value.isdigit() and len(value) <= LONGEST_LENGTH:
            length = int(value)
    return length
