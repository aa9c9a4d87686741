"""Why the API server refuses an object that makes pods, whatever its pods are, or one that admission consults.

The service may not create Jobs and Deployments, so a question about them can't be tried there as its pods are.

Sources: Kubernetes pkg/apis/{batch,apps,core}/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from fluence_extender.kinds.fields import field_faults
from fluence_extender.model.names import LONGEST_LABEL
from fluence_extender.model.syntax import invalid, label_rule, metadata_faults

JOB_POLICIES = ("Never", "OnFailure")

UNSELECTED = "`selector` does not match template `labels`"
LONGEST_CRON_JOB = 52
"""The most characters of a CronJob's name. Its Jobs append eleven."""

MODELS = {
    "Pod": "V1Pod",
    "Job": "V1Job",
    "CronJob": "V1CronJob",
    "Deployment": "V1Deployment",
    "ReplicaSet": "V1ReplicaSet",
    "ReplicationController": "V1ReplicationController",
    "StatefulSet": "V1StatefulSet",
    "LimitRange": "V1LimitRange",
    "PriorityClass": "V1PriorityClass",
    "RuntimeClass": "V1RuntimeClass",
}
"""The models of Kubernetes' own kinds."""

KEEPERS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""The kinds that keep a number of equal pods."""

MOST_FAULTS = 4
"""The most faults of an object that are told."""


def object_fault(manifest: Mapping[str, Any]) -> str:
    """Return why the API server refuses an object, "" if it doesn't as far as this is known.

    The manifest has a kind, and metadata with a name. A pod has no fault here: it is tried itself.
    """
    if manifest["kind"] == "Pod":
        return ""
    return "; ".join(islice(_faults(manifest), MOST_FAULTS))


def _faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    kind, meta = manifest["kind"], manifest["metadata"]
    yield from metadata_faults(meta, "metadata")
    wrong = list(islice(field_faults(manifest, MODELS[kind], ""), MOST_FAULTS)) if kind in MODELS else []
    yield from wrong
    if wrong or not isinstance(manifest.get("spec"), dict):
        return
    if kind == "Job":
        spec = manifest["spec"]
        if spec.get("parallelism") is None and spec.get("completions") is None:
            # The API server does so for a Job, and not for the template of a CronJob.
            spec = {**spec, "parallelism": 1, "completions": 1}
        yield from _of_job(spec, "spec", str(meta["name"]))
    elif kind == "CronJob":
        if len(str(meta["name"])) > LONGEST_CRON_JOB:
            yield invalid(
                "metadata.name", meta["name"], f"must be no more than {LONGEST_CRON_JOB} characters"
            )
        if not manifest["spec"].get("schedule"):
            yield "spec.schedule: Required value"
        job = (manifest["spec"].get("jobTemplate") or {}).get("spec") or {}
        for field in ("selector", "manualSelector"):
            if job.get(field) not in (None, False):
                yield f"spec.jobTemplate.spec.{field}: the Jobs of a CronJob have selectors of their own; remove it"
        yield from _of_job(job, "spec.jobTemplate.spec")
    elif kind == "JobSet":
        yield from _of_job_set(manifest["spec"])
    elif kind in KEEPERS:
        yield from _of_replicas(kind, manifest["spec"])


def _of_job(spec: Mapping[str, Any], at: str, name: str = "") -> Iterator[str]:
    # With its own selector a Job puts no name on its pods.
    if len(name) > LONGEST_LABEL and not spec.get("manualSelector"):
        yield invalid(f"{at}.template.labels", name, label_rule(name))
    if not spec.get("template"):
        yield f"{at}.template: Required value"
        return
    yield from _of_job_selector(spec, at)
    policy = _pod_spec(spec).get("restartPolicy")
    if policy not in JOB_POLICIES:
        given = "isn't set" if policy is None else f"is {policy}"
        yield f"{at}.template.spec.restartPolicy {given}; a Job's pods need Never or OnFailure"
    for field in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if (spec.get(field) or 0) < 0:
            yield invalid(f"{at}.{field}", spec[field], "must be greater than or equal to 0")
    indexed = spec.get("completionMode", "NonIndexed") == "Indexed"
    if indexed and spec.get("completions") is None:
        yield f"{at}.completions: Required value: when completion mode is Indexed"
    if spec.get("backoffLimitPerIndex") is not None and not indexed:
        yield f"{at}.backoffLimitPerIndex: Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completions"
    if spec.get("podFailurePolicy") and policy == "OnFailure":
        yield f"{at}.template.spec.restartPolicy is OnFailure; with a podFailurePolicy it must be Never"


def _of_job_selector(spec: Mapping[str, Any], at: str) -> Iterator[str]:
    selector, labels = spec.get("selector"), _labels(spec)
    if spec.get("manualSelector") and selector is None:
        yield f"{at}.selector: Required value"
    elif selector and any(selector.values()) and not spec.get("manualSelector"):
        yield f"{at}.selector: Invalid value: `selector` not auto-generated; remove it"
    wanted = (selector or {}).get("matchLabels") or {}
    if any(labels.get(key) != text for key, text in wanted.items()):
        yield invalid(f"{at}.template.metadata.labels", labels, UNSELECTED)


def _of_job_set(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a Job of a JobSet is refused.

    The API of JobSets sets restartPolicy and completions where they are missing.
    """
    replicated = spec.get("replicatedJobs")
    for number, one in enumerate(replicated if isinstance(replicated, list) else ()):
        template = one.get("template") if isinstance(one, dict) else None
        job = template.get("spec") if isinstance(template, dict) else None
        if not isinstance(job, dict):
            continue
        at = f"spec.replicatedJobs[{number}].template.spec"
        wrong = list(islice(field_faults(job, "V1JobSpec", at), MOST_FAULTS))
        yield from wrong
        if not wrong and _pod_spec(job).get("restartPolicy") is not None:
            yield from _of_job({**job, "completions": job.get("completions", 1)}, at)


def _of_replicas(kind: str, spec: Mapping[str, Any]) -> Iterator[str]:
    if not spec.get("template"):
        yield "spec.template: Required value"
        return
    policy = _pod_spec(spec).get("restartPolicy", "Always")
    if policy != "Always":
        yield f"spec.template.spec.restartPolicy is {policy}; the pods of a {kind} need Always"
    if (spec.get("replicas") or 0) < 0:
        yield invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    labels = _labels(spec)
    selector = spec.get("selector")
    if kind == "ReplicationController":
        # Without a selector it gets the labels of its template.
        wanted = selector or labels
    elif not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield "spec.selector: Required value: the labels of the pods that it keeps"
        return
    else:
        wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != text for key, text in wanted.items()):
        yield invalid("spec.template.metadata.labels", labels, UNSELECTED)


def _labels(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the labels of the pods."""
    labels: Mapping[str, Any] = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _pod_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    template: Mapping[str, Any] = (spec.get("template") or {}).get("spec") or {}
    return template
