"""Why a gang or a pod waits, as stable text.

A reason's text must not change while the situation doesn't: kube-scheduler writes it into the pod, each change of it is
an update of the pod, and each update wakes the pod up again. So there are no times, no counters that tick and no
unordered lists in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fluence_extender.model.names import SCHEDULER_NAME


class Why(StrEnum):
    """The kinds of reasons, as the state API and Events name them."""

    WAITING = "WaitingForMembers"
    TIMED_OUT = "TimedOut"
    GATED = "WaitingForGates"
    INVALID = "InvalidRequest"
    BUSY = "Busy"
    PREEMPTING = "Preempting"
    PREEMPTED = "Preempted"
    UNSATISFIABLE = "Unsatisfiable"
    NO_BACKEND = "NoBackend"
    REFUSED = "RefusedByFilters"
    UNTOLD = "CannotSteer"
    UNBOUND = "CannotBind"
    FAILED = "PlanningFailed"


GATHERING = (Why.WAITING, Why.TIMED_OUT, Why.GATED)
"""What is said while not all that makes a gang whole is there."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its kind and the sentence a user reads."""

    why: Why
    text: str

    def __str__(self) -> str:
        return self.text


def waiting(present: int, size: int, elsewhere: Mapping[str, int] | None = None) -> Reason:
    """Not all members of the gang exist yet; ``elsewhere`` are pods that name it and another scheduler, by that."""
    strangers = "".join(
        f"; {count} more {'name' if count > 1 else 'names'} scheduler {name}, not {SCHEDULER_NAME}"
        for name, count in sorted((elsewhere or {}).items())
    )
    return Reason(Why.WAITING, f"waiting for members ({present} of {size} exist{strangers})")


def timed_out(seconds: float, awaited: Reason) -> Reason:
    """The gang hasn't assembled within its limit; it is placed all the same when it does."""
    return Reason(Why.TIMED_OUT, f"timed out after {seconds:g} s: {awaited.text}")


def busy(fitting: int, wanted: int, short_of: tuple[str, ...]) -> Reason:
    """The gang fits the cluster, but not beside what runs now."""
    return Reason(Why.BUSY, f"busy: {fitting} of {wanted} fit now{short(short_of)}")


def short(names: Sequence[str]) -> str:
    """What keeps the next member out, as the end of a sentence."""
    return f", short of {', '.join(names)}" if names else ""


def unsatisfiable(detail: str) -> Reason:
    """The gang can't be placed even on an empty cluster."""
    return Reason(Why.UNSATISFIABLE, f"unsatisfiable: {detail}")
