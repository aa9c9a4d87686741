"""Short calls over kept-alive HTTP/1.1 connections: a request, its whole answer, then the next one.

Each pod costs several small writes, and a general HTTP client spends more time around each of them than all else here
takes. So calls go straight to an HTTP parser; streams and proxies stay with the general client. Invariant: a connection
serves one call at a time, and one whose call was given up, or whose answer wasn't understood, is never used again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; ``retry_after`` is that header, "" where there is none."""

    status: int
    body: bytes
    retry_after: str = ""


class Exchange:
    """Calls to the server at ``url``, over TLS where ``tls`` is given, on sockets that ``new_socket`` makes.

    ``server_name`` is what its certificate must name, "" for the host of ``url``; ``connect_limit`` is in seconds.
    """

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext | None,
        server_name: str,
        new_socket: Callable[[tuple[Any, ...]], socket.socket],
        connect_limit: float,
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or DEFAULT_PORTS.get(parts.scheme, 443)
        self._prefix = parts.path.rstrip("/")
        self._named = parts.netloc.rpartition("@")[2]
        self._tls = tls if parts.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._tls is not None else None
        self._new_socket = new_socket
        self._connect_limit = connect_limit
        self._idle: list[_Line] = []
        self._lines: set[_Line] = set()

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        permit: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Send a request (``target`` is encoded already) and read the answer.

        ``permit`` is called at the last moment, when there is a connection with nothing to send, so that the operating
        system has the request at once; what it raises keeps the request back. Raises `OSError`: the server can't be
        reached, or hung up before it had answered (`ConnectionResetError`).
        """
        line = self._take()
        if line is None:
            line = await self._open()
        try:
            request = _encoded(method, self._prefix + target, self._named, headers, body)
            permit()
            answer = await line.ask(request)
        except BaseException:
            line.abort()
            raise
        if line.reusable:
            self._idle.append(line)
        else:
            line.abort()
        return answer

    def close(self) -> None:
        """Hang up everywhere."""
        for line in list(self._lines):
            line.abort()

    def _take(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.reusable:
                return line
        return None

    async def _open(self) -> _Line:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_limit):
            connected = await self._connect()
            line = _Line(self._lines)
            try:
                await loop.create_connection(
                    lambda: line,
                    sock=connected,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
            except BaseException:
                # A call may be given up just when the handshake ends. Its transport would take its leave of the server,
                # and so go on watching a descriptor that is another connection's meanwhile.
                line.abort()
                connected.close()
                raise
        return line

    async def _connect(self) -> socket.socket:
        """A connected socket, to the first of the host's addresses that takes one."""
        loop = asyncio.get_running_loop()
        failed: OSError | None = None
        for address in await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM):
            made = self._new_socket(address)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, address[4])
            except OSError as error:
                failed = error
                made.close()
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failed or OSError(f"{self._host} has no address")


class _Line(asyncio.Protocol):
    """One connection; ``lines`` are those that are open."""

    def __init__(self, lines: set[_Line]) -> None:
        self._lines = lines
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []
        self._retry_after = ""
        self._kept = True

    @property
    def reusable(self) -> bool:
        """Whether another call may be made here."""
        return self._kept and self._waiting is None and self._transport is not None

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request; its answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def abort(self) -> None:
        """Hang up at once."""
        self._kept = False
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note that the connection stands."""
        # uvloop's transports have the methods and not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._lines.add(self)

    def data_received(self, data: bytes) -> None:
        """Read on; what nobody has asked for ends the connection."""
        if self._waiting is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(OSError(f"what came isn't HTTP: {error}"))
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell who waits that no answer comes."""
        self._transport, self._kept = None, False
        self._lines.discard(self)
        self._fail(error or ConnectionResetError("the connection was closed before the answer"))

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    # The parser's side.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the one header that is read."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """Hand out the answer, unless it is only an interim one."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        answer = Answer(status, b"".join(self._body), self._retry_after)
        self._body, self._retry_after = [], ""
        self._kept = self._kept and self._parser.should_keep_alive()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


def _encoded(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request as it goes over the wire. Raises `ValueError` for a line break within a line of its head."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("a line break in the head of a request")
    return head.encode("latin-1") + b"\r\n\r\n" + (body or b"")
