"""Serving the dashboard: on this machine's loopback address for the user who started it, or in the cluster for all."""

from __future__ import annotations

import gc
import secrets
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from fluence_extender.dashboard.app import Dashboard
from fluence_extender.dashboard.guard import KEY, Guard
from fluence_extender.dashboard.service import ServiceAddress

LOOPBACK = "127.0.0.1"
GRACE = 1
"""Seconds that open answers have to finish; a page that waits for news asks again."""


def loopback_socket(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine alone; 0 is any free one. Raise `OSError`."""
    return socket.create_server((LOOPBACK, port))


def serve_locally(origin: ServiceAddress, listener: socket.socket, on_address: Callable[[str], None]) -> None:
    """Serve until a signal ends it; ``on_address`` gets the address with its key before the first request."""
    port = listener.getsockname()[1]
    key = secrets.token_urlsafe(24)
    spare_collections()
    dashboard = Dashboard(origin)
    server = PageServer(config(Guard(dashboard.app, local_hosts(port), key)), dashboard)
    on_address(f"http://{LOOPBACK}:{port}/?{KEY}={key}")
    server.run([listener])


def serve_for_users(origin: ServiceAddress, host: str, port: int) -> None:
    """Serve users who are named by their bearer tokens, until a signal ends it."""
    dashboard = Dashboard(origin, shared=True)
    spare_collections()
    with socket.create_server((host, port)) as listener:
        PageServer(config(Guard(dashboard.app, (), "")), dashboard).run([listener])


def spare_collections() -> None:
    """Let Python look for cycles rarely: a large cluster's state is a million objects, and none is in a cycle."""
    gc.set_threshold(50_000, 50, 100)


class PageServer(uvicorn.Server):
    """A server that doesn't leave the pages waiting when a signal ends it."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer whoever waits, then stop."""
        await self._dashboard.end()
        await super().shutdown(sockets)


def local_hosts(port: int) -> list[str]:
    """Return the values of Host that mean this machine."""
    return [f"{name}:{port}" for name in (LOOPBACK, "localhost")]


def config(app: ASGIApp) -> uvicorn.Config:
    """Return how an application is served."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        lifespan="on",
    )
