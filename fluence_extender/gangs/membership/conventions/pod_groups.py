"""The two kinds of PodGroup: the native one of scheduling.k8s.io and that of the coscheduling plugin.

A pod names the native PodGroup in ``spec.schedulingGroup`` (KEP-4671). Its ``minCount`` is the size, and nothing on the
pods overrides it, because kube-scheduler's own gang cycle uses it too. A PodGroup of the policy ``basic`` states no
gang, so the other conventions decide.

The label ``scheduling.x-k8s.io/pod-group`` names the PodGroup of scheduling.x-k8s.io (``minMember``). The MPI Operator,
Kubeflow Trainer and KubeRay write it when they are configured to gang-schedule. flux-k8s wrote it too, with the size in
a label ``fluence.group-size``; both may also be labels of the Job. The size is the PodGroup's where there is one, else
what the pod carries. The operators' ``minMember`` also counts pods that they create only once others run (a launcher,
a later stage of a JobSet). Such a group is whole without those pods.

Admission links pods with our group label to a PodGroup of the same name. Until that PodGroup exists, the label is
enough. While it exists, the label is enough as well: pods that were created while the admission webhook was away are
members like the others. The size of a PodGroup that the webhook made follows from the label, and can't always be
changed (``minCount`` is immutable in Kubernetes 1.36). So the label decides, and not what that PodGroup says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fluence_extender.gangs.membership.conventions import jobset, labelled, operators
from fluence_extender.gangs.membership.conventions.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    annotated_size,
    awaited,
    job_of,
    labels_of,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COSCHEDULING_NAMES, COSCHEDULING_SIZES, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import CoschedulingGroup, PodGroup


def native(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod that names a native PodGroup."""
    name = pod.group or _group_by_our_label(PodGroup, pod, workloads)
    if not name:
        return None
    key = GangKey(pod.namespace, name, Convention.POD_GROUP)
    group = workloads.find(PodGroup, pod.namespace, name)
    if group is None:
        stated = awaited("PodGroup", pod.namespace, name, "to exist")
        return labelled.linked(pod, workloads, key) or Membership(key, *stated)
    if group.min_count is None:
        return None
    linked = labelled.linked(pod, workloads, key) if _made_by_us(group) else None
    return linked or Membership(key, group.min_count, f"PodGroup {key}", indivisible=group.indivisible)


def coscheduling(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod with the label of the coscheduling plugin."""
    labels = labels_of(pod, workloads)
    name = _group_in(labels) or _group_by_our_label(CoschedulingGroup, pod, workloads)
    if not name:
        return None
    group = workloads.find(CoschedulingGroup, pod.namespace, name)
    if group is None and _submits_ray_job(pod, workloads):
        # KubeRay labels the pod that submits a RayJob with the name of a PodGroup that it doesn't create.
        return None
    linked = labelled.linked(pod, workloads, GangKey(pod.namespace, name, Convention.COSCHEDULING))
    if linked is not None and (group is None or _made_by_us(group)):
        return linked
    stated = (group.min_member, f"PodGroup {name}") if group is not None else _size_on_pod(pod, labels)
    if stated is None and labels is not pod.labels:
        stated = _size_of_job(pod, workloads)
    if stated is None:
        stated = awaited("PodGroup", pod.namespace, name, "to exist")
    stage = jobset.stage_of(pod, workloads)
    part = stage.name if stage is not None else ""
    limits = [operators.most_at_once(pod, workloads), stage.stated[0] if stage is not None else None]
    size = _smallest(stated[0], limits)
    key = GangKey(pod.namespace, name, Convention.COSCHEDULING, part=part)
    return Membership(key, size, stated[1], group.timeout if group is not None else None)


def _made_by_us(group: PodGroup | CoschedulingGroup) -> bool:
    return group.provenance.by == WEBHOOK_NAME


def _group_in(labels: Mapping[str, str]) -> str:
    return next((labels[label] for label in COSCHEDULING_NAMES if labels.get(label)), "")


def _group_by_our_label(kind: type[PodGroup | CoschedulingGroup], pod: Pod, workloads: Workloads) -> str:
    """Return the group that only our own label names if there is a PodGroup of that kind and name, "" otherwise."""
    group = pod.labels.get(GROUP_LABEL, "")
    if not group or pod.group or _group_in(pod.labels):
        return ""
    return group if workloads.find(kind, pod.namespace, group) is not None else ""


def _size_of_job(pod: Pod, workloads: Workloads) -> StatedSize | None:
    """Return the size of a Job with flux-k8s's label of the name and no size: as many pods as the Job runs at once."""
    job = job_of(pod, workloads)
    return (job.pods, f"Job {job.name}") if job is not None and not _group_in(pod.labels) else None


def _submits_ray_job(pod: Pod, workloads: Workloads) -> bool:
    job = job_of(pod, workloads)
    return job is not None and job.submits_ray_job


def _size_on_pod(pod: Pod, labels: Mapping[str, str]) -> StatedSize | None:
    labelled_sizes: Iterator[StatedSize] = (
        read(THE_POD, "label", label, labels[label]) for label in COSCHEDULING_SIZES if label in labels
    )
    return next(labelled_sizes, None) or annotated_size(pod)


def _smallest(size: int | Reason, limits: list[int | Reason | None]) -> int | Reason:
    """Return the least of the sizes, or the first reason if one of them isn't known."""
    for limit in limits:
        if isinstance(size, Reason) or limit is None:
            continue
        size = limit if isinstance(limit, Reason) else min(size, limit)
    return size
