"""Why a gang or a pod waits, as stable text.

A reason's text must not change while the situation doesn't: kube-scheduler writes it into the pod, each change of it is
an update of the pod, and each update wakes the pod up again. So there are no times, no counters that tick and no
unordered lists in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """The kinds of reasons, as the state API and Events name them."""

    WAITING = "WaitingForMembers"
    GATED = "WaitingForGates"
    INVALID = "InvalidRequest"
    BUSY = "Busy"
    UNSATISFIABLE = "Unsatisfiable"
    NO_BACKEND = "NoBackend"
    REFUSED = "RefusedByFilters"
    FAILED = "PlanningFailed"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its kind and the sentence a user reads."""

    why: Why
    text: str

    def __str__(self) -> str:
        return self.text


def waiting(present: int, size: int) -> Reason:
    """Not all members of the gang exist yet."""
    return Reason(Why.WAITING, f"waiting for members ({present} of {size} exist)")


def busy(fitting: int, wanted: int, short_of: tuple[str, ...]) -> Reason:
    """The gang fits the cluster, but not beside what runs now."""
    short = f", short of {', '.join(short_of)}" if short_of else ""
    return Reason(Why.BUSY, f"busy: {fitting} of {wanted} fit now{short}")


def unsatisfiable(detail: str) -> Reason:
    """The gang can't be placed even on an empty cluster."""
    return Reason(Why.UNSATISFIABLE, f"unsatisfiable: {detail}")
