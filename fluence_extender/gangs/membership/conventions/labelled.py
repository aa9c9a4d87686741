"""Our own convention: the label ``fluence.flux-framework.org/group`` and the annotation ``…/group-size``.

Without the annotation the size is what the pod's owner says: a JobSet, a LeaderWorkerSet, a Job (its parallelism, no
more than its completions), or a ReplicaSet or StatefulSet, of which admission notes how many pods it wanted then.
Otherwise it is 1.

Of a shared quantum job the producer is a gang of its own, and the consumers are the group without it.
"""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.gangs.membership.conventions import jobset, leaderworkerset
from fluence_extender.gangs.membership.conventions.claim import (
    Claim,
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


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod with our group label."""
    group = pod.labels.get(GROUP_LABEL, "")
    return sized(pod, workloads, GangKey(pod.namespace, group, Convention.LABEL)) if group else None


def linked(pod: Pod, workloads: Workloads, key: GangKey) -> Claim | None:
    """The claim of a pod whose PodGroup ``key`` isn't there (yet), where our label names the same group.

    Admission adds that link to the label, so what the label says is enough.
    """
    return sized(pod, workloads, key) if pod.labels.get(GROUP_LABEL) == key.name else None


def sized(pod: Pod, workloads: Workloads, key: GangKey) -> Claim:
    """The claim to be in the group ``key``, of the size that the pod or its owner says."""
    if pod.annotations.get(ROLE_ANNOTATION) == PRODUCER and key.name.endswith(PRODUCER_SUFFIX):
        return Claim(key, 1, f"pod {pod.name}, which produces,")
    own = annotated_size(pod)
    claim = Claim(key, *own) if own is not None else _by_owner(pod, workloads, key)
    if isinstance(claim.size, int) and DEPENDS_ON_PRODUCER in pod.annotations:
        return replace(claim, size=max(claim.size - 1, 1))
    return claim


def _by_owner(pod: Pod, workloads: Workloads, key: GangKey) -> Claim:
    stage = jobset.stage_of(pod, workloads)
    if stage is not None:
        return Claim(replace(key, part=stage.name), *stage.said)
    led = leaderworkerset.recognise(pod, workloads)
    if led is not None:
        return replace(led, key=replace(key, part=led.key.part))
    noted = pod.annotations.get(OWNER_SIZE_ANNOTATION)
    if pod.owner is not None and pod.owner.kind == "Job":
        job = workloads.find(Job, pod.namespace, pod.owner.name)
        if job is None:
            return Claim(key, *awaited("Job", pod.namespace, pod.owner.name))
        return Claim(key, job.pods, f"Job {pod.owner.name}")
    if pod.owner is not None and noted is not None:
        return Claim(key, *read(pod, "annotation", OWNER_SIZE_ANNOTATION, noted), noted=True)
    return Claim(key, 1, f"pod {pod.name}, which says nothing,")
