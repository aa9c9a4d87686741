"""Workloads that have no pods while their spec suspends them, and that the service resumes in their turn."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from fluence_extender.kinds.workload import Workload
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    HOLD_ANNOTATION,
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    OPERATORS,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SCHEDULER_NAMES,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.model.submission import NOTHING_SAID, Submission
from fluence_extender.objects.meta import Metadata

SENT_BACK = -1
"""The number in the place in line of what was sent back: it comes before what was submitted in the same second."""


@dataclass(frozen=True, slots=True)
class Resumable(Workload):
    """A workload that has no pods while its spec suspends it, and that the service may resume in its turn.

    None of this is compared, because no size depends on it. ``ours`` is true where its pods are created with this
    scheduler's name, ``suspended`` where it has no pods because its spec says so, and ``held_for_placement`` where
    admission suspended it, so that the service resumes it. ``finished`` is true once it has ended, or is about to end
    or to be deleted. ``version`` is its resourceVersion; ``generation`` changes with its spec, as far as that says what
    its pods are while it is suspended. ``queued`` is true where it or its template names a queue of ours, and
    ``created`` is when it was created, in seconds since the epoch. ``queued_since`` is the place in line that it keeps
    since it was sent back: a time and `SENT_BACK`, as for `Gang.created`; None if it wasn't. ``suspendable`` is true
    where nobody but its user and the service suspends and resumes it, and its user hasn't forbidden it.
    ``priority_classes`` are the PriorityClasses that its pods name.

    What only Jobs have is empty for other kinds. ``nodes`` are those in its pod template, by completion index, and
    ``placed_with`` is the `PlaceRecord` of the pods that get them. ``done`` are the ranges (first and last) of indexes
    that have completed or failed for good, in order. ``job_set`` names the JobSet that controls it.
    """

    ours: bool = field(default=False, compare=False, kw_only=True)
    suspended: bool = field(default=False, compare=False, kw_only=True)
    held_for_placement: bool = field(default=False, compare=False, kw_only=True)
    finished: bool = field(default=False, compare=False, kw_only=True)
    version: str = field(default="", compare=False, kw_only=True)
    generation: int = field(default=0, compare=False, kw_only=True)
    queued: bool = field(default=False, compare=False, kw_only=True)
    created: float = field(default=0.0, compare=False, kw_only=True)
    queued_since: tuple[float, int] | None = field(default=None, compare=False, kw_only=True)
    suspendable: bool = field(default=True, compare=False, kw_only=True)
    priority_classes: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    nodes: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    placed_with: str = field(default="", compare=False, kw_only=True)
    done: tuple[tuple[int, int], ...] = field(default=(), compare=False, kw_only=True)
    job_set: str = field(default="", compare=False, kw_only=True)

    @property
    def groups(self) -> tuple[int, ...]:
        """How many pods of each shape it creates when it is resumed; empty where all of them have one shape."""
        return ()

    @property
    def width(self) -> int:
        """How many pods it creates when it is resumed."""
        return sum(self.groups)


_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"


class TemplateAnnotations(msgspec.Struct):
    nodes: str = msgspec.field(name=NODES_ANNOTATION, default="")
    placed_with: str = msgspec.field(name=PLACED_ANNOTATION, default="")
    hold: str | None = msgspec.field(name=HOLD_ANNOTATION, default=None)
    after: str | None = msgspec.field(name=AFTER_ANNOTATION, default=None)

    @property
    def submission(self) -> Submission:
        """What the template says about the Job's place in the queue."""
        return NOTHING_SAID if self.hold is None and self.after is None else Submission(self.hold, self.after)


class TemplateLabels(msgspec.Struct):
    queue: str = msgspec.field(name=QUEUE_LABEL, default="")
    kueue: str | None = msgspec.field(name=KUEUE_QUEUE_LABEL, default=None)


class _TemplateMetadata(msgspec.Struct):
    annotations: TemplateAnnotations | None = None
    labels: TemplateLabels | None = None


class _PodSpec(msgspec.Struct):
    scheduler: str = msgspec.field(name="schedulerName", default="")
    priority_class: str = msgspec.field(name="priorityClassName", default="")


class PodTemplate(msgspec.Struct):
    """core/v1 PodTemplateSpec, as far as it says whose the pods are and where they stand in line."""

    metadata: _TemplateMetadata | None = None
    spec: _PodSpec | None = None

    @property
    def ours(self) -> bool:
        """Whether the pods are created with this scheduler's name."""
        return bool(self.spec and self.spec.scheduler in SCHEDULER_NAMES)

    @property
    def priority_classes(self) -> tuple[str, ...]:
        """The PriorityClass that the pods name, if they name one."""
        return (self.spec.priority_class,) if self.spec and self.spec.priority_class else ()

    @property
    def queued(self) -> bool:
        """Whether it names a queue of ours."""
        return bool(self.metadata and self.metadata.labels and self.metadata.labels.queue)


class Suspendable(msgspec.Struct, rename="camel"):
    """A spec that may suspend its object."""

    suspend: bool | None = None
    managed_by: str | None = None


def controller_of(meta: Metadata, group: str, kind: str) -> str:
    """Return the name of the object of that kind that controls this one, "" where none does."""
    owners = (one for one in meta.owner_references or () if one.controller)
    return next(
        (one.name for one in owners if (one.api_version.partition("/")[0], one.kind) == (group, kind)), ""
    )


def held_for_placement(meta: Metadata, suspended: bool) -> bool:
    """Return whether admission suspended the object."""
    return suspended and (meta.annotations or {}).get(SUSPENDED_FOR_ANNOTATION) == SUSPENDED_FOR_PLACEMENT


def suspension_is_ours(meta: Metadata, owners: Container[tuple[str, str]] = ()) -> bool:
    """Return whether no controller suspends the object, and its user hasn't forbidden it.

    Controllers of the kinds ``owners``, each an API group and a kind, leave suspension to others.
    """
    labels = meta.labels or {}
    controllers = (one for one in meta.owner_references or () if one.controller)
    return (
        all((one.api_version.partition("/")[0], one.kind) in owners for one in controllers)
        and labels.get(SUSPEND_LABEL) != NEVER_SUSPEND
    )


def queued_since(meta: Metadata) -> tuple[float, int] | None:
    """Return the place in line that the object keeps, None without one. None was submitted before it was created."""
    text = (meta.annotations or {}).get(QUEUED_SINCE_ANNOTATION, "")
    if re.fullmatch(_TIME, text) is None:
        return None
    try:
        since = datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
    return max(since, meta.created), SENT_BACK


def turn(
    meta: Metadata,
    spec: Suspendable,
    templates: Sequence[PodTemplate | None],
    ended: bool,
    problem: str,
) -> dict[str, Any]:
    """Return the fields of a `Resumable` whose pods have these templates; ``spec`` says what suspends it."""
    queued = any(one is not None and one.queued for one in templates)
    own_operator = spec.managed_by in (None, "", *OPERATORS)
    kueue = KUEUE_QUEUE_LABEL in (meta.labels or {})
    return {
        "ours": all(one is not None and one.ours for one in templates),
        "suspended": bool(spec.suspend),
        "held_for_placement": held_for_placement(meta, bool(spec.suspend)) and not kueue,
        "queued_since": queued_since(meta),
        "suspendable": not problem and own_operator and suspension_is_ours(meta) and not kueue,
        "finished": ended or meta.deletion_timestamp is not None,
        "version": meta.resource_version,
        "generation": meta.generation,
        "queued": queued or bool((meta.labels or {}).get(QUEUE_LABEL)),
        "created": meta.created,
        "priority_classes": tuple(
            sorted({name for one in templates if one is not None for name in one.priority_classes})
        ),
    }
