"""Short calls over kept-alive HTTP/1.1 connections: a request, its whole answer, then the next request.

Each pod takes several small writes, and a general HTTP client spends about three times as long on each of them. So
calls go straight to an HTTP parser; streams and proxies use the general client. Invariant: a connection serves one call
at a time, and a connection whose call was cancelled, or whose answer couldn't be parsed, is never used again.
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
    """A whole answer; ``retry_after`` is the Retry-After header, "" without one."""

    status: int
    body: bytes
    retry_after: str = ""


class Exchange:
    """Calls to the server at ``url``, over TLS if ``tls`` is given, on sockets that ``new_socket`` creates.

    ``server_name`` is the name that the server's certificate must have, "" for the host of ``url``. ``connect_limit``
    is in seconds.
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
        """Send a request and return the answer; ``target`` is already encoded.

        ``permit`` is called just before the request is written to an idle connection, so that the operating system gets
        the request at once. If it raises, nothing is sent. Raise `OSError` where the server can't
        be reached, and `ConnectionResetError` where it closes the connection before its answer.
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
        """Close all connections."""
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
                # A call may be cancelled just when the handshake ends. Its transport would then shut TLS down in good
                # order, and go on watching a file descriptor that meanwhile belongs to another connection.
                line.abort()
                connected.close()
                raise
        return line

    async def _connect(self) -> socket.socket:
        """Return a socket that is connected to the first of the host's addresses that accepts a connection."""
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
    """One connection; ``lines`` are the open ones."""

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
        """Whether another call may use this connection."""
        return self._kept and self._waiting is None and self._transport is not None

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request and return its future answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def abort(self) -> None:
        """Close the connection at once."""
        self._kept = False
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the open connection."""
        # uvloop's transports have the methods and not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._lines.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse received data. Data without a call ends the connection."""
        if self._waiting is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(OSError(f"what came isn't HTTP: {error}"))
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the call that waits for an answer."""
        self._transport, self._kept = None, False
        self._lines.discard(self)
        self._fail(error or ConnectionResetError("the connection was closed before the answer"))

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the only header that is read."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """Return the answer to the waiting call, unless it is an interim one (status below 200)."""
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
    """Return a request as bytes. Raise `ValueError` for a line break within a line of its head."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("a line break in the head of a request")
    return head.encode("latin-1") + b"\r\n\r\n" + (body or b"")
