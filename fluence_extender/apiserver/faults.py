"""Why the API server refuses an object that makes pods, whatever its pods are, or one that admission consults.

The service may not create Jobs and Deployments, so a question about them can't be tried there as its pods are.

Sources: Kubernetes pkg/apis/{batch,apps,core}/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from fluence_extender.apiserver.fields import field_faults
from fluence_extender.apiserver.policies import failure_policy_faults, success_policy_faults
from fluence_extender.apiserver.schedules import schedule_fault
from fluence_extender.apiserver.selectors import selector_faults, selects
from fluence_extender.model.names import JOB_NAME, LONGEST_LABEL
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.syntax import (
    as_begun,
    invalid,
    is_dns_label,
    is_qualified_name,
    label_rule,
    metadata_faults,
    unsupported,
)

JOB_POLICIES = ("Never", "OnFailure")

JOB_NAMES = (JOB_NAME, "job-name")
JOB_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""The labels that a Job puts on its pods."""

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

NOT_NEGATIVE: Mapping[str, tuple[str, ...]] = {
    "Job": (
        "parallelism",
        "completions",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ),
    "CronJob": ("successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds"),
    "Deployment": ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
    "ReplicaSet": ("replicas", "minReadySeconds"),
    "ReplicationController": ("replicas", "minReadySeconds"),
    "StatefulSet": (
        "replicas",
        "minReadySeconds",
        "ordinals.start",
        "updateStrategy.rollingUpdate.partition",
    ),
}
"""The numbers in the spec of a kind that may be 0, and not less."""

CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Job": {
        "completionMode": ("NonIndexed", "Indexed"),
        "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    },
    "CronJob": {"concurrencyPolicy": ("", "Allow", "Forbid", "Replace")},
    "Deployment": {"strategy.type": ("", "Recreate", "RollingUpdate")},
    "StatefulSet": {
        "podManagementPolicy": ("", "OrderedReady", "Parallel"),
        "updateStrategy.type": ("", "RollingUpdate", "OnDelete"),
        "persistentVolumeClaimRetentionPolicy.whenDeleted": ("", "Retain", "Delete"),
        "persistentVolumeClaimRetentionPolicy.whenScaled": ("", "Retain", "Delete"),
    },
}
"""The texts in the spec of a kind that are one of a few."""

OF_64_BITS = ("activeDeadlineSeconds", "startingDeadlineSeconds")
"""Those of `NOT_NEGATIVE` that have more than 32 bits."""

MOST_INDEXED = 100_000
"""The most pods at once of an Indexed Job, and the most completions up to which the limits of each index are free."""
MOST_WITH_LIMITS = 10_000
"""The most pods at once and failed indexes of a Job with more completions and a limit of each index."""
PROGRESS_DEADLINE = 600
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")

MOST_FAULTS = 4
"""The most faults of an object that are told."""


def object_fault(manifest: Mapping[str, Any]) -> str:
    """Return why the API server refuses an object, "" if it doesn't as far as this is known.

    The manifest has a kind, and metadata with a name. A pod has no fault here: it is tried itself.
    """
    if manifest["kind"] == "Pod":
        return "; ".join(islice(_metadata_type_faults(manifest), MOST_FAULTS))
    return "; ".join(islice(_faults(manifest), MOST_FAULTS))


def _metadata_type_faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of the metadata that have other types. All objects have the same ones."""
    return field_faults(manifest["metadata"], "V1ObjectMeta", "metadata")


def _faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    kind, meta = manifest["kind"], manifest["metadata"]
    if kind not in MODELS:
        yield from _metadata_type_faults(manifest)
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
        yield from _of_cron_job(manifest["spec"], str(meta["name"]))
    elif kind == "JobSet":
        yield from _of_job_set(manifest["spec"])
    elif kind in KEEPERS:
        yield from _of_values(kind, manifest["spec"], "spec")
        if kind == "StatefulSet":
            yield from _of_stateful_set(manifest["spec"], meta)
        elif kind == "Deployment":
            yield from _of_deployment(manifest["spec"])
        yield from _of_replicas(kind, manifest["spec"])


def _of_cron_job(spec: Mapping[str, Any], name: str) -> Iterator[str]:
    if len(name) > LONGEST_CRON_JOB:
        yield invalid("metadata.name", name, f"must be no more than {LONGEST_CRON_JOB} characters")
    yield from _of_values("CronJob", spec, "spec")
    yield from schedule_fault(spec)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    for field in ("selector", "manualSelector"):
        if job.get(field) not in (None, False):
            yield f"spec.jobTemplate.spec.{field}: the Jobs of a CronJob have selectors of their own; remove it"
    yield from _of_job(job, "spec.jobTemplate.spec")


def _of_job(spec: Mapping[str, Any], at: str, name: str = "") -> Iterator[str]:
    # With its own selector a Job puts no name on its pods.
    if len(name) > LONGEST_LABEL and not spec.get("manualSelector"):
        yield invalid(f"{at}.template.labels", name, label_rule(name))
    if not spec.get("template"):
        yield f"{at}.template: Required value"
        return
    if name and not spec.get("manualSelector"):
        own = {**dict.fromkeys(JOB_NAMES, name), **dict.fromkeys(JOB_UIDS)}
        for key, text in _labels(spec).items():
            if key in own and text != own[key]:
                yield invalid(
                    f"{at}.template.metadata.labels[{key}]", text, "the Job sets this label; remove it"
                )
    yield from _of_job_selector(spec, at)
    policy = _pod_spec(spec).get("restartPolicy")
    if policy not in JOB_POLICIES:
        given = "isn't set" if policy is None else f"is {policy}"
        yield f"{at}.template.spec.restartPolicy {given}; a Job's pods need Never or OnFailure"
    yield from _of_values("Job", spec, at)
    indexed = spec.get("completionMode", "NonIndexed") == "Indexed"
    if indexed and spec.get("completions") is None:
        yield f"{at}.completions: Required value: when completion mode is Indexed"
    completions = spec.get("completions") or 0
    if indexed and name and completions > 0 and not is_dns_label(last := f"{name}-{completions - 1}"):
        yield invalid(
            "metadata.name", name, f"the last pod's hostname {last} must be a lowercase RFC 1123 label"
        )
    if spec.get("backoffLimitPerIndex") is not None and not indexed:
        yield f"{at}.backoffLimitPerIndex: Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completions"
    if spec.get("podFailurePolicy") and policy == "OnFailure":
        yield f"{at}.template.spec.restartPolicy is OnFailure; with a podFailurePolicy it must be Never"
    yield from _of_indexes(spec, indexed, at)
    yield from failure_policy_faults(spec, at)
    yield from success_policy_faults(spec, at)
    manager = spec.get("managedBy")
    if manager is not None and not (
        "/" in manager and is_qualified_name(manager) and len(manager) <= LONGEST_LABEL
    ):
        yield invalid(f"{at}.managedBy", manager, "must be a domain-prefixed path of at most 63 characters")


def _of_indexes(spec: Mapping[str, Any], indexed: bool, at: str) -> Iterator[str]:
    """Yield what is wrong with the numbers of a Job's indexes."""
    parallelism, completions = spec.get("parallelism") or 0, spec.get("completions") or 0
    each, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if failed is not None and each is None:
        yield f"{at}.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"
    if failed is not None and completions and failed > completions:
        yield invalid(f"{at}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if indexed and parallelism > MOST_INDEXED:
        why = f"must be less than or equal to {MOST_INDEXED} when completion mode is Indexed"
        yield invalid(f"{at}.parallelism", parallelism, why)
    if not indexed or each is None or completions <= MOST_INDEXED:
        return
    why = f"must be at most {MOST_WITH_LIMITS} with more than {MOST_INDEXED} completions and a limit of each index"
    if failed is None:
        yield f"{at}.maxFailedIndexes: Required value: must be specified when completions is above {MOST_INDEXED}"
    for field, number in (("maxFailedIndexes", failed or 0), ("parallelism", parallelism)):
        if number > MOST_WITH_LIMITS:
            yield invalid(f"{at}.{field}", number, why)


def _of_values(kind: str, spec: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield the numbers of a spec that are negative, and the texts that are none of those allowed."""
    for path in NOT_NEGATIVE.get(kind, ()):
        number = _at(spec, path) or 0
        if number < 0:
            yield invalid(f"{at}.{path}", number, "must be greater than or equal to 0")
        if number >= 2**31 and path not in OF_64_BITS:
            yield invalid(f"{at}.{path}", number, "must be less than 2147483648")
    for path, allowed in CHOICES.get(kind, {}).items():
        if (text := _at(spec, path)) is not None and text not in allowed:
            yield unsupported(f"{at}.{path}", text, filter(None, allowed))


def _at(spec: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path whose steps are separated by dots, None if there is none."""
    value: Any = spec
    for step in path.split("."):
        value = (value or {}).get(step)
    return value


def _of_deployment(spec: Mapping[str, Any]) -> Iterator[str]:
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate")
    if rolling is not None and strategy.get("type") == "Recreate":
        yield "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
    elif rolling and all(rolling.get(field) in (0, "0%") for field in ("maxSurge", "maxUnavailable")):
        yield invalid("spec.strategy.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    for field, given in (rolling or {}).items():
        whole = isinstance(given, int) and not isinstance(given, bool) and given >= 0
        share = re.fullmatch("([0-9]{1,9})%", given) if isinstance(given, str) else None
        if not whole and (share is None or (field == "maxUnavailable" and int(share[1]) > 100)):
            why = "must be a number or a percentage, and maxUnavailable at most 100%"
            yield invalid(f"spec.strategy.rollingUpdate.{field}", given, why)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    deadline = PROGRESS_DEADLINE if deadline is None else deadline
    if deadline <= ready:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _of_stateful_set(spec: Mapping[str, Any], meta: Mapping[str, Any]) -> Iterator[str]:
    for field, name in (
        ("name", str(meta["name"])),
        ("generateName", as_begun(meta.get("generateName") or "")),
    ):
        if (name or field == "name") and not is_dns_label(name):
            yield invalid(f"metadata.{field}", meta[field], "must be a lowercase RFC 1123 label")
    update = spec.get("updateStrategy") or {}
    if update.get("type") == "OnDelete" and update.get("rollingUpdate") is not None:
        yield "spec.updateStrategy.rollingUpdate: Invalid value: only allowed for updateStrategy 'RollingUpdate'"
    for number, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at, wanted = f"spec.volumeClaimTemplates[{number}]", claim.get("spec") or {}
        if not (claim.get("metadata") or {}).get("name"):
            yield f"{at}.metadata.name: Required value"
        modes = wanted.get("accessModes") or ()
        if not modes or any(mode not in ACCESS_MODES for mode in modes):
            yield f"{at}.spec.accessModes: Required value: some of {', '.join(ACCESS_MODES)}"
        storage = ((wanted.get("resources") or {}).get("requests") or {}).get("storage")
        if not _is_positive(storage):
            yield invalid(
                f"{at}.spec.resources.requests[storage]", storage, "must be an amount greater than zero"
            )


def _is_positive(amount: Any) -> bool:
    try:
        return nanos(amount) > 0
    except InvalidQuantity:
        return False


def _of_job_selector(spec: Mapping[str, Any], at: str) -> Iterator[str]:
    selector, labels = spec.get("selector"), _labels(spec)
    if spec.get("manualSelector") and selector is None:
        yield f"{at}.selector: Required value"
    elif selector and any(selector.values()) and not spec.get("manualSelector"):
        yield f"{at}.selector: Invalid value: `selector` not auto-generated; remove it"
    yield from selector_faults(selector or {}, f"{at}.selector")
    if not selects(selector or {}, labels):
        yield invalid(f"{at}.template.metadata.labels", labels, UNSELECTED)


def _of_job_set(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a Job of a JobSet is refused.

    The API of JobSets sets restartPolicy, completions and completionMode where they are missing.
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
            yield from _of_job({"completions": 1, "completionMode": "Indexed", **job}, at)


def _of_replicas(kind: str, spec: Mapping[str, Any]) -> Iterator[str]:
    if not spec.get("template"):
        yield "spec.template: Required value"
        return
    policy = _pod_spec(spec).get("restartPolicy", "Always")
    if policy != "Always":
        yield f"spec.template.spec.restartPolicy is {policy}; the pods of a {kind} need Always"
    if _pod_spec(spec).get("activeDeadlineSeconds") is not None:
        yield "spec.template.spec.activeDeadlineSeconds: Forbidden: only the pods of Jobs have a deadline"
    labels = _labels(spec)
    selector = spec.get("selector")
    if kind == "ReplicationController":
        # Without a selector it gets the labels of its template.
        selector = {"matchLabels": selector or labels}
    elif not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield "spec.selector: Required value: the labels of the pods that it keeps"
        return
    yield from selector_faults(selector, "spec.selector")
    if not selects(selector, labels):
        yield invalid("spec.template.metadata.labels", labels, UNSELECTED)


def _labels(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the labels of the pods."""
    labels: Mapping[str, Any] = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _pod_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    template: Mapping[str, Any] = (spec.get("template") or {}).get("spec") or {}
    return template
