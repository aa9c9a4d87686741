"""Both listeners in one event loop: the verbs on loopback, the state API on a port of its own.

Invariants: an address that isn't available is reported before anything is served. When we stop, no call is left
hanging: the sockets close first, bindings that wait are answered with an error, and open answers finish within seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from fluence_extender.http.listeners.serving import (
    Address,
    actual,
    allow_open_files,
    listen,
    uvicorn_server,
)
from fluence_extender.http.scheduler.app import VerbsApp

# Seconds after which bindings under way are cancelled.
BIND_GRACE = 1.0

# For the state API, which any pod may call. The verbs are called from the same pod.
MOST_CONNECTIONS = 2048


class Listeners:
    """Serves both applications from ``start`` to ``stop``, or as an async context manager.

    ``tls`` is for the state API, None to serve it in plain HTTP.
    """

    def __init__(
        self,
        verbs: VerbsApp,
        api: ASGIApp,
        verbs_address: Address,
        api_address: Address,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.verbs = verbs
        self.api_scheme = "http" if tls is None else "https"
        self._apps: tuple[tuple[ASGIApp, ssl.SSLContext | None], ...] = ((verbs, None), (api, tls))
        self.verbs_address = verbs_address
        self.api_address = api_address
        self._running: list[tuple[uvicorn.Server, socket.socket]] = []

    async def start(self) -> None:
        """Listen and serve; afterwards the addresses have the actual ports. Raises `CannotListen`."""
        with contextlib.ExitStack() as undo:
            sockets = [undo.enter_context(listen(at)) for at in (self.verbs_address, self.api_address)]
            self.verbs_address, self.api_address = map(
                actual, (self.verbs_address, self.api_address), sockets
            )
            for (app, tls), sock, most in zip(self._apps, sockets, (None, MOST_CONNECTIONS), strict=True):
                server = uvicorn_server(app, tls, most)
                await server.startup(sockets=[sock])
                self._running.append((server, sock))
            undo.pop_all()

    async def stop(self) -> None:
        """Stop accepting calls, end those that wait, finish open answers."""
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
    stop: asyncio.Event,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until ``stop`` is set, the state API with ``tls`` if there is any. Raises `CannotListen`.

    ``listening`` is called once both are open.
    """
    allow_open_files()
    async with Listeners(verbs, api, verbs_address, api_address, tls) as listeners:
        listening(listeners)
        await stop.wait()
