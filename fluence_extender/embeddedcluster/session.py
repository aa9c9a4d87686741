"""The session of an extender with an embedded cluster: nothing is missing or late, and every write is permitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fluence_extender.cluster.budgets import PreemptionRules
from fluence_extender.cluster.port import Kind, Lease, OwnPods, Sink
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster


class EmbeddedSession:
    """`ClusterSession` with ``cluster``. It is for a single extender, which always leads, so there is no Lease."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.writes = cluster
        self.objects = cluster.kept

    def permit_writes(self, permit: Callable[[], None]) -> None:
        """Do nothing: the only extender may always write."""

    async def watch(self, sink: Sink) -> None:
        """See `ClusterSession`."""
        self.writes.watch(sink)
        try:
            await asyncio.Event().wait()
        finally:
            self.writes.unwatch(sink)

    async def synced(self, *kinds: Kind) -> None:
        """Return at once: `watch` lists everything in its first step."""

    def is_synced(self, *kinds: Kind) -> bool:
        """Return True."""
        return True

    def failures(self) -> Mapping[Kind, str]:
        """Return nothing: no watch fails."""
        return {}

    def staleness(self, *kinds: Kind) -> float:
        """Return 0: changes are seen at once."""
        return 0.0

    def open_for(self, kind: Kind) -> float:
        """Return infinity: the watch has missed nothing."""
        return float("inf")

    async def own_pods(self, known: Mapping[str, str]) -> OwnPods:
        """See `ClusterSession`."""
        return await self.writes.own_pods(known)

    async def read_lease(self, namespace: str, name: str, limit: float) -> Lease | None:
        """Return None."""
        return None

    async def mark_leader(self, namespace: str, name: str) -> None:
        """Do nothing: there are no replicas."""

    async def preemption_rules(self) -> PreemptionRules:
        """Return no PriorityClasses and no PodDisruptionBudgets."""
        return PreemptionRules((), ())
