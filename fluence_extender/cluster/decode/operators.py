"""Decode the workloads of operators, reduced to what determines the size of their gangs.

Sources: the APIs jobset.x-k8s.io/v1alpha2, leaderworkerset.x-k8s.io/v1, kubeflow.org/v2beta1 (MPI Operator) and
ray.io/v1 (KubeRay).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fluence_extender.cluster.decode.job import JobSpec
from fluence_extender.cluster.decode.objects import Int64, Metadata, Unread, tolerant_decoder
from fluence_extender.model.workload import JobSet, LeaderWorkerSet, MpiJob, RayCluster, ReplicatedJob

GANG_LABEL = "ray.io/gang-scheduling-enabled"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
NO_LIMIT = 2**31 - 1


class _JobTemplate(msgspec.Struct):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _ReplicatedJob(msgspec.Struct, rename="camel"):
    name: str = ""
    replicas: Int64 | None = None
    template: _JobTemplate | None = None
    depends_on: list[_Named] | None = None


class _StartupPolicy(msgspec.Struct, rename="camel"):
    startup_policy_order: str | None = None


class _JobSet(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] | None = None
    startup_policy: _StartupPolicy | None = None
    suspend: bool | None = None


class _LeaderWorkerSet(msgspec.Struct, rename="camel"):
    startup_policy: str | None = None


class _Replicas(msgspec.Struct):
    replicas: Int64 | None = None


class _SchedulingPolicy(msgspec.Struct, rename="camel"):
    min_available: Int64 | None = None


class _RunPolicy(msgspec.Struct, rename="camel"):
    scheduling_policy: _SchedulingPolicy | None = None


class _MpiJob(msgspec.Struct, rename="camel"):
    launcher_creation_policy: str | None = None
    mpi_replica_specs: dict[str, _Replicas | None] | None = None
    run_policy: _RunPolicy | None = None


class _WorkerGroup(msgspec.Struct, rename="camel"):
    replicas: Int64 | None = None
    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    num_of_hosts: Int64 | None = None
    suspend: bool | None = None


class _RayCluster(msgspec.Struct, rename="camel"):
    worker_group_specs: list[_WorkerGroup] | None = None


_job_set = tolerant_decoder("JobSet", _JobSet, Unread)
_leader_worker_set = tolerant_decoder("LeaderWorkerSet", _LeaderWorkerSet, Unread)
_mpi_job = tolerant_decoder("MPIJob", _MpiJob, Unread)
_ray_cluster = tolerant_decoder("RayCluster", _RayCluster, Unread)


def decode_job_set(raw: bytes) -> JobSet:
    """Decode a JobSet."""
    meta, spec, _, problem = _job_set(raw)
    order = spec.startup_policy.startup_policy_order if spec.startup_policy else None
    exclusive = _is_exclusive(meta)
    jobs = tuple(_replicated(one, exclusive) for one in spec.replicated_jobs or ())
    return JobSet(
        *meta.identity,
        jobs=jobs,
        in_order=order == "InOrder",
        suspended=bool(spec.suspend),
        submission=meta.submission,
        problem=problem,
    )


def _replicated(one: _ReplicatedJob, exclusive: bool) -> ReplicatedJob:
    template = one.template or _JobTemplate()
    spec = template.spec or JobSpec()
    pods = spec.width if spec.completions is None else min(spec.width, spec.completions)
    replicas = 1 if one.replicas is None else one.replicas
    led = exclusive or (template.metadata is not None and _is_exclusive(template.metadata))
    leaders = replicas if led and pods > 1 and spec.completion_mode != "NonIndexed" else 0
    after = tuple(other.name for other in one.depends_on or ())
    return ReplicatedJob(one.name, replicas * pods, after, leaders)


def _is_exclusive(meta: Metadata) -> bool:
    """Return whether pods wait until the first pod of their Job has a node (JobSet: exclusive placement)."""
    annotations: Mapping[str, str] = meta.annotations or {}
    return EXCLUSIVE in annotations and NODE_SELECTOR not in annotations


def decode_leader_worker_set(raw: bytes) -> LeaderWorkerSet:
    """Decode a LeaderWorkerSet."""
    meta, spec, _, problem = _leader_worker_set(raw)
    return LeaderWorkerSet(
        *meta.identity,
        leader_first=spec.startup_policy == "LeaderReady",
        submission=meta.submission,
        problem=problem,
    )


def decode_mpi_job(raw: bytes) -> MpiJob:
    """Decode an MPIJob."""
    meta, spec, _, problem = _mpi_job(raw)
    workers = (spec.mpi_replica_specs or {}).get("Worker") or _Replicas()
    policy = spec.run_policy.scheduling_policy if spec.run_policy else None
    return MpiJob(
        *meta.identity,
        workers=workers.replicas or 0,
        launcher_last=spec.launcher_creation_policy == "WaitForWorkersReady",
        min_available=policy.min_available if policy else None,
        submission=meta.submission,
        problem=problem,
    )


def decode_ray_cluster(raw: bytes) -> RayCluster:
    """Decode a RayCluster: one head, and the replicas of each worker group within the group's bounds."""
    meta, spec, _, problem = _ray_cluster(raw)
    pods = 1 + sum(map(_workers, spec.worker_group_specs or ()))
    return RayCluster(
        *meta.identity,
        pods=pods,
        gang=GANG_LABEL in (meta.labels or {}),
        submission=meta.submission,
        problem=problem,
    )


def _workers(group: _WorkerGroup) -> int:
    if group.suspend:
        return 0
    least, most = group.min_replicas or 0, NO_LIMIT if group.max_replicas is None else group.max_replicas
    wanted = least if group.replicas is None else min(max(group.replicas, least), most)
    return wanted * (1 if group.num_of_hosts is None else group.num_of_hosts)
