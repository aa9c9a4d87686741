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
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.job import job_of, labels_of
from fluence_extender.kinds.jobset import stage_of
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.labels import linked
from fluence_extender.kinds.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    annotated_size,
    awaited,
    read,
)
from fluence_extender.kinds.mpijob import most_at_once
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Provenance, Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    COSCHEDULING_NAMES,
    COSCHEDULING_SIZES,
    CREATED_BY_ANNOTATION,
    GROUP_LABEL,
    WEBHOOK_NAME,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import Metadata, Unread, tolerant_decoder


@dataclass(frozen=True, slots=True)
class PodGroup(Workload):
    """A native PodGroup (scheduling.k8s.io, KEP-4671).

    ``min_count`` is None for the basic policy, which states no gang. ``levels`` are the node labels whose value all
    pods must share (spec.schedulingConstraints.topology). ``indivisible``: none of its pods is disrupted without the
    others (spec.disruptionMode). ``priority_class`` is the PriorityClass that it names.
    """

    api: ClassVar[Api] = served.POD_GROUP

    min_count: int | None
    levels: tuple[str, ...] = ()
    indivisible: bool = False
    priority_class: str = ""
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of a PodGroup of scheduling.x-k8s.io: its phase, and the number of its pods in each phase.

    ``occupied_by`` names the owners of the pods (namespace/name, joined by commas). ``schedule_start`` is the time at
    which the group was first complete (RFC 3339, "" before), and isn't compared.
    """

    phase: str = ""
    occupied_by: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CoschedulingGroup(Workload):
    """A PodGroup of the coscheduling plugin (scheduling.x-k8s.io).

    ``timeout`` is scheduleTimeoutSeconds, None if it is 0 or unset. ``status`` isn't compared, because no size depends
    on it.
    """

    api: ClassVar[Api] = served.COSCHEDULING_GROUP

    min_member: int
    timeout: float | None = None
    status: MemberStatus = field(default_factory=MemberStatus, compare=False)
    provenance: Provenance = field(default_factory=Provenance)


TOGETHER = "PodGroup"
"""DisruptionMode in v1alpha2 of pods that are disrupted together."""


class _Gang(msgspec.Struct, rename="camel"):
    min_count: Int64 | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _TopologyConstraint(msgspec.Struct):
    key: str = ""


class _Constraints(msgspec.Struct):
    topology: list[_TopologyConstraint] | None = None


class _Disruption(msgspec.Struct):
    """DisruptionMode from v1alpha3 on: a member says what is disrupted together."""

    all: dict[str, Any] | None = None


class _Native(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: _Constraints | None = None
    disruption_mode: _Disruption | str | None = None
    priority_class_name: str | None = None


class _Coscheduling(msgspec.Struct, rename="camel"):
    min_member: Int64 | None = None
    schedule_timeout_seconds: Int64 | None = None


class _CoschedulingStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    occupied_by: str | None = None
    running: Int64 | None = None
    succeeded: Int64 | None = None
    failed: Int64 | None = None
    schedule_start_time: str | None = None


_native = tolerant_decoder("PodGroup", _Native, Unread)
_coscheduling = tolerant_decoder("PodGroup", _Coscheduling, _CoschedulingStatus)


def decode_pod_group(raw: bytes) -> PodGroup:
    """Decode a scheduling.k8s.io PodGroup of any version from v1alpha2 on; the basic policy states no size."""
    meta, spec, _, problem = _native(raw)
    gang = spec.scheduling_policy.gang if spec.scheduling_policy else None
    constraints = spec.scheduling_constraints
    mode = spec.disruption_mode
    levels = tuple(one.key for one in (constraints.topology if constraints else None) or () if one.key)
    return PodGroup(
        *meta.identity,
        min_count=(gang.min_count or 1) if gang else None,
        levels=levels,
        indivisible=mode == TOGETHER if isinstance(mode, str) else mode is not None and mode.all is not None,
        priority_class=spec.priority_class_name or "",
        provenance=_provenance(meta),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def decode_coscheduling_group(raw: bytes) -> CoschedulingGroup:
    """Decode a scheduling.x-k8s.io PodGroup; ``minMember`` counts as at least 1, and a timeout of 0 as none."""
    meta, spec, status, problem = _coscheduling(raw)
    return CoschedulingGroup(
        *meta.identity,
        min_member=max(spec.min_member or 1, 1),
        timeout=float(spec.schedule_timeout_seconds or 0) or None,
        status=MemberStatus(
            status.phase or "",
            status.occupied_by or "",
            status.running or 0,
            status.succeeded or 0,
            status.failed or 0,
            status.schedule_start_time or "",
        ),
        provenance=_provenance(meta),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def _provenance(meta: Metadata) -> Provenance:
    by = (meta.annotations or {}).get(CREATED_BY_ANNOTATION, "")
    return Provenance(by, meta.resource_version, meta.deletion_timestamp is not None)


def native(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod that names a native PodGroup."""
    name = pod.group or _group_by_our_label(PodGroup, pod, workloads)
    if not name:
        return None
    key = GangKey(pod.namespace, name, Convention.POD_GROUP)
    group = workloads.find(PodGroup, pod.namespace, name)
    if group is None:
        stated = awaited("PodGroup", pod.namespace, name, "to exist")
        return linked(pod, workloads, key) or Membership(key, *stated)
    if group.min_count is None:
        return None
    by_label = linked(pod, workloads, key) if _made_by_us(group) else None
    return by_label or Membership(key, group.min_count, f"PodGroup {key}", indivisible=group.indivisible)


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
    by_label = linked(pod, workloads, GangKey(pod.namespace, name, Convention.COSCHEDULING))
    if by_label is not None and (group is None or _made_by_us(group)):
        return by_label
    stated = (group.min_member, f"PodGroup {name}") if group is not None else _size_on_pod(pod, labels)
    if stated is None and labels is not pod.labels:
        stated = _size_of_job(pod, workloads)
    if stated is None:
        stated = awaited("PodGroup", pod.namespace, name, "to exist")
    stage = stage_of(pod, workloads)
    part = stage.name if stage is not None else ""
    limits = [most_at_once(pod, workloads), stage.stated[0] if stage is not None else None]
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


NATIVE = Kind(PodGroup, decode_pod_group)
COSCHEDULING = Kind(CoschedulingGroup, decode_coscheduling_group)
