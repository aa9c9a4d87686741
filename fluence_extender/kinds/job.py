"""Jobs, and what makes Jobs alone: CronJobs and MiniClusters.

An Indexed Job that runs all its indexes at once (completions and parallelism are equal and more than 1) is a gang
without any size. Kubernetes itself would make a gang of such a Job (KEP-5547). Any other Job is a queue of independent
pods.

Sources: batch/v1; Kubernetes pkg/controller/job (manageJob) and pkg/controller/cronjob; Flux Operator pkg/flux (job.go,
affinity.go).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import Membership, Workloads, awaited, derived
from fluence_extender.kinds.pod_sets import Json, PodSet, SetMember, count_of, reference_to, template_of
from fluence_extender.kinds.resumable import (
    PodTemplate,
    Resumable,
    TemplateAnnotations,
    TemplateLabels,
    controller_of,
    held_for_placement,
    queued_since,
    suspension_is_ours,
)
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import deadline_over, stated_duration
from fluence_extender.model.dependency import Ending
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    COSCHEDULING_GROUP,
    DURATION_ANNOTATION,
    FLUX_SIZE,
    GROUP_SIZE_ANNOTATION,
    HOSTNAME,
    JOB_CONTROLLER,
    JOB_NAME,
    JOB_TRACKING,
    KUEUE_QUEUE_LABEL,
    NODES_ANNOTATION,
    QUEUE_LABEL,
    UNSATISFIABLE_CONDITION,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.pod_keys import remarks
from fluence_extender.objects.fields import Int64, Time
from fluence_extender.objects.meta import Conditions, Metadata, StatusCondition, tolerant_decoder

BACKOFF_LIMIT = 6
"""How many pods of a Job may fail before the Job fails, by default (batch/v1 JobSpec)."""


@dataclass(frozen=True, slots=True)
class Job(Resumable):
    """A batch/v1 Job.

    ``completions`` is None if the Job doesn't set it. ``failed_indexes`` counts the indexes that have failed for
    good; no more pods are created for them. ``labels`` are the labels, with their values, by which flux-k8s reads a
    gang and its size from a Job. ``stated_size`` is the text of a group-size on the Job itself, "" without one.
    ``submits_ray_job`` is true where KubeRay created the Job to submit a RayJob.
    ``unsatisfiable`` is the reason for which the Job's condition says that its pods can't be placed, "" where it
    doesn't. ``remark`` says that its annotation ``duration`` can't be read, "" where it can. No size depends on these
    two, so they aren't compared.

    The fields by which a Job is placed before its pods exist aren't compared, either. ``outcome`` is how it has ended,
    None before.
    ``kueue`` is true where Kueue's label is on it; where the cluster serves Kueue's queues, Kueue resumes it.
    ``succeeded`` counts its pods that have succeeded.
    """

    api: ClassVar[Api] = served.JOB

    parallelism: int
    completions: int | None = None
    indexed: bool = False
    failed_indexes: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    stated_size: str = ""
    submits_ray_job: bool = False
    unsatisfiable: str = field(default="", compare=False)
    remark: str = field(default="", compare=False)
    outcome: Ending | None = field(default=None, compare=False)
    succeeded: int = field(default=0, compare=False)
    kueue: bool = field(default=False, compare=False)

    @property
    def all_at_once(self) -> bool:
        """Whether it has one pod for each completion index, all at the same time."""
        return self.indexed and self.completions == self.parallelism

    @property
    def width(self) -> int:
        """How many pods it creates when it is resumed: as many as its parallelism allows and it still needs."""
        if self.completions is None:
            return self.parallelism
        return max(min(self.parallelism, self.completions - self.failed_indexes - self.succeeded), 0)

    @property
    def pods(self) -> int:
        """How many pods it has at the same time, at least 1."""
        if self.completions is None:
            return max(self.parallelism, 1)
        return max(min(self.parallelism, self.completions - self.failed_indexes), 1)


ORIGIN_LABEL = "ray.io/originated-from-crd"
JOB_SET = ("jobset.x-k8s.io", "JobSet")

LEAVES_SUSPENSION = (JOB_SET, ("batch", "CronJob"))
"""The controllers whose Jobs the service may suspend: they don't resume them, or admission keeps them from it."""


FLUX_K8S_LABELS = (COSCHEDULING_GROUP, FLUX_SIZE)
Indexes = tuple[int, int]
"""A range of completion indexes: the first one and the last one."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

ENDING = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
"""The conditions of a Job that has ended, and those of a Job that ends once its pods are gone."""


class JobSpec(msgspec.Struct, rename="camel"):
    """batch/v1 JobSpec, which a JobSet contains too."""

    parallelism: Int64 | None = None
    completions: Int64 | None = None
    completion_mode: str | None = None
    active_deadline_seconds: Int64 | None = None

    @property
    def width(self) -> int:
        """``parallelism``, which is 1 by default."""
        return 1 if self.parallelism is None else self.parallelism


class _FullSpec(JobSpec):
    suspend: bool | None = None
    managed_by: str | None = None
    template: PodTemplate | None = None

    @property
    def ours(self) -> bool:
        return bool(self.template and self.template.ours)

    @property
    def noted(self) -> TemplateAnnotations:
        """The annotations of the template."""
        meta = self.template.metadata if self.template else None
        return (meta.annotations if meta else None) or TemplateAnnotations()

    @property
    def labels(self) -> TemplateLabels:
        """The labels of the template."""
        meta = self.template.metadata if self.template else None
        return (meta.labels if meta else None) or TemplateLabels()


class _JobStatus(Conditions, rename="camel"):
    start_time: Time | None = None
    failed: Int64 | None = None
    succeeded: Int64 | None = None
    failed_indexes: str | None = None
    completed_indexes: str | None = None


_job = tolerant_decoder("Job", _FullSpec, _JobStatus)


def decode_job(raw: bytes) -> Job:
    """Decode a Job."""
    meta, spec, status, problem = _job(raw)
    labels = meta.labels or {}
    annotations = meta.annotations or {}
    stated = {**labels, **annotations}.get(GROUP_SIZE_ANNOTATION, "")
    deadline = spec.active_deadline_seconds
    failed = read_indexes(status.failed_indexes or "")
    suspended = bool(spec.suspend)
    noted = spec.noted
    return Job(
        *meta.identity,
        parallelism=spec.width,
        completions=spec.completions,
        indexed=spec.completion_mode == "Indexed",
        failed_indexes=sum(last - first + 1 for first, last in failed),
        labels=tuple((key, labels[key]) for key in FLUX_K8S_LABELS if key in labels),
        stated_size=stated,
        submits_ray_job=labels.get(ORIGIN_LABEL) == "RayJob",
        duration=stated_duration(annotations, labels, deadline),
        ends=deadline_over(status.start_time, deadline),
        remark=_remark(annotations),
        unsatisfiable=_unsatisfiable(status.conditions or ()),
        ours=spec.ours,
        suspended=suspended,
        held_for_placement=held_for_placement(meta, suspended),
        nodes=tuple(noted.nodes.partition(";")[0].split(",")) if noted.nodes else (),
        placed_with=noted.placed_with,
        done=merged((*failed, *read_indexes(status.completed_indexes or ""))),
        finished=not status.true.isdisjoint(ENDING) or meta.deletion_timestamp is not None,
        outcome=_outcome(status.true),
        version=meta.resource_version,
        generation=meta.generation,
        submission=meta.submission.over(noted.submission),
        job_set=controller_of(meta, *JOB_SET),
        succeeded=status.succeeded or 0,
        queued=bool(labels.get(QUEUE_LABEL) or labels.get(KUEUE_QUEUE_LABEL) or spec.labels.queue),
        kueue=KUEUE_QUEUE_LABEL in labels,
        created=meta.created,
        suspendable=not problem and _suspendable(meta, spec),
        queued_since=queued_since(meta),
        priority_classes=spec.template.priority_classes if spec.template else (),
        problem=problem,
        size=len(raw),
    )


def _outcome(true: Collection[str]) -> Ending | None:
    """Return how a Job of which these conditions hold has ended, None before all its pods have."""
    if "Complete" in true:
        return Ending.SUCCEEDED
    return Ending.FAILED if "Failed" in true else None


def _suspendable(meta: Metadata, spec: _FullSpec) -> bool:
    """Return whether its suspension is its user's and the service's alone, and its user hasn't forbidden it.

    A JobSet resumes its Jobs. A policy keeps it from that, and has suspended the Jobs that wait or have a plan.
    """
    held = held_for_placement(meta, bool(spec.suspend)) or bool(spec.noted.nodes)
    return (
        suspension_is_ours(meta, LEAVES_SUSPENSION)
        and (held or not controller_of(meta, *JOB_SET))
        and spec.managed_by in (None, JOB_CONTROLLER)
        and spec.labels.kueue is None
    )


def _remark(annotations: Mapping[str, str]) -> str:
    """Return a sentence that says that the Job's duration can't be read, "" where it can."""
    text = annotations.get(DURATION_ANNOTATION)
    return "" if text is None else next(remarks({}, {DURATION_ANNOTATION: text}), "")


def _unsatisfiable(conditions: Iterable[StatusCondition]) -> str:
    told = (one.message for one in conditions if one.type == UNSATISFIABLE_CONDITION and one.status == "True")
    return next(told, "")


def read_indexes(text: str) -> list[Indexes]:
    """Return the ranges of indexes in a Job's status (``1,3-5,7``), in the order written.

    A part of another form names no indexes.
    """
    found = [_RANGE.fullmatch(part) for part in text.split(",")] if text else []
    ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one]
    return [(first, last) for first, last in ranges if first <= last]


def merged(ranges: Iterable[Indexes]) -> tuple[Indexes, ...]:
    """Return ranges that name the same indexes, each index once, in order, with a gap between any two of them."""
    found: list[Indexes] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def job_of(pod: Pod, workloads: Workloads) -> Job | None:
    """Return the Job that owns the pod, or None if there is none or it isn't known yet."""
    if pod.owner is None or pod.owner.kind != "Job":
        return None
    return workloads.find(Job, pod.namespace, pod.owner.name)


def labels_of(pod: Pod, workloads: Workloads) -> Mapping[str, str]:
    """Return the pod's labels and those of its Job that name a gang or its size; the pod's own win.

    The admission webhook of flux-k8s copied such labels from a Job to its template.
    """
    job = job_of(pod, workloads)
    return {**dict(job.labels), **pod.labels} if job is not None and job.labels else pod.labels


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


COMPLETION_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
EARLIER_JOB_NAME = "job-name"
"""The label of a Job's name before it had a domain. Both are on each pod."""


def job_pods(job: Json) -> Iterator[PodSet]:
    """Yield the pods that a Job has at once, without nodes."""
    yield _of_job(job["spec"], job["metadata"]["name"], reference_to(job))


def one_run(cron_job: Mapping[str, Any]) -> Json:
    """Return the Job that a CronJob makes for one run."""
    template, meta = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    own = template.get("metadata") or {}
    metadata = {
        "name": f"{meta['name']}-1",
        "namespace": meta["namespace"],
        "labels": own.get("labels") or {},
        "annotations": own.get("annotations") or {},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def job_of_mini_cluster(cluster: Mapping[str, Any]) -> Json:
    """Return the Job that the Flux Operator makes of a MiniCluster."""
    meta, spec = cluster["metadata"], cluster.get("spec") or {}
    pod, size = spec.get("pod") or {}, count_of(spec.get("size"), 1)
    containers = [
        {"name": one.get("name") or f"container-{number}", "image": one.get("image") or "broker"}
        | {"resources": one.get("resources") or {}}
        for number, one in enumerate(spec.get("containers") or ())
    ]
    view = (spec.get("flux") or {}).get("container") or {}
    added = {"name": "flux-view", "image": view.get("image") or "flux-view"}
    keys = ("schedulerName", "nodeSelector", "tolerations", "runtimeClassName", "serviceAccountName")
    pod_spec: Json = {
        "restartPolicy": "OnFailure",
        "initContainers": [added | {"resources": view.get("resources") or {}}],
        "containers": containers,
        **{key: pod[key] for key in keys if key in pod},
    }
    if not (spec.get("network") or {}).get("disableAffinity"):
        pod_spec["affinity"] = _one_broker_a_node(meta["name"])
    template = {
        "metadata": {"labels": pod.get("labels") or {}, "annotations": pod.get("annotations") or {}},
        "spec": pod_spec,
    }
    job = {"completionMode": "Indexed", "parallelism": size, "completions": size, "template": template}
    return {**cluster, "apiVersion": "batch/v1", "kind": "Job", "spec": job}


def _one_broker_a_node(name: str) -> Json:
    others = {"matchExpressions": [{"key": EARLIER_JOB_NAME, "operator": "In", "values": [name]}]}
    apart = {"labelSelector": others, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}


def _of_job(spec: Mapping[str, Any], name: str, owner: Json) -> PodSet:
    count, indexed = job_width(spec), spec.get("completionMode") == "Indexed"

    def members() -> Iterator[SetMember]:
        for number in range(max(count, 1)):
            yield pod_of_job(name, number, indexed, {}, owner)

    return PodSet(job_template(spec, name, indexed), count, members)


def pod_of_job(name: str, number: int, indexed: bool, labels: Mapping[str, str], owner: Json) -> SetMember:
    index = {COMPLETION_INDEX: str(number)} if indexed else {}
    both = {JOB_NAME: name, EARLIER_JOB_NAME: name, **labels, **index}
    return SetMember(f"{name}-{number}", both, index, owner)


def job_template(spec: Mapping[str, Any], name: str, indexed: bool) -> Json:
    source = spec["template"]
    template = template_of(source, {**source["spec"], **_numbered(name, source["spec"])} if indexed else None)
    notes = template["metadata"].get("annotations") or {}
    kept = {key: text for key, text in notes.items() if key != NODES_ANNOTATION}
    template["metadata"] |= {"finalizers": [JOB_TRACKING], "annotations": kept}
    return template


def _numbered(name: str, spec: Mapping[str, Any]) -> Json:
    """Return the fields by which the processes of index 0 learn it."""
    kinds = ("initContainers", "containers")
    return {
        "hostname": f"{name}-0",
        **{kind: [_with_index(one) for one in spec[kind]] for kind in kinds if spec.get(kind)},
    }


def _with_index(container: Mapping[str, Any]) -> Json:
    """Return the container with the variable from which its process learns the completion index."""
    given = container.get("env") or []
    if any(one.get("name") == COMPLETION_INDEX_VARIABLE for one in given):
        return dict(container)
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*given, {"name": COMPLETION_INDEX_VARIABLE, "valueFrom": source}]}


def job_width(spec: Mapping[str, Any]) -> int:
    """Return how many pods a Job has at once."""
    parallelism = count_of(spec.get("parallelism"), 1)
    return min(parallelism, count_of(spec.get("completions"), parallelism))


def more_runs(spec: Mapping[str, Any]) -> int:
    """Return how many pods of a Job come later, each when one of the first has succeeded. Raise `BadManifest`."""
    width = job_width(spec)
    return count_of(spec.get("completions"), width) - width


JOBS = Kind(Job, decode_job, pods=job_pods, suspend=("suspend",))
