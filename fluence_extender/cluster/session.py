"""An open cluster, as the extender's composition root uses it: a watch that is running, a few reads, and the writes.

`ClusterSession` is the port. `ApiSession` is the session with an API server; the embedded cluster has one of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from fluence_extender.cluster.api import ApiCluster, open_cluster
from fluence_extender.cluster.budgets import Budget
from fluence_extender.cluster.early_watch import EarlyWatch
from fluence_extender.cluster.leader import mark_leader
from fluence_extender.cluster.objects import ApiObjects
from fluence_extender.cluster.port import Cluster, Kind, Lease, Objects, OwnPods, Sink, TryPod
from fluence_extender.cluster.reads import (
    disruption_budgets,
    list_own_pods,
    read_lease,
    try_pod,
    warn_of_old_cluster,
)


class ClusterSession(Protocol):
    """The access to one cluster that one extender needs."""

    @property
    def writes(self) -> Cluster:
        """The writes."""
        ...

    @property
    def objects(self) -> Objects:
        """Whole objects by their path."""
        ...

    def permit_writes(self, permit: Callable[[], None]) -> None:
        """Call ``permit`` immediately before each write from now on. If it raises, nothing is written."""
        ...

    async def watch(self, sink: Sink) -> None:
        """Send ``sink`` the state of the cluster and then every change, until cancelled."""
        ...

    async def synced(self, *kinds: Kind) -> None:
        """Return once each of ``kinds`` has been listed."""
        ...

    def is_synced(self, *kinds: Kind) -> bool:
        """Return whether each of ``kinds`` has been listed."""
        ...

    def failures(self) -> Mapping[Kind, str]:
        """Return the kinds that aren't watched now, each with the reason."""
        ...

    def staleness(self, *kinds: Kind) -> float:
        """Return the seconds since the last contact with the cluster, for the worst of ``kinds``."""
        ...

    def open_for(self, kind: Kind) -> float:
        """Return the seconds for which the watch of ``kind`` has been open."""
        ...

    async def own_pods(self, known: Mapping[str, str]) -> OwnPods:
        """Return the pods of this scheduler; see `reads.list_own_pods`. Raise `ClusterError`."""
        ...

    async def read_lease(self, namespace: str, name: str, limit: float) -> Lease | None:
        """Return the current Lease; see `reads.read_lease`. Raise `ClusterError`."""
        ...

    async def mark_leader(self, namespace: str, name: str) -> None:
        """Label the pod ``name`` as the one that leads; see `leader.mark_leader`. Raise `ClusterError`."""
        ...

    async def disruption_budgets(self) -> Sequence[Budget] | None:
        """Return the PodDisruptionBudgets, None if they can't be read in time."""
        ...

    @property
    def try_pod(self) -> TryPod:
        """Tries pods; see `reads.try_pod`."""
        ...


class ApiSession:
    """`ClusterSession` with an API server, over the connection of ``early``."""

    def __init__(self, early: EarlyWatch, writes: ApiCluster) -> None:
        connection = self._connection = early.connection
        self.writes = writes
        self.objects = ApiObjects(connection)
        self.watch = early.watch
        self.synced = early.watcher.synced
        self.is_synced = early.watcher.is_synced
        self.failures = early.watcher.failures
        self.staleness = early.watcher.staleness
        self.open_for = early.watcher.open_for
        self.own_pods = partial(list_own_pods, connection)
        self.read_lease = partial(read_lease, connection)
        self.mark_leader = partial(mark_leader, connection)
        self.disruption_budgets = partial(disruption_budgets, connection)
        self.try_pod: TryPod = partial(try_pod, connection, strict=True)

    def permit_writes(self, permit: Callable[[], None]) -> None:
        """See `ClusterSession`."""
        self._connection.permit = permit


@asynccontextmanager
async def open_session(early: EarlyWatch) -> AsyncIterator[ApiSession]:
    """Yield a session whose Events are written while the context lasts, the last ones at its end."""
    asking = asyncio.create_task(warn_of_old_cluster(early.connection), name="look at the cluster's version")
    try:
        async with open_cluster(early.connection) as writes:
            yield ApiSession(early, writes)
    finally:
        asking.cancel()
