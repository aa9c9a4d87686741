"""What workloads have in common: their place in the queue, and how long they run.

A workload is an object that determines how large gangs are, or one of which an operator makes such objects. It is
reduced to the fields that matter for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds.served import Api
from fluence_extender.model.names import DURATION_ANNOTATION, KUEUE_LONGEST_LABEL
from fluence_extender.model.notation import parse_duration, parse_seconds
from fluence_extender.model.submission import NOTHING_SAID, Submission
from fluence_extender.objects.fields import Int64, Time
from fluence_extender.objects.meta import Conditions, Metadata


@dataclass(frozen=True, slots=True)
class Provenance:
    """The creator of an object (its annotation ``created-by``), the object's resourceVersion, and its deletion.

    Only the creator is compared, because no size depends on the others.
    """

    by: str = ""
    version: str = field(default="", compare=False)
    deleting: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Workload:
    """What all workloads have in common; ``problem`` is why the object can't be read in full, "" if it can.

    ``submission`` is what its annotations say about its place in the queue. It isn't compared, because no size depends
    on it. ``duration`` is how many seconds each of its pods runs at most, by what is stated on it, None where nothing
    is. ``ends`` is when its activeDeadlineSeconds are over, in seconds since the epoch, None where that isn't known.
    ``size`` is how many bytes of JSON the object has as a whole.
    """

    api: ClassVar[Api]

    namespace: str
    name: str
    uid: str
    problem: str = field(default="", kw_only=True)
    duration: float | None = field(default=None, kw_only=True)
    ends: float | None = field(default=None, kw_only=True)
    submission: Submission = field(default=NOTHING_SAID, kw_only=True, compare=False)
    size: int = field(default=0, kw_only=True, compare=False)


def stated_duration(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None, deadline: int | None
) -> float | None:
    """Return the shortest of what a pod or a workload says about how long pods run, None where it says nothing.

    ``deadline`` is its activeDeadlineSeconds.
    """
    text = (annotations or {}).get(DURATION_ANNOTATION)
    annotated = parse_duration(text) if text is not None else None
    labelled = parse_seconds((labels or {}).get(KUEUE_LONGEST_LABEL))
    said = (annotated, labelled, deadline if deadline is not None and deadline > 0 else None)
    return min((float(one) for one in said if one is not None), default=None)


def deadline_over(started: datetime | None, deadline: int | None) -> float | None:
    """Return when the deadline of an object that has ``started`` is over, in seconds since the epoch, None before."""
    return started.timestamp() + deadline if started is not None and deadline else None


class Limited(msgspec.Struct, rename="camel"):
    """The spec of an object of which an operator makes another."""

    active_deadline_seconds: Int64 | None = None


class Started(Conditions, rename="camel"):
    """The status of an object that says when it started."""

    start_time: Time | None = None


def limits(meta: Metadata, spec: Limited, status: Started) -> dict[str, Any]:
    """Return what an object with a deadline says of how long it runs and of its place in the queue."""
    deadline = spec.active_deadline_seconds
    return {
        "duration": stated_duration(meta.annotations, meta.labels, deadline),
        "ends": deadline_over(status.start_time, deadline),
        "submission": meta.submission,
    }
