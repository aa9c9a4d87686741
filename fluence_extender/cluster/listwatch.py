"""Follow one kind on the API server: a consistent list, then every change, for as long as it runs.

Invariant: the observations that the sink has received, in order, always add up to a state that the API server once had
for this kind. After any failure (410, lost connections, outages, garbage, a sink that raises), the watch continues from
the last version that the sink received, or lists again. A new list replaces all earlier observations. The list leaves
resourceVersion unset, so it is a quorum read and never comes from a stale cache (Kubernetes API concepts, "resource
versions").
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
import structlog

from fluence_extender.cluster.connection import ApiRequest, Connection
from fluence_extender.cluster.errors import (
    ClusterError,
    Denied,
    Expired,
    Gone,
    TooManyRequests,
    error_from,
    read_status,
)
from fluence_extender.cluster.pacing import STANDARD, Backoff, Timing, jittered
from fluence_extender.cluster.port import Changed, Listed, Sink, Watched
from fluence_extender.cluster.sources import Source
from fluence_extender.objects.meta import ListPage, decode_event, decode_headed, decode_page

log = structlog.get_logger(__name__)

LIST_LIMIT = 60.0
"""The most seconds that one list may take."""

OBJECTS_BETWEEN_YIELDS = 64
"""The number of objects that are decoded before other tasks of the event loop get a turn."""


class ListWatch:
    """The list-watch of one source; ``run`` it as a task.

    ``synced`` is set after the first list. ``contact`` is the loop time at which the API server last sent something
    here. ``open`` says whether a watch is open, and ``opened`` since when, in loop time. ``served`` is false while the
    API server doesn't serve the kind. ``failure`` says why there is no watch, "" if there is one.
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
        # An API server that has just started denies every request until it has read its own RBAC rules.
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
        """List if necessary, then watch until the watch ends; return the seconds to wait before the next step."""
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
            log.info("the watch is too far behind; listing again", kind=self.source.resource)
            self._version = ""
            if asyncio.get_running_loop().time() - self._listed > self._timing.retry_cap:
                # The watch has worked since the last list, so earlier failures don't count, and until the next list all
                # observations are out of date.
                self._backoff.reset()
            return self._backoff.delay()
        except Denied as error:
            return self._failed(str(error), self._denials.delay())
        except Gone as error:
            self._path, self._version = None, ""
            return self._failed(str(error), self._backoff.delay())
        except TooManyRequests as error:
            return self._failed(str(error), max(error.retry_after, self._backoff.delay()))
        except ClusterError as error:
            return self._failed(str(error), self._backoff.delay())
        except Exception as error:
            # The sink raised, or the API server violated its protocol. Only a new list repairs either.
            log.exception("an observation couldn't be processed; listing again", kind=self.source.resource)
            self._version = ""
            return self._failed(repr(error), self._backoff.delay())
        finally:
            self.open = False

    def _failed(self, failure: str, delay: float) -> float:
        if failure != self.failure:
            log.warning("a watch failed; it is tried again", kind=self.source.resource, reason=failure)
        self.failure = failure
        return delay

    def _not_served(self) -> float:
        self._touch()
        if self.served:
            self.served = False
            self._send_list([])
        return jittered(self._timing.rediscover)

    def _touch(self) -> None:
        self.contact = asyncio.get_running_loop().time()
        self._denials.reset()
        if self.failure:
            log.info("the API server answers again", kind=self.source.resource)
            self.failure = ""

    def _send_list(self, objects: list[Watched]) -> None:
        self._sink(Listed(self.source.kind, tuple(objects) or self.source.absent, self.served))
        self.synced.set()

    async def _list(self, path: str) -> str:
        """Send the sink a list of all objects; return the version of the list."""
        self._listed = asyncio.get_running_loop().time()
        try:
            objects, version = await self._read_pages(path, self._timing.page)
        except Expired:
            # The list took longer than the API server keeps old versions, so list once more in a single page.
            objects, version = await self._read_pages(path, 0)
        self.served = True
        self._send_list(objects)
        return version

    async def _read_pages(self, path: str, size: int) -> tuple[list[Watched], str]:
        objects: list[Watched] = []
        query: dict[str, str | int] = {"limit": size} if size else {}
        if self.source.selector:
            query["fieldSelector"] = self.source.selector
        attempt = f"list {self.source.resource}"
        next_page = self._request_page(path, attempt, query)
        try:
            while True:
                page = await next_page
                if page.metadata.next_page:
                    # The API server prepares the next page while this one is read.
                    next_page = self._request_page(
                        path, attempt, {**query, "continue": page.metadata.next_page}
                    )
                for number, raw in enumerate(page.items or ()):
                    objects.append(self.source.decode(bytes(raw)))
                    if number % OBJECTS_BETWEEN_YIELDS == OBJECTS_BETWEEN_YIELDS - 1:
                        await asyncio.sleep(0)
                if not page.metadata.next_page:
                    return objects, page.metadata.resource_version
        finally:
            next_page.cancel()

    def _request_page(
        self, path: str, attempt: str, query: Mapping[str, str | int]
    ) -> asyncio.Task[ListPage]:
        """Request one page."""
        task = asyncio.create_task(self._page(ApiRequest("GET", path, attempt, query)))
        # If the page before can't be read, no task awaits this one, and its exception must not be reported.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _page(self, request: ApiRequest) -> ListPage:
        body = await self._connection.call(request, LIST_LIMIT)
        self._touch()
        return decode_page(body)

    async def _watch(self, path: str) -> bool:
        """Send the sink each change until the watch ends.

        Return whether the watch was useful, because it had changes or lasted.
        """
        loop = asyncio.get_running_loop()
        began, received = loop.time(), 0
        query: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": max(1, round(jittered(self._timing.watch))),
        }
        if self.source.selector:
            query["fieldSelector"] = self.source.selector
        request = ApiRequest("GET", path, f"watch {self.source.resource}", query)
        async with self._connection.stream(request, self._timing.silence) as stream:
            self._touch()
            self.open, self.opened = True, loop.time()
            async for batch in _lines(stream):
                self._touch()
                for line in batch:
                    self._take(line)
                    received += 1
                    if received % OBJECTS_BETWEEN_YIELDS == 0:
                        await asyncio.sleep(0)
        return received > 0 or loop.time() - began > self._timing.retry_cap

    def _take(self, line: bytes) -> None:
        event = decode_event(line)
        raw = bytes(event.object)
        if event.type == "ERROR":
            self._version = ""
            status = read_status(raw, 0)
            raise error_from(status.code, status, f"watch {self.source.resource}")
        if event.type == "BOOKMARK":
            self._version = decode_headed(raw).metadata.resource_version
            return
        decoded = self.source.decode(raw)
        deleted = event.type == "DELETED"
        self._sink(self.source.removal(decoded) if deleted else Changed(decoded))
        self._version = (
            getattr(decoded, "resource_version", "") or decode_headed(raw).metadata.resource_version
        )


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield whole lines as they come. A partial line at the end was cut off; it is dropped and will be sent again."""
    rest: list[bytes] = []
    async for chunk in stream.iter_any():
        end, *more = chunk.split(b"\n")
        rest.append(end)
        if not more:
            continue
        lines = [line for line in (b"".join(rest), *more[:-1]) if line]
        rest = [more[-1]]
        if lines:
            yield lines
