"""Sockets to listen on, the server behind them, its background tasks, and the signals that end it.

Invariants: an address that isn't available is reported before anything is served. A task that fails in the background
ends the serving, and no such task outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# A gang's calls arrive together, each on its own connection.
BACKLOG = 4096
OPEN_FILES = 65536

# Seconds. Longer than the 90 of Go's client, which doesn't repeat a POST if we close its idle connection.
KEEP_ALIVE = 120

PEER = "peer"
"""Where a request's ``state`` has the client's certificate (DER), if the client has shown one."""

# The most seconds and bytes for the head of a request.
HEAD_TIMEOUT = 10.0
LONGEST_HEAD = 64 * 1024

# The most seconds for open answers to finish once we stop.
ANSWER_GRACE = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is; port 0 asks for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class CannotListen(Exception):
    """The address isn't available; the text names it and says why."""


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and SIGINT set while the context lasts."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def background(work: Mapping[str, Coroutine[object, object, None]]) -> AsyncIterator[None]:
    """Run ``work`` as tasks of these names, started in this order, until the context ends.

    Raises an `ExceptionGroup` of the failures.
    """
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(one, name=name) for name, one in work.items()]
        yield
        for task in started:
            task.cancel()


def allow_open_files() -> None:
    """Raise the limit of open files as far as we may, up to `OPEN_FILES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(address: Address) -> socket.socket:
    """Return a listening socket. Raises `CannotListen`."""
    if not 0 <= address.port <= 65535:
        raise CannotListen(f"can't listen on {address}: a port is between 0 and 65535")
    try:
        family, _, _, _, at = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(at[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(f"can't listen on {address}: {error.strerror or error}") from error


def actual(requested: Address, sock: socket.socket) -> Address:
    """Return the address with the port that the socket has."""
    return Address(requested.host, sock.getsockname()[1])


class PromptConnection(HttpToolsProtocol):
    """A connection that is cut unless the head of each request arrives within `HEAD_TIMEOUT` of its first byte.

    A listener has at most ``config.limit_concurrency`` connections. For another one it cuts the connection that has
    been without a request the longest.
    """

    _cutting: asyncio.TimerHandle | None = None
    _since = 0.0
    _head = 0
    _begun = False
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._cut_in(KEEP_ALIVE)
        most = self.limit_concurrency
        # uvicorn would answer each request with a 503, so idle connections could keep all others out.
        self.limit_concurrency = None
        if most is not None and len(self.connections) > most:
            idle = [one for one in self.connections if isinstance(one, PromptConnection) and one._idle]
            min(idle, key=lambda one: one._since)._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request, or several."""
        super().data_received(data)
        if not self._idle:
            return
        if not self._begun:
            self._begun = True
            self._cut_in(HEAD_TIMEOUT)
        # The rest of a refused body is no head, but its time is limited as well.
        self._head += 0 if self._in_body else len(data)
        if self._head > LONGEST_HEAD:
            self._cut()

    def on_headers_complete(self) -> None:
        """Stop waiting, because from here on the application limits the time."""
        self._stop_waiting()
        self._since = self.loop.time()
        self._head, self._begun, self._in_body = 0, False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._stop_waiting()
        self._begun = self._in_body = False
        super().on_message_complete()

    @property
    def _idle(self) -> bool:
        """Whether no whole head awaits its answer."""
        return self.cycle is None or self.cycle.response_complete

    def _cut_in(self, seconds: float) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self._cutting = self.loop.call_later(seconds, self._cut)

    def _cut(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None


class PeerConnection(PromptConnection):
    """HTTP on a TLS connection; each request has the client's certificate."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in the certificate that the handshake has verified."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        peer = connection.getpeercert(binary_form=True) if connection is not None else None
        if peer:
            self.app_state = {**self.app_state, PEER: peer}


def uvicorn_server(
    app: ASGIApp, tls: ssl.SSLContext | None = None, most_connections: int | None = None
) -> uvicorn.Server:
    """Return a server to be started with ``startup`` and stopped with ``shutdown``; it takes no signals.

    ``tls`` is read at each handshake, so a certificate that is loaded into it later is served from then on. There are
    at most ``most_connections`` at a time, None for any number.
    """
    config = uvicorn.Config(
        app,
        http=PromptConnection if tls is None else PeerConnection,
        limit_concurrency=most_connections,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=ANSWER_GRACE,
        ssl_context_factory=None if tls is None else partial(_existing, tls),
    )
    config.load()
    server = uvicorn.Server(config)
    # uvicorn's own loop around these two calls would handle the process's signals, which we handle ourselves.
    server.lifespan = config.lifespan_class(config)
    return server


def _existing(tls: ssl.SSLContext, *_: object) -> ssl.SSLContext:
    return tls
