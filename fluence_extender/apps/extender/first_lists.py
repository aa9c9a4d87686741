"""The first lists of the cluster, asked for while most of the program is still being imported.

On a large cluster either takes a second or two, and neither needs the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.connection import Connection, connect
from fluence_extender.cluster.port import Observation, ResourcesFile, Sink
from fluence_extender.cluster.resources_file import read_resources_file
from fluence_extender.cluster.watch import Watcher
from fluence_extender.graph.errors import InvalidResourcesFile

if TYPE_CHECKING:
    from fluence_extender.apps.extender.engines import Engine
    from fluence_extender.http.server import Listeners


log = structlog.get_logger(__name__)


class StartRefused(Exception):
    """The service can't start; the text says why and what to do."""


class FirstLists:
    """A watcher that has begun; what it sees is kept for the sink that it is handed to."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.watcher = Watcher(connection, self._take, settings.resources or settings.resources_namespace)
        self._kept: list[Observation] = []
        self._sink: Sink = self._kept.append
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[FirstLists]:
        """Watch while the context lasts."""
        self._watching = asyncio.create_task(self.watcher.run(), name="watch")
        try:
            yield self
        finally:
            self._watching.cancel()
            # What it failed with has been told by `watch`, or something else has ended everything before.
            await asyncio.wait([self._watching])
            with contextlib.suppress(asyncio.CancelledError):
                self._watching.exception()

    async def watch(self, sink: Sink) -> None:
        """Tell ``sink`` everything, from the beginning on, until cancelled. Raises as `Watcher.run`."""
        assert self._watching is not None
        kept, self._kept = self._kept, []
        self._sink = sink
        for seen in kept:
            sink(seen)
        await self._watching

    def _take(self, seen: Observation) -> None:
        self._sink(seen)


async def serve(settings: Settings, listening: Callable[[Listeners, Engine], None]) -> None:
    """Run the service until SIGTERM or SIGINT. Raises `StartRefused` and what `app.run` raises."""
    if settings.resources is not None:
        check(read_resources_file(settings.resources))
    asyncio.get_running_loop().set_exception_handler(note_failure)
    async with connect(settings.kubeconfig) as connection, FirstLists(connection, settings).begun() as lists:
        app = await asyncio.to_thread(importlib.import_module, "fluence_extender.apps.extender.app")
        await app.run(settings, lists, listening)


def note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody awaits. A transport that fails is told by whoever uses it, and needs no traceback."""
    if "transport" in context or "protocol" in context:
        log.info("a connection broke off", error=repr(context.get("exception")), what=context["message"])
    else:
        loop.default_exception_handler(context)


def check(file: ResourcesFile) -> None:
    """Raise `StartRefused` where the file can't be used."""
    # Not needed where the resources are in a ConfigMap.
    from fluence_extender.graph.resources_file import parse_resources

    try:
        parse_resources(file.text or "", file.source)
    except InvalidResourcesFile as fault:
        raise StartRefused(f"resources.yaml can't be used:\n{fault}") from fault


def first_error(group: BaseExceptionGroup) -> BaseException:
    """The first error of a group of tasks: it ended everything."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
