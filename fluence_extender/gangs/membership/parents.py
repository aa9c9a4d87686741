"""The workloads that a pod belongs to: its owner, what operators' labels name, and what these were made of.

An operator's pods needn't be owned by the object that their user wrote: the Trainer makes a JobSet of a TrainJob, that
makes Jobs, and these make pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.gangs.membership.conventions.membership import Workloads
from fluence_extender.gangs.membership.conventions.operators import mpi_job_name
from fluence_extender.model.names import (
    JOB_SET_NAME,
    LWS_NAME,
    RAY_CLUSTER,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.workload import (
    Job,
    JobSet,
    LeaderWorkerSet,
    MpiJob,
    RayCluster,
    RayJob,
    ReplicaSet,
    StatefulSet,
    TrainJob,
    Workload,
)

OWNERS: dict[str, type[Workload]] = {
    "Job": Job,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
    "RayCluster": RayCluster,
    "MPIJob": MpiJob,
}
"""The kinds of objects that own pods and that the service knows."""

_LABELS: tuple[tuple[str, type[Workload]], ...] = (
    (JOB_SET_NAME, JobSet),
    (LWS_NAME, LeaderWorkerSet),
    (RAY_CLUSTER, RayCluster),
)

NAMING_LABELS = (*(key for key, _ in _LABELS), TRAINING_JOB_NAME, TRAINING_OPERATOR)
"""The labels that name workloads of a pod."""


def parents_of(pod: Pod, workloads: Workloads) -> Iterator[Workload]:
    """Yield the known workloads that a pod belongs to, each once."""
    owner = owning(pod.owner, pod.namespace, workloads) if pod.owner is not None else None
    named = [(kind, pod.labels[key]) for key, kind in _LABELS if key in pod.labels]
    mpi_job = mpi_job_name(pod)
    if mpi_job:
        named.append((MpiJob, mpi_job))
    known: dict[int, Workload] = {}
    for found in (owner, *(workloads.find(kind, pod.namespace, name) for kind, name in named)):
        if found is not None:
            known.update((id(one), one) for one in (found, *made_of(found, workloads)))
    yield from known.values()


def owning(owner: Owner, namespace: str, workloads: Workloads) -> Workload | None:
    """Return the object that owns a pod, None where it isn't known."""
    kind = OWNERS.get(owner.kind)
    found = workloads.find(kind, namespace, owner.name) if kind is not None else None
    return found if found is not None and found.uid == owner.uid else None


def made_of(thing: Workload, workloads: Workloads) -> Iterator[Workload]:
    """Yield the known objects that operators have made this one of, the outermost first."""
    found: Workload | None = None
    if isinstance(thing, Job) and thing.job_set:
        found = workloads.find(JobSet, thing.namespace, thing.job_set)
    elif isinstance(thing, JobSet) and thing.made_of:
        found = workloads.find(TrainJob, thing.namespace, thing.made_of)
    elif isinstance(thing, RayCluster) and thing.made_of:
        found = workloads.find(RayJob, thing.namespace, thing.made_of)
    if found is not None:
        yield from made_of(found, workloads)
        yield found
