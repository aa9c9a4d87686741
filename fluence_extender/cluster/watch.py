"""All that is watched, together: one list-watch a kind, and a heartbeat that tells an outage from a quiet cluster.

An open watch on a quiet cluster says nothing for a minute, and so does one whose API server hangs. Hence a small
question every few seconds: while it is answered, open watches count as fresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from fluence_extender.cluster.backoff import jittered
from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.listwatch import ListWatch
from fluence_extender.cluster.port import ClusterError, Kind, Sink
from fluence_extender.cluster.resources_file import FileWatch
from fluence_extender.cluster.source import config_map, sources
from fluence_extender.cluster.timing import STANDARD, Timing

HEARTBEAT = Request("GET", "/readyz", "ask whether the API server is ready")


class Watcher:
    """Keeps ``sink`` told of the whole cluster; ``run`` it as a task.

    The sink is called in the event loop, in order for each kind; kinds are independent of each other. A sink
    that is slow delays its kind and loses nothing. ``resources`` is the namespace of the ConfigMap
    `fluence-resources`, or the path of a local file. Kinds ``without`` which the sink can do aren't watched.
    """

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        resources: str | Path,
        timing: Timing = STANDARD,
        without: Collection[Kind] = (),
    ) -> None:
        self._connection = connection
        self._timing = timing
        self._heartbeat = float("-inf")
        watched = [source for source in sources(connection, timing) if source.kind not in without]
        self._file: FileWatch | None = None
        if isinstance(resources, Path):
            self._file = FileWatch(resources, sink)
        else:
            watched.append(config_map(resources))
        self._watches = {source.kind: ListWatch(connection, source, sink, timing) for source in watched}

    async def run(self) -> None:
        """Watch until cancelled. Raises `ResourcesFileError` at once where the local file can't be read."""
        async with asyncio.TaskGroup() as tasks:
            if self._file is not None:
                tasks.create_task(self._file.run(), name="watch resources file")
            for kind, watch in self._watches.items():
                tasks.create_task(watch.run(), name=f"watch {kind}")
            tasks.create_task(self._beat(), name="heartbeat")

    async def synced(self, *kinds: Kind) -> None:
        """Return once each of ``kinds`` (all of them when none is named) was listed."""
        for event in self._events(kinds):
            await event.wait()

    def is_synced(self, *kinds: Kind) -> bool:
        """Whether each of ``kinds`` (all when none is named) was listed."""
        return all(event.is_set() for event in self._events(kinds))

    def _events(self, kinds: Sequence[Kind]) -> list[asyncio.Event]:
        events = {kind: watch.synced for kind, watch in self._watches.items()}
        if self._file is not None:
            events[Kind.RESOURCES_FILE] = self._file.synced
        return [events[kind] for kind in (kinds or tuple(events))]

    def staleness(self, *kinds: Kind) -> float:
        """Seconds since the API server was last known to be in touch, for the worst of ``kinds`` (default: all).

        Infinite before the first contact; a local resources file is never stale.
        """
        now = asyncio.get_running_loop().time()
        wanted = [self._watches[kind] for kind in (kinds or tuple(self._watches)) if kind in self._watches]
        return max((now - self._contact(watch) for watch in wanted), default=0.0)

    def standing(self, kind: Kind) -> float:
        """Seconds for which the watch of ``kind`` has stood open; 0 while there is none.

        One that has just been opened tells first what was missed, or that this can't be told and a list has to.
        """
        watch = self._watches[kind]
        return asyncio.get_running_loop().time() - watch.opened if watch.open else 0.0

    def _contact(self, watch: ListWatch) -> float:
        return max(watch.contact, self._heartbeat) if watch.open or not watch.served else watch.contact

    def failures(self) -> dict[Kind, str]:
        """Why a kind isn't watched now, for those that aren't."""
        return {kind: watch.failure for kind, watch in self._watches.items() if watch.failure}

    async def _beat(self) -> None:
        period = self._timing.heartbeat
        while True:
            try:
                await self._connection.call(HEARTBEAT, limit=period, patient=False)
                self._heartbeat = asyncio.get_running_loop().time()
            except ClusterError as error:
                if error.status in (401, 403, 404):
                    self._heartbeat = asyncio.get_running_loop().time()
            await asyncio.sleep(jittered(period))
