"""An embedded cluster whose calls can fail or take time, and whose observations can be held back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import EvictionBlock, Observation, Watched
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.model.pod import Pod

LONG = 1000.0
"""Seconds that a call takes that hangs."""


class FaultyCluster(EmbeddedCluster):
    """`EmbeddedCluster` with faults.

    ``delays[verb]`` are the seconds that a call of that verb takes; ``hanging`` are the verbs and namespaces of calls
    that take `LONG`. ``calls`` lists the verb of each write, and the namespace and name of its pod or Job, also of
    refused ones. While ``held``, observations are queued. ``revision`` grows with every change of an object.
    ``judge`` is called with each direct pod that was bound, and its node.
    """

    def __init__(self, *objects: Watched) -> None:
        self.calls: list[tuple[str, str]] = []
        self.delays: dict[str, float] = {}
        self.hanging: set[tuple[str, str]] = set()
        self.held = False
        self.revision = 0
        self.judge: Callable[[Pod, str], None] = lambda *_: None
        self._failures: dict[str, deque[Exception]] = {}
        self._queue: deque[Observation] = deque()
        super().__init__(*objects)

    def fail(self, verb: str, error: Exception | None = None, times: int = 1) -> None:
        """Make the next ``times`` calls of ``verb`` raise ``error`` (default: no answer from the API server)."""
        errors = [error or ClusterError(f"{verb}: no answer")] * times
        self._failures.setdefault(verb, deque()).extend(errors)

    def deliver(self, count: int | None = None) -> None:
        """Send the oldest ``count`` (default: all) of the queued observations."""
        left = len(self._queue) if count is None else count
        while left > 0 and self._queue:
            observation = self._queue.popleft()
            left -= 1
            super()._send(observation)

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """See `Cluster.eviction_block`."""
        await asyncio.sleep(self.delays.get("eviction_block", 0.0))
        return await super().eviction_block(pods)

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`."""
        await super().bind(pod, node, annotations)
        if pod.direct:
            self.judge(pod, node)

    async def report_pod(
        self, pod: Pod, message: str, asks_since: float = 0.0, met: Collection[str] = ()
    ) -> None:
        """See `Cluster.report_pod`."""
        await self._hang("report_pod", pod.key)
        await super().report_pod(pod, message, asks_since, met)

    def _send(self, observation: Observation) -> None:
        self.revision += 1
        self._queue.append(observation)
        if not self.held:
            self.deliver()

    async def _begin(self, verb: str, key: str) -> None:
        self.calls.append((verb, key))
        await asyncio.sleep(self.delays.get(verb, 0.0))
        await self._hang(verb, key)
        failures = self._failures.get(verb)
        if failures:
            raise failures.popleft()

    async def _hang(self, verb: str, key: str) -> None:
        if (verb, key.partition("/")[0]) in self.hanging:
            await asyncio.sleep(LONG)
