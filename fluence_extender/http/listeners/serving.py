"""Sockets to listen on, the server behind them, what runs while it serves, and the signals that end it.

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

# Seconds. Longer than the 90 of Go's client: it doesn't repeat a POST on a connection that we close under it.
KEEP_ALIVE = 120

PEER = "peer"
"""Where a request's ``state`` has the client's certificate (DER), if the client has shown one."""

# Seconds that open answers have to finish once we stop.
ANSWER_GRACE = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is; port 0 asks for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class PeerProtocol(HttpToolsProtocol):
    """HTTP on a TLS connection; each request tells the client's certificate."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take in the certificate that the handshake has verified."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        peer = connection.getpeercert(binary_form=True) if connection is not None else None
        if peer:
            self.app_state = {**self.app_state, PEER: peer}


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


def uvicorn_server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """Return a server to be started with ``startup`` and stopped with ``shutdown``; it takes no signals.

    ``tls`` is read at each handshake, so a certificate that is loaded into it later is served from then on.
    """
    config = uvicorn.Config(
        app,
        http="httptools" if tls is None else PeerProtocol,
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
    # uvicorn's own loop around these two calls takes the process's signals, which are ours to handle.
    server.lifespan = config.lifespan_class(config)
    return server


def _existing(tls: ssl.SSLContext, *_: object) -> ssl.SSLContext:
    return tls
