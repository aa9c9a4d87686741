"""JobSets, by the labels that their pods carry. The size is that of all Jobs together.

A JobSet may create some of its Jobs only when others are ready or have ended (``dependsOn``, or ``startupPolicy``
InOrder). With exclusive placement the other pods of a Job are created once its first pod has a node. A gang of all pods
would wait forever, so the pods that can exist at the same time form a gang of their own, called a stage. Only the
JobSet object states the order, so its pods wait until it is known. In a cluster that doesn't serve JobSets, only the
pods' own labels count.

Sources: jobset.x-k8s.io/v1alpha2 and its pkg/controllers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.job import Job, JobSpec, job_template, job_width, pod_of_job
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    awaited,
    derived,
    number,
)
from fluence_extender.kinds.pod_sets import Json, PodSet, SetMember, count_of, reference_to, with_claims
from fluence_extender.kinds.resumable import controller_of
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Workload, stated_duration
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GROUP_SIZE_ANNOTATION,
    JOB_INDEX,
    JOB_SET_NAME,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import Metadata, Unread, tolerant_decoder


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One replicated job of a JobSet.

    ``pods`` counts the pods of all its Jobs. ``after`` names the replicated jobs on which it depends. ``leaders``
    counts the pods that are created first where the other pods are created only once the leaders have nodes (exclusive
    placement); it is 0 where all pods are created at once. ``duration`` is how many seconds each of its pods runs at
    most, by what its Jobs will state, None where they state nothing.
    """

    name: str
    pods: int
    after: tuple[str, ...] = ()
    leaders: int = 0
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class JobSetStage:
    """Replicated jobs whose pods can exist at the same time.

    ``name`` is that of the first of them. ``first`` counts the pods that are created at once, and ``later`` those that
    are created once the leaders among the first have nodes. ``leads`` holds the replicated jobs that have leaders.
    """

    name: str
    first: int
    later: int
    leads: frozenset[str]


@dataclass(frozen=True)
class JobSet(Workload):
    """A jobset.x-k8s.io JobSet. If ``in_order``, each of ``jobs`` is created once the one before it is ready.

    While it is ``suspended``, none of its Jobs may run; it isn't compared, because no size depends on it. Every pod
    asks for its stage, so the stages are computed once for each JobSet. ``made_of`` names the TrainJob of which it was
    made, "" where it wasn't.
    """

    api: ClassVar[Api] = served.JOB_SET

    jobs: tuple[ReplicatedJob, ...] = ()
    in_order: bool = False
    suspended: bool = field(default=False, compare=False)
    made_of: str = ""

    @cached_property
    def stages(self) -> Mapping[str, JobSetStage]:
        """The stages by the names of the replicated jobs in them; of two jobs of one name the first counts."""
        together: dict[object, list[ReplicatedJob]] = {}
        for one in self.jobs:
            together.setdefault(one.name if self.in_order else one.after, []).append(one)
        found: dict[str, JobSetStage] = {}
        for some in together.values():
            later = sum(one.pods - one.leaders for one in some if one.leaders)
            first = sum(one.pods for one in some) - later
            stage = JobSetStage(
                some[0].name, first, later, frozenset(one.name for one in some if one.leaders)
            )
            for one in some:
                found.setdefault(one.name, stage)
        return found

    @cached_property
    def ordered(self) -> bool:
        """Whether some of its pods are created later than others."""
        return self.in_order or any(one.after for one in self.jobs)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The pods of each replicated job, by its name; of two jobs of one name the first counts."""
        return {one.name: one.pods for one in reversed(self.jobs)}

    @cached_property
    def durations(self) -> Mapping[str, float]:
        """How long the pods of each replicated job run, by its name, where that is stated."""
        return {one.name: one.duration for one in reversed(self.jobs) if one.duration is not None}


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


class _JobTemplate(msgspec.Struct):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _ReplicatedJob(msgspec.Struct, rename="camel"):
    name: str = ""
    replicas: Int64 | None = None
    template: _JobTemplate | None = None
    depends_on: list[_Named] | None = None


class _StartupPolicy(msgspec.Struct, rename="camel"):
    startup_policy_order: str | None = None


class _JobSet(msgspec.Struct, rename="camel"):
    replicated_jobs: list[_ReplicatedJob] | None = None
    startup_policy: _StartupPolicy | None = None
    suspend: bool | None = None


_job_set = tolerant_decoder("JobSet", _JobSet, Unread)


def decode_job_set(raw: bytes) -> JobSet:
    """Decode a JobSet."""
    meta, spec, _, problem = _job_set(raw)
    order = spec.startup_policy.startup_policy_order if spec.startup_policy else None
    exclusive = _is_exclusive(meta)
    jobs = tuple(_replicated(one, exclusive) for one in spec.replicated_jobs or ())
    return JobSet(
        *meta.identity,
        jobs=jobs,
        in_order=order == "InOrder",
        suspended=bool(spec.suspend),
        made_of=controller_of(meta, "trainer.kubeflow.org", "TrainJob"),
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


def _replicated(one: _ReplicatedJob, exclusive: bool) -> ReplicatedJob:
    template = one.template or _JobTemplate()
    spec = template.spec or JobSpec()
    pods = spec.width if spec.completions is None else min(spec.width, spec.completions)
    replicas = 1 if one.replicas is None else one.replicas
    led = exclusive or (template.metadata is not None and _is_exclusive(template.metadata))
    leaders = replicas if led and pods > 1 and spec.completion_mode != "NonIndexed" else 0
    after = tuple(other.name for other in one.depends_on or ())
    noted = template.metadata or Metadata()
    duration = stated_duration(noted.annotations, noted.labels, spec.active_deadline_seconds)
    return ReplicatedJob(one.name, replicas * pods, after, leaders, duration)


def _is_exclusive(meta: Metadata) -> bool:
    """Return whether pods wait until the first pod of their Job has a node (JobSet: exclusive placement)."""
    annotations: Mapping[str, str] = meta.annotations or {}
    return EXCLUSIVE in annotations and NODE_SELECTOR not in annotations


LEADERS, FOLLOWERS = "leaders", "followers"


@dataclass(frozen=True, slots=True)
class Stage:
    """The pods of a JobSet that can exist at the same time; ``name`` is "" if these are all of its pods."""

    name: str
    stated: StatedSize


def job_set(pod: Pod, workloads: Workloads) -> Membership | None:
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


def job_set_pods(job_set: Json) -> Iterator[PodSet]:
    """Yield the pods of each replicated Job; all its Jobs have the same template."""
    name, spec = job_set["metadata"]["name"], job_set["spec"]
    claims = [
        claim for policy in spec.get("volumeClaimPolicies") or () for claim in policy.get("templates") or ()
    ]
    for replicated in spec.get("replicatedJobs") or ():
        replicas, job = count_of(replicated.get("replicas"), 1), replicated["template"]["spec"]
        pods = _replicated_pods(name, replicated["name"], replicas, job)
        mounted = [one for one in claims if one["metadata"]["name"] in _mounts(pods.template["spec"])]
        yield replace(pods, template=with_claims(pods.template, mounted, name))


def _mounts(spec: Mapping[str, Any]) -> set[Any]:
    """Return the names of the volumes that containers mount."""
    containers = [one for kind in ("initContainers", "containers") for one in spec.get(kind) or ()]
    return {mount.get("name") for one in containers for mount in one.get("volumeMounts") or ()}


def _replicated_pods(job_set: str, name: str, replicas: int, spec: Mapping[str, Any]) -> PodSet:
    """Return the pods of ``replicas`` Jobs. Jobs without pods aren't counted, however many there are."""
    width, indexed = job_width(spec), spec.get("completionMode", "Indexed") == "Indexed"

    def members() -> Iterator[SetMember]:
        for job_number in range(max(replicas, 1)):
            job = f"{job_set}-{name}-{job_number}"
            labels = {
                JOB_SET_NAME: job_set,
                REPLICATED_JOB: name,
                REPLICATED_JOB_REPLICAS: str(replicas),
                JOB_INDEX: str(job_number),
            }
            owner = reference_to(
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, "uid": f"job-{job}"}}
            )
            for index in range(max(width, 1)):
                yield pod_of_job(job, index, indexed, labels, owner)

    return PodSet(job_template(spec, f"{job_set}-{name}-0", indexed), width and width * replicas, members)


JOB_SETS = Kind(JobSet, decode_job_set, pods=job_set_pods, label=JOB_SET_NAME, recognize=job_set)
