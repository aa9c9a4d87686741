"""The pods that a workload will have, as the cluster shows them before they exist.

A Job says how many pods of one shape it will have, and a workload of an operator how many of each shape. So the pods
can be placed before any of them exists. An *expected* pod doesn't exist yet. It is a member of its gang like any other,
with a uid of ours. Which pods are expected follows from the cluster alone, so a restart expects the same ones:

* All pods of a Job that admission has suspended until they are placed, unless the Job's JobSet is suspended.
* Of a Job that was resumed with a plan: the indexes that have no pod and aren't done. Each is steered to the node that
  the plan gives its index, and keeps its place until the Job controller has created its pod.
* Of a workload that was resumed without a plan: those that were expected before, until they are created. Nothing in
  the cluster records them. So after a restart, the pods of such a workload wait in line like any others.
* None of any other workload.

A Job can have a plan only if it runs one pod for each index at the same time, all of them are one gang, and the service
binds such pods itself. The plan names the node of each index. A pod of a Job with a plan takes over the place of its
index. Any other pod takes over an expected pod of its role, preferably one that has a place. An expected pod that isn't
created in time has *lapsed*: its place is given back.

Invariant: no index has an expected pod while it has a real one that holds a place or has succeeded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter

from fluence_extender.gangs.membership.gang import foreign_gates
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.coordination import ROLE_ANNOTATION
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    COMPLETION_INDEX,
    GATE,
    PLACED_ANNOTATION,
    RAY_GROUP,
    TRAINING_ROLE,
)
from fluence_extender.model.pod import Pod

WRITTEN_LATER = (ALLOCATION_ANNOTATION, PLACED_ANNOTATION)
"""The annotations that a pod gets when it waits or is placed."""

ROLES = (RAY_GROUP, TRAINING_ROLE)
"""The labels by which operators distinguish pods of different shapes."""


def completion_index(pod: Pod) -> tuple[str, int] | None:
    """Return the uid of the Job that controls the pod and the pod's completion index, None without both."""
    if pod.owner is None or not pod.owner.is_a("Job", "batch"):
        return None
    text = pod.annotations.get(COMPLETION_INDEX, "")
    return (pod.owner.uid, int(text)) if re.fullmatch("[0-9]{1,9}", text) else None


def role(pod: Pod) -> tuple[str, ...]:
    """Return the role of the pod in its workload; pods of one role have one shape."""
    return tuple(pod.labels.get(key, "") for key in ROLES)


def unsuited(pod: Pod) -> str:
    """Return why a workload with such pods can't wait before they exist, "" if it can.

    A gate of another controller is one reason: that controller removes it only from a pod that exists.
    """
    if pod.problem:
        return pod.problem
    if gates := foreign_gates(pod):
        return f"its pods have scheduling gates of others: {', '.join(gates)}"
    if ROLE_ANNOTATION in pod.annotations:
        return "its pods have different roles in a quantum job"
    return ""


def shape(pod: Pod) -> Pod:
    """Return what all pods of a Job have in common, given one that exists or that a dry run has returned."""
    kept = {
        key: value
        for key, value in pod.annotations.items()
        if key not in WRITTEN_LATER and not describes_backend(key)
    }
    return replace(
        pod,
        annotations=kept,
        node="",
        nominated="",
        phase="Pending",
        deleting=False,
        gates=() if pod.direct else (GATE,),
        refusal="",
        failure="",
        asks_since=0.0,
        started=0.0,
        rejection="",
        ready=False,
        expected=True,
    )


@dataclass(slots=True)
class JobPods:
    """A workload that is to be placed, or was placed, before its pods exist.

    Values: ``shapes`` are what its pods of each group have in common, empty while that isn't known. ``expected`` are
    its pods that don't exist, by index: those of the first group, then those of the next. ``refused`` is why its pods
    can't be known beforehand, "" if they can. If ``each_alone``, each of its pods is a gang by itself. ``lapsed`` are
    the indexes whose expected pods weren't created in time. ``counted`` is how many of its pods are expected or will
    be.

    Times, on the controller's clock: ``since`` is when it was seen resumed, or when the last of its pods appeared.
    Until ``binds_until``, the API server may bind its pods by its plan; 0 if it doesn't. At ``look_at``, the next check
    is due whether its expected pods have lapsed.

    States: if ``asked``, the API server is being asked for the shapes. If ``written``, the workload is being resumed.
    If ``ended``, it has ended or is gone, or its user has resumed it.

    Where a method takes ``pods``, these are its pods that exist.
    """

    job: Resumable
    workloads: WorkloadIndex
    shapes: tuple[Pod, ...] = ()
    expected: dict[int, Pod] = field(default_factory=dict)
    asked: bool = False
    refused: str = ""
    written: bool = False
    since: float = 0.0
    binds_until: float = 0.0
    ended: bool = False
    look_at: float = 0.0
    each_alone: bool = False
    lapsed: frozenset[int] = frozenset()
    counted: int = 0

    @property
    def planned(self) -> bool:
        """Whether it is resumed with a plan, which gives its pods their nodes by their indexes."""
        job = self.job
        return isinstance(job, Job) and (bool(job.nodes) or (job.all_at_once and not self.each_alone))

    @property
    def indexes(self) -> int:
        """How many of its pods can be expected."""
        job = self.job
        return (job.completions or job.parallelism) if isinstance(job, Job) and self.planned else job.width

    @property
    def waits(self) -> bool:
        """Whether the workload is suspended until its pods are placed, and they can be."""
        return self.job.held_for_placement and self.indexes > 0 and not self.refused and not self.paused

    @property
    def paused(self) -> bool:
        """Whether it is a Job of a suspended JobSet."""
        job = self.job
        job_set = self.workloads.find(JobSet, job.namespace, job.job_set) if job.job_set else None
        return job_set is not None and job_set.suspended

    @property
    def age(self) -> tuple[float, int]:
        """Since when it has been in line, as in `Gang.created`."""
        return self.job.queued_since or (self.job.created, self.workloads.first_seen(self.job))

    @property
    def expects_no_more(self) -> bool:
        """Whether it was resumed without a plan, and none of its pods is expected now."""
        return not (self.planned or self.job.suspended or self.expected)

    @property
    def takes_any(self) -> bool:
        """Whether its expected pods are taken over by pods of any index, because it is resumed without a plan."""
        return not self.planned and (self.written or not self.job.suspended)

    def missing(self, pods: Sequence[Pod]) -> dict[int, str]:
        """Return the indexes whose pods are to be expected, each with its node, "" before it is planned."""
        job, living = self.job, [pod for pod in pods if not pod.finished]
        if self.takes_any:
            return {index: "" for index in self.expected if index not in self.lapsed}
        if self.waits:
            # The API server accepts no change of a Job's template while pods of an earlier run still exist.
            if any(isinstance(job, Job) or not pod.deleting for pod in living):
                return {}
            indexes, most = [(index, "") for index in range(self.indexes)], self.indexes
        elif job.suspended or not isinstance(job, Job):
            return {}
        else:
            planned = enumerate(job.nodes[: job.completions])
            indexes = [(index, node) for index, node in planned if node and index not in self.lapsed]
            # The Job controller has no more living pods than the Job's parallelism.
            most = max(job.parallelism - len(living), 0)
        if not self.planned:
            return dict(indexes)
        taken = {completion_index(pod) for pod in pods if pod.phase != "Failed"}
        free = ((index, node) for index, node in indexes if not self._is_taken(index, taken))
        return dict(islice(free, most))

    def _is_taken(self, index: int, taken: Container[tuple[str, int] | None]) -> bool:
        """Return whether the index is done, or has a pod that hasn't failed."""
        at = bisect_right(self.job.done, index, key=itemgetter(0)) - 1
        return (at >= 0 and index <= self.job.done[at][1]) or (self.job.uid, index) in taken

    def take_shapes(self, pods: Sequence[Pod]) -> None:
        """Take the shapes of its pods from those that a dry run has returned, one of each group."""
        self.refused = next(filter(None, map(unsuited, pods)), "")
        self._set_shapes(pods)

    def ensure_shapes(self, pods: Sequence[Pod]) -> bool:
        """Take the shape of a Job's pods from one that exists if need be; return whether the shapes are known."""
        if not self.shapes and isinstance(self.job, Job):
            readable = (pod for pod in pods if not pod.problem)
            self._set_shapes(sorted(readable, key=lambda pod: pod.uid)[:1])
        return bool(self.shapes)

    def _set_shapes(self, pods: Iterable[Pod]) -> None:
        """Set the shapes, and find out whether its pods are one gang and whether it can wait before they exist."""
        self.shapes = tuple(map(shape, pods))
        if not self.shapes:
            return
        self.each_alone = self.workloads.membership(self.pod(0, "")).key.convention is Convention.ALONE
        if self.each_alone and not (self.job.queued or self.job.queued_since):
            self.refused = "its pods are gangs by themselves"
        elif self.planned and not self.shapes[0].direct:
            self.refused = self.refused or "kube-scheduler judges its pods by more than their node"

    def needs_looks(self, pods: Sequence[Pod]) -> bool:
        """Return whether it may need an action without a new observation."""
        if self.job.suspended:
            return self.job.held_for_placement and not (self.waits and self.shapes)
        return bool(self.expected or self.missing(pods))

    def pod(self, index: int, node: str) -> Pod:
        """Return the expected pod of that index, steered to ``node`` where there is one."""
        job, shape_of_group = self.job, self._shape(index)
        numbered = {COMPLETION_INDEX: str(index)} if isinstance(job, Job) and job.indexed else {}
        labels = shape_of_group.labels
        record = {PLACED_ANNOTATION: job.placed_with} if node else {}
        return replace(
            shape_of_group,
            name=f"{job.name}-{index}",
            uid=f"{job.uid}/{index}",
            labels={**labels, **numbered} if COMPLETION_INDEX in labels else labels,
            annotations={**shape_of_group.annotations, **numbered, **record},
            nominated=node,
            resource_version=str(self.workloads.first_seen(job)),
        )

    def _shape(self, index: int) -> Pod:
        """Return the shape of the group to which the expected pod of that index belongs."""
        for pods, shape_of_group in zip(self.job.groups, self.shapes, strict=False):
            if index < pods:
                return shape_of_group
            index -= pods
        return self.shapes[-1]
