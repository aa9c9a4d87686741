"""What the rest of the project may ask of a Kubernetes cluster.

Reading is by level: for each kind a consistent list first, then changes; a list may come again at any time (after a
lost watch) and then is the whole truth for its kind. Writing carries the pod's uid, so that a write meant for one pod
never touches a namesake that took its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    LeaderWorkerSet,
    MemberStatus,
    MpiJob,
    PodGroup,
    RayCluster,
    Workload,
)

Group = TypeVar("Group")


class Kind(StrEnum):
    """The kinds that are watched."""

    NODE = "node"
    POD = "pod"
    JOB = "job"
    POD_GROUP = "podgroup"
    COSCHEDULING_GROUP = "coscheduling-podgroup"
    JOB_SET = "jobset"
    LEADER_WORKER_SET = "leaderworkerset"
    MPI_JOB = "mpijob"
    RAY_CLUSTER = "raycluster"
    RESOURCES_FILE = "resources-file"


@dataclass(frozen=True, slots=True)
class ResourcesFile:
    """The text of resources.yaml; ``source`` says where it came from, for messages; None = there is none."""

    source: str
    text: str | None


Watched = Node | Pod | Workload | ResourcesFile

WORKLOADS: Mapping[Kind, type[Workload]] = {
    Kind.JOB: Job,
    Kind.POD_GROUP: PodGroup,
    Kind.COSCHEDULING_GROUP: CoschedulingGroup,
    Kind.JOB_SET: JobSet,
    Kind.LEADER_WORKER_SET: LeaderWorkerSet,
    Kind.MPI_JOB: MpiJob,
    Kind.RAY_CLUSTER: RayCluster,
}
"""The kinds that say how large gangs are."""


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of one kind at one moment; ``served`` is false where the API server doesn't know the kind."""

    kind: Kind
    objects: tuple[Watched, ...]
    served: bool = True


@dataclass(frozen=True, slots=True)
class Changed:
    """One object was added or modified."""

    kind: Kind
    object: Watched


@dataclass(frozen=True, slots=True)
class Deleted:
    """One object is gone; ``object`` is its last known state."""

    kind: Kind
    object: Watched


Json = dict[str, Any]
Observation = Listed | Changed | Deleted
Sink = Callable[[Observation], None]


class ClusterError(Exception):
    """A call to the API server failed; ``status`` is the HTTP status, 0 when no answer came."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Gone(ClusterError):
    """The object (of that uid) doesn't exist any more."""


class Conflict(ClusterError):
    """The object isn't in the state the write was made for."""


class AlreadyBound(Conflict):
    """The pod is bound already, to ``node``."""

    def __init__(self, message: str, node: str) -> None:
        super().__init__(message, 409)
        self.node = node


class Disrupted(ClusterError):
    """An eviction is not allowed now (a PodDisruptionBudget)."""


class Denied(ClusterError):
    """We lack the right to do this; the message names it."""


class NotLeading(Exception):
    """Another replica leads, so the write wasn't sent or was given up; the text says why. No fault of the cluster's."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The record of a coordination Lease (coordination.k8s.io/v1).

    ``holder`` is "" where nobody leads. ``renewed`` is the holder's own time stamp; it only tells two records apart,
    because clocks differ. ``transitions`` grows with each new holder. ``duration`` is how many seconds the others wait
    after a renewal.
    """

    holder: str
    renewed: str
    transitions: int
    duration: float


@dataclass(frozen=True, slots=True)
class Look:
    """Our pods as the API server had them at ``version``: all their ``uids``, and those that we didn't know so."""

    version: str
    uids: frozenset[str]
    changed: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Pin:
    """``node`` is the one a pod is planned on, ``affinity`` the required node affinity that confines it there.

    The affinity must be at least as strict as the pod's own (Kubernetes: mutable scheduling directives of gated pods).
    """

    node: str
    affinity: tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class Forbidding:
    """Why pods can't be evicted together, and the uids of those of them that this is about."""

    reason: str
    uids: frozenset[str]

    def about(self, pods: Mapping[Group, Sequence[Pod]]) -> Group:
        """Of gangs that were to go together with these ``pods`` the one that stays: the last that this is about."""
        covered = [key for key, some in pods.items() if any(pod.uid in self.uids for pod in some)]
        return (covered or list(pods))[-1]


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Objects(Protocol):
    """Whole objects by their path; see `objects.ApiObjects`. Each call raises a `ClusterError` subclass."""

    async def read(self, path: str) -> Json | None:
        """The object, None where there is none."""
        ...

    async def create(self, path: str, body: Json) -> Json:
        """Make it. Raises `Conflict` where it is there."""
        ...

    async def replace(self, path: str, body: Json) -> Json:
        """Write what was read and altered. Raises `Conflict` where it has changed since."""
        ...


class Cluster(Protocol):
    """The writes. Each raises a `ClusterError` subclass and otherwise has been accepted by the API server.

    One that isn't ours to make, because another replica leads, raises `NotLeading`.
    """

    async def nominate(self, pod: Pod, node: str) -> None:
        """Set ``status.nominatedNodeName`` ("" clears it); nothing happens to a pod that is bound already."""
        ...

    async def ungate(self, pod: Pod, gate: str, pin: Pin | None = None) -> None:
        """Remove the scheduling gate of that name, whatever its position, and pin the pod in the same write.

        Nothing happens where the gate isn't there.
        """
        ...

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Bind the pod to ``node``, merging ``annotations`` in the same call.

        Idempotent: a pod bound to ``node`` already is a success. Raises `AlreadyBound` (elsewhere), `Gone`.
        """
        ...

    async def evict(self, pod: Pod, reason: str) -> None:
        """Evict through the Eviction API. Raises `Disrupted` where a budget forbids it."""
        ...

    async def forbidding(self, pods: Sequence[Pod]) -> Forbidding | None:
        """What forbids evicting all of ``pods`` together now (disruption budgets), None when nothing does."""
        ...

    async def report_pod(self, pod: Pod, message: str) -> None:
        """Let the condition ``PodScheduled`` of a gated pod say why it waits.

        kube-scheduler says so of pods that it tries; a gated one it never does. Raises `Conflict` where the pod has
        changed since it was seen: it may have its node by now.
        """
        ...

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """Set the condition ``PodGroupScheduled`` of a native PodGroup, as kube-scheduler's own gang cycle does."""
        ...

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """Set the status of a PodGroup of scheduling.x-k8s.io."""
        ...

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """Record an Event; equal ones are folded into one with a count. Failures are logged, never raised."""
        ...
