"""The writes of a replica that may lose the lead at any moment.

Invariant: nothing is written by a replica that doesn't lead: each write is checked just before it is sent, and given
up when the lead is lost while it is under way. A write may wait long before it is sent, for a connection or for
another try, so `demand` is also the `Connection.permit` of the connection below. What was sent and given up may still
be carried out: `lease` leaves time for that.

A replica that was busy, or got no answer, for longer than it may write without asking for the Lease doesn't lose what
it had planned: its writes wait for the next answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from fluence_extender.cluster.errors import NotLeading
from fluence_extender.cluster.port import Cluster, EvictionBlock, Pin, Regarding
from fluence_extender.gangs.leadership.lease import Leadership
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup

AGAIN = 0.02
"""Seconds between two checks whether the Lease has been read."""


class Fence:
    """`Cluster` over another one, for as long as ``leadership`` says that we lead."""

    def __init__(self, cluster: Cluster, leadership: Leadership) -> None:
        self._cluster = cluster
        self._leadership = leadership
        self._under_way: set[asyncio.Timeout] = set()

    @property
    def why_not_leading(self) -> str:
        """Why we don't lead, in stable words."""
        return f"not the leader: {self._leadership.why_not or 'taking over from the last one'}"

    def demand(self) -> None:
        """Raise `NotLeading` unless we lead at this moment."""
        if not self._leadership.leads:
            raise NotLeading(f"not the leader: {self._leadership.why_not}")

    async def confirmed(self) -> None:
        """Wait until it is known that we still lead. Raises `NotLeading` if we don't."""
        while self._leadership.holds and not self._leadership.leads:  # noqa: ASYNC110 - no event tells that time ran out
            await asyncio.sleep(AGAIN)
        self.demand()

    def give_up(self) -> None:
        """End the writes under way: they raise `NotLeading`."""
        now = asyncio.get_running_loop().time()
        for write in self._under_way:
            write.reschedule(now)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        write = asyncio.timeout(None)
        try:
            async with write:
                self._under_way.add(write)
                try:
                    await self.confirmed()
                    yield
                finally:
                    self._under_way.discard(write)
        except TimeoutError:
            if not write.expired():
                raise
            raise NotLeading("not the leader: the lead was lost during the write") from None

    async def nominate(self, pod: Pod, node: str) -> None:
        """See `Cluster.nominate`."""
        async with self._writing():
            await self._cluster.nominate(pod, node)

    async def ungate(self, pod: Pod, gate: str, pin: Pin | None = None) -> None:
        """See `Cluster.ungate`."""
        async with self._writing():
            await self._cluster.ungate(pod, gate, pin)

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`."""
        async with self._writing():
            await self._cluster.bind(pod, node, annotations)

    async def evict(self, pod: Pod, reason: str) -> None:
        """See `Cluster.evict`."""
        async with self._writing():
            await self._cluster.evict(pod, reason)

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """See `Cluster.eviction_block`."""
        async with self._writing():
            return await self._cluster.eviction_block(pods)

    async def report_pod(self, pod: Pod, message: str) -> None:
        """See `Cluster.report_pod`."""
        async with self._writing():
            await self._cluster.report_pod(pod, message)

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """See `Cluster.report_group`."""
        async with self._writing():
            await self._cluster.report_group(group, scheduled, reason, message)

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """See `Cluster.report_members`."""
        async with self._writing():
            await self._cluster.report_members(group, status)

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `Cluster.event`."""
        async with self._writing():
            await self._cluster.event(regarding, reason, message, warning)
