"""Create workloads suspended until they have places, or their turn, on clusters without the policies for that.

The rules are those of the policies ``fluence-suspend`` and ``fluence-suspend-operators`` (``deploy/base/suspend.yaml``,
``deploy/base/operators.yaml``), which explain them. The same tests apply to both. The API server doesn't call the
webhook for namespaces that opt out (`registration`), so a namespace's label isn't checked here.

Invariant: a suspension that the annotation ``suspended-for`` records is ours; a user's has no such annotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fluence_extender.model.names import (
    AT_BIRTH,
    JOB_CONTROLLER,
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    OPERATORS,
    PLACED_ANNOTATION,
    PLACED_LABEL,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SCHEDULER_NAME,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

SUSPENDED = {"Job": ("batch", "v1"), "MPIJob": ("kubeflow.org", "v2beta1"), "RayCluster": ("ray.io", "v1")}
"""The kinds that wait without pods, each with the group and the version that is read."""

RESUMING_OWNERS = {"Job": ("CronJob", "batch/"), "MPIJob": ("", ""), "RayCluster": ("RayJob", "ray.io/")}
"""The controllers whose workloads are suspended anyway: kind and prefix of the API version."""

TEMPLATE = ("spec", "template", "metadata")


def admit_workload(draft: Draft, kind: str, old: Json | None) -> None:
    """Suspend a new workload that has to wait, or remove the record of its suspension from one that is resumed.

    ``old`` is the object before an update, and None when the object is created. The service's annotations are removed
    from a new workload, which may be a copy of another.
    """
    if kind == "Job" and draft.get("spec", "template", "spec", "schedulerName") != SCHEDULER_NAME:
        return
    if old is not None:
        if _noted(draft, SUSPENDED_FOR_ANNOTATION) and not _suspended(draft, kind):
            _resumed(draft, kind, old)
        return
    for name in (SUSPENDED_FOR_ANNOTATION, QUEUED_SINCE_ANNOTATION):
        if _noted(draft, name):
            draft.remove("metadata", "annotations", name)
    for name in (NODES_ANNOTATION, PLACED_ANNOTATION) if kind == "Job" else ():
        if name in _map(draft.get(*TEMPLATE, "annotations")):
            draft.remove(*TEMPLATE, "annotations", name)
    at_birth = kind == "Job" and _is_placed_at_birth(draft)
    if _waits(draft, kind, at_birth):
        draft.put(*_suspend_path(kind), value=True)
        draft.put("metadata", "annotations", SUSPENDED_FOR_ANNOTATION, value=SUSPENDED_FOR_PLACEMENT)
        if at_birth:
            draft.put(*TEMPLATE, "labels", PLACED_LABEL, value=AT_BIRTH)


def _resumed(draft: Draft, kind: str, old: Json) -> None:
    """Remove the record, or keep a JobSet's Job suspended: its controller resumes each suspended Job."""
    if kind != "Job" or not _is_of_job_set(draft) or _opts_out(draft):
        draft.remove("metadata", "annotations", SUSPENDED_FOR_ANNOTATION)
        return
    draft.put("spec", "suspend", value=True)
    now = _list(draft.get("spec", "template", "spec", "tolerations"))
    before = _list(old["spec"]["template"]["spec"].get("tolerations"))
    if now != before and all(one in before for one in now) and all(one in now for one in before):
        draft.put("spec", "template", "spec", "tolerations", value=before)


def _waits(draft: Draft, kind: str, at_birth: bool) -> bool:
    """Return whether a new workload is to wait without pods."""
    labels = _map(draft.get("metadata", "labels"))
    kueues = kind == "Job" and bool(labels.get(KUEUE_QUEUE_LABEL))
    templates = list(_templates(draft, kind))
    marked = [labels, *(_map(_map(one.get("metadata")).get("labels")) for one in templates)]
    in_queue = kueues or any(one.get(QUEUE_LABEL) for one in marked)
    in_turn = in_queue and not (kind == "Job" and (_is_of_job_set(draft) or not _parallelism(draft)))
    return (
        (at_birth or in_turn)
        and (kueues or not _suspended(draft, kind))
        and (kueues or not any(KUEUE_QUEUE_LABEL in one for one in marked))
        and not _opts_out(draft)
        and _runner(draft, kind) in ("", *((JOB_CONTROLLER,) if kind == "Job" else OPERATORS))
        and all(_leaves_suspension(one, kind) for one in _controllers(draft))
        and all(_may_wait(_map(one.get("spec"))) for one in templates)
    )


def _is_placed_at_birth(draft: Draft) -> bool:
    """Return whether a Job has one pod for each index, all at once; a JobSet's Job may have one pod alone."""
    pods = draft.get("spec", "completions")
    indexed = draft.get("spec", "completionMode") == "Indexed" and isinstance(pods, int)
    return bool(indexed and _parallelism(draft) == pods > (0 if _is_of_job_set(draft) else 1))


def _may_wait(spec: Json) -> bool:
    ours = spec.get("schedulerName") == SCHEDULER_NAME
    return ours and not spec.get("schedulingGates") and not spec.get("nodeName")


def _leaves_suspension(owner: Json, kind: str) -> bool:
    """Return whether a controller doesn't resume what it owns; a JobSet's attempts have no effect."""
    known, version = RESUMING_OWNERS[kind]
    named = owner.get("kind") == known and str(owner.get("apiVersion")).startswith(version)
    return named or (kind == "Job" and _is_job_set(owner))


def _is_of_job_set(draft: Draft) -> bool:
    return any(map(_is_job_set, _controllers(draft)))


def _is_job_set(owner: Json) -> bool:
    return owner.get("kind") == "JobSet" and str(owner.get("apiVersion")).startswith("jobset.x-k8s.io/")


def _controllers(draft: Draft) -> Iterator[Json]:
    return (one for one in _list(draft.get("metadata", "ownerReferences")) if one.get("controller"))


def _opts_out(draft: Draft) -> bool:
    return bool(draft.get("metadata", "labels", SUSPEND_LABEL) == NEVER_SUSPEND)


def _noted(draft: Draft, name: str) -> bool:
    return name in _map(draft.get("metadata", "annotations"))


def _suspended(draft: Draft, kind: str) -> bool:
    return bool(draft.get(*_suspend_path(kind)))


def _suspend_path(kind: str) -> tuple[str, ...]:
    return ("spec", "runPolicy", "suspend") if kind == "MPIJob" else ("spec", "suspend")


def _runner(draft: Draft, kind: str) -> str:
    """Return which controller runs the workload, "" for the usual one."""
    path = ("runPolicy", "managedBy") if kind == "MPIJob" else ("managedBy",)
    return str(draft.get("spec", *path) or "")


def _templates(draft: Draft, kind: str) -> Iterator[Json]:
    if kind == "Job":
        yield _map(draft.get("spec", "template"))
    elif kind == "MPIJob":
        yield from (
            _map(_map(one).get("template")) for one in _map(draft.get("spec", "mpiReplicaSpecs")).values()
        )
    else:
        yield _map(draft.get("spec", "headGroupSpec", "template"))
        yield from (_map(one.get("template")) for one in _list(draft.get("spec", "workerGroupSpecs")))


def _parallelism(draft: Draft) -> int:
    found = draft.get("spec", "parallelism")
    return found if isinstance(found, int) else 1


def _map(value: Any) -> Json:
    """Return a map, and an empty one for any other value: operators' objects aren't validated yet."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
