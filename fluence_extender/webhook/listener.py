"""The one listener: HTTPS for reviews, probes and metrics."""

from __future__ import annotations

import contextlib
import socket
import ssl
from types import TracebackType
from typing import Self

from starlette.types import ASGIApp

from fluence_extender.http.listeners.serving import Address, actual, listen, uvicorn_server


class SecureListener:
    """Serves ``app`` under ``tls`` from entering to leaving; then ``address`` has the actual port.

    On leaving the socket closes first, and open answers have seconds to get out.
    """

    def __init__(self, app: ASGIApp, address: Address, tls: ssl.SSLContext) -> None:
        self.address = address
        self._server = uvicorn_server(app, tls)
        self._socket: socket.socket | None = None

    async def __aenter__(self) -> Self:
        """Listen and serve. Raises `CannotListen`."""
        with contextlib.ExitStack() as undo:
            self._socket = undo.enter_context(listen(self.address))
            self.address = actual(self.address, self._socket)
            await self._server.startup(sockets=[self._socket])
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            await self._server.shutdown(sockets=[self._socket])
