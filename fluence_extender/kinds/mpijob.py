"""MPIJobs: workers, and a launcher that may be created once all workers are ready.

Sources: kubeflow.org/v2beta1 (MPI Operator) and its pkg/controller (newWorker, newLauncherPodTemplate).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import Membership, Workloads, awaited, derived
from fluence_extender.kinds.pod_sets import Json, PodSet, SetMember, count_of, reference_to, template_of
from fluence_extender.kinds.resumable import PodTemplate, Resumable, Suspendable, turn
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Started, deadline_over, stated_duration
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    MPI_OPERATOR,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_REPLICA_INDEX,
    TRAINING_ROLE,
)
from fluence_extender.model.pod import Pod
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import tolerant_decoder


@dataclass(frozen=True, slots=True)
class MpiJob(Resumable):
    """A kubeflow.org MPIJob. If ``launcher_last``, the launcher is created once all workers are ready.

    ``min_available`` comes from its scheduling policy, None if that is unset. ``groups`` are its workers, if it has
    any, and its launcher unless that comes last; they aren't compared.
    """

    api: ClassVar[Api] = served.MPI_JOB

    workers: int = 0
    launcher_last: bool = False
    min_available: int | None = None
    groups: tuple[int, ...] = field(default=(), compare=False)


MPI_ENDING = ("Succeeded", "Failed")
"""The conditions of an MPIJob that has ended."""


class _Replicas(msgspec.Struct):
    replicas: Int64 | None = None
    template: PodTemplate | None = None


class _SchedulingPolicy(msgspec.Struct, rename="camel"):
    min_available: Int64 | None = None


class _RunPolicy(Suspendable, rename="camel"):
    scheduling_policy: _SchedulingPolicy | None = None
    active_deadline_seconds: Int64 | None = None


class _MpiJob(msgspec.Struct, rename="camel"):
    launcher_creation_policy: str | None = None
    mpi_replica_specs: dict[str, _Replicas | None] | None = None
    run_policy: _RunPolicy | None = None


_mpi_job = tolerant_decoder("MPIJob", _MpiJob, Started)


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
        **turn(meta, run, templates, ended, problem),
        duration=stated_duration(meta.annotations, meta.labels, run.active_deadline_seconds),
        ends=deadline_over(status.start_time, run.active_deadline_seconds),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def mpi_job(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of an MPIJob."""
    name = mpi_job_name(pod)
    if not name:
        return None
    key = GangKey(pod.namespace, name, Convention.MPI_JOB)
    job = workloads.find(MpiJob, pod.namespace, name)
    if job is not None:
        return derived(pod, key, (_mpi_size(job), f"MPIJob {name}"))
    if workloads.served(MpiJob):
        return derived(pod, key, awaited("MPIJob", pod.namespace, name))
    return None


def most_at_once(pod: Pod, workloads: Workloads) -> int | None:
    """Return how many pods of the pod's MPIJob are created without waiting for others.

    None if all are, or if the pod belongs to no MPIJob.
    """
    name = mpi_job_name(pod)
    job = workloads.find(MpiJob, pod.namespace, name) if name else None
    return max(job.workers, 1) if job is not None and job.launcher_last else None


def mpi_job_name(pod: Pod) -> str:
    """Return the name of the pod's MPIJob, "" if it belongs to none."""
    return pod.labels.get(TRAINING_JOB_NAME, "") if pod.labels.get(TRAINING_OPERATOR) == MPI_OPERATOR else ""


def _mpi_size(job: MpiJob) -> int:
    at_once = job.workers if job.launcher_last else job.workers + 1
    return max(at_once if job.min_available is None else min(job.min_available, at_once), 1)


def mpi_pods(job: Json) -> Iterator[PodSet]:
    """Yield the workers, then the launcher."""
    roles, name, owner = job["spec"].get("mpiReplicaSpecs") or {}, job["metadata"]["name"], reference_to(job)
    after = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    first = 1 if job["spec"].get("runLauncherAsWorker") else 0
    if roles.get("Worker"):
        count = count_of(roles["Worker"].get("replicas"), 0)
        yield _of_role("Worker", roles["Worker"], name, owner, range(first, first + count))
    if roles.get("Launcher"):
        yield _of_role("Launcher", roles["Launcher"], name, owner, range(1), after)


def _of_role(
    role: str, replicas: Mapping[str, Any], name: str, owner: Json, ranks: range, later: bool = False
) -> PodSet:
    source = replicas["template"]
    policy = replicas.get("restartPolicy") or "Never"
    spec = {**source["spec"], "restartPolicy": "Never" if policy == "ExitCode" else policy}

    def members() -> Iterator[SetMember]:
        for number, rank in enumerate(ranks or range(1)):
            labels = {
                TRAINING_JOB_NAME: name,
                TRAINING_OPERATOR: MPI_OPERATOR,
                TRAINING_ROLE: role.lower(),
                TRAINING_REPLICA_INDEX: str(rank),
            }
            yield SetMember(f"{name}-{role.lower()}-{number}", labels, {}, owner)

    return PodSet(template_of(source, spec), len(ranks), members, later)


MPI_JOBS = Kind(
    MpiJob,
    decode_mpi_job,
    pods=mpi_pods,
    label=TRAINING_JOB_NAME,
    recognize=mpi_job,
    suspend=("runPolicy", "suspend"),
)
