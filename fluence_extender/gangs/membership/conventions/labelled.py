"""Our own convention: the label ``fluence.flux-framework.org/group`` and the annotation ``…/group-size``.

Without the annotation the pod's owner states the size: a JobSet, a LeaderWorkerSet, a Job (its parallelism, but no more
than its completions), or a ReplicaSet or StatefulSet, whose replicas admission notes on each pod it creates. Otherwise
the size is 1.

The producer of a shared quantum job is a gang by itself, and the consumers are the rest of the group.
"""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.gangs.membership.conventions import jobset, operators
from fluence_extender.gangs.membership.conventions.membership import (
    Membership,
    Workloads,
    annotated_size,
    awaited,
    read,
)
from fluence_extender.model.coordination import (
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    PRODUCER_SUFFIX,
    ROLE_ANNOTATION,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL, OWNER_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job


def recognize(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod with our group label."""
    group = pod.labels.get(GROUP_LABEL, "")
    return sized(pod, workloads, GangKey(pod.namespace, group, Convention.LABEL)) if group else None


def linked(pod: Pod, workloads: Workloads, key: GangKey) -> Membership | None:
    """Return the membership of a pod whose PodGroup ``key`` doesn't exist (yet), if our label names the same group.

    Admission adds the link to the PodGroup because of the label, so what the label states is enough.
    """
    return sized(pod, workloads, key) if pod.labels.get(GROUP_LABEL) == key.name else None


def sized(pod: Pod, workloads: Workloads, key: GangKey) -> Membership:
    """Return the membership in the group ``key``, of the size that the pod or its owner states."""
    if pod.annotations.get(ROLE_ANNOTATION) == PRODUCER and key.name.endswith(PRODUCER_SUFFIX):
        return Membership(key, 1, f"pod {pod.name}, which produces,")
    own = annotated_size(pod)
    membership = Membership(key, *own) if own is not None else _by_owner(pod, workloads, key)
    if isinstance(membership.size, int) and DEPENDS_ON_PRODUCER in pod.annotations:
        return replace(membership, size=max(membership.size - 1, 1))
    return membership


def _by_owner(pod: Pod, workloads: Workloads, key: GangKey) -> Membership:
    stage = jobset.stage_of(pod, workloads)
    if stage is not None:
        return Membership(replace(key, part=stage.name), *stage.stated)
    led = operators.leader_worker_set(pod, workloads)
    if led is not None:
        return replace(led, key=replace(key, part=led.key.part))
    noted = pod.annotations.get(OWNER_SIZE_ANNOTATION)
    if pod.owner is not None and pod.owner.kind == "Job":
        job = workloads.find(Job, pod.namespace, pod.owner.name)
        if job is None:
            return Membership(key, *awaited("Job", pod.namespace, pod.owner.name))
        return Membership(key, job.pods, f"Job {pod.owner.name}")
    if pod.owner is not None and noted is not None:
        return Membership(key, *read(pod, "annotation", OWNER_SIZE_ANNOTATION, noted), noted=True)
    return Membership(key, 1, f"pod {pod.name}, which says nothing,")
