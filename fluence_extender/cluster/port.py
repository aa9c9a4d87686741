"""What the rest of the project may read and write of a Kubernetes cluster.

Reads are level-driven. For each kind a consistent list comes first, then changes. After a lost watch another list may
come, which replaces all earlier observations of its kind. Every write carries the pod's uid, so that it never reaches
another pod of the same name. `errors` has the exceptions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.registry import KINDS
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.devices import (
    DeviceClass,
    DeviceObject,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from fluence_extender.objects.queues import (
    KueueQueue,
    Namespace,
    NodeReservation,
    PriorityClass,
    Queue,
    QueueStatus,
    ReservationStatus,
)
from fluence_extender.objects.resource_quota import ResourceQuota

Json = dict[str, Any]
Group = TypeVar("Group")


@dataclass(frozen=True, slots=True)
class ResourcesFile:
    """The text of resources.yaml, None if there is none; ``source`` names its origin, for messages."""

    source: str
    text: str | None


QueueObject = Queue | NodeReservation | Namespace | PriorityClass | KueueQueue
Watched = Node | Pod | Workload | ResourcesFile | QueueObject | DeviceObject | ResourceQuota

Kind = type[Watched]
"""A kind that is watched, by the class of its values."""

WORKLOADS: tuple[type[Workload], ...] = tuple(kind.values for kind in KINDS)

QUEUE_KINDS: tuple[type[QueueObject], ...] = (Queue, NodeReservation, Namespace, PriorityClass, KueueQueue)
"""The kinds that determine which queue a pod is in, and what is reserved by administrators."""

DEVICE_KINDS: tuple[type[DeviceObject], ...] = (
    ResourceSlice,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
"""The kinds that say which devices nodes have, and which of them pods claim."""

WATCHED: tuple[Kind, ...] = (Node, Pod, *WORKLOADS, *QUEUE_KINDS, ResourceQuota, *DEVICE_KINDS, ResourcesFile)


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of one kind at one moment; ``served`` is false where the API server doesn't serve the kind."""

    kind: Kind
    objects: tuple[Watched, ...]
    served: bool = True


@dataclass(frozen=True, slots=True)
class Changed:
    """One object was added or modified."""

    object: Watched

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        return type(self.object)


@dataclass(frozen=True, slots=True)
class Deleted:
    """One object was deleted; ``object`` is its last known state."""

    object: Watched

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        return type(self.object)


Observation = Listed | Changed | Deleted
Sink = Callable[[Observation], None]


def follow_pods(
    observation: Observation, known: Iterable[str], put: Callable[[Pod], None], drop: Callable[[str], None]
) -> bool:
    """Call ``put`` with each pod in ``observation`` and ``drop`` with the uid of each deleted pod.

    ``known`` are the uids of the caller's pods. Those that a list lacks are dropped. Return whether the observation is
    about pods.
    """
    if observation.kind is not Pod:
        return False
    if isinstance(observation, Listed):
        listed = {one.uid: one for one in observation.objects if isinstance(one, Pod)}
        for uid in [uid for uid in known if uid not in listed]:
            drop(uid)
        for pod in listed.values():
            put(pod)
    elif isinstance(observation.object, Pod):
        if isinstance(observation, Changed):
            put(observation.object)
        else:
            drop(observation.object.uid)
    return True


@dataclass(frozen=True, slots=True)
class Lease:
    """The record of a coordination Lease (coordination.k8s.io/v1).

    ``holder`` is "" if no replica leads. ``renewed`` is the holder's own time stamp. Because clocks differ, it only
    serves to distinguish two records. ``transitions`` grows with each new holder. ``duration`` is how many seconds the
    other replicas wait after a renewal.
    """

    holder: str
    renewed: str
    transitions: int
    duration: float


@dataclass(frozen=True, slots=True)
class TriedPod:
    """A pod as the API server would make it, as JSON, and what it and its webhooks warn of."""

    raw: bytes
    warnings: tuple[str, ...] = ()


class TryPod(Protocol):
    """Makes a dry run of the creation of a pod."""

    def __call__(self, manifest: Json, attempt: str) -> Awaitable[TriedPod]:
        """Return the pod that the API server would make of ``manifest``; ``attempt`` says for messages what it does.

        A field that doesn't exist is refused. Raise `ClusterError`, and `PodsUnknown` where a webhook allows no
        trial.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnPods:
    """The pods of this scheduler as the API server had them at ``version``.

    ``uids`` are the uids of all of them; ``changed`` are the pods that the caller doesn't have in this version.
    """

    version: str
    uids: frozenset[str]
    changed: tuple[Pod, ...]


ListOwnPods = Callable[[Mapping[str, str]], Awaitable[OwnPods]]
"""Lists the pods of this scheduler, given the versions that the caller knows. Raises `ClusterError`."""


@dataclass(frozen=True, slots=True)
class EvictionBlock:
    """The reason why pods can't be evicted together, and the uids of the pods that it concerns."""

    reason: str
    uids: frozenset[str]

    def last_concerned(self, pods: Mapping[Group, Sequence[Pod]]) -> Group:
        """Return the last gang of ``pods`` that this concerns, or the last gang of all. That gang isn't evicted."""
        concerned = [key for key, some in pods.items() if any(pod.uid in self.uids for pod in some)]
        return (concerned or list(pods))[-1]


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an Event is about (events.k8s.io/v1 ``regarding``)."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Objects(Protocol):
    """Whole objects by their path. Each call raises a `ClusterError` if it fails."""

    async def read(self, path: str) -> Json | None:
        """Return the object, None if there is none."""
        ...

    async def create(self, path: str, body: Json) -> Json:
        """Create the object. Raise `Conflict` if it exists."""
        ...

    async def post(self, path: str, body: Json) -> Json:
        """Send ``body`` to ``path`` itself, such as a TokenRequest, and return the answer."""
        ...

    async def replace(self, path: str, body: Json) -> Json:
        """Write an object that was read and altered. Raise `Conflict` if it has changed since."""
        ...


BINDS_FOR = 30.0
"""Seconds from the resumption of a Job in which the API server binds its new pods by the Job's plan.

The Job controller needs a moment to create them. An older plan may be wrong, because a node may have changed while no
replica watched it.
"""


class Cluster(Protocol):
    """The writes. A call that returns has been accepted by the API server; others raise a `ClusterError`.

    While another replica leads, a write raises `NotLeading`.
    """

    async def nominate(self, pod: Pod, node: str, annotations: Mapping[str, str] = {}) -> int:
        """Set ``status.nominatedNodeName`` ("" clears it), and ``annotations`` in the same write.

        A pod that is already bound stays as it is. Return the pod's resourceVersion after the write.
        """
        ...

    async def ungate(self, pod: Pod, gate: str, annotations: Mapping[str, str] = {}) -> int:
        """Remove the scheduling gate of that name, and merge ``annotations`` into the pod by the same write.

        Do nothing if the pod doesn't have the gate. Return the pod's resourceVersion after the write.
        """
        ...

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """Bind the pod to ``node``, and merge ``annotations`` into it in the same call.

        The call is idempotent: it succeeds for a pod that is already bound to ``node``. Raise `AlreadyBound` if the
        pod is bound elsewhere, or `Gone`.
        """
        ...

    async def evict(self, pod: Pod, reason: str) -> None:
        """Evict the pod through the Eviction API. Raise `Disrupted` where a disruption budget forbids it."""
        ...

    async def eviction_block(self, pods: Sequence[Pod]) -> EvictionBlock | None:
        """Return what forbids evicting all of ``pods`` together now (disruption budgets), None if nothing does."""
        ...

    async def report_pod(
        self, pod: Pod, message: str, asks_since: float = 0.0, met: Collection[str] = ()
    ) -> None:
        """Write into the condition ``PodScheduled`` of a gated pod why it waits.

        Its dependencies that were ``met`` are recorded on the pod.

        kube-scheduler writes this condition for pods that it tries, but it never tries a gated pod. With
        ``asks_since``, in seconds since the epoch, the condition asks autoscalers for nodes, until it is written again
        with 0. Raise `Conflict` if the pod has changed since it was observed, because it may have its node by now.
        """
        ...

    async def keep_node(self, node: Node, keys: Collection[str]) -> None:
        """Give the node exactly the annotations ``keys`` of `KEEPING`, among those that the service sets.

        Raise `Gone` if the node, or the node of that uid, doesn't exist any more.
        """
        ...

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """Set the condition ``PodGroupScheduled`` of a native PodGroup, as kube-scheduler's own gang cycle does."""
        ...

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """Set the status of a PodGroup of scheduling.x-k8s.io."""
        ...

    async def report_queue(self, queue: Queue, status: QueueStatus) -> None:
        """Set the status of a Queue."""
        ...

    async def report_reservation(self, reservation: NodeReservation, status: ReservationStatus) -> None:
        """Set the status of a Reservation."""
        ...

    async def report_job(self, job: Job, why: str) -> None:
        """Write into a Job's condition ``fluence.flux-framework.org/Unsatisfiable`` why its pods can't be placed.

        With "" they can, and the condition is False.
        """
        ...

    async def dry_run(self, job: Resumable) -> tuple[Pod, ...]:
        """Return the first pod of each shape that the workload's controller would create; none is created.

        That is one pod for a Job, and otherwise one for each of `Resumable.groups`. The pod has passed admission as a
        pod of a Job that names no nodes: it has its priority, its defaults and injected containers, is direct or has
        the gate, and has no node. Other pods of its shape differ from it only in uid and name, and if the Job is
        Indexed, in their index (label and annotation `COMPLETION_INDEX`). ``created`` is when the workload was created,
        so that each call gives the same turn.

        Raise `Gone` if the workload, or the one of that uid, doesn't exist any more; `Conflict` if its spec has
        changed since it was observed; `Denied` or `Invalid` with the API server's message if it would refuse the
        pod; and `PodsUnknown` if the workload can only be resumed without a plan, because its pods wouldn't be
        ours to place or a webhook allows no trial.
        """
        ...

    async def resume(
        self, job: Resumable, nodes: Sequence[str], placed_with: str = "", bound: bool = False
    ) -> None:
        """Resume a workload that is held for placement, so that its controller creates its pods.

        ``nodes`` are the nodes of a Job's pods by completion index, "" for an index without one. ``placed_with`` is the
        text of the pods' `PlaceRecord`. With ``bound`` the API server binds the pods that are created within
        `BINDS_FOR` seconds; it creates all others without a node. Raise `Gone`; `NoAnswer` if it may have been done all
        the same; `Conflict` if the Job has changed since it was observed, or pods from before it was held still exist;
        and `Invalid` if the API server refuses the change.
        """
        ...

    async def hold_job(self, job: Resumable, queued_since: tuple[float, int]) -> None:
        """Suspend a workload, held for placement. Its pods are deleted, and don't count as failed.

        ``queued_since`` is recorded as the place in line that it keeps. A Job's template keeps its nodes, because that
        of a running Job can't be changed; `resume` replaces them. Raise `Conflict` if the workload has changed since it
        was observed, or `Gone`.
        """
        ...

    async def note_job(self, job: Resumable, met: Collection[str]) -> None:
        """Record on a workload its dependencies that were ``met``. Raise `Gone` if it doesn't exist any more."""
        ...

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """Record an Event. Equal Events become one with a count. Failures are logged and never raised."""
        ...
