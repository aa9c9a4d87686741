"""The reason why a gang or a pod waits, as stable text.

Invariant: the text doesn't change while the situation doesn't. kube-scheduler writes it into the pod, each change is an
update of the pod, and each update makes kube-scheduler try the pod again. So a reason holds no times, no running
counters and no unordered lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.model.notation import first_few
from fluence_extender.model.wording import WithNames

MOST_NAMED = 3
"""The most Reservations that one reason names."""


class ReasonCode(StrEnum):
    """The kinds of reasons, by the names that the state API and Events use."""

    WAITING_FOR_MEMBERS = "WaitingForMembers"
    TIMED_OUT = "TimedOut"
    WAITING_FOR_GATES = "WaitingForGates"
    INVALID_REQUEST = "InvalidRequest"
    SELECTING_DEVICES = "SelectingDevices"
    NO_QUEUE = "NoQueue"
    HELD = "Held"
    QUEUE_STOPPED = "QueueStopped"
    WAITS_FOR = "WaitsFor"
    OVER_USER_LIMIT = "OverUserLimit"
    OVER_QUOTA = "OverQuota"
    QUEUED = "Queued"
    BEHIND_RESERVATION = "BehindReservation"
    BUSY = "Busy"
    PREEMPTING = "Preempting"
    PREEMPTED = "Preempted"
    UNSATISFIABLE = "Unsatisfiable"
    NO_BACKEND = "NoBackend"
    REFUSED_BY_FILTERS = "RefusedByFilters"
    CANNOT_STEER = "CannotSteer"
    CANNOT_BIND = "CannotBind"
    REJECTED = "Rejected"
    PLANNING_FAILED = "PlanningFailed"


_LACKING_MEMBERS = (ReasonCode.WAITING_FOR_MEMBERS, ReasonCode.TIMED_OUT, ReasonCode.WAITING_FOR_GATES)


IN_LINE = (
    ReasonCode.HELD,
    ReasonCode.QUEUE_STOPPED,
    ReasonCode.WAITS_FOR,
    ReasonCode.OVER_USER_LIMIT,
    ReasonCode.OVER_QUOTA,
    ReasonCode.QUEUED,
    ReasonCode.BEHIND_RESERVATION,
)
"""The reasons of a gang that waits as it was told to, or for its turn: nothing is wrong with it."""


HOPELESS = (ReasonCode.INVALID_REQUEST, ReasonCode.UNSATISFIABLE, ReasonCode.NO_BACKEND)
"""The reasons of a gang that can't start in its turn either: it stands in no line until it or the cluster changes."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its kind, and the sentence that a user reads.

    ``text`` is for everyone who sees the gang, so it names no object of another namespace. ``with_names`` is the same
    sentence with those names, None if there are none. Where a gang lacks amounts of nodes, ``fitting`` is how many of
    its members fit, and ``lacking`` are the resources which the next member lacks. ``assembling``: the gang isn't whole
    yet. ``advice`` returns the end of the sentence; it takes time, so it is called only when the reason is shown.
    """

    code: ReasonCode
    text: str
    fitting: int | None = None
    lacking: tuple[str, ...] = ()
    with_names: WithNames | None = None
    assembling: bool = False
    advice: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def lacks_members(self) -> bool:
        """Whether it is the reason of a gang that isn't whole yet."""
        return self.assembling or self.code in _LACKING_MEMBERS

    @property
    def full_text(self) -> str:
        """The sentence with all names, for those who may see everything."""
        return self.text if self.with_names is None else self.with_names.text

    @property
    def shown(self) -> Reason:
        """The reason with its advice, as users read it."""
        advice = self.advice() if self.advice is not None else ""
        return replace(self, advice=None).followed_by(advice) if advice else self

    def followed_by(self, more: str, with_names: WithNames | None = None) -> Reason:
        """Return this reason with ``more`` after it, and with ``with_names`` where all names are shown."""
        named = [one.namespaces for one in (self.with_names, with_names) if one is not None]
        full = f"{self.full_text}; {more if with_names is None else with_names.text}"
        joined = WithNames(full, frozenset().union(*named)) if named else None
        return replace(self, text=f"{self.text}; {more}", with_names=joined)


def waiting(present: int, size: int, elsewhere: Mapping[str, int] | None = None) -> Reason:
    """Return the reason of a gang of which only ``present`` of ``size`` members exist.

    ``elsewhere`` counts the pods that name this gang but another scheduler, by that scheduler's name.
    """
    foreign = "".join(f"; {one}" for one in named_elsewhere(elsewhere or {}))
    return Reason(ReasonCode.WAITING_FOR_MEMBERS, f"waiting for members ({present} of {size} exist{foreign})")


def named_elsewhere(elsewhere: Mapping[str, int]) -> list[str]:
    """Return in words how many pods of a gang name another scheduler; they are counted by that scheduler's name."""
    return [
        f"{count} more {'name' if count > 1 else 'names'} scheduler {name}, not {SCHEDULER_NAME}"
        for name, count in sorted(elsewhere.items())
    ]


def timed_out(seconds: float, awaited: Reason) -> Reason:
    """Return the reason of a gang that wasn't whole within its limit. It is still placed once it is whole."""
    return Reason(ReasonCode.TIMED_OUT, f"timed out after {seconds:g} s: {awaited.text}")


def busy(fitting: int, wanted: int, short_of: tuple[str, ...]) -> Reason:
    """Return the reason of a gang that fits the cluster, but not beside what runs now."""
    text = f"busy: {fitting} of {wanted} fit now{short(short_of)}"
    return Reason(ReasonCode.BUSY, text, fitting, short_of)


def queued(detail: str) -> Reason:
    """Return the reason of a gang whose turn hasn't come."""
    return Reason(ReasonCode.QUEUED, f"queued: {detail}")


@lru_cache(64)
def behind_reservation(closing: tuple[str, ...] = (), behind_gangs: bool = True) -> Reason:
    """Return the reason of a gang that would fit now, but not beside what is reserved.

    Equal reasons are one object, because passes compare those of thousands of gangs.

    ``closing`` are the names of the operators' Reservations that close nodes before it would end. If ``behind_gangs``,
    room is kept free for gangs ahead of it.
    """
    gangs = "gangs ahead of it in the queue need the room" if behind_gangs else ""
    named = f"Reservation{'s' if len(closing) > 1 else ''} {first_few(closing, MOST_NAMED)}"
    nodes = f"{named} close{'' if len(closing) > 1 else 's'} nodes that it needs" if closing else ""
    why = " or ".join(filter(None, (gangs, nodes)))
    return Reason(
        ReasonCode.BEHIND_RESERVATION,
        f"behind a reservation: it would fit now, but {why} before it would end",
    )


def held(detail: str) -> Reason:
    """Return the reason of a gang that its user, or who runs the queue, has told to wait."""
    return Reason(ReasonCode.HELD, f"held: {detail}")


def queue_stopped(queue: str, detail: str) -> Reason:
    """Return the reason of a gang whose queue lets nothing start."""
    return Reason(ReasonCode.QUEUE_STOPPED, f"queue {queue} is stopped: {detail}")


def waits_for(detail: str) -> Reason:
    """Return the reason of a gang that is to start after something else."""
    return Reason(ReasonCode.WAITS_FOR, f"waits for {detail}")


def over_user_limit(queue: str, detail: str) -> Reason:
    """Return the reason of a gang with which its queue would run or hold more than it may."""
    return Reason(ReasonCode.OVER_USER_LIMIT, f"queue {queue} is at its limit: {detail}")


def over_quota(detail: str) -> Reason:
    """Return the reason of a gang with which its queue would hold more than its quota."""
    return Reason(ReasonCode.OVER_QUOTA, f"over quota: {detail}")


def no_queue(detail: str, advice: Callable[[], str] | None = None) -> Reason:
    """Return the reason of a gang that is in no queue because what it says of its queue can't be followed."""
    return Reason(ReasonCode.NO_QUEUE, f"no queue: {detail}", advice=advice)


def short(names: Sequence[str]) -> str:
    """Return the end of a sentence that names the resources which the next member lacks."""
    return f", short of {', '.join(names)}" if names else ""


def unsatisfiable(detail: str, fitting: int | None = None, lacking: tuple[str, ...] = ()) -> Reason:
    """Return the reason of a gang that doesn't fit even an empty cluster."""
    return Reason(ReasonCode.UNSATISFIABLE, f"unsatisfiable: {detail}", fitting, lacking)
