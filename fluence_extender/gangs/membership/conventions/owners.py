"""Gangs that follow from the pods' owner alone, without a group's name on the pods.

Pods of any one owner (a StatefulSet, a ReplicaSet, …) are a gang if they carry a size. All of them must be created at
once: a StatefulSet needs ``podManagementPolicy`` Parallel, and without it such a gang is refused. The size is our
annotation or the label ``fluence.group-size`` of flux-k8s, which may also be a label of their Job. The ReplicaSets of
one Deployment are one owner, because a rollout replaces the pods of one by those of another: otherwise the first new
pod would wait for others that are created only once it is ready.

An Indexed Job that runs all its indexes at once (completions and parallelism are equal and more than 1) is a gang
without any size. Kubernetes itself would make a gang of such a Job (KEP-5547). Any other Job is a queue of independent
pods.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.membership import (
    THE_POD,
    Membership,
    Workloads,
    alone,
    annotated_size,
    awaited,
    derived,
    labels_of,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COMPLETION_INDEX, FLUX_SIZE
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.workload import Job, StatefulSet

TEMPLATE_HASHES = ("pod-template-hash", "rollouts-pod-template-hash")
"""The labels of pods with the version that their ReplicaSet's name ends with: by Deployments, and by Argo Rollouts."""


def sized_owner(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of an owned pod that carries a size."""
    if pod.owner is None:
        return None
    stated = annotated_size(pod)
    if stated is None and (text := labels_of(pod, workloads).get(FLUX_SIZE)) is not None:
        stated = read(THE_POD, "label", FLUX_SIZE, text)
    if stated is None:
        return None
    if stated[0] == 1:
        return alone(pod)
    deployment = deployment_of(pod)
    name, uid = (deployment, "") if deployment else (pod.owner.name, pod.owner.uid)
    return Membership(GangKey(pod.namespace, name, Convention.OWNER, uid), *stated)


def never_together(pod: Pod, membership: Membership, workloads: Workloads) -> Reason | None:
    """Return why a gang never assembles if a StatefulSet creates its pods one by one, None for any other gang.

    A gang that is named on the pods and larger than the StatefulSet may have members elsewhere. The policy
    ``fluence-stateful-gangs`` (``deploy/base/groups.yaml``) warns of the same at admission.
    """
    owner, size = pod.owner, membership.size
    if owner is None or not owner.is_a("StatefulSet", "apps") or isinstance(size, Reason) or size == 1:
        return None
    if membership.key.part:
        # Each group of a LeaderWorkerSet has pods of two StatefulSets.
        return None
    stateful_set = workloads.find(StatefulSet, pod.namespace, owner.name)
    if stateful_set is None or stateful_set.pods == stateful_set.replicas:
        return None
    if membership.key.convention is not Convention.OWNER and size > stateful_set.replicas:
        return None
    return Reason(
        ReasonCode.INVALID_REQUEST,
        f"StatefulSet {owner.name} creates each pod once the one before is ready, so its pods are never a gang of "
        f"{size}: create it anew with podManagementPolicy: Parallel, or without a size",
    )


def deployment_of(pod: Pod) -> str:
    """Return the Deployment or Rollout that makes such pods, by the name of their ReplicaSet; "" if none does."""
    owner = pod.owner
    if owner is None or not owner.is_a("ReplicaSet", "apps"):
        return ""
    versions = (f"-{pod.labels[key]}" for key in TEMPLATE_HASHES if pod.labels.get(key))
    return next(
        (owner.name.removesuffix(version) for version in versions if owner.name.endswith(version)), ""
    )


def indexed_job(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of an Indexed Job that runs all its indexes at once."""
    if pod.owner is None or pod.owner.kind != "Job" or COMPLETION_INDEX not in pod.annotations:
        return None
    key = GangKey(pod.namespace, pod.owner.name, Convention.JOB)
    job = workloads.find(Job, pod.namespace, pod.owner.name)
    if job is None:
        return derived(pod, key, awaited("Job", pod.namespace, pod.owner.name))
    if job.indexed and job.parallelism > 1 and job.completions == job.parallelism:
        return derived(pod, key, (job.pods, f"Job {job.name}"))
    return None
