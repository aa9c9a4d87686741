"""A relay of TCP connections that can be cut and silenced, between one client and the API server.

It plays the network: bytes pass unchanged (TLS ends at the API server); a cut resets every connection at once; during a
silence bytes are held back in both directions, and new connections are accepted but carry no bytes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.localcluster.process import Startable

PIECE = 65536


class Relay(Startable):
    """Relays connections to ``upstream`` (a URL)."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "", parts.port or 443)
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._writers: set[asyncio.StreamWriter] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self._passing = asyncio.Event()
        self._passing.set()
        self._thread = threading.Thread(target=self._run, name=f"relay {self.port}", daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Cut all connections and accept no more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._listener.close()

    def cut(self) -> None:
        """Reset every connection."""
        self._do(self._cut)

    def silence(self) -> None:
        """Hold back all bytes until `restore`."""
        self._do(self._passing.clear)

    def restore(self) -> None:
        """End a silence as networks do: bytes under way are lost."""
        self._do(self._cut)
        self._do(self._passing.set)

    def kubeconfig(self, original: Path, copy: Path) -> Path:
        """Write to ``copy`` the kubeconfig ``original`` with this relay as its server."""
        document = yaml.safe_load(original.read_text())
        for cluster in document["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        copy.touch(mode=0o600)
        copy.write_text(yaml.safe_dump(document))
        return copy

    def _do(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(60):
            raise RuntimeError("the relay doesn't react")

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._listener))
        self._loop.run_forever()
        server.close()
        self._passing.set()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """End everything: a connection may still be opening or closing, or wait to write its last bytes."""
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in passing:
            task.cancel()
        if passing:
            await asyncio.wait(passing, timeout=10)
        for transport in list(self._transports):
            transport.abort()
        # A transport closes its socket in a later turn of the loop than the one that aborts it.
        await asyncio.sleep(0.05)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._transports.add(writer.transport)
        try:
            await self._passing.wait()
            beyond_reader, beyond_writer = await self._beyond()
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(beyond_writer)
        self._transports.add(beyond_writer.transport)
        try:
            ways = {
                asyncio.ensure_future(self._pass(reader, beyond_writer)),
                asyncio.ensure_future(self._pass(beyond_reader, writer)),
            }
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        finally:
            for end in (writer, beyond_writer):
                # Bytes that were read before the other side ended are still delivered.
                end.close()
                self._writers.discard(end)

    async def _beyond(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the other side. Raise `OSError`."""
        return await asyncio.open_connection(*self._upstream)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(PIECE):
                await self._passing.wait()
                writer.write(piece)
                await writer.drain()
        except OSError:
            return
