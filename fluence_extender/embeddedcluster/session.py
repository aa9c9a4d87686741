"""The session of an extender with an embedded cluster: nothing is missing or late, and every write is permitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from fluence_extender.apiserver.defaults import PodRefused
from fluence_extender.apiserver.fields import field_faults
from fluence_extender.cluster.budgets import Budget
from fluence_extender.cluster.errors import Invalid
from fluence_extender.cluster.port import Json, Kind, Lease, OwnPods, Sink, TriedPod, TryPod
from fluence_extender.embeddedcluster.admission import admitted
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.pod_faults import faults
from fluence_extender.webhook.contract import Outcome
from fluence_extender.whatif.documents import as_json


class EmbeddedSession:
    """`ClusterSession` with ``cluster``. It is for a single extender, which always leads, so there is no Lease.

    Pods are tried by ``try_pod``, without it by the admission of this cluster.
    """

    def __init__(self, cluster: EmbeddedCluster, try_pod: TryPod | None = None) -> None:
        self.writes = cluster
        self.objects = cluster.kept
        self.try_pod: TryPod = try_pod or self._admitted

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

    async def disruption_budgets(self) -> Sequence[Budget] | None:
        """See `ClusterSession`."""
        return self.writes.budgets

    async def _admitted(self, manifest: Json, attempt: str) -> TriedPod:
        """Return the pod as this cluster's admission makes it; see `ClusterSession.try_pod`."""
        cluster, made = self.writes, Outcome(pod=manifest)
        words = "; ".join(field_faults(manifest, "V1Pod", "")) or cluster.objects.missing(manifest["spec"])
        if not words:
            try:
                made = admitted(manifest, cluster.resources, objects=cluster.objects)
                words = "; ".join(faults(made.pod or manifest))
            except PodRefused as refused:
                words = str(refused)
        if words:
            error = Invalid(f"{attempt}: {words}", 422)
            error.words = words
            raise error
        return TriedPod(as_json(made.pod or manifest), made.warnings)
