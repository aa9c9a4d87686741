"""From the API server's JSON to the objects that say how large gangs are.

Read are the fields that say so and no others. Sources: the APIs batch/v1, scheduling.k8s.io (KEP-4671),
scheduling.x-k8s.io/v1alpha1 (scheduler-plugins), jobset.x-k8s.io/v1alpha2, leaderworkerset.x-k8s.io/v1,
kubeflow.org/v2beta1 (MPI Operator), ray.io/v1 (KubeRay).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog

from fluence_extender.cluster.wire import Metadata
from fluence_extender.model.names import COSCHEDULING_GROUP, CREATED_BY_ANNOTATION, FLUX_SIZE
from fluence_extender.model.workload import (
    BACKOFF_LIMIT,
    CoschedulingGroup,
    Job,
    JobSet,
    LeaderWorkerSet,
    MemberStatus,
    MpiJob,
    PodGroup,
    Provenance,
    RayCluster,
    ReplicatedJob,
)

log = structlog.get_logger(__name__)

GANG_LABEL = "ray.io/gang-scheduling-enabled"
ORIGIN_LABEL = "ray.io/originated-from-crd"
FLUX_K8S_LABELS = (COSCHEDULING_GROUP, FLUX_SIZE)
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
NO_LIMIT = 2**31 - 1


class _PodCondition(msgspec.Struct):
    type: str = ""
    status: str = "True"


class _FailureRule(msgspec.Struct, rename="camel"):
    action: str = ""
    on_pod_conditions: list[_PodCondition] | None = None


class _FailurePolicy(msgspec.Struct):
    rules: list[_FailureRule] | None = None


class _Job(msgspec.Struct, rename="camel"):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _FailurePolicy | None = None


class _JobStatus(msgspec.Struct, rename="camel"):
    start_time: datetime | None = None
    failed: int | None = None
    failed_indexes: str | None = None


class _JobObject(msgspec.Struct):
    metadata: Metadata
    spec: _Job | None = None
    status: _JobStatus | None = None


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _TopologyConstraint(msgspec.Struct):
    key: str = ""


class _Constraints(msgspec.Struct):
    topology: list[_TopologyConstraint] | None = None


class _PodGroup(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: _Constraints | None = None


class _PodGroupObject(msgspec.Struct):
    metadata: Metadata
    spec: _PodGroup | None = None


class _Coscheduling(msgspec.Struct, rename="camel"):
    min_member: int | None = None
    schedule_timeout_seconds: int | None = None


class _CoschedulingStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    occupied_by: str | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    schedule_start_time: str | None = None


class _CoschedulingObject(msgspec.Struct):
    metadata: Metadata
    spec: _Coscheduling | None = None
    status: _CoschedulingStatus | None = None


class _JobTemplate(msgspec.Struct):
    metadata: Metadata | None = None
    spec: _Job | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _ReplicatedJob(msgspec.Struct, rename="camel"):
    name: str = ""
    replicas: int | None = None
    template: _JobTemplate | None = None
    depends_on: list[_Named] | None = None


class _StartupPolicy(msgspec.Struct, rename="camel"):
    startup_policy_order: str | None = None


class _JobSet(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] | None = None
    startup_policy: _StartupPolicy | None = None


class _JobSetObject(msgspec.Struct):
    metadata: Metadata
    spec: _JobSet | None = None


class _LeaderWorkerSet(msgspec.Struct, rename="camel"):
    startup_policy: str | None = None


class _LeaderWorkerSetObject(msgspec.Struct):
    metadata: Metadata
    spec: _LeaderWorkerSet | None = None


class _Replicas(msgspec.Struct):
    replicas: int | None = None


class _SchedulingPolicy(msgspec.Struct, rename="camel"):
    min_available: int | None = None


class _RunPolicy(msgspec.Struct, rename="camel"):
    scheduling_policy: _SchedulingPolicy | None = None


class _MpiJob(msgspec.Struct, rename="camel"):
    launcher_creation_policy: str | None = None
    mpi_replica_specs: dict[str, _Replicas | None] | None = None
    run_policy: _RunPolicy | None = None


class _MpiJobObject(msgspec.Struct):
    metadata: Metadata
    spec: _MpiJob | None = None


class _WorkerGroup(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None


class _RayCluster(msgspec.Struct, rename="camel"):
    worker_group_specs: list[_WorkerGroup] | None = None


class _RayClusterObject(msgspec.Struct):
    metadata: Metadata
    spec: _RayCluster | None = None


class _Object(msgspec.Struct):
    metadata: Metadata


Decoded = TypeVar("Decoded", bound=msgspec.Struct)
_identified = msgspec.json.Decoder(_Object).decode


def _decoder(kind: type[Decoded]) -> Callable[[bytes], Decoded]:
    """Decodes one kind; of an object with a field that isn't of its type the identity is left, and defaults."""
    decode = msgspec.json.Decoder(kind).decode

    def tolerant(raw: bytes) -> Decoded:
        try:
            return decode(raw)
        except msgspec.ValidationError as error:
            meta = _identified(raw).metadata
            log.warning("an object can't be read", object=f"{meta.namespace}/{meta.name}", problem=str(error))
            return kind(metadata=meta)

    return tolerant


_job = _decoder(_JobObject)
_pod_group = _decoder(_PodGroupObject)
_coscheduling = _decoder(_CoschedulingObject)
_job_set = _decoder(_JobSetObject)
_leader_worker_set = _decoder(_LeaderWorkerSetObject)
_mpi_job = _decoder(_MpiJobObject)
_ray_cluster = _decoder(_RayClusterObject)


def _identity(meta: Metadata) -> tuple[str, str, str]:
    return meta.namespace, meta.name, meta.uid


def _making(meta: Metadata) -> Provenance:
    by = (meta.annotations or {}).get(CREATED_BY_ANNOTATION, "")
    return Provenance(by, meta.resource_version, meta.deletion_timestamp is not None)


def decode_job(raw: bytes) -> Job:
    """A batch/v1 Job."""
    decoded = _job(raw)
    spec = decoded.spec or _Job()
    labels = decoded.metadata.labels or {}
    started = decoded.status.start_time if decoded.status else None
    deadline = spec.active_deadline_seconds
    return Job(
        *_identity(decoded.metadata),
        parallelism=_parallelism(spec),
        completions=spec.completions,
        indexed=spec.completion_mode == "Indexed",
        failed_indexes=_indexes((decoded.status and decoded.status.failed_indexes) or ""),
        labels=tuple((key, labels[key]) for key in FLUX_K8S_LABELS if key in labels),
        submits_ray_job=labels.get(ORIGIN_LABEL) == "RayJob",
        ends=started.timestamp() + deadline if started and deadline else None,
        evictions_left=_bears(spec, (decoded.status and decoded.status.failed) or 0),
    )


def _indexes(text: str) -> int:
    """How many indexes a Job's status names, as ``1,3-5,7``; what isn't written so names none."""
    found = [re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part) for part in text.split(",")]
    return sum(int(one[2] or one[1]) - int(one[1]) + 1 for one in found if one)


def _bears(spec: _Job, failed: int) -> int | None:
    """How many more evictions the Job bears; where an index has a limit of its own, as if all were of one."""
    rules = (spec.pod_failure_policy and spec.pod_failure_policy.rules) or ()
    evicted = (rule.action for rule in rules if any(map(_of_disruption, rule.on_pod_conditions or ())))
    action = next(evicted, "Count")
    if action == "Ignore":
        return None
    if action != "Count":
        return 0
    limit = BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    if spec.backoff_limit_per_index is not None:
        limit = min(limit, spec.backoff_limit_per_index)
    return max(limit - failed, 0)


def _of_disruption(condition: _PodCondition) -> bool:
    """Whether a rule of a podFailurePolicy is about pods that were evicted: the first such rule counts."""
    return condition.type == "DisruptionTarget" and condition.status == "True"


def _parallelism(spec: _Job) -> int:
    """``parallelism`` defaults to 1, as the API says."""
    return 1 if spec.parallelism is None else spec.parallelism


def decode_pod_group(raw: bytes) -> PodGroup:
    """A scheduling.k8s.io PodGroup of any version from v1alpha2 on; the basic policy counts as 1."""
    decoded = _pod_group(raw)
    policy = decoded.spec.scheduling_policy if decoded.spec else None
    gang = policy.gang if policy else None
    constraints = decoded.spec.scheduling_constraints if decoded.spec else None
    levels = tuple(one.key for one in (constraints.topology if constraints else None) or () if one.key)
    min_count = (gang.min_count if gang else None) or 1
    return PodGroup(
        *_identity(decoded.metadata), min_count=min_count, levels=levels, provenance=_making(decoded.metadata)
    )


def decode_coscheduling_group(raw: bytes) -> CoschedulingGroup:
    """A scheduling.x-k8s.io PodGroup; ``minMember`` is at least 1, a timeout of 0 is none."""
    decoded = _coscheduling(raw)
    spec, status = decoded.spec or _Coscheduling(), decoded.status or _CoschedulingStatus()
    return CoschedulingGroup(
        *_identity(decoded.metadata),
        min_member=max(spec.min_member or 1, 1),
        timeout=float(spec.schedule_timeout_seconds or 0) or None,
        status=MemberStatus(
            status.phase or "",
            status.occupied_by or "",
            status.running or 0,
            status.succeeded or 0,
            status.failed or 0,
            status.schedule_start_time or "",
        ),
        provenance=_making(decoded.metadata),
    )


def decode_job_set(raw: bytes) -> JobSet:
    """A jobset.x-k8s.io JobSet."""
    decoded = _job_set(raw)
    spec = decoded.spec or _JobSet()
    order = spec.startup_policy.startup_policy_order if spec.startup_policy else None
    leads = _leads(decoded.metadata)
    jobs = tuple(_replicated(one, leads) for one in spec.replicated_jobs or ())
    return JobSet(*_identity(decoded.metadata), jobs=jobs, in_order=order == "InOrder")


def _replicated(one: _ReplicatedJob, leads: bool) -> ReplicatedJob:
    template = one.template or _JobTemplate()
    spec = template.spec or _Job()
    each = _parallelism(spec) if spec.completions is None else min(_parallelism(spec), spec.completions)
    replicas = 1 if one.replicas is None else one.replicas
    led = leads or (template.metadata is not None and _leads(template.metadata))
    leaders = replicas if led and each > 1 and spec.completion_mode != "NonIndexed" else 0
    after = tuple(other.name for other in one.depends_on or ())
    return ReplicatedJob(one.name, replicas * each, after, leaders)


def _leads(meta: Metadata) -> bool:
    """Whether pods wait for the first of their Job to have a node (JobSet: exclusive placement by its webhook)."""
    notes: Mapping[str, str] = meta.annotations or {}
    return EXCLUSIVE in notes and NODE_SELECTOR not in notes


def decode_leader_worker_set(raw: bytes) -> LeaderWorkerSet:
    """A leaderworkerset.x-k8s.io LeaderWorkerSet."""
    decoded = _leader_worker_set(raw)
    policy = decoded.spec.startup_policy if decoded.spec else None
    return LeaderWorkerSet(*_identity(decoded.metadata), leader_first=policy == "LeaderReady")


def decode_mpi_job(raw: bytes) -> MpiJob:
    """A kubeflow.org/v2beta1 MPIJob."""
    decoded = _mpi_job(raw)
    spec = decoded.spec or _MpiJob()
    workers = (spec.mpi_replica_specs or {}).get("Worker") or _Replicas()
    policy = spec.run_policy.scheduling_policy if spec.run_policy else None
    return MpiJob(
        *_identity(decoded.metadata),
        workers=workers.replicas or 0,
        launcher_last=spec.launcher_creation_policy == "WaitForWorkersReady",
        min_available=policy.min_available if policy else None,
    )


def decode_ray_cluster(raw: bytes) -> RayCluster:
    """A ray.io RayCluster: one head, and of each worker group what is asked for within its bounds."""
    decoded = _ray_cluster(raw)
    groups = (decoded.spec.worker_group_specs if decoded.spec else None) or ()
    gang = GANG_LABEL in (decoded.metadata.labels or {})
    return RayCluster(*_identity(decoded.metadata), pods=1 + sum(map(_workers, groups)), gang=gang)


def _workers(group: _WorkerGroup) -> int:
    if group.suspend:
        return 0
    least, most = group.min_replicas or 0, NO_LIMIT if group.max_replicas is None else group.max_replicas
    wanted = least if group.replicas is None else min(max(group.replicas, least), most)
    return wanted * (1 if group.num_of_hosts is None else group.num_of_hosts)
