"""What one pod states about its gang, and which objects it may consult to state it.

Invariant: a `Membership` depends only on the pod, and on objects of `Workloads` that the pod or its Job names, by an
owner reference, its group or a label. So it is known which pods to look at again when an object changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import intern
from typing import Protocol, TypeVar

from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_SIZE_ANNOTATION, SCHEDULE_TIMEOUT_ANNOTATION
from fluence_extender.model.notation import DURATION_FORM, parse_duration
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

THE_POD = "pod {pod}"
"""The source of a size that the pod itself states. It has no pod's name, so that equal pods have equal memberships."""

LARGEST_SIZE = 1_000_000
LONGEST_SHOWN = 40
"""Characters of an invalid value that a message quotes."""

Found = TypeVar("Found", bound=Workload)


class Workloads(Protocol):
    """The objects that pods may belong to."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """Return the object of that name, or None while it isn't known."""
        ...

    def served(self, kind: type[Workload]) -> bool:
        """Return whether the cluster serves such objects at all, as far as is known."""
        ...


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's membership in the gang ``key``.

    ``size`` is how many members make the gang whole, or why that isn't known. ``source`` names the object that states
    the size, for messages. ``patience`` is how many seconds the gang may take to assemble, None if nothing states
    it. ``indivisible`` says that the gang is taken whole or not at all, its members beyond the size included.
    """

    key: GangKey
    size: int | Reason
    source: str
    patience: float | None = None
    indivisible: bool = False


StatedSize = tuple[int | Reason, str]
"""A size, or why there is none, and the object that states it."""


def number(text: str) -> int | None:
    """Return a whole number from 1 to `LARGEST_SIZE`, or None for any other text."""
    digits = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", digits) and 1 <= int(digits) <= LARGEST_SIZE:
        return int(digits)
    return None


def read(owner: str, kind: str, key: str, text: str) -> StatedSize:
    """Return the size in ``text``, the value of the ``kind`` (label or annotation) ``key`` of ``owner``."""
    source = intern(f"{kind} {key} of {owner}")
    size = number(text)
    if size is not None:
        return size, source
    shown = text[:LONGEST_SHOWN]
    must = f"it must be a whole number from 1 to {LARGEST_SIZE}"
    return Reason(ReasonCode.INVALID_REQUEST, f"{kind} {key} is {shown!r}: {must}"), source


def annotated_size(pod: Pod) -> StatedSize | None:
    """Return the size in the pod's own annotation, or None without one."""
    text = pod.annotations.get(GROUP_SIZE_ANNOTATION)
    return None if text is None else read(THE_POD, "annotation", GROUP_SIZE_ANNOTATION, text)


def awaited(kind: str, namespace: str, name: str, event: str = "to be seen") -> StatedSize:
    """Return a reason in place of the size, because the object that states it isn't known."""
    named = f"{kind} {namespace}/{name}"
    return Reason(ReasonCode.WAITING_FOR_MEMBERS, f"waiting for {named} {event}"), named


def alone(pod: Pod) -> Membership:
    """Return the membership of a pod that is a gang by itself."""
    return Membership(GangKey(pod.namespace, pod.name, Convention.ALONE, pod.uid), 1, THE_POD)


def derived(pod: Pod, key: GangKey, stated: StatedSize) -> Membership:
    """Return the membership of a pod whose owner states the size, unless the pod itself states another one.

    A pod that states 1 is a gang by itself. This is how users make the pods of one owner independent of each other.
    """
    own = annotated_size(pod)
    if own is not None and own[0] == 1:
        return alone(pod)
    return Membership(key, *(own or stated))


def patience(pod: Pod) -> float | Reason | None:
    """Return the seconds that the pod's own annotation gives the gang to assemble, or None without one."""
    text = pod.annotations.get(SCHEDULE_TIMEOUT_ANNOTATION)
    if text is None:
        return None
    seconds = parse_duration(text)
    if seconds is not None:
        return seconds
    shown = text[:LONGEST_SHOWN]
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"annotation {SCHEDULE_TIMEOUT_ANNOTATION} is {shown!r}: it must be {DURATION_FORM}",
    )
