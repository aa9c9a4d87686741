"""A watch of the cluster that begins before the program that needs it has been imported.

On a large cluster the first lists take a second or two. So do the imports, and both can run at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.port import Observation, Sink
from fluence_extender.cluster.watch import Watcher


class EarlyWatch:
    """A running watcher that keeps its observations until `watch` names their sink.

    ``resources`` is as for `Watcher`.
    """

    def __init__(self, connection: Connection, resources: str | Path) -> None:
        self.connection = connection
        self.watcher = Watcher(connection, self._take, resources)
        self._kept: list[Observation] = []
        self._sink: Sink = self._kept.append
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[EarlyWatch]:
        """Watch while the context lasts."""
        self._watching = asyncio.create_task(self.watcher.run(), name="watch")
        try:
            yield self
        finally:
            self._watching.cancel()
            # Its error has been raised by `watch`, or something else has ended the process before.
            await asyncio.wait([self._watching])
            with contextlib.suppress(asyncio.CancelledError):
                self._watching.exception()

    async def watch(self, sink: Sink) -> None:
        """Send ``sink`` every observation since the beginning, until cancelled. Raise what `Watcher.run` raises."""
        assert self._watching is not None
        kept, self._kept = self._kept, []
        self._sink = sink
        for observation in kept:
            sink(observation)
        await self._watching

    def _take(self, observation: Observation) -> None:
        self._sink(observation)
