"""Decode the workloads of operators: the size of their gangs, and whether they wait without pods.

Sources: the APIs jobset.x-k8s.io/v1alpha2, leaderworkerset.x-k8s.io/v1, kubeflow.org/v2beta1 (MPI Operator), ray.io/v1
(KubeRay) and trainer.kubeflow.org/v1alpha1 (Kubeflow Trainer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fluence_extender.cluster.decode.durations import deadline_over, stated_duration
from fluence_extender.cluster.decode.job import (
    JobSpec,
    PodTemplate,
    controller_of,
    held_for_placement,
    queued_since,
    suspension_is_ours,
)
from fluence_extender.cluster.decode.objects import (
    Conditions,
    Int64,
    Metadata,
    Time,
    Unread,
    tolerant_decoder,
)
from fluence_extender.kinds.operators import ray_workers
from fluence_extender.model.names import KUEUE_QUEUE_LABEL, OPERATORS, QUEUE_LABEL
from fluence_extender.model.workload import (
    JobSet,
    LeaderWorkerSet,
    MpiJob,
    RayCluster,
    RayJob,
    ReplicatedJob,
    TrainJob,
)

GANG_LABEL = "ray.io/gang-scheduling-enabled"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
MPI_ENDING = ("Succeeded", "Failed")
"""The conditions of an MPIJob that has ended."""


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
    template: PodTemplate | None = None


class _SchedulingPolicy(msgspec.Struct, rename="camel"):
    min_available: Int64 | None = None


class _RunPolicy(msgspec.Struct, rename="camel"):
    scheduling_policy: _SchedulingPolicy | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    active_deadline_seconds: Int64 | None = None


class _MpiJob(msgspec.Struct, rename="camel"):
    launcher_creation_policy: str | None = None
    mpi_replica_specs: dict[str, _Replicas | None] | None = None
    run_policy: _RunPolicy | None = None


class _HeadGroup(msgspec.Struct):
    template: PodTemplate | None = None


class _WorkerGroup(msgspec.Struct, rename="camel"):
    """A worker group of a RayCluster."""

    replicas: Int64 | None = None
    min_replicas: Int64 | None = None
    max_replicas: Int64 | None = None
    num_of_hosts: Int64 | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None


class _RayCluster(msgspec.Struct, rename="camel"):
    suspend: bool | None = None
    managed_by: str | None = None
    head_group_spec: _HeadGroup | None = None
    worker_group_specs: list[_WorkerGroup] | None = None


class _Limited(msgspec.Struct, rename="camel"):
    """The spec of an object of which an operator makes another."""

    active_deadline_seconds: Int64 | None = None


class _Started(Conditions, rename="camel"):
    start_time: Time | None = None


class _RayJobStatus(_Started, rename="camel"):
    """The status of a RayJob: KubeRay writes the name of the RayCluster before it creates it."""

    ray_cluster_name: str | None = None


_job_set = tolerant_decoder("JobSet", _JobSet, Unread)
_leader_worker_set = tolerant_decoder("LeaderWorkerSet", _LeaderWorkerSet, Unread)
_mpi_job = tolerant_decoder("MPIJob", _MpiJob, _Started)
_ray_cluster = tolerant_decoder("RayCluster", _RayCluster, Unread)
_train_job = tolerant_decoder("TrainJob", _Limited, _Started)
_ray_job = tolerant_decoder("RayJob", _Limited, _RayJobStatus)


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
        made_of=controller_of(meta, "trainer.kubeflow.org", "TrainJob"),
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def _replicated(one: _ReplicatedJob, exclusive: bool) -> ReplicatedJob:
    template = one.template or _JobTemplate()
    spec = template.spec or JobSpec()
    pods = spec.width if spec.completions is None else min(spec.width, spec.completions)
    replicas = 1 if one.replicas is None else one.replicas
    led = exclusive or (template.metadata is not None and _is_exclusive(template.metadata))
    leaders = replicas if led and pods > 1 and spec.completion_mode != "NonIndexed" else 0
    after = tuple(other.name for other in one.depends_on or ())
    noted = template.metadata or Metadata()
    duration = stated_duration(noted.annotations, noted.labels, spec.active_deadline_seconds)
    return ReplicatedJob(one.name, replicas * pods, after, leaders, duration)


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
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_mpi_job(raw: bytes) -> MpiJob:
    """Decode an MPIJob."""
    meta, spec, status, problem = _mpi_job(raw)
    roles = {name: one for name, one in (spec.mpi_replica_specs or {}).items() if one is not None}
    workers = roles.get("Worker", _Replicas()).replicas or 0
    launcher_last = spec.launcher_creation_policy == "WaitForWorkersReady"
    launchers = 1 if "Launcher" in roles and not launcher_last else 0
    run = spec.run_policy or _RunPolicy()
    ended = not status.true.isdisjoint(MPI_ENDING)
    templates = [one.template for one in roles.values()]
    return MpiJob(
        *meta.identity,
        workers=workers,
        launcher_last=launcher_last,
        min_available=run.scheduling_policy.min_available if run.scheduling_policy else None,
        groups=tuple(count for count in (workers, launchers) if count > 0),
        **_turn(meta, run, templates, ended, problem),
        duration=stated_duration(meta.annotations, meta.labels, run.active_deadline_seconds),
        ends=deadline_over(status.start_time, run.active_deadline_seconds),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_ray_cluster(raw: bytes) -> RayCluster:
    """Decode a RayCluster: one head, and the replicas of each worker group within the group's bounds."""
    meta, spec, _, problem = _ray_cluster(raw)
    workers = spec.worker_group_specs or ()
    head = spec.head_group_spec.template if spec.head_group_spec else None
    counts = [
        ray_workers(one.replicas, one.min_replicas, one.max_replicas, one.num_of_hosts, bool(one.suspend))
        for one in workers
    ]
    templates = [head, *(one.template for one in workers)]
    return RayCluster(
        *meta.identity,
        pods=1 + sum(counts),
        groups=(1, *(count for count in counts if count > 0)),
        **_turn(meta, spec, templates, False, problem),
        gang=GANG_LABEL in (meta.labels or {}),
        made_of=controller_of(meta, "ray.io", "RayJob"),
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_train_job(raw: bytes) -> TrainJob:
    """Decode a TrainJob."""
    meta, spec, status, problem = _train_job(raw)
    return TrainJob(*meta.identity, **_limits(meta, spec, status), problem=problem)


def decode_ray_job(raw: bytes) -> RayJob:
    """Decode a RayJob."""
    meta, spec, status, problem = _ray_job(raw)
    cluster = status.ray_cluster_name or ""
    return RayJob(*meta.identity, cluster=cluster, **_limits(meta, spec, status), problem=problem)


def _limits(meta: Metadata, spec: _Limited, status: _Started) -> dict[str, Any]:
    deadline = spec.active_deadline_seconds
    return {
        "duration": stated_duration(meta.annotations, meta.labels, deadline),
        "ends": deadline_over(status.start_time, deadline),
        "submission": meta.submission,
    }


def _turn(
    meta: Metadata,
    spec: _RunPolicy | _RayCluster,
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
