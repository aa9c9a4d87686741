"""The label ``scheduling.x-k8s.io/pod-group`` with the PodGroup of scheduling.x-k8s.io (``minMember``).

The MPI Operator, Kubeflow Trainer and KubeRay write it when they are told to gang-schedule, and flux-k8s did, with the
size in a label ``fluence.group-size``; there both may be labels of the Job, too. The size is the PodGroup's where there
is one, else what the pod carries. The operators count pods into ``minMember`` that they create only once others run (a
launcher, a later stage of a JobSet): such a group is whole without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fluence_extender.gangs.membership.conventions import jobset, labelled, mpijob
from fluence_extender.gangs.membership.conventions.claim import (
    Claim,
    Said,
    Workloads,
    annotated_size,
    awaited,
    job_of,
    labels_of,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COSCHEDULING_GROUP, FLUX_SIZE
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import CoschedulingGroup

EARLIER = "pod-group.scheduling.sigs.k8s.io"
NAMES = (COSCHEDULING_GROUP, f"{EARLIER}/name", EARLIER)
SIZES = (FLUX_SIZE, f"{EARLIER}/min-available")


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod with the label of the coscheduling plugin."""
    labels = labels_of(pod, workloads)
    name = next((labels[label] for label in NAMES if labels.get(label)), "")
    if not name:
        return None
    group = workloads.find(CoschedulingGroup, pod.namespace, name)
    if group is None and _submits_ray_job(pod, workloads):
        # KubeRay labels the pod that submits a RayJob with the name of a PodGroup that it doesn't create.
        return None
    linked = labelled.linked(pod, workloads, GangKey(pod.namespace, name, Convention.COSCHEDULING))
    if group is None and linked is not None:
        return linked
    said = (group.min_member, f"PodGroup {name}") if group is not None else _carried(pod, labels)
    if said is None and labels is not pod.labels:
        said = _of_job(pod, workloads)
    if said is None:
        said = awaited("PodGroup", pod.namespace, name, "to exist")
    stage = jobset.stage_of(pod, workloads)
    part = stage.name if stage is not None else ""
    limits = [mpijob.most_at_once(pod, workloads), stage.said[0] if stage is not None else None]
    size = _smallest(said[0], limits)
    key = GangKey(pod.namespace, name, Convention.COSCHEDULING, part=part)
    return Claim(key, size, said[1], group.timeout if group is not None else None)


def _of_job(pod: Pod, workloads: Workloads) -> Said | None:
    """What flux-k8s takes for the size of a Job that has its label and says none: as many pods as it runs at once."""
    job = job_of(pod, workloads)
    named = job is not None and not any(pod.labels.get(label) for label in NAMES)
    return (job.pods, f"Job {job.name}") if job is not None and named else None


def _submits_ray_job(pod: Pod, workloads: Workloads) -> bool:
    job = job_of(pod, workloads)
    return job is not None and job.submits_ray_job


def _carried(pod: Pod, labels: Mapping[str, str]) -> Said | None:
    found: Iterator[Said] = (read(pod, "label", label, labels[label]) for label in SIZES if label in labels)
    return next(found, None) or annotated_size(pod)


def _smallest(size: int | Reason, limits: list[int | Reason | None]) -> int | Reason:
    """The least of them all; a reason of one is the reason of all."""
    for limit in limits:
        if isinstance(size, Reason) or limit is None:
            continue
        size = limit if isinstance(limit, Reason) else min(size, limit)
    return size
