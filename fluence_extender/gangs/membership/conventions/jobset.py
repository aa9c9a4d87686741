"""JobSets, by the labels their pods carry. The size is that of all Jobs together.

A JobSet may create some of its Jobs only when others are ready or have ended (``dependsOn``, or ``startupPolicy``
InOrder). With exclusive placement the other pods of a Job are created once its first pod has a node. A gang of all pods
would wait forever, so the pods that can exist at the same time form a gang of their own, called a stage. Only the
JobSet object states the order, so its pods wait until it is known. In a cluster that doesn't serve JobSets, only the
pods' own labels count.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.gangs.membership.conventions.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    awaited,
    derived,
    number,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GROUP_SIZE_ANNOTATION,
    JOB_SET_NAME,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.workload import Job, JobSet, JobSetStage

LEADERS, FOLLOWERS = "leaders", "followers"


@dataclass(frozen=True, slots=True)
class Stage:
    """The pods of a JobSet that can exist at the same time; ``name`` is "" if these are all of its pods."""

    name: str
    stated: StatedSize


def recognize(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of a JobSet."""
    stage = stage_of(pod, workloads)
    if stage is None:
        return None
    key = GangKey(pod.namespace, pod.labels[JOB_SET_NAME], Convention.JOB_SET, part=stage.name)
    return derived(pod, key, stage.stated)


def stage_of(pod: Pod, workloads: Workloads) -> Stage | None:
    """Return the stage of its JobSet that the pod belongs to, or None for a pod of no JobSet."""
    name = pod.labels.get(JOB_SET_NAME)
    if not name:
        return None
    job_set = workloads.find(JobSet, pod.namespace, name)
    if job_set is not None:
        return _stage(job_set, pod)
    if workloads.served(JobSet):
        return Stage("", awaited("JobSet", pod.namespace, name))
    return Stage(pod.labels.get(REPLICATED_JOB, ""), _of_replicated_job(pod, workloads))


def _stage(job_set: JobSet, pod: Pod) -> Stage:
    source = f"JobSet {job_set.name}"
    replicated = pod.labels.get(REPLICATED_JOB, "")
    stage = job_set.stages.get(replicated, JobSetStage(replicated, 0, 0, frozenset()))
    name = stage.name if job_set.ordered else ""
    if not stage.later:
        return Stage(name, (max(stage.first, 1), source))
    follows = replicated in stage.leads and pod.annotations.get(COMPLETION_INDEX) != "0"
    part = "-".join(filter(None, (name, FOLLOWERS if follows else LEADERS)))
    return Stage(part, (stage.later if follows else stage.first, source))


def _of_replicated_job(pod: Pod, workloads: Workloads) -> StatedSize:
    if pod.owner is None or pod.owner.kind != "Job":
        why = (
            f"pod {pod.name} says that it is of JobSet {pod.labels[JOB_SET_NAME]}, but has no owning Job; "
            f"annotation {GROUP_SIZE_ANNOTATION} can say the gang's size instead"
        )
        return Reason(ReasonCode.INVALID_REQUEST, why), THE_POD
    job = workloads.find(Job, pod.namespace, pod.owner.name)
    if job is None:
        return awaited("Job", pod.namespace, pod.owner.name)
    return job.pods * (number(pod.labels.get(REPLICATED_JOB_REPLICAS, "")) or 1), f"Job {job.name}"
