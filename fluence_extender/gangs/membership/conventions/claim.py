"""What one pod says of its gang, and what it is allowed to look at to say it.

Invariant: a claim depends on nothing but the pod and the objects it asked `Workloads` for. So whoever keeps claims
knows when to make them anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_SIZE_ANNOTATION, SCHEDULE_TIMEOUT_ANNOTATION
from fluence_extender.model.notation import DURATION_FORM, parse_duration
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.workload import Job, Workload

LARGEST_SIZE = 1_000_000
LONGEST_SHOWN = 40

Found = TypeVar("Found", bound=Workload)


class Workloads(Protocol):
    """The objects that pods may belong to."""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """The object of that name, None while it isn't known."""
        ...

    def served(self, kind: type[Workload]) -> bool:
        """Whether the cluster has such objects at all, as far as is known."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A pod's membership of the gang ``key``.

    ``size`` is how many members make the gang whole, or why that can't be said; ``said_by`` names who says it, for
    messages; ``patience`` is how many seconds the gang may take to assemble, None where nothing is said of that.
    ``noted`` sizes were true when the pod was created, and may differ from pod to pod: the largest counts.
    """

    key: GangKey
    size: int | Reason
    said_by: str
    patience: float | None = None
    noted: bool = False


Said = tuple[int | Reason, str]
"""A size or why there is none, and who says so."""


def number(text: str) -> int | None:
    """A whole number from 1 to `LARGEST_SIZE`, None for anything else."""
    digits = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", digits) and 1 <= int(digits) <= LARGEST_SIZE:
        return int(digits)
    return None


def read(pod: Pod, what: str, key: str, text: str) -> Said:
    """The size that ``text`` says, which stands in the ``what`` (label or annotation) ``key`` of the pod."""
    said_by = f"{what} {key} of pod {pod.name}"
    size = number(text)
    if size is not None:
        return size, said_by
    shown = text[:LONGEST_SHOWN]
    must = f"it must be a whole number from 1 to {LARGEST_SIZE}"
    return Reason(ReasonCode.INVALID_REQUEST, f"{what} {key} is {shown!r}: {must}"), said_by


def job_of(pod: Pod, workloads: Workloads) -> Job | None:
    """The Job that owns the pod, None where there is none or it isn't known yet."""
    if pod.owner is None or pod.owner.kind != "Job":
        return None
    return workloads.find(Job, pod.namespace, pod.owner.name)


def labels_of(pod: Pod, workloads: Workloads) -> Mapping[str, str]:
    """The pod's labels and, where it has none of the kind, those of its Job that name a gang or its size.

    The admission webhook of flux-k8s copied them from a Job to its template.
    """
    job = job_of(pod, workloads)
    return {**dict(job.labels), **pod.labels} if job is not None and job.labels else pod.labels


def annotated_size(pod: Pod) -> Said | None:
    """The size that the pod's own annotation says, if it has one."""
    text = pod.annotations.get(GROUP_SIZE_ANNOTATION)
    return None if text is None else read(pod, "annotation", GROUP_SIZE_ANNOTATION, text)


def awaited(kind: str, namespace: str, name: str, what: str = "to be seen") -> Said:
    """What is said while an object isn't there that says the size."""
    named = f"{kind} {namespace}/{name}"
    return Reason(ReasonCode.WAITING_FOR_MEMBERS, f"waiting for {named} {what}"), named


def alone(pod: Pod) -> Claim:
    """The claim of a pod on its own."""
    return Claim(GangKey(pod.namespace, pod.name, Convention.ALONE, pod.uid), 1, f"pod {pod.name}")


def derived(pod: Pod, key: GangKey, said: Said) -> Claim:
    """The claim of a pod whose owner says the size, unless the pod itself says another one.

    A pod that says 1 is a gang of its own: that is how the members of an owner are set free of each other.
    """
    own = annotated_size(pod)
    if own is not None and own[0] == 1:
        return alone(pod)
    return Claim(key, *(own or said))


def patience(pod: Pod) -> float | Reason | None:
    """The seconds that the pod's own annotation gives the gang to assemble, if it has one."""
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
