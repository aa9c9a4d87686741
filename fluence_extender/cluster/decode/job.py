"""Decode Jobs (batch/v1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime

import msgspec

from fluence_extender.cluster.decode.durations import deadline_over, stated_duration
from fluence_extender.cluster.decode.objects import (
    Conditions,
    Int64,
    Metadata,
    StatusCondition,
    Time,
    tolerant_decoder,
)
from fluence_extender.model.dependency import Ending
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    COSCHEDULING_GROUP,
    DURATION_ANNOTATION,
    FLUX_SIZE,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
    JOB_CONTROLLER,
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SCHEDULER_NAMES,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
    UNSATISFIABLE_CONDITION,
)
from fluence_extender.model.pod_keys import remarks
from fluence_extender.model.submission import NOTHING_SAID, Submission
from fluence_extender.model.workload import SENT_BACK, Job

ORIGIN_LABEL = "ray.io/originated-from-crd"
JOB_SET = ("jobset.x-k8s.io", "JobSet")
LEAVES_SUSPENSION = (JOB_SET, ("batch", "CronJob"))
"""The controllers whose Jobs the service may suspend: they don't resume them, or admission keeps them from it."""

FLUX_K8S_LABELS = (COSCHEDULING_GROUP, FLUX_SIZE)
Indexes = tuple[int, int]
"""A range of completion indexes: the first one and the last one."""

_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
ENDING = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
"""The conditions of a Job that has ended, and those of a Job that ends once its pods are gone."""


class JobSpec(msgspec.Struct, rename="camel"):
    """batch/v1 JobSpec, which a JobSet contains too."""

    parallelism: Int64 | None = None
    completions: Int64 | None = None
    completion_mode: str | None = None
    active_deadline_seconds: Int64 | None = None

    @property
    def width(self) -> int:
        """``parallelism``, which is 1 by default."""
        return 1 if self.parallelism is None else self.parallelism


class _Annotations(msgspec.Struct):
    nodes: str = msgspec.field(name=NODES_ANNOTATION, default="")
    placed_with: str = msgspec.field(name=PLACED_ANNOTATION, default="")
    hold: str | None = msgspec.field(name=HOLD_ANNOTATION, default=None)
    after: str | None = msgspec.field(name=AFTER_ANNOTATION, default=None)

    @property
    def submission(self) -> Submission:
        """What the template says about the Job's place in the queue."""
        return NOTHING_SAID if self.hold is None and self.after is None else Submission(self.hold, self.after)


class _Labels(msgspec.Struct):
    queue: str = msgspec.field(name=QUEUE_LABEL, default="")
    kueue: str | None = msgspec.field(name=KUEUE_QUEUE_LABEL, default=None)


class _TemplateMetadata(msgspec.Struct):
    annotations: _Annotations | None = None
    labels: _Labels | None = None


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


class _FullSpec(JobSpec):
    suspend: bool | None = None
    managed_by: str | None = None
    template: PodTemplate | None = None

    @property
    def ours(self) -> bool:
        return bool(self.template and self.template.ours)

    @property
    def noted(self) -> _Annotations:
        """The annotations of the template."""
        meta = self.template.metadata if self.template else None
        return (meta.annotations if meta else None) or _Annotations()

    @property
    def labels(self) -> _Labels:
        """The labels of the template."""
        meta = self.template.metadata if self.template else None
        return (meta.labels if meta else None) or _Labels()


class _JobStatus(Conditions, rename="camel"):
    start_time: Time | None = None
    failed: Int64 | None = None
    succeeded: Int64 | None = None
    failed_indexes: str | None = None
    completed_indexes: str | None = None


_job = tolerant_decoder("Job", _FullSpec, _JobStatus)


def decode_job(raw: bytes) -> Job:
    """Decode a Job."""
    meta, spec, status, problem = _job(raw)
    labels = meta.labels or {}
    annotations = meta.annotations or {}
    stated = {**labels, **annotations}.get(GROUP_SIZE_ANNOTATION, "")
    deadline = spec.active_deadline_seconds
    failed = read_indexes(status.failed_indexes or "")
    suspended = bool(spec.suspend)
    noted = spec.noted
    return Job(
        *meta.identity,
        parallelism=spec.width,
        completions=spec.completions,
        indexed=spec.completion_mode == "Indexed",
        failed_indexes=sum(last - first + 1 for first, last in failed),
        labels=tuple((key, labels[key]) for key in FLUX_K8S_LABELS if key in labels),
        stated_size=stated,
        submits_ray_job=labels.get(ORIGIN_LABEL) == "RayJob",
        duration=stated_duration(annotations, labels, deadline),
        ends=deadline_over(status.start_time, deadline),
        remark=_remark(annotations),
        unsatisfiable=_unsatisfiable(status.conditions or ()),
        ours=spec.ours,
        suspended=suspended,
        held_for_placement=held_for_placement(meta, suspended),
        nodes=tuple(noted.nodes.partition(";")[0].split(",")) if noted.nodes else (),
        placed_with=noted.placed_with,
        done=merged((*failed, *read_indexes(status.completed_indexes or ""))),
        finished=not status.true.isdisjoint(ENDING) or meta.deletion_timestamp is not None,
        outcome=_outcome(status.true),
        version=meta.resource_version,
        generation=meta.generation,
        submission=meta.submission.over(noted.submission),
        job_set=controller_of(meta, *JOB_SET),
        succeeded=status.succeeded or 0,
        queued=bool(labels.get(QUEUE_LABEL) or labels.get(KUEUE_QUEUE_LABEL) or spec.labels.queue),
        kueue=KUEUE_QUEUE_LABEL in labels,
        created=meta.created,
        suspendable=not problem and _suspendable(meta, spec),
        queued_since=queued_since(meta),
        priority_classes=spec.template.priority_classes if spec.template else (),
        problem=problem,
        size=len(raw),
    )


def _outcome(true: Collection[str]) -> Ending | None:
    """Return how a Job of which these conditions hold has ended, None before all its pods have."""
    if "Complete" in true:
        return Ending.SUCCEEDED
    return Ending.FAILED if "Failed" in true else None


def controller_of(meta: Metadata, group: str, kind: str) -> str:
    """Return the name of the object of that kind that controls this one, "" where none does."""
    owners = (one for one in meta.owner_references or () if one.controller)
    return next(
        (one.name for one in owners if (one.api_version.partition("/")[0], one.kind) == (group, kind)), ""
    )


def held_for_placement(meta: Metadata, suspended: bool) -> bool:
    """Return whether admission suspended the object."""
    return suspended and (meta.annotations or {}).get(SUSPENDED_FOR_ANNOTATION) == SUSPENDED_FOR_PLACEMENT


def _suspendable(meta: Metadata, spec: _FullSpec) -> bool:
    """Return whether its suspension is its user's and the service's alone, and its user hasn't forbidden it.

    A JobSet resumes its Jobs. A policy keeps it from that, and has suspended the Jobs that wait or have a plan.
    """
    held = held_for_placement(meta, bool(spec.suspend)) or bool(spec.noted.nodes)
    return (
        suspension_is_ours(meta, LEAVES_SUSPENSION)
        and (held or not controller_of(meta, *JOB_SET))
        and spec.managed_by in (None, JOB_CONTROLLER)
        and spec.labels.kueue is None
    )


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


def _remark(annotations: Mapping[str, str]) -> str:
    """Return a sentence that says that the Job's duration can't be read, "" where it can."""
    text = annotations.get(DURATION_ANNOTATION)
    return "" if text is None else next(remarks({}, {DURATION_ANNOTATION: text}), "")


def _unsatisfiable(conditions: Iterable[StatusCondition]) -> str:
    told = (one.message for one in conditions if one.type == UNSATISFIABLE_CONDITION and one.status == "True")
    return next(told, "")


def read_indexes(text: str) -> list[Indexes]:
    """Return the ranges of indexes in a Job's status (``1,3-5,7``), in the order written.

    A part of another form names no indexes.
    """
    found = [_RANGE.fullmatch(part) for part in text.split(",")] if text else []
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one]
    return [(first, last) for first, last in ranges if first <= last]


def merged(ranges: Iterable[Indexes]) -> tuple[Indexes, ...]:
    """Return ranges that name the same indexes, each index once, in order, with a gap between any two of them."""
    found: list[Indexes] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)
