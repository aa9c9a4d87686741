"""MPIJobs of the MPI Operator (v2beta1), by the labels their pods carry.

The gang is the workers and the launcher. An MPIJob may have its launcher created only when all workers are ready
(``launcherCreationPolicy``): then the workers alone make it whole, and the launcher joins them later.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, awaited, derived
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import TRAINING_JOB_NAME, TRAINING_OPERATOR
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import MpiJob

MPI_OPERATOR = "mpi-operator"


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod of an MPIJob."""
    name = _job_name(pod)
    if not name:
        return None
    key = GangKey(pod.namespace, name, Convention.MPI_JOB)
    job = workloads.find(MpiJob, pod.namespace, name)
    if job is not None:
        return derived(pod, key, (_size(job), f"MPIJob {name}"))
    if workloads.served(MpiJob):
        return derived(pod, key, awaited("MPIJob", pod.namespace, name))
    return None


def most_at_once(pod: Pod, workloads: Workloads) -> int | None:
    """How many pods of the pod's MPIJob come without waiting for others; None where all do, or there is none."""
    name = _job_name(pod)
    job = workloads.find(MpiJob, pod.namespace, name) if name else None
    return max(job.workers, 1) if job is not None and job.launcher_last else None


def _job_name(pod: Pod) -> str:
    return pod.labels.get(TRAINING_JOB_NAME, "") if pod.labels.get(TRAINING_OPERATOR) == MPI_OPERATOR else ""


def _size(job: MpiJob) -> int:
    together = job.workers if job.launcher_last else job.workers + 1
    wanted = together if job.min_available is None else min(job.min_available, together)
    return max(wanted, 1)
