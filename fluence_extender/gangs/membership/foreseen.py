"""The pods that a workload will have, as the cluster shows them before they exist.

A Job says how many pods of one shape it will have, and a workload of an operator how many of each shape. So the pods
can be placed before any of them exists. A *foreseen* pod doesn't exist yet. It is a member of its gang like any other,
with a uid of ours. Which pods are foreseen follows from the cluster alone, so a restart foresees the same ones:

* All pods of a Job that admission has suspended until they are placed, unless the Job's JobSet is suspended.
* Of a Job that was resumed with a plan: the indexes that have no pod and aren't done. Each is confined to the node that
  the plan gives its index, and keeps its share of it until the Job controller has created its pod.
* None of any other Job: its pods wait at the gate.

Pods can be *pinned* only if their Job runs one pod for each index at the same time, and they are one gang. The plan
names the node of each index. Any other workload that waits for its turn is resumed without a plan, and the pods that it
creates first are foreseen. Once it is resumed, these are *claims*: each of the workload's pods takes over a claim of
its role, preferably one that has a place. A claim without a place stands in line for a pod that isn't created yet.
Claims exist in memory only. After a restart such a pod waits in line like any other.

Invariant: no index has a foreseen pod while it has a real one that holds a place or has succeeded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter

from fluence_extender.gangs.lifecycle.pins import pinning, unpinned
from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.coordination import ROLE_ANNOTATION
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    COMPLETION_INDEX,
    GATE,
    MARK_RESOURCE,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
    RAY_GROUP,
    TRAINING_ROLE,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, Resumable

WRITTEN_LATER = (ALLOCATION_ANNOTATION, PINNED_ANNOTATION, PLACED_ANNOTATION)
"""The annotations that a pod gets when it waits or is placed."""


ROLES = (RAY_GROUP, TRAINING_ROLE)
"""The labels by which operators tell pods of different shapes apart."""

ANY_INDEX = -1
"""The number used as the completion index of a pod that has none."""


def job_of(pod: Pod) -> tuple[str, int] | None:
    """Return the uid of the Job that controls the pod, and the pod's index; None if no Job does."""
    if pod.owner is None or not pod.owner.is_a("Job", "batch"):
        return None
    return completion_index(pod) or (pod.owner.uid, ANY_INDEX)


def completion_index(pod: Pod) -> tuple[str, int] | None:
    """Return the uid of the Job that controls the pod and the pod's completion index, None without both."""
    if pod.owner is None or not pod.owner.is_a("Job", "batch"):
        return None
    text = pod.annotations.get(COMPLETION_INDEX, "")
    return (pod.owner.uid, int(text)) if re.fullmatch("[0-9]{1,9}", text) else None


def role(pod: Pod) -> tuple[str, ...]:
    """Return which part the pod has in its workload; pods of one role have one shape."""
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


def unpinnable(pod: Pod) -> str:
    """Return why such pods can't be pinned to nodes when they are created, "" if they can."""
    if pod.devices and not pod.marked:
        return f"another client adds devices to its pods without {MARK_RESOURCE}"
    if pod.interdependent or pod.host_ports:
        return "kube-scheduler judges its pods by more than their node"
    return ""


def shape(pod: Pod) -> Pod:
    """Return what all pods of a Job have in common, given one that exists or that a dry run has returned."""
    kept = {
        key: value
        for key, value in pod.annotations.items()
        if key not in WRITTEN_LATER and not describes_backend(key)
    }
    return replace(
        unpinned(pod),
        annotations=kept,
        node="",
        nominated="",
        phase="Pending",
        deleting=False,
        gates=(GATE,),
        refusal="",
        failure="",
        asks_since=0.0,
        started=0.0,
        rejection="",
        ready=False,
        has_managed_fields=False,
        foreseen=True,
    )


@dataclass(slots=True)
class JobPods:
    """A workload that is to be placed, or was placed, before its pods exist.

    Values: ``shapes`` are what its pods of each group have in common, empty while that isn't known. ``foreseen`` are
    its pods that don't exist, by index: those of the first group, then those of the next. ``pods`` are a Job's real
    pods by index and uid. ``refused`` is why its pods can't be foreseen. ``held`` is how often it was suspended again.
    ``born`` is when it was seen resumed, or when the last of its pods appeared. ``look_at`` is when to check next
    whether it has lost a place; both are on the controller's clock. ``claims`` are the indexes of its claims.
    ``counted`` is how many of its pods are foreseen or will be.

    States: if ``asked``, the API server is being asked for the shapes. If ``written``, the workload is being resumed
    without a plan, or suspended again. If ``over``, it has ended or is gone, or its user has resumed it. If ``paused``,
    it belongs to a suspended JobSet. ``leaving`` is why it is to be suspended again, until the watch shows it so.
    If ``judged``, ``apart`` and ``refused`` follow from the present shapes. If ``apart``, each of its pods is a gang by
    itself.
    """

    job: Resumable
    workloads: WorkloadIndex
    pods: Mapping[int, Mapping[str, Pod]]
    shapes: tuple[Pod, ...] = ()
    foreseen: dict[int, Pod] = field(default_factory=dict)
    asked: bool = False
    refused: str = ""
    written: bool = False
    held: int = 0
    born: float = 0.0
    over: bool = False
    paused: bool = False
    leaving: str = ""
    look_at: float = 0.0
    judged: bool = False
    apart: bool = False
    claims: frozenset[int] = frozenset()
    counted: int = 0

    @property
    def pinned(self) -> bool:
        """Whether its pods get their nodes when they are created, by their indexes."""
        job = self.job
        return isinstance(job, Job) and (
            bool(job.nodes) or (job.all_at_once and job.placeable and not self.apart)
        )

    @property
    def indexes(self) -> int:
        """How many of its pods can be foreseen."""
        job = self.job
        return (job.completions or job.parallelism) if isinstance(job, Job) and self.pinned else job.width

    @property
    def waits(self) -> bool:
        """Whether the workload is suspended until its pods are placed, and they can be."""
        return self.job.held_for_placement and self.indexes > 0 and not self.refused and not self.paused

    @property
    def age(self) -> tuple[float, int]:
        """Since when it stands in line, as for `Gang.created`."""
        return self.job.queued_since or (self.job.created, self.workloads.first_seen(self.job))

    @property
    def spent(self) -> bool:
        """Whether it was resumed without a plan, and none of its foreseen pods is a claim any more."""
        return not (self.pinned or self.job.suspended or self.claims)

    def missing(self) -> dict[int, str]:
        """Return the indexes whose pods are to be foreseen, each with its node, "" before it is planned."""
        job = self.job
        if not self.pinned and (self.claims or self.written):
            return {index: "" for index in self.foreseen if self.written or index in self.claims}
        if self.waits:
            # The API server lets nobody change the template while pods from before still exist.
            if any(not pod.finished for some in self.pods.values() for pod in some.values()):
                return {}
            return {index: "" for index in range(self.indexes) if not (self.pinned and self._taken(index))}
        if job.suspended or not isinstance(job, Job):
            return {}
        planned = ((index, node) for index, node in enumerate(job.nodes[: job.completions]) if node)
        missing = ((index, node) for index, node in planned if not self._taken(index))
        return dict(islice(missing, max(job.parallelism - self._alive(), 0)))

    def _alive(self) -> int:
        """Return how many of its pods haven't ended. The Job controller has no more than its parallelism."""
        return sum(not pod.finished for some in self.pods.values() for pod in some.values())

    def pending(self) -> list[str]:
        """Return the uids of its pods that have no node yet, real and foreseen ones."""
        real = (pod for some in self.pods.values() for pod in some.values())
        waiting = [pod.uid for pod in real if not (pod.node or pod.deleting or pod.finished)]
        return waiting + [pod.uid for pod in self.foreseen.values()]

    def shaped(self) -> bool:
        """Return whether the shape of its pods is known. If need be, take it from an existing pod; judge new shapes."""
        if not self.shapes:
            pods = (pod for some in self.pods.values() for pod in some.values() if not pod.problem)
            self.shapes = tuple(shape(pod) for pod in islice(pods, 1))
        if self.shapes and not self.judged:
            self._judge()
        return bool(self.shapes)

    def _judge(self) -> None:
        """Find out whether its pods make one gang, and whether it can wait without them."""
        self.judged = True
        probe = self.pod(0, "")
        self.apart = self.workloads.membership(probe).key.convention is Convention.ALONE
        self.workloads.forget(probe.uid)
        if self.apart and not (self.job.queued or self.job.queued_since):
            self.refused = "its pods are gangs by themselves"
        elif self.pinned:
            self.refused = self.refused or unpinnable(self.shapes[0])

    def unsettled(self) -> bool:
        """Return whether it may need an action without a new observation."""
        if self.leaving:
            return True
        if self.job.suspended:
            return self.job.held_for_placement and not (self.waits and self.shapes)
        return bool(self.foreseen or self.pending() or self.missing())

    def _taken(self, index: int) -> bool:
        """Return whether the index has a pod that holds a place or has succeeded, or needs none any more."""
        at = bisect_right(self.job.done, index, key=itemgetter(0)) - 1
        if at >= 0 and index <= self.job.done[at][1]:
            return True
        pods = self.pods.get(index)
        return pods is not None and any(pod.phase != "Failed" for pod in pods.values())

    def pod(self, index: int, node: str) -> Pod:
        """Return the foreseen pod of that index, confined to ``node`` where there is one."""
        job, common = self.job, self._shape(index)
        numbered = {COMPLETION_INDEX: str(index)} if isinstance(job, Job) and job.indexed else {}
        labels = common.labels
        pod = replace(
            common,
            name=f"{job.name}-{index}",
            uid=f"{job.uid}/{index}",
            labels={**labels, **numbered} if COMPLETION_INDEX in labels else labels,
            annotations={**common.annotations, **numbered},
            resource_version=str(self.workloads.first_seen(job)),
        )
        return replace(self.recorded(pod, node), gates=(), affinity=pinning(pod, node, ())) if node else pod

    def _shape(self, index: int) -> Pod:
        """Return the shape of the group to which the foreseen pod of that index belongs."""
        for pods, common in zip(self.job.groups, self.shapes, strict=False):
            if index < pods:
                return common
            index -= pods
        return self.shapes[-1]

    def recorded(self, pod: Pod, node: str) -> Pod:
        """Return the pod with what the Job's template records for it: its node, and with which gang it was placed."""
        record = {PINNED_ANNOTATION: node, PLACED_ANNOTATION: self.job.placed_with}
        return replace(pod, annotations={**record, **pod.annotations})

    def planned_node(self, index: int) -> str:
        """Return the node that the plan gives the index, "" for none."""
        return self.job.nodes[index] if index < len(self.job.nodes) else ""
