"""The label ``scheduling.x-k8s.io/pod-group`` with the PodGroup of scheduling.x-k8s.io (``minMember``).

The MPI Operator, Kubeflow Trainer and KubeRay write it when they are told to gang-schedule, and flux-k8s did, with the
size in a label ``fluence.group-size``. The size is the PodGroup's where there is one, else what the pod carries. The
operators count pods into ``minMember`` that they create only once others run (a launcher, a later stage of a
JobSet): such a group is whole without them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.gangs.conventions import jobset, labelled, mpijob
from fluence_extender.gangs.conventions.claim import Claim, Said, Workloads, annotated_size, awaited, read
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import CoschedulingGroup, Job

GROUP = "scheduling.x-k8s.io/pod-group"
EARLIER = "pod-group.scheduling.sigs.k8s.io"
NAMES = (GROUP, f"{EARLIER}/name", EARLIER)
SIZES = ("fluence.group-size", f"{EARLIER}/min-available")


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod with the label of the coscheduling plugin."""
    name = next((pod.labels[label] for label in NAMES if pod.labels.get(label)), "")
    if not name:
        return None
    group = workloads.find(CoschedulingGroup, pod.namespace, name)
    if group is None and _submits_ray_job(pod, workloads):
        # KubeRay labels the pod that submits a RayJob with the name of a PodGroup that it doesn't create.
        return None
    linked = labelled.linked(pod, workloads, GangKey(pod.namespace, name, Convention.COSCHEDULING))
    if group is None and linked is not None:
        return linked
    said = (group.min_member, f"PodGroup {name}") if group is not None else _carried(pod)
    if said is None:
        said = awaited("PodGroup", pod.namespace, name, "to exist")
    stage = jobset.stage_of(pod, workloads)
    part = stage.name if stage is not None else ""
    limits = [mpijob.most_at_once(pod, workloads), stage.said[0] if stage is not None else None]
    size = _smallest(said[0], limits)
    key = GangKey(pod.namespace, name, Convention.COSCHEDULING, part=part)
    return Claim(key, size, said[1], group.timeout if group is not None else None)


def _submits_ray_job(pod: Pod, workloads: Workloads) -> bool:
    if pod.owner is None or pod.owner.kind != "Job":
        return False
    job = workloads.find(Job, pod.namespace, pod.owner.name)
    return job is not None and job.submits_ray_job


def _carried(pod: Pod) -> Said | None:
    labelled: Iterator[Said] = (
        read(pod, "label", label, pod.labels[label]) for label in SIZES if label in pod.labels
    )
    return next(labelled, None) or annotated_size(pod)


def _smallest(size: int | Reason, limits: list[int | Reason | None]) -> int | Reason:
    """The least of them all; a reason of one is the reason of all."""
    for limit in limits:
        if isinstance(size, Reason) or limit is None:
            continue
        size = limit if isinstance(limit, Reason) else min(size, limit)
    return size
