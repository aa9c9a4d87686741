"""Both listeners in one event loop: the verbs on loopback, the state API on a port of its own.

Invariants: an address that can't be had is told before anything is served; when we stop, no call is left hanging: the
sockets close first, bindings that wait are answered with an error, open answers are finished within seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from fluence_extender.extender.apps import VerbsApp

# A gang's bindings arrive together, each on its own connection.
BACKLOG = 4096
OPEN_FILES = 65536

# Seconds. Longer than the 90 of Go's client: it doesn't repeat a POST on a connection that we close under it.
KEEP_ALIVE = 120

# Seconds that bindings under way have to end before they are given up, and that answers then have to get out.
BIND_GRACE = 1.0
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
    """The address can't be had; the text names it and says why."""


class Listeners:
    """Serves both applications from ``start`` to ``stop``, or as an async context manager."""

    def __init__(self, verbs: VerbsApp, api: ASGIApp, verbs_address: Address, api_address: Address) -> None:
        self.verbs = verbs
        self._apps: tuple[ASGIApp, ASGIApp] = (verbs, api)
        self.verbs_address = verbs_address
        self.api_address = api_address
        self._running: list[tuple[uvicorn.Server, socket.socket]] = []

    async def start(self) -> None:
        """Listen and serve; afterwards the addresses carry the actual ports. Raises `CannotListen`."""
        with contextlib.ExitStack() as undo:
            sockets = [undo.enter_context(_listen(at)) for at in (self.verbs_address, self.api_address)]
            self.verbs_address, self.api_address = map(
                _actual, (self.verbs_address, self.api_address), sockets
            )
            for app, sock in zip(self._apps, sockets, strict=True):
                server = _server(app)
                await server.startup(sockets=[sock])
                self._running.append((server, sock))
            undo.pop_all()

    async def stop(self) -> None:
        """Stop accepting, end what waits, finish what is open."""
        running, self._running = self._running, []
        closing = [asyncio.create_task(server.shutdown(sockets=[sock])) for server, sock in running]
        await self.verbs.stop(BIND_GRACE)
        for closed in closing:
            await closed

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


async def serve(
    verbs: VerbsApp,
    api: ASGIApp,
    verbs_address: Address,
    api_address: Address,
    listening: Callable[[Listeners], None],
) -> None:
    """Serve until SIGTERM or SIGINT; ``listening`` is called once both are open. Raises `CannotListen`."""
    _allow_open_files()
    with _stop_signals() as stop:
        async with Listeners(verbs, api, verbs_address, api_address) as listeners:
            listening(listeners)
            await stop.wait()


@contextlib.contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
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


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(address: Address) -> socket.socket:
    if not 0 <= address.port <= 65535:
        raise CannotListen(f"can't listen on {address}: a port is between 0 and 65535")
    try:
        family, _, _, _, at = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(at[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(f"can't listen on {address}: {error.strerror or error}") from error


def _actual(asked: Address, sock: socket.socket) -> Address:
    return Address(asked.host, sock.getsockname()[1])


def _server(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http="httptools",
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
    )
    config.load()
    server = uvicorn.Server(config)
    # uvicorn's own loop around these two calls takes the process's signals, which belong to `serve` alone.
    server.lifespan = config.lifespan_class(config)
    return server
