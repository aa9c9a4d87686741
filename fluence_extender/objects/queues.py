"""The objects by which administrators configure the queue: Queues, and Reservations of nodes.

A Queue says who may submit work to it and how that work is treated. Scheduling options hold for the whole cluster,
because all queues share its nodes, so only those of the queue `DEFAULT_QUEUE` count. A Reservation closes nodes for
some time to all work but that of the queues that it names.

The API server checks both by the schema of ``deploy/base/queues.yaml``, but it doesn't check again what it has stored
under an older one. So ``problems`` of an object say which of its fields aren't in force. Times are in seconds, moments
in seconds since the epoch. The other objects here (namespaces, PriorityClasses) decide in which queue a pod is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from fluence_extender.objects.fields import (
    Amounts,
    Count,
    Int64,
    Moment,
    Positive,
    Requirements,
    Seconds,
)
from fluence_extender.objects.reading import At, PartlyCompared, Reads, reader

DEFAULT_QUEUE = "default"
"""The queue of all work that is in no other queue. It exists even without an object of that name."""


class PolicyName(StrEnum):
    """The policies, which differ in how they treat entries behind a blocked one."""

    FCFS = "fcfs"
    EASY = "easy"
    HYBRID = "hybrid"
    CONSERVATIVE = "conservative"


class OverrunAction(StrEnum):
    """What happens to work that runs longer than its duration.

    Extend: it runs on. Requeue: its gang goes back in line, or is evicted where that is impossible. Evict: its gang is
    evicted. Pods that replace evicted ones wait in line.
    """

    EXTEND = "Extend"
    REQUEUE = "Requeue"
    EVICT = "Evict"


class Stop(StrEnum):
    """How far a queue is stopped.

    Hold: none of its work starts. Drain: it takes no new work, and waiting work still starts. Evict: nothing starts,
    and running work goes back in line or is evicted.
    """

    NONE = "None"
    HOLD = "Hold"
    DRAIN = "Drain"
    EVICT = "Evict"


class Reclaim(StrEnum):
    """What a queue takes back: nothing, or what others have borrowed of its guarantee."""

    NEVER = "Never"
    BORROWED = "Borrowed"


class Within(StrEnum):
    """Which work of its own queue a gang may preempt: none, or work of a lower priority."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class TakenBy(StrEnum):
    """How victims give their places back. Suspend: Jobs go back in line, and other work is evicted."""

    SUSPEND = "Suspend"


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an object, or a whole object. All of its fields are compared."""


class QueuePreemption(Spec, frozen=True):
    """How a queue takes places. It takes back no work that has run for less than ``min_runtime``."""

    reclaim: Reclaim = Reclaim.NEVER
    within: Within = Within.LOWER_PRIORITY
    min_runtime: Seconds = 0.0
    by: TakenBy = TakenBy.SUSPEND


class NamespaceSelector(Spec, frozen=True):
    """Namespaces by name, or by all of ``labels``; without any name or label these are all namespaces."""

    names: frozenset[str] = frozenset()
    labels: Annotated[Requirements, At("selector")] = ()


class SchedulingOptions(Spec, frozen=True):
    """How a pass goes through the entries; None if the queue states nothing."""

    policy: PolicyName | None = None
    reservation_depth: Positive | None = None
    queue_depth: Positive | None = None
    starvation_after: Seconds | None = None
    admission_timeout: Seconds | None = None


class QueueLimits(Spec, frozen=True):
    """How many entries may run and wait, in the whole queue and for each user; 0 for any number."""

    running: Count = 0
    queued: Count = 0
    running_per_user: Count = 0
    queued_per_user: Count = 0


class Quota(Spec, frozen=True):
    """For each resource, how much a queue is guaranteed, may use at most, and lends while it doesn't use it itself.

    Amounts are in the units of `Resources`. A resource that ``limit`` doesn't name has no limit. Of a resource that
    ``lendable`` doesn't name, the whole guarantee is lent.
    """

    guaranteed: Amounts = {}
    limit: Amounts = {}
    lendable: Amounts = {}


Used = Mapping[str, Annotated[float, Meta(ge=0)]]
"""Amounts times seconds by resource."""


class PastUse(Spec, frozen=True):
    """The past use of a queue's gangs ``at`` a time, decayed by the half-life.

    ``users`` are the parts of the queue's users, by `digest`.
    """

    at: Moment
    amounts: Used
    users: Mapping[str, Used] = {}


@lru_cache(maxsize=4096)
def digest(user: str) -> str:
    """Return a short name for a user that doesn't reveal the user to everyone who may read Queues."""
    return sha256(user.encode()).hexdigest()[:12]


class AcceptedCondition(Spec, frozen=True):
    """meta/v1 Condition: what of it says whether an object is in force."""

    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str = ""


def _accepted(conditions: list[AcceptedCondition]) -> AcceptedCondition:
    """Return the condition that says whether all of the object is in force."""
    return next((one for one in conditions if one.type == "Accepted"), AcceptedCondition(status="True"))


def _problem(conditions: list[AcceptedCondition]) -> str:
    accepted = _accepted(conditions)
    return "" if accepted.status == "True" else accepted.message


def _since(conditions: list[AcceptedCondition]) -> str:
    return _accepted(conditions).last_transition_time


Problem = Annotated[str, At("conditions"), Reads(_problem, list[AcceptedCondition])]
"""Which part of an object isn't in force, "" if all of it is."""

Since = Annotated[str, At("conditions"), Reads(_since, list[AcceptedCondition])]
"""When the problem began or ended (RFC 3339), "" in a status that was never written."""


class QueueStatus(PartlyCompared, frozen=True):
    """The status that the service reports of a Queue.

    ``waiting`` and ``admitted`` count entries; users of all namespaces read the status, so it names none.
    ``stopped_since`` is when the queue was first seen to be stopped, None if it isn't. ``used`` and ``borrowed`` are
    quantities by resource, and ``share`` is the part of the cluster that the queue has, by its weight.
    """

    UNCOMPARED: ClassVar[frozenset[str]] = frozenset({"past", "since"})

    waiting: Int64 = 0
    admitted: Int64 = 0
    stopped_since: Moment | None = None
    problem: Problem = ""
    used: Mapping[str, str] = {}
    borrowed: Mapping[str, str] = {}
    share: float = 0.0
    past: Annotated[PastUse | None, At("usage")] = None
    since: Since = ""


class Queue(PartlyCompared, frozen=True):
    """One queue.

    ``default_for`` are the namespaces whose work is in this queue unless it names another one. Work that declares no
    duration has ``default_duration``, and no work may declare more than ``max_duration``; None if the queue states
    none. ``parent`` is the queue above this one, "" for none. Queues divide the share of their parent by their
    ``weight``. Past use counts half after each ``half_life``. Each step of priority is worth ``class_step`` of waiting.
    ``stopped_since`` is when the queue was first seen to be stopped, by its status; None if it wasn't. ``status`` is
    the status that was written last.
    """

    UNCOMPARED: ClassVar[frozenset[str]] = frozenset({"status"})

    name: Annotated[str, At("metadata.name")]
    namespaces: NamespaceSelector = NamespaceSelector()
    default_for: frozenset[str] = frozenset()
    scheduling: SchedulingOptions = SchedulingOptions()
    default_duration: Annotated[Seconds | None, At("spec.defaults.duration")] = None
    default_priority_class: Annotated[str, At("spec.defaults.priorityClassName")] = ""
    max_duration: Seconds | None = None
    overrun: OverrunAction = OverrunAction.EXTEND
    limits: Annotated[QueueLimits, At("spec.max")] = QueueLimits()
    stop: Stop = Stop.NONE
    parent: str = ""
    quota: Annotated[Quota, At("spec")] = Quota()
    weight: (
        Annotated[float, Meta(gt=0, le=1_000_000, description="more than 0 and at most 1000000")] | None
    ) = None
    half_life: Seconds | None = None
    class_step: Annotated[Seconds | None, At("spec.ageing.classStep")] = None
    preemption: QueuePreemption = QueuePreemption()
    stopped_since: Annotated[Moment | None, At("status.stoppedSince")] = None
    problems: tuple[str, ...] = ()
    uid: Annotated[str, At("metadata.uid")] = ""
    created: Annotated[Moment, At("metadata.creationTimestamp")] = 0.0
    status: Annotated[QueueStatus, At("status")] = QueueStatus()

    def __post_init__(self) -> None:
        """Forget since when it was stopped, if it isn't."""
        if self.stop is Stop.NONE:
            msgspec.structs.force_setattr(self, "stopped_since", None)


class ReservationStatus(PartlyCompared, frozen=True):
    """What the service reports of a Reservation: how many ``nodes`` it closes."""

    UNCOMPARED: ClassVar[frozenset[str]] = frozenset({"since"})

    nodes: Int64 = 0
    problem: Problem = ""
    since: Since = ""


class NodeReservation(PartlyCompared, frozen=True):
    """Nodes that are closed from ``start`` for ``duration`` to all work but that of ``queues``.

    The nodes are those with one of ``names`` and those with all of ``labels``; without any name or label they are all
    nodes.
    """

    UNCOMPARED: ClassVar[frozenset[str]] = frozenset({"status"})

    name: Annotated[str, At("metadata.name")]
    start: Moment = 0.0
    duration: Seconds = 0.0
    names: Annotated[frozenset[str], At("spec.nodes.names")] = frozenset()
    labels: Annotated[Requirements, At("spec.nodes.selector")] = ()
    queues: frozenset[str] = frozenset()
    reason: str = ""
    problems: tuple[str, ...] = ()
    uid: Annotated[str, At("metadata.uid")] = ""
    status: Annotated[ReservationStatus, At("status")] = ReservationStatus()

    @property
    def end(self) -> float:
        """When the nodes open again."""
        return self.start + self.duration


class Namespace(Spec, frozen=True):
    """A namespace (core/v1) and its labels, by which Queues choose who may submit."""

    name: Annotated[str, At("metadata.name")]
    labels: Annotated[Mapping[str, str], At("metadata.labels")] = {}


class PriorityClass(Spec, frozen=True):
    """A PriorityClass (scheduling.k8s.io), which a Queue may name for work that names none.

    With ``is_default`` pods have it that name none.
    """

    name: Annotated[str, At("metadata.name")]
    value: Annotated[Int64, At("value")] = 0
    is_default: Annotated[bool, At("globalDefault")] = False


class KueueQueue(Spec, frozen=True):
    """A LocalQueue of Kueue. Where the cluster serves such objects, Kueue's label is Kueue's."""

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]


read_namespace = reader(Namespace)
read_priority_class = reader(PriorityClass)
read_kueue_queue = reader(KueueQueue)
_read_queue, _read_reservation = reader(Queue), reader(NodeReservation)


def read_queue(raw: bytes) -> Queue:
    """Read a Queue. Past use that can't be believed is no problem of its users, who can't mend it."""
    queue = _read_queue(raw)
    problems = tuple(problem for problem in queue.problems if not problem.startswith("status.usage"))
    return queue if problems == queue.problems else msgspec.structs.replace(queue, problems=problems)


def read_reservation(raw: bytes) -> NodeReservation:
    """Read a Reservation. It closes nothing if it isn't known when, what and to whom: it might close all nodes."""
    reservation = _read_reservation(raw)
    known = reservation.start and not reservation.problems
    return reservation if known else msgspec.structs.replace(reservation, duration=0.0)
