"""The objects that say how large a gang is, reduced to what says so."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Making:
    """Who made an object (its annotation ``created-by``), which state of it this is, and whether it is going."""

    by: str = ""
    version: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A native PodGroup (scheduling.k8s.io).

    ``min_count`` is 1 for the basic (not gang) policy; ``levels`` are the node labels of which its pods are to share a
    value (spec.schedulingConstraints.topology). ``making`` isn't compared: no size follows from it.
    """

    namespace: str
    name: str
    uid: str
    min_count: int
    levels: tuple[str, ...] = ()
    making: Making = field(default_factory=Making, compare=False)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of a PodGroup of scheduling.x-k8s.io: its phase and how many pods are in which phase of theirs.

    ``occupied_by`` names the owners of the pods (namespace/name, by commas); ``schedule_start`` is when the group was
    first complete (RFC 3339, "" before), and isn't compared.
    """

    phase: str = ""
    occupied_by: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CoschedulingGroup:
    """A PodGroup of scheduling.x-k8s.io (the coscheduling plugin's).

    ``timeout`` is scheduleTimeoutSeconds, None where it is 0 or unset. Two states of a group that differ in their
    ``status`` or ``making`` only are equal: nothing follows from them.
    """

    namespace: str
    name: str
    uid: str
    min_member: int
    timeout: float | None = None
    status: MemberStatus = field(default_factory=MemberStatus, compare=False)
    making: Making = field(default_factory=Making, compare=False)


BACKOFF_LIMIT = 6
"""How many of its pods may fail before a Job does that says nothing else (batch/v1 JobSpec)."""


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job; ``completions`` is None when the Job doesn't set it.

    ``given_up`` is how many of its indexes have failed for good: nobody is created for them any more; ``labels`` are
    those that name a gang or its size as flux-k8s reads them from a Job, with their values;
    ``submits_ray_job`` says that KubeRay created it to submit a RayJob; ``ends`` is when its activeDeadlineSeconds are
    over, seconds since the epoch, None where that isn't known; ``bears`` is how many more of its pods may be evicted
    before it fails, None for any number (it isn't compared: no size follows from it).
    """

    namespace: str
    name: str
    uid: str
    parallelism: int
    completions: int | None = None
    indexed: bool = False
    given_up: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    submits_ray_job: bool = False
    ends: float | None = None
    bears: int | None = field(default=BACKOFF_LIMIT, compare=False)

    @property
    def pods(self) -> int:
        """How many pods it has at once, at least 1."""
        if self.completions is None:
            return max(self.parallelism, 1)
        return max(min(self.parallelism, self.completions - self.given_up), 1)


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One kind of Jobs of a JobSet: ``pods`` of all its Jobs together; ``after`` names those that come before it.

    ``leaders`` is how many of the pods are created first where the others are only when those have a node (exclusive
    placement), 0 where all are created at once.
    """

    name: str
    pods: int
    after: tuple[str, ...] = ()
    leaders: int = 0


@dataclass(frozen=True, slots=True)
class JobSet:
    """A jobset.x-k8s.io JobSet; ``in_order`` says that each of ``jobs`` is created after the one before it is ready."""

    namespace: str
    name: str
    uid: str
    jobs: tuple[ReplicatedJob, ...] = ()
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class LeaderWorkerSet:
    """A leaderworkerset.x-k8s.io LeaderWorkerSet; ``leader_first``: workers are created when their leader is ready."""

    namespace: str
    name: str
    uid: str
    leader_first: bool = False


@dataclass(frozen=True, slots=True)
class MpiJob:
    """A kubeflow.org MPIJob; ``launcher_last``: the launcher is created when all workers are ready.

    ``min_available`` is what its scheduling policy sets, None where that is unset.
    """

    namespace: str
    name: str
    uid: str
    workers: int = 0
    launcher_last: bool = False
    min_available: int | None = None


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A ray.io RayCluster: the pods of its head and workers, and whether they are to be one gang."""

    namespace: str
    name: str
    uid: str
    pods: int = 1
    gang: bool = False


Workload = PodGroup | CoschedulingGroup | Job | JobSet | LeaderWorkerSet | MpiJob | RayCluster
