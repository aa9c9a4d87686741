"""The objects by which administrators configure the queue: Queues, and Reservations of nodes.

A Queue says who may submit work to it and how that work is treated. Scheduling options hold for the whole cluster,
because all queues share its nodes, so only those of the queue `DEFAULT_QUEUE` count. A Reservation closes nodes for
some time to all work but that of the queues that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256

from fluence_extender.model.pod import Requirement

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


@dataclass(frozen=True, slots=True)
class QueuePreemption:
    """How a queue takes places. It takes back no work that has run for less than ``min_runtime`` seconds."""

    reclaim: Reclaim = Reclaim.NEVER
    within: Within = Within.LOWER_PRIORITY
    min_runtime: float = 0.0
    by: TakenBy = TakenBy.SUSPEND


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """Namespaces by name, or by all of ``labels``; without any name or label these are all namespaces."""

    names: frozenset[str] = frozenset()
    labels: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulingOptions:
    """How a pass goes through the entries, with times in seconds; None if the queue states nothing."""

    policy: PolicyName | None = None
    reservation_depth: int | None = None
    queue_depth: int | None = None
    starvation_after: float | None = None
    admission_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many entries may run and wait, in the whole queue and for each user; 0 for any number."""

    running: int = 0
    queued: int = 0
    running_per_user: int = 0
    queued_per_user: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """For each resource, how much a queue is guaranteed, may use at most, and lends while it doesn't use it itself.

    Amounts are in the units of `Resources`. A resource that ``limit`` doesn't name has no limit. Of a resource that
    ``lendable`` doesn't name, the whole guarantee is lent.
    """

    guaranteed: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    lendable: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastUse:
    """The past use of a queue's gangs ``at`` a time, in amounts times seconds, decayed by the half-life.

    ``at`` is in seconds since the epoch. ``users`` are the parts of the queue's users, by `digest`.
    """

    at: float
    amounts: Mapping[str, float]
    users: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def digest(user: str) -> str:
    """Return a short name for a user that doesn't reveal the user to everyone who may read Queues."""
    return sha256(user.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The status that the service reports of a Queue.

    ``waiting`` and ``admitted`` count entries; users of all namespaces read the status, so it names none.
    ``stopped_since`` is when the queue was first seen to be stopped (seconds since the epoch), None if it isn't.
    ``problem`` says which part of the object isn't in force, "" if all of it is, and ``since`` when that began or ended
    (RFC 3339). ``used`` and ``borrowed`` are quantities by resource, and ``share`` is the part of the cluster that the
    queue has, by its weight. Neither ``since`` nor ``past`` is compared.
    """

    waiting: int = 0
    admitted: int = 0
    stopped_since: float | None = None
    problem: str = ""
    used: Mapping[str, str] = field(default_factory=dict)
    borrowed: Mapping[str, str] = field(default_factory=dict)
    share: float = 0.0
    past: PastUse | None = field(default=None, compare=False)
    since: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue.

    ``default_for`` are the namespaces whose work is in this queue unless it names another one. Work that declares no
    duration has ``default_duration``, and no work may declare more than ``max_duration``, both in seconds; None if
    the queue states none. ``parent`` is the queue above this one, "" for none. Queues divide the share of their parent
    by their ``weight``. Past use counts half after each ``half_life``, in seconds. Each step of priority is worth
    ``class_step`` seconds of waiting. ``stopped_since`` is when the queue was first seen to be stopped, by its status;
    None if it wasn't.

    ``problems`` say what of the object can't be read, and why. ``status`` is the status that was written last, None
    where none was, and isn't compared. Times are in seconds since the epoch.
    """

    name: str
    namespaces: NamespaceSelector = field(default_factory=NamespaceSelector)
    default_for: frozenset[str] = frozenset()
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
    default_duration: float | None = None
    default_priority_class: str = ""
    max_duration: float | None = None
    overrun: OverrunAction = OverrunAction.EXTEND
    limits: QueueLimits = field(default_factory=QueueLimits)
    stop: Stop = Stop.NONE
    parent: str = ""
    quota: Quota = field(default_factory=Quota)
    weight: float | None = None
    half_life: float | None = None
    class_step: float | None = None
    preemption: QueuePreemption = field(default_factory=QueuePreemption)
    stopped_since: float | None = None
    problems: tuple[str, ...] = ()
    uid: str = ""
    created: float = 0.0
    status: QueueStatus | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """What the service reports of a Reservation: how many ``nodes`` it closes. The rest is as in `QueueStatus`."""

    nodes: int = 0
    problem: str = ""
    since: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Nodes that are closed from ``start`` for ``duration`` seconds to all work but that of ``queues``.

    The nodes are those with one of ``names`` and those with all of ``labels``; without any name or label they are all
    nodes. ``start`` is in seconds since the epoch. ``problems`` say which parts of the object can't be
    read; if its time can't be read, ``duration`` is 0. ``status`` is as in `Queue`.
    """

    name: str
    start: float
    duration: float
    names: frozenset[str] = frozenset()
    labels: tuple[Requirement, ...] = ()
    queues: frozenset[str] = frozenset()
    reason: str = ""
    problems: tuple[str, ...] = ()
    uid: str = ""
    status: ReservationStatus | None = field(default=None, compare=False)

    @property
    def end(self) -> float:
        """When the nodes open again."""
        return self.start + self.duration


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels, by which Queues choose who may submit."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass (scheduling.k8s.io), which a Queue may name for work that names none.

    With ``is_default`` pods have it that name none.
    """

    name: str
    value: int
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class KueueQueue:
    """A LocalQueue of Kueue. Where the cluster serves such objects, Kueue's label is Kueue's."""

    namespace: str
    name: str
