"""Watch all kinds together: one list-watch for each kind, and a heartbeat that distinguishes an outage from quiet.

An open watch on a quiet cluster gets nothing for a minute, and neither does a watch whose API server hangs. So a small
request is sent every few seconds. While it is answered, open watches count as fresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from fluence_extender.cluster.connection import ApiRequest, Connection, connect
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.listwatch import ListWatch
from fluence_extender.cluster.pacing import STANDARD, Timing, jittered
from fluence_extender.cluster.port import Kind, Listed, Observation, ResourcesFile, Sink, Watched
from fluence_extender.cluster.resources_file import FileWatch, read_resources_file
from fluence_extender.cluster.sources import config_map, sources

HEARTBEAT = ApiRequest("GET", "/readyz", "ask whether the API server is ready")
LIST_ONCE_LIMIT = 30.0


class Watcher:
    """Sends ``sink`` the state and all changes of the whole cluster; ``run`` it as a task.

    The sink is called in the event loop, in order for each kind; kinds are independent of each other. A slow sink
    delays its kind and loses nothing. ``resources`` is the namespace of the ConfigMap `fluence-resources`, or the path
    of a local file. The kinds in ``without`` aren't watched.
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
        """Watch until cancelled. Raise `ResourcesFileError` at once if the local file can't be read."""
        async with asyncio.TaskGroup() as tasks:
            if self._file is not None:
                tasks.create_task(self._file.run(), name="watch resources file")
            for kind, watch in self._watches.items():
                tasks.create_task(watch.run(), name=f"watch {kind.__name__}")
            tasks.create_task(self._beat(), name="heartbeat")

    async def synced(self, *kinds: Kind) -> None:
        """Return once each of ``kinds`` (all, if none is named) has been listed."""
        for event in self._events(kinds):
            await event.wait()

    def is_synced(self, *kinds: Kind) -> bool:
        """Return whether each of ``kinds`` (all, if none is named) has been listed."""
        return all(event.is_set() for event in self._events(kinds))

    def _events(self, kinds: Sequence[Kind]) -> list[asyncio.Event]:
        events = {kind: watch.synced for kind, watch in self._watches.items()}
        if self._file is not None:
            events[ResourcesFile] = self._file.synced
        return [events[kind] for kind in (kinds or tuple(events))]

    def staleness(self, *kinds: Kind) -> float:
        """Return the seconds since the last contact with the API server, for the worst of ``kinds`` (default: all).

        The result is infinite before the first contact. A local resources file is never stale.
        """
        now = asyncio.get_running_loop().time()
        wanted = [self._watches[kind] for kind in (kinds or tuple(self._watches)) if kind in self._watches]
        return max((now - self._contact(watch) for watch in wanted), default=0.0)

    def open_for(self, kind: Kind) -> float:
        """Return the seconds for which the watch of ``kind`` has been open; 0 while there is none.

        A watch that has just been opened first sends the changes that were missed, or reports that a new list is
        needed.
        """
        watch = self._watches[kind]
        return asyncio.get_running_loop().time() - watch.opened if watch.open else 0.0

    def _contact(self, watch: ListWatch) -> float:
        return max(watch.contact, self._heartbeat) if watch.open or not watch.served else watch.contact

    def failures(self) -> dict[Kind, str]:
        """Return the kinds that aren't watched now, each with the reason."""
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


async def list_once(kubeconfig: str | None, resources: str | Path, *kinds: Kind) -> list[Watched]:
    """Return all objects of ``kinds`` that exist now; write nothing and follow nothing.

    ``resources`` is a local file or the namespace of the ConfigMap; resources.yaml is returned as a `ResourcesFile` if
    its kind is among ``kinds``. Raise `ClusterError`.
    """
    found: dict[Kind, tuple[Watched, ...]] = {}

    def sink(observation: Observation) -> None:
        if isinstance(observation, Listed) and observation.kind in kinds:
            found[observation.kind] = observation.objects

    if isinstance(resources, Path):
        await asyncio.to_thread(read_resources_file, resources)
    async with connect(kubeconfig) as connection:
        watcher = Watcher(connection, sink, resources)
        watching = asyncio.create_task(watcher.run())
        try:
            async with asyncio.timeout(LIST_ONCE_LIMIT):
                await watcher.synced(*kinds)
        except TimeoutError:
            failures = "; ".join(watcher.failures().values()) or "no answer"
            raise ClusterError(
                f"the cluster was not listed within {LIST_ONCE_LIMIT:g} s: {failures}"
            ) from None
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    return [one for objects in found.values() for one in objects]
