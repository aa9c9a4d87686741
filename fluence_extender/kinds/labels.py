"""Gangs that labels name without an object: our own convention, and Kueue's groups of plain pods.

Ours is the label ``fluence.flux-framework.org/group`` and the annotation ``…/group-size``. Without the annotation the
pod's owner states the size: a JobSet, a LeaderWorkerSet, a Job (by the same annotation or a label of that name, else
its parallelism, but no more than its completions), a Deployment by its ReplicaSets, a ReplicaSet or a StatefulSet.
Otherwise the size is 1. The producer of a shared quantum job is a gang by itself, and its consumers are another gang.

Kueue's are ``kueue.x-k8s.io/pod-group-name`` and ``…/pod-group-total-count``. The name is a label, or with newer Kueue
an annotation. Until Kueue admits the group, its pods carry Kueue's own scheduling gate, which isn't ours to remove.
Kueue marks pods of services (of a StatefulSet or LeaderWorkerSet) as ``pod-group-serving``. It counts them as a group,
but they are created one after the other and start one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import stage_of
from fluence_extender.kinds.leaderworkerset import leader_worker_set
from fluence_extender.kinds.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    annotated_size,
    awaited,
    read,
)
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet
from fluence_extender.model.coordination import (
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    PRODUCER_SUFFIX,
    ROLE_ANNOTATION,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

SIZED_OWNERS: Mapping[str, tuple[str, type[Job | ReplicaSet | StatefulSet]]] = {
    "Job": ("batch", Job),
    "ReplicaSet": ("apps", ReplicaSet),
    "StatefulSet": ("apps", StatefulSet),
}
"""By kind: the API group of owners that state how many pods exist at the same time, and what they are read as."""


def labelled(pod: Pod, workloads: Workloads) -> Membership | None:
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
        return Membership(key, 1, f"{THE_POD}, which produces,")
    own = annotated_size(pod)
    membership = Membership(key, *own) if own is not None else _by_owner(pod, workloads, key)
    if isinstance(membership.size, int) and DEPENDS_ON_PRODUCER in pod.annotations:
        return replace(membership, size=max(membership.size - 1, 1))
    return membership


def _by_owner(pod: Pod, workloads: Workloads, key: GangKey) -> Membership:
    stage = stage_of(pod, workloads)
    if stage is not None:
        return Membership(key._replace(part=stage.name), *stage.stated)
    of_set = leader_worker_set(pod, workloads)
    if of_set is not None:
        return replace(of_set, key=key._replace(part=of_set.key.part))
    stated = _size_of_owner(pod, workloads) or (1, f"{THE_POD}, which says nothing,")
    return Membership(key, *stated)


def _size_of_owner(pod: Pod, workloads: Workloads) -> StatedSize | None:
    owner = pod.owner
    if owner is None or owner.kind not in SIZED_OWNERS:
        return None
    group, kind = SIZED_OWNERS[owner.kind]
    if not owner.is_a(owner.kind, group):
        return None
    workload = workloads.find(kind, pod.namespace, owner.name)
    if workload is None:
        return awaited(owner.kind, pod.namespace, owner.name)
    if isinstance(workload, Job) and workload.stated_size:
        return read(f"Job {owner.name}", "annotation", GROUP_SIZE_ANNOTATION, workload.stated_size)
    return workload.pods, f"{owner.kind} {owner.name}"


GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
SERVING = "kueue.x-k8s.io/pod-group-serving"


def kueue_group(pod: Pod, _: Workloads) -> Membership | None:
    """Return the membership of a pod in one of Kueue's groups."""
    name = pod.labels.get(GROUP_NAME) or pod.annotations.get(GROUP_NAME)
    if not name or pod.annotations.get(SERVING) == "true":
        return None
    return Membership(GangKey(pod.namespace, name, Convention.KUEUE), *_total(pod))


def _total(pod: Pod) -> StatedSize:
    text = pod.annotations.get(TOTAL_COUNT)
    if text is None:
        missing = f"pod {pod.name} of group {GROUP_NAME} has no annotation {TOTAL_COUNT}"
        return Reason(ReasonCode.INVALID_REQUEST, missing), THE_POD
    return read(THE_POD, "annotation", TOTAL_COUNT, text)
