"""The objects that determine how large a gang is, reduced to the fields that do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from fluence_extender.model.dependency import Ending
from fluence_extender.model.submission import NOTHING_SAID, Submission

SENT_BACK = -1
"""The number in the place in line of what was sent back: it comes before what was submitted in the same second."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The creator of an object (its annotation ``created-by``), the object's resourceVersion, and its deletion.

    Only the creator is compared, because no size depends on the others.
    """

    by: str = ""
    version: str = field(default="", compare=False)
    deleting: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """What all workloads have in common; ``problem`` is why the object can't be read in full, "" if it can.

    ``submission`` is what its annotations say about its place in the queue. It isn't compared, because no size depends
    on it. ``duration`` is how many seconds each of its pods runs at most, by what is stated on it, None where nothing
    is. ``ends`` is when its activeDeadlineSeconds are over, in seconds since the epoch, None where that isn't known.
    ``size`` is how many bytes of JSON the object has as a whole.
    """

    namespace: str
    name: str
    uid: str
    problem: str = field(default="", kw_only=True)
    duration: float | None = field(default=None, kw_only=True)
    ends: float | None = field(default=None, kw_only=True)
    submission: Submission = field(default=NOTHING_SAID, kw_only=True, compare=False)
    size: int = field(default=0, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class PodGroup(WorkloadObject):
    """A native PodGroup (scheduling.k8s.io, KEP-4671).

    ``min_count`` is None for the basic policy, which states no gang. ``levels`` are the node labels whose value all
    pods must share (spec.schedulingConstraints.topology). ``indivisible``: none of its pods is disrupted without the
    others (spec.disruptionMode). ``priority_class`` is the PriorityClass that it names.
    """

    min_count: int | None
    levels: tuple[str, ...] = ()
    indivisible: bool = False
    priority_class: str = ""
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of a PodGroup of scheduling.x-k8s.io: its phase, and the number of its pods in each phase.

    ``occupied_by`` names the owners of the pods (namespace/name, joined by commas). ``schedule_start`` is the time at
    which the group was first complete (RFC 3339, "" before), and isn't compared.
    """

    phase: str = ""
    occupied_by: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CoschedulingGroup(WorkloadObject):
    """A PodGroup of the coscheduling plugin (scheduling.x-k8s.io).

    ``timeout`` is scheduleTimeoutSeconds, None if it is 0 or unset. ``status`` isn't compared, because no size depends
    on it.
    """

    min_member: int
    timeout: float | None = None
    status: MemberStatus = field(default_factory=MemberStatus, compare=False)
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, slots=True)
class ResumableObject(WorkloadObject):
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

    api_version: ClassVar[str]
    kind: ClassVar[str]

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


BACKOFF_LIMIT = 6
"""How many pods of a Job may fail before the Job fails, by default (batch/v1 JobSpec)."""


@dataclass(frozen=True, slots=True)
class Job(ResumableObject):
    """A batch/v1 Job.

    ``completions`` is None if the Job doesn't set it. ``failed_indexes`` counts the indexes that have failed for
    good; no more pods are created for them. ``labels`` are the labels, with their values, by which flux-k8s reads a
    gang and its size from a Job. ``stated_size`` is the text of a group-size on the Job itself, "" without one.
    ``submits_ray_job`` is true where KubeRay created the Job to submit a RayJob.
    ``unsatisfiable`` is the reason for which the Job's condition says that its pods can't be placed, "" where it
    doesn't. ``remark`` says that its annotation ``duration`` can't be read, "" where it can. No size depends on these
    two, so they aren't compared.

    The fields by which a Job is placed before its pods exist aren't compared, either. ``outcome`` is how it has ended,
    None before.
    ``kueue`` is true where Kueue's label is on it; where the cluster serves Kueue's queues, Kueue resumes it.
    ``succeeded`` counts its pods that have succeeded.
    """

    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"

    parallelism: int
    completions: int | None = None
    indexed: bool = False
    failed_indexes: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    stated_size: str = ""
    submits_ray_job: bool = False
    unsatisfiable: str = field(default="", compare=False)
    remark: str = field(default="", compare=False)
    outcome: Ending | None = field(default=None, compare=False)
    succeeded: int = field(default=0, compare=False)
    kueue: bool = field(default=False, compare=False)

    @property
    def all_at_once(self) -> bool:
        """Whether it has one pod for each completion index, all at the same time."""
        return self.indexed and self.completions == self.parallelism

    @property
    def width(self) -> int:
        """How many pods it creates when it is resumed: as many as its parallelism allows and it still needs."""
        if self.completions is None:
            return self.parallelism
        return max(min(self.parallelism, self.completions - self.failed_indexes - self.succeeded), 0)

    @property
    def pods(self) -> int:
        """How many pods it has at the same time, at least 1."""
        if self.completions is None:
            return max(self.parallelism, 1)
        return max(min(self.parallelism, self.completions - self.failed_indexes), 1)


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One replicated job of a JobSet.

    ``pods`` counts the pods of all its Jobs. ``after`` names the replicated jobs on which it depends. ``leaders``
    counts the pods that are created first where the other pods are created only once the leaders have nodes (exclusive
    placement); it is 0 where all pods are created at once. ``duration`` is how many seconds each of its pods runs at
    most, by what its Jobs will state, None where they state nothing.
    """

    name: str
    pods: int
    after: tuple[str, ...] = ()
    leaders: int = 0
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class JobSetStage:
    """Replicated jobs whose pods can exist at the same time.

    ``name`` is that of the first of them. ``first`` counts the pods that are created at once, and ``later`` those that
    are created once the leaders among the first have nodes. ``leads`` holds the replicated jobs that have leaders.
    """

    name: str
    first: int
    later: int
    leads: frozenset[str]


@dataclass(frozen=True)
class JobSet(WorkloadObject):
    """A jobset.x-k8s.io JobSet. If ``in_order``, each of ``jobs`` is created once the one before it is ready.

    While it is ``suspended``, none of its Jobs may run; it isn't compared, because no size depends on it. Every pod
    asks for its stage, so the stages are computed once for each JobSet. ``made_of`` names the TrainJob of which it was
    made, "" where it wasn't.
    """

    jobs: tuple[ReplicatedJob, ...] = ()
    in_order: bool = False
    suspended: bool = field(default=False, compare=False)
    made_of: str = ""

    @cached_property
    def stages(self) -> Mapping[str, JobSetStage]:
        """The stages by the names of the replicated jobs in them; of two jobs of one name the first counts."""
        together: dict[object, list[ReplicatedJob]] = {}
        for one in self.jobs:
            together.setdefault(one.name if self.in_order else one.after, []).append(one)
        found: dict[str, JobSetStage] = {}
        for some in together.values():
            later = sum(one.pods - one.leaders for one in some if one.leaders)
            first = sum(one.pods for one in some) - later
            stage = JobSetStage(
                some[0].name, first, later, frozenset(one.name for one in some if one.leaders)
            )
            for one in some:
                found.setdefault(one.name, stage)
        return found

    @cached_property
    def ordered(self) -> bool:
        """Whether some of its pods are created later than others."""
        return self.in_order or any(one.after for one in self.jobs)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The pods of each replicated job, by its name; of two jobs of one name the first counts."""
        return {one.name: one.pods for one in reversed(self.jobs)}

    @cached_property
    def durations(self) -> Mapping[str, float]:
        """How long the pods of each replicated job run, by its name, where that is stated."""
        return {one.name: one.duration for one in reversed(self.jobs) if one.duration is not None}


@dataclass(frozen=True, slots=True)
class LeaderWorkerSet(WorkloadObject):
    """A leaderworkerset.x-k8s.io LeaderWorkerSet.

    If ``leader_first``, workers are created once their leader is ready.
    """

    leader_first: bool = False


@dataclass(frozen=True, slots=True)
class MpiJob(ResumableObject):
    """A kubeflow.org MPIJob. If ``launcher_last``, the launcher is created once all workers are ready.

    ``min_available`` comes from its scheduling policy, None if that is unset. ``groups`` are its workers, if it has
    any, and its launcher unless that comes last; they aren't compared.
    """

    api_version: ClassVar[str] = "kubeflow.org/v2beta1"
    kind: ClassVar[str] = "MPIJob"

    workers: int = 0
    launcher_last: bool = False
    min_available: int | None = None
    groups: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class RayCluster(ResumableObject):
    """A ray.io RayCluster; ``pods`` counts its head and workers, and ``gang`` says whether they are one gang.

    ``made_of`` names the RayJob of which it was made, "" where it wasn't.
    ``groups`` are the pods of its head and of each worker group that has any; they aren't compared.
    """

    api_version: ClassVar[str] = "ray.io/v1"
    kind: ClassVar[str] = "RayCluster"

    pods: int = 1
    gang: bool = False
    groups: tuple[int, ...] = field(default=(1,), compare=False)
    made_of: str = ""


@dataclass(frozen=True, slots=True)
class TrainJob(WorkloadObject):
    """A trainer.kubeflow.org TrainJob. The Trainer makes a JobSet of it."""


@dataclass(frozen=True, slots=True)
class RayJob(WorkloadObject):
    """A ray.io RayJob. KubeRay makes a RayCluster of it, which has the name ``cluster`` ("" before it is known)."""

    cluster: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaSet(WorkloadObject):
    """An apps/v1 ReplicaSet.

    ``pods`` is how many pods it has at the same time, at least 1. The ReplicaSets of one Deployment all state the pods
    of the Deployment, because a rollout replaces the pods of one ReplicaSet by those of another.
    """

    pods: int


@dataclass(frozen=True, slots=True)
class StatefulSet(WorkloadObject):
    """An apps/v1 StatefulSet.

    ``pods`` is how many of its ``replicas`` are created without waiting for others, at least 1.
    """

    pods: int
    replicas: int = 1


Resumable = Job | MpiJob | RayCluster
"""The workloads that the service may resume in their turn."""

Workload = (
    PodGroup
    | CoschedulingGroup
    | Job
    | ReplicaSet
    | StatefulSet
    | JobSet
    | LeaderWorkerSet
    | MpiJob
    | RayCluster
    | TrainJob
    | RayJob
)
