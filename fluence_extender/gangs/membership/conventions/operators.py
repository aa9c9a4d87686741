"""Gangs of operators that label their pods: LeaderWorkerSet, MPIJob (MPI Operator, v2beta1) and RayCluster.

LeaderWorkerSet: each leader and its workers are a gang, of the size that the pods carry as an annotation. The workers
are created once their leader exists. With ``startupPolicy`` LeaderReady they are created once it is ready, and with
exclusive topology once it has a node; in these two cases the leader is one gang and the workers are another. Pods of
different revisions are different gangs, because an update replaces a group as a whole.

MPIJob: the gang is the workers and the launcher. With ``launcherCreationPolicy: WaitForWorkersReady`` the workers alone
make it whole, and the launcher joins them later.

RayCluster: the cluster is a gang if it has the label ``ray.io/gang-scheduling-enabled``. Others start node by node,
which is Ray's default. The size is Ray's head node and the requested workers. Workers that an autoscaler adds later
join them.
When a cluster with fault tolerance is deleted and its nodes are gone, KubeRay creates one more pod from the template of
Ray's head node. That pod cleans up.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.membership import (
    THE_POD,
    Membership,
    Workloads,
    awaited,
    derived,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    LWS_GROUP_INDEX,
    LWS_NAME,
    LWS_REVISION,
    LWS_SIZE,
    LWS_WORKER_INDEX,
    MPI_OPERATOR,
    RAY_CLUSTER,
    RAY_NODE,
    RAY_NODE_TYPE,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import LeaderWorkerSet, MpiJob, RayCluster

LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
RAY_CLEANUP = "redis-cleanup"


def leader_worker_set(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of a LeaderWorkerSet."""
    name, index = pod.labels.get(LWS_NAME), pod.labels.get(LWS_GROUP_INDEX)
    if not name or index is None:
        return None
    stated = size, source = read(THE_POD, "annotation", LWS_SIZE, pod.annotations.get(LWS_SIZE, ""))
    parts = [revision] if (revision := pod.labels.get(LWS_REVISION)) else []
    if isinstance(size, int) and size > 1 and _leader_first(pod, workloads, name):
        leads = pod.labels.get(LWS_WORKER_INDEX) == "0"
        parts.append("leader" if leads else "workers")
        stated = (1 if leads else size - 1), source
    group = f"{name}-{index}"
    key = GangKey(pod.namespace, group, Convention.LEADER_WORKER_SET, part="-".join(parts))
    return derived(pod, key, stated)


def _leader_first(pod: Pod, workloads: Workloads, name: str) -> bool:
    if LWS_EXCLUSIVE in pod.annotations:
        return True
    leader_worker_set = workloads.find(LeaderWorkerSet, pod.namespace, name)
    return leader_worker_set is not None and leader_worker_set.leader_first


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


def ray_cluster(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of a RayCluster that is to be placed as a gang."""
    name = pod.labels.get(RAY_CLUSTER)
    if not name or pod.labels.get(RAY_NODE) != "yes":
        return None
    key = GangKey(pod.namespace, name, Convention.RAY_CLUSTER)
    cluster = workloads.find(RayCluster, pod.namespace, name)
    if cluster is not None:
        return derived(pod, key, (cluster.pods, f"RayCluster {name}")) if cluster.gang else None
    if workloads.served(RayCluster):
        return derived(pod, key, awaited("RayCluster", pod.namespace, name))
    return None


def cleans_up(pod: Pod) -> bool:
    """Return whether the pod is KubeRay's cleanup pod, which carries all labels of the template of Ray's head node."""
    return pod.labels.get(RAY_NODE_TYPE) == RAY_CLEANUP
