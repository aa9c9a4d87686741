"""A small API server for protocol faults: lists, watches and scripted answers over real HTTP on loopback.

Objects live by collection path; each change gets the next resourceVersion. ``faults[("watch", path)]`` holds
what the next watches of that path do instead of what they should, and likewise for "list".
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

PODS = "/api/v1/pods"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status_body(code: int, message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, "details": details}


def refuse(code: int, message: str = "", **details: Any) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(status_body(code, message, **details), status=code)

    return handler


def answer(body: Any, code: int = 200, warning: str = "") -> Handler:
    headers = {"Warning": warning} if warning else {}

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code, headers=headers)

    return handler


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def drop(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class FakeApiServer:
    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.history: dict[str, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
        self.faults: dict[tuple[str, str], deque[Handler]] = defaultdict(deque)
        self.scripts: dict[tuple[str, str], deque[Handler]] = defaultdict(deque)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[Any] = []
        self.tokens: set[str] | None = None
        self.compacted = 0
        self.open_watches = 0
        self.port = 0
        self._ended = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def put(self, path: str, name: str, **fields: Any) -> None:
        kind = "MODIFIED" if name in self.objects[path] else "ADDED"
        self.version += 1
        stored = {**fields, "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}
        stored["metadata"] |= fields.get("metadata", {}) | {"resourceVersion": str(self.version)}
        self.objects[path][name] = stored
        await self._note(path, kind, stored)

    async def put_pod(self, name: str, **fields: Any) -> None:
        await self.put(PODS, name, spec={"containers": [], **fields})

    async def delete(self, path: str, name: str) -> None:
        self.version += 1
        last = self.objects[path].pop(name)
        last["metadata"]["resourceVersion"] = str(self.version)
        await self._note(path, "DELETED", last)

    async def bookmark(self, path: str) -> None:
        self.version += 1
        await self._note(path, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    async def drop_watches(self) -> None:
        """End every open watch."""
        self._ended += 1
        async with self._changed:
            self._changed.notify_all()

    async def _note(self, path: str, kind: str, stored: dict[str, Any]) -> None:
        self.history[path].append((self.version, kind, stored))
        async with self._changed:
            self._changed.notify_all()

    def count(self, verb: str, path: str) -> int:
        return sum(1 for one, where, _ in self.requests if (one, where) == (verb, path))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path, query = request.path, dict(request.query)
        watching = query.get("watch") == "true"
        verb = "watch" if watching else "list" if request.method == "GET" else request.method
        self.requests.append((verb, path, query))
        if request.can_read_body:
            self.bodies.append(json.loads(await request.read()))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ").removeprefix("bearer ")
        if self.tokens is not None and token not in self.tokens:
            return await refuse(401, "Unauthorized")(request)
        if self.faults[verb, path]:
            return await self.faults[verb, path].popleft()(request)
        script = self.scripts.get((request.method, path))
        if script:
            return await script.popleft()(request)
        if path == "/readyz":
            return web.Response(text="ok")
        if path not in self.objects:
            return await refuse(404, f"no {path}")(request)
        return await (self._watch(request) if watching else self._list(request))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        items = sorted(self.objects[request.path].values(), key=lambda one: one["metadata"]["name"])
        start, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", 0)) or len(items)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        return web.json_response({"metadata": meta, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        if version < self.compacted:
            return await refuse(410, "too old resource version")(request)
        response = await open_stream(request)
        self.open_watches += 1
        ended = self._ended
        try:
            while ended == self._ended:
                for at, kind, stored in self.history[request.path]:
                    if at > version:
                        version = at
                        await response.write(event_line(kind, stored))
                async with self._changed:
                    await self._changed.wait()
            return response
        finally:
            self.open_watches -= 1


def event_line(kind: str, stored: Any) -> bytes:
    return json.dumps({"type": kind, "object": stored}).encode() + b"\n"


async def open_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


def stream(*pieces: bytes, cut: bool = False) -> Handler:
    """Sends the pieces, then ends the stream, or drops the connection."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await open_stream(request)
        for piece in pieces:
            await response.write(piece)
        if cut:
            await asyncio.sleep(0.02)
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


async def silent(request: web.Request) -> web.StreamResponse:
    await open_stream(request)
    await asyncio.sleep(60)
    return web.Response()


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once ``condition`` holds; fail after ten seconds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


def kubeconfig_text(url: str, user: str = "{token: secret}") -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {user}}}]
"""
