"""The writes to the cluster that the controller decides, as values. The executor carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.cluster.port import Regarding
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.wording import WithNames
from fluence_extender.objects.queues import NodeReservation, Queue, QueueStatus, ReservationStatus


@dataclass(frozen=True, slots=True)
class Steer:
    """Nominate the ``node`` for the pod, and remove our gate."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a direct pod to ``node``, its place."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Nominate ``node``, which its victims are leaving, for a pod that waits. "" takes its nomination back."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class AskBudgets:
    """Ask the disruption budgets whether all of ``pods`` may be evicted together for ``preemptor``.

    ``pods`` are the pods to evict, by their gang.
    """

    preemptor: GangKey
    pods: Mapping[GangKey, tuple[Pod, ...]]


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record an Event about an object, of type Warning or Normal."""

    regarding: Regarding
    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound member of a gang that can't be completed or that is a victim.

    ``reason`` is for an Event on the pod, ``with_names`` for the history alone. ``again``: a failure is reported to
    preemption, which decides again.
    """

    pod: Pod
    reason: str
    again: bool = False
    with_names: WithNames | None = None


@dataclass(frozen=True, slots=True)
class ReportPod:
    """Write into a gated pod's condition why it waits.

    It has asked autoscalers for nodes since ``asks_since``, 0 if it doesn't ask. ``met`` are its dependencies that
    were met.
    """

    pod: Pod
    message: str
    asks_since: float = 0.0
    met: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KeepNode:
    """Of the annotations that keep autoscalers from removing a node, give it exactly those with these ``keys``."""

    node: Node
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """Write into a PodGroup's conditions whether it is scheduled."""

    group: PodGroup
    scheduled: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReportMembers:
    """Write the status of a PodGroup of scheduling.x-k8s.io."""

    group: CoschedulingGroup
    status: MemberStatus


@dataclass(frozen=True, slots=True)
class ReportJob:
    """Write into a Job's condition ``why`` its pods can't be placed on this cluster, "" if they can."""

    job: Job
    why: str


@dataclass(frozen=True, slots=True)
class NoteJob:
    """Record on a workload its dependencies that were met."""

    job: Resumable
    met: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReportQueue:
    """Write the status of a Queue."""

    queue: Queue
    status: QueueStatus


@dataclass(frozen=True, slots=True)
class ReportReservation:
    """Write the status of a Reservation."""

    reservation: NodeReservation
    status: ReservationStatus


@dataclass(frozen=True, slots=True)
class FindShapes:
    """Ask the API server which pods it would create for the workload, one of each shape."""

    job: Resumable


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume the workload. If there are ``nodes``, these are its plan: the node of each index, "" where it has none.

    ``placed_with`` is the text of the pods' `PlaceRecord`, and ``uids`` are those of the expected pods. ``bound``: pods
    that are created soon are created with their nodes.
    """

    job: Resumable
    nodes: tuple[str, ...] = ()
    placed_with: str = ""
    uids: tuple[str, ...] = ()
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Requeue:
    """Send a gang back in line: suspend its workloads, ``jobs``, unless budgets protect one of its bound ``pods``.

    They keep the place in line ``since``. ``reason`` is for users, ``with_names`` for the history alone. ``again``: a
    failure is reported to preemption, which decides again.
    """

    gang: GangKey
    jobs: tuple[Resumable, ...]
    pods: tuple[Pod, ...]
    since: tuple[float, int]
    reason: str
    with_names: WithNames | None = None
    again: bool = False


Report = ReportPod | ReportGroup | ReportMembers | ReportJob | ReportQueue | ReportReservation
"""The actions that write what users read of an object."""

Action = (
    Nominate
    | Steer
    | Bind
    | AskBudgets
    | RecordEvent
    | Evict
    | Report
    | FindShapes
    | Resume
    | Requeue
    | NoteJob
    | KeepNode
)
