"""One process's connection to the API server in memory: it can be cut, and what was sent over it may arrive late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import WATCHED, EvictionBlock, Lease, Observation, OwnPods, Regarding, Sink
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import NodeReservation, Queue, QueueStatus, ReservationStatus
from tests.core.faulty_cluster import FaultyCluster

T = TypeVar("T")


class Link:
    """`Cluster` over a `FaultyCluster`.

    A write that was sent arrives although its caller gives it up. While ``cut`` nothing gets through either way; what
    is read is as it was; after `heal` everything is listed anew, as after lost watches. A question for the Lease takes
    ``lag`` seconds, and its answer as long again, from the next one on also when that is changed.
    """

    def __init__(self, cluster: FaultyCluster, lag: float = 0.0) -> None:
        self.cut = False
        self.lag = lag
        self._cluster = cluster
        self._sinks: list[Sink] = []
        self._pods: tuple[Pod, ...] = ()
        self._nodes: tuple[Node, ...] = ()
        self._sent: set[asyncio.Task[Any]] = set()
        cluster.watch(self._tell)

    def _tell(self, seen: Observation) -> None:
        if not self.cut:
            for sink in self._sinks:
                sink(seen)

    def watch(self, sink: Sink) -> None:
        """See `FaultyCluster.watch`."""
        self._list(sink)
        self._sinks.append(sink)

    def _list(self, sink: Sink) -> None:
        for kind in WATCHED:
            sink(self._cluster._list(kind))

    def break_off(self) -> None:
        """Cut it."""
        self._pods, self._nodes = self._cluster.pods(), self._cluster.nodes()
        self.cut = True

    def heal(self) -> None:
        """Let everything through again."""
        if self.cut:
            self.cut = False
            for sink in self._sinks:
                self._list(sink)

    def close(self) -> None:
        """Nobody listens any more."""
        self._sinks.clear()

    def pods(self) -> tuple[Pod, ...]:
        """All pods, as they are seen here."""
        return self._pods if self.cut else self._cluster.pods()

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, as they are seen here."""
        return self._nodes if self.cut else self._cluster.nodes()

    def put(self, pod: Pod) -> None:
        """Write a pod, if the connection stands."""
        if not self.cut:
            self._cluster.put(pod)

    async def read(self, lease: Callable[[], Lease | None], limit: float) -> Lease | None:
        """What ``lease`` says within so many seconds, if the connection stands."""
        lag = self.lag
        if self.cut or 2 * lag > limit:
            await asyncio.sleep(min(lag, limit))
            raise ClusterError("no answer")
        await asyncio.sleep(lag)
        found = lease()
        await asyncio.sleep(lag)
        return found

    async def own_pods(self, known: Mapping[str, str]) -> OwnPods:
        """See `FaultyCluster.look`."""
        if self.cut:
            raise ClusterError("no answer")
        return await self._cluster.own_pods(known)

    async def _send(self, write: Coroutine[Any, Any, T]) -> T:
        if self.cut:
            write.close()
            await asyncio.sleep(0.3)
            raise ClusterError("no answer")
        task = asyncio.create_task(write)
        self._sent.add(task)
        task.add_done_callback(self._arrived)
        return await asyncio.shield(task)

    def _arrived(self, task: asyncio.Task[Any]) -> None:
        self._sent.discard(task)
        if not task.cancelled():
            task.exception()

    async def nominate(self, pod: Pod, node: str, annotations: Mapping[str, str] = {}) -> int:
        """See `Cluster.nominate`."""
        return await self._send(self._cluster.nominate(pod, node, annotations))

    async def ungate(self, pod: Pod, gate: str, annotations: Mapping[str, str] = {}) -> int:
        """See `Cluster.ungate`."""
        return await self._send(self._cluster.ungate(pod, gate, annotations))

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`."""
        await self._send(self._cluster.bind(pod, node, annotations))

    async def evict(self, pod: Pod, reason: str) -> None:
        """See `Cluster.evict`."""
        await self._send(self._cluster.evict(pod, reason))

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """See `Cluster.eviction_block`."""
        if self.cut:
            raise ClusterError("no answer")
        return await self._cluster.eviction_block(pods)

    async def report_pod(
        self, pod: Pod, message: str, asks_since: float = 0.0, met: Collection[str] = ()
    ) -> None:
        """See `Cluster.report_pod`."""
        await self._send(self._cluster.report_pod(pod, message, asks_since, met))

    async def keep_node(self, node: Node, keys: Collection[str]) -> None:
        """See `Cluster.keep_node`."""
        await self._send(self._cluster.keep_node(node, keys))

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """See `Cluster.report_group`."""
        await self._send(self._cluster.report_group(group, scheduled, reason, message))

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """See `Cluster.report_members`."""
        await self._send(self._cluster.report_members(group, status))

    async def report_job(self, job: Job, why: str) -> None:
        """See `Cluster.report_job`."""
        await self._send(self._cluster.report_job(job, why))

    async def report_queue(self, queue: Queue, status: QueueStatus) -> None:
        """See `Cluster.report_queue`."""
        await self._send(self._cluster.report_queue(queue, status))

    async def report_reservation(self, reservation: NodeReservation, status: ReservationStatus) -> None:
        """See `Cluster.report_reservation`."""
        await self._send(self._cluster.report_reservation(reservation, status))

    async def dry_run(self, job: Resumable) -> tuple[Pod, ...]:
        """See `Cluster.dry_run`."""
        if self.cut:
            raise ClusterError("no answer")
        return await self._cluster.dry_run(job)

    async def resume(
        self, job: Resumable, nodes: Sequence[str], placed_with: str = "", bound: bool = False
    ) -> None:
        """See `Cluster.resume`."""
        await self._send(self._cluster.resume(job, nodes, placed_with, bound))

    async def hold_job(self, job: Resumable, queued_since: tuple[float, int]) -> None:
        """See `Cluster.hold_job`."""
        await self._send(self._cluster.hold_job(job, queued_since))

    async def note_job(self, job: Resumable, met: Collection[str]) -> None:
        """See `Cluster.note_job`."""
        await self._send(self._cluster.note_job(job, met))

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `Cluster.event`."""
        with contextlib.suppress(ClusterError):
            await self._send(self._cluster.event(regarding, reason, message, warning))
