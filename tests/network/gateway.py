"""A gateway in front of the API server, which records requests, holds them back, and lets a given number through.

It also delays requests, and ends watches as an API server does that has forgotten what they would go on from.

It speaks plain HTTP to the client and TLS to the API server, and forwards the client's token. A request that is
held back when its client disconnects never reaches the API server.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web

FORWARDED_HEADERS = ("Authorization", "Content-Type", "Accept", "Accept-Encoding", "User-Agent")

EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
"""The last event of a watch whose resourceVersion is too old to go on from."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request of the client."""

    method: str
    path: str
    query: dict[str, str]

    @property
    def watch(self) -> bool:
        """Whether it opens a watch."""
        return self.query.get("watch") == "true"

    @property
    def pod_write(self) -> bool:
        """Whether it changes a pod, binds or evicts it."""
        return self.method != "GET" and "/pods/" in self.path


class Gateway:
    """A gateway to ``upstream``, an https URL whose certificate ``authority`` signed; use it as a context manager.

    ``requests`` are all requests so far, ``waiting`` is how many are held back now.
    """

    def __init__(self, upstream: str, authority: Path) -> None:
        self.requests: list[ApiRequest] = []
        self._pod_writes_left: int | None = None
        self.waiting = 0
        self.port = 0
        self._upstream = upstream
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._held: list[Callable[[ApiRequest], bool]] = []
        self._delay = 0.0
        self._expired = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the gateway doesn't start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(60)

    def kubeconfig(self, original: Path, copy: Path) -> Path:
        """Write to ``copy`` the kubeconfig ``original`` with this gateway as its server."""
        document = yaml.safe_load(original.read_text())
        for cluster in document["clusters"]:
            cluster["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        copy.touch(mode=0o600)
        copy.write_text(yaml.safe_dump(document))
        return copy

    @contextmanager
    def holding(self, matches: Callable[[ApiRequest], bool]) -> Iterator[None]:
        """Hold back matching requests, and the events of matching watches, while the context lasts."""
        self._held.append(matches)
        try:
            yield
        finally:
            self._held.remove(matches)
            self._loop.call_soon_threadsafe(self._wake_held)

    @contextmanager
    def delaying(self, seconds: float) -> Iterator[None]:
        """Pass each request on so many seconds later while the context lasts."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    def expire_watches(self) -> None:
        """End all watches with 410 Gone."""

        def expire() -> None:
            self._expired.set()
            self._expired = asyncio.Event()

        self._loop.call_soon_threadsafe(expire)

    def allow_pod_writes(self, count: int | None) -> None:
        """Let ``count`` more writes to pods through, then none; None lets all through."""
        self._pod_writes_left = count
        self._loop.call_soon_threadsafe(self._wake_held)

    def _wake_held(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{rest:.*}", self._pass)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = int(runner.addresses[0][1])
            self._ready.set()
            await self._ending.wait()
            await runner.cleanup()
        # TLS connections shut down after the session is closed, in later turns of the loop.
        await asyncio.sleep(0.5)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        received = ApiRequest(request.method, request.path, dict(request.query))
        self.requests.append(received)
        body = await request.read()
        await asyncio.sleep(self._delay)
        await self._admit(received)
        headers = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
        arguments: dict[str, Any] = {"headers": headers, "data": body or None, "ssl": self._tls}
        try:
            async with self._session.request(
                received.method, f"{self._upstream}{request.path_qs}", **arguments
            ) as answer:
                return await self._answer(request, received, answer)
        except aiohttp.ClientConnectionError:
            # The connection ends without an answer, as if the client had connected to the API server itself.
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

    async def _answer(
        self, request: web.Request, received: ApiRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        sending = asyncio.ensure_future(self._send(received, answer, response))
        expired = asyncio.ensure_future(self._expired.wait()) if received.watch else None
        try:
            await asyncio.wait(filter(None, (sending, expired)), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            else:
                sending.cancel()
                await response.write(EXPIRED)
        finally:
            sending.cancel()
            if expired is not None:
                expired.cancel()
        await response.write_eof()
        return response

    async def _send(
        self, received: ApiRequest, answer: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        async for chunk in answer.content.iter_any():
            while self._is_held(received):
                await self._changed.wait()
            await response.write(chunk)

    async def _admit(self, received: ApiRequest) -> None:
        self.waiting += 1
        try:
            while self._is_held(received) or (received.pod_write and self._pod_writes_left == 0):
                await self._changed.wait()
        finally:
            self.waiting -= 1
        if received.pod_write and self._pod_writes_left is not None:
            self._pod_writes_left -= 1

    def _is_held(self, received: ApiRequest) -> bool:
        return any(matches(received) for matches in self._held)
