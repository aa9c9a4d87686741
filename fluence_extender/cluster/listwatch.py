"""One kind kept in step with the API server: a consistent list, then every change, for as long as it runs.

Invariant: what the sink was told, in order, is at every moment a state the API server once had for this kind.
Whatever breaks (410, lost connections, outages, garbage, a sink that raises), the watch goes on from the last
version told, or lists anew; a new list is the whole truth. The list leaves resourceVersion unset: a quorum
read, never a stale cache (Kubernetes API concepts, "resource versions").
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
import msgspec
import structlog

from fluence_extender.cluster import wire
from fluence_extender.cluster.backoff import Backoff, jittered
from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.errors import Busy, Expired, error_from, read_status
from fluence_extender.cluster.port import Changed, ClusterError, Denied, Gone, Listed, Sink, Watched
from fluence_extender.cluster.source import Source
from fluence_extender.cluster.timing import STANDARD, Timing

log = structlog.get_logger(__name__)

LIST_LIMIT = 60.0
BREATHE = 64

_page = msgspec.json.Decoder(wire.Page).decode
_event = msgspec.json.Decoder(wire.Event).decode
_versioned = msgspec.json.Decoder(wire.Versioned).decode


class ListWatch:
    """The list-watch of one source; ``run`` it as a task.

    ``synced`` is set after the first list; ``contact`` is the loop time when the API server last said
    something here; ``open`` whether a watch stands, and ``opened`` since when; ``served`` is false while the
    API server doesn't know the kind; ``failure`` is why there is no watch, "" when all is well.
    """

    def __init__(self, connection: Connection, source: Source, sink: Sink, timing: Timing = STANDARD) -> None:
        self.source = source
        self.synced = asyncio.Event()
        self.contact = float("-inf")
        self.open = False
        self.opened = float("-inf")
        self.served = True
        self.failure = ""
        self._connection = connection
        self._sink = sink
        self._timing = timing
        self._backoff = Backoff(timing.retry, timing.retry_cap)
        # An API server that has just started denies everything until it has read its own RBAC rules.
        self._denials = Backoff(timing.retry, timing.denied)
        self._version = ""
        self._listed = float("-inf")
        self._path: str | None = None

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            delay = await self._step()
            if delay:
                await asyncio.sleep(delay)

    async def _step(self) -> float:
        """List if need be, then watch until the watch ends; the seconds to wait before the next step."""
        try:
            if self._path is None:
                self._path = await self.source.locate()
                if self._path is None:
                    return self._not_served()
            if not self._version:
                self._version = await self._list(self._path)
            useful = await self._watch(self._path)
            if useful:
                self._backoff.reset()
            return 0.0 if useful else self._backoff.delay()
        except Expired:
            log.info("the watch is too far behind; listing anew", kind=self.source.kind)
            self._version = ""
            if asyncio.get_running_loop().time() - self._listed > self._timing.retry_cap:
                # What was waited for is here, however often it failed before, and until the list all is out of date.
                self._backoff.reset()
            return self._backoff.delay()
        except Denied as error:
            return self._failed(str(error), self._denials.delay())
        except Gone as error:
            self._path, self._version = None, ""
            return self._failed(str(error), self._backoff.delay())
        except Busy as error:
            return self._failed(str(error), max(error.retry_after, self._backoff.delay()))
        except ClusterError as error:
            return self._failed(str(error), self._backoff.delay())
        except Exception as error:
            # The sink raised, or the API server sent what isn't its protocol: only a new list mends either.
            log.exception("an observation couldn't be taken in; listing anew", kind=self.source.kind)
            self._version = ""
            return self._failed(repr(error), self._backoff.delay())
        finally:
            self.open = False

    def _failed(self, failure: str, delay: float) -> float:
        if failure != self.failure:
            log.warning("a watch failed; it is tried again", kind=self.source.kind, reason=failure)
        self.failure = failure
        return delay

    def _not_served(self) -> float:
        self._touch()
        if self.served:
            self.served = False
            self._tell_list([])
        return jittered(self._timing.rediscover)

    def _touch(self) -> None:
        self.contact = asyncio.get_running_loop().time()
        self._denials.reset()
        if self.failure:
            log.info("the API server answers again", kind=self.source.kind)
            self.failure = ""

    def _tell_list(self, objects: list[Watched]) -> None:
        self._sink(Listed(self.source.kind, tuple(objects) or self.source.absent, self.served))
        self.synced.set()

    async def _list(self, path: str) -> str:
        """Tell the sink all there is; the version of it."""
        self._listed = asyncio.get_running_loop().time()
        try:
            objects, version = await self._read_pages(path, self._timing.page)
        except Expired:
            # The list took longer than the API server keeps old versions: once more, in one piece.
            objects, version = await self._read_pages(path, 0)
        self.served = True
        self._tell_list(objects)
        return version

    async def _read_pages(self, path: str, size: int) -> tuple[list[Watched], str]:
        objects: list[Watched] = []
        query: dict[str, str | int] = {"limit": size} if size else {}
        if self.source.selector:
            query["fieldSelector"] = self.source.selector
        attempt = f"list {self.source.resource}"
        asked = self._ask(path, attempt, query)
        try:
            while True:
                page = await asked
                if page.metadata.next_page:
                    # The API server makes the next page while this one is read.
                    asked = self._ask(path, attempt, {**query, "continue": page.metadata.next_page})
                for number, raw in enumerate(page.items or ()):
                    objects.append(self.source.decode(bytes(raw)))
                    if number % BREATHE == BREATHE - 1:
                        await asyncio.sleep(0)
                if not page.metadata.next_page:
                    return objects, page.metadata.resource_version
        finally:
            asked.cancel()

    def _ask(self, path: str, attempt: str, query: Mapping[str, str | int]) -> asyncio.Task[wire.Page]:
        """Ask for one page."""
        asked = asyncio.create_task(self._page(Request("GET", path, attempt, query)))
        # Nobody waits for it any more where the page before couldn't be read.
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())
        return asked

    async def _page(self, request: Request) -> wire.Page:
        body = await self._connection.call(request, LIST_LIMIT)
        self._touch()
        return _page(body)

    async def _watch(self, path: str) -> bool:
        """Tell the sink each change until the watch ends; whether it was of use (told something or lasted)."""
        loop = asyncio.get_running_loop()
        began, said = loop.time(), 0
        query: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": max(1, round(jittered(self._timing.watch))),
        }
        if self.source.selector:
            query["fieldSelector"] = self.source.selector
        request = Request("GET", path, f"watch {self.source.resource}", query)
        async with self._connection.stream(request, self._timing.silence) as stream:
            self._touch()
            self.open, self.opened = True, loop.time()
            async for batch in _lines(stream):
                self._touch()
                for line in batch:
                    self._take(line)
                    said += 1
                    if said % BREATHE == 0:
                        await asyncio.sleep(0)
        return said > 0 or loop.time() - began > self._timing.retry_cap

    def _take(self, line: bytes) -> None:
        event = _event(line)
        raw = bytes(event.object)
        if event.type == "ERROR":
            self._version = ""
            status = read_status(raw, 0)
            raise error_from(status.code, status, f"watch {self.source.resource}")
        if event.type == "BOOKMARK":
            self._version = _versioned(raw).metadata.resource_version
            return
        decoded = self.source.decode(raw)
        gone = event.type == "DELETED"
        self._sink(self.source.removal(decoded) if gone else Changed(self.source.kind, decoded))
        self._version = getattr(decoded, "resource_version", "") or _versioned(raw).metadata.resource_version


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; a half line at the end was cut off and is dropped (it will be sent again)."""
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        lines = [line for line in whole if line]
        if lines:
            yield lines
