"""Create Jobs suspended until they have places, or their turn.

The rules are those of the policy ``fluence-suspend`` (``deploy/base/suspend.yaml``), which explains them.

Invariant: a suspension that the annotation ``suspended-for`` records is ours; a user's has no such annotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fluence_extender.model.names import (
    JOB_CONTROLLER,
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SCHEDULER_NAMES,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

TEMPLATE = ("spec", "template", "metadata")

UNCOUNTED = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
"""The podFailurePolicy by which evictions aren't counted as failures."""


def suspend_if_it_waits(draft: Draft) -> None:
    """Suspend a new Job that has to wait.

    The service's annotations are removed from it, because it may be a copy of another.
    """
    if draft.get("spec", "template", "spec", "schedulerName") not in SCHEDULER_NAMES:
        return
    for name in (SUSPENDED_FOR_ANNOTATION, QUEUED_SINCE_ANNOTATION):
        if name in (draft.get("metadata", "annotations") or {}):
            draft.remove("metadata", "annotations", name)
    for name in (NODES_ANNOTATION, PLACED_ANNOTATION):
        if name in (draft.get(*TEMPLATE, "annotations") or {}):
            draft.remove(*TEMPLATE, "annotations", name)
    if _waits(draft):
        draft.put("spec", "suspend", value=True)
        draft.put("metadata", "annotations", SUSPENDED_FOR_ANNOTATION, value=SUSPENDED_FOR_PLACEMENT)
        if draft.get("spec", "template", "spec", "restartPolicy") == "Never" and not draft.get(
            "spec", "podFailurePolicy"
        ):
            draft.put("spec", "podFailurePolicy", value=UNCOUNTED)
            draft.put("spec", "podReplacementPolicy", value="Failed")


def _waits(draft: Draft) -> bool:
    """Return whether a new Job of ours is to wait without pods."""
    own: dict[str, str] = draft.get("metadata", "labels") or {}
    marked = (own, draft.get(*TEMPLATE, "labels") or {})
    kueues = bool(own.get(KUEUE_QUEUE_LABEL))
    in_queue = kueues or any(one.get(QUEUE_LABEL) for one in marked)
    in_turn = in_queue and not _is_of_job_set(draft) and _parallelism(draft) > 0
    pod: dict[str, Any] = draft.get("spec", "template", "spec")
    return (
        (_is_placed_at_birth(draft) or in_turn)
        and (kueues or not draft.get("spec", "suspend"))
        and (kueues or not any(KUEUE_QUEUE_LABEL in one for one in marked))
        and own.get(SUSPEND_LABEL) != NEVER_SUSPEND
        and (draft.get("spec", "managedBy") or JOB_CONTROLLER) == JOB_CONTROLLER
        and all(_leaves_suspension(one) for one in _controllers(draft))
        and not pod.get("schedulingGates")
        and not pod.get("nodeName")
    )


def _is_placed_at_birth(draft: Draft) -> bool:
    """Return whether a Job has one pod for each index, all at once; a JobSet's Job may have one pod alone."""
    pods = draft.get("spec", "completions")
    indexed = draft.get("spec", "completionMode") == "Indexed" and isinstance(pods, int)
    return bool(indexed and _parallelism(draft) == pods > (0 if _is_of_job_set(draft) else 1))


def _leaves_suspension(owner: Json) -> bool:
    """Return whether a controller doesn't resume what it owns; a JobSet's attempts have no effect."""
    named = owner.get("kind") == "CronJob" and str(owner.get("apiVersion")).startswith("batch/")
    return named or _is_job_set(owner)


def _is_of_job_set(draft: Draft) -> bool:
    return any(map(_is_job_set, _controllers(draft)))


def _is_job_set(owner: Json) -> bool:
    return owner.get("kind") == "JobSet" and str(owner.get("apiVersion")).startswith("jobset.x-k8s.io/")


def _controllers(draft: Draft) -> Iterator[Json]:
    owners = draft.get("metadata", "ownerReferences") or ()
    return (one for one in owners if one.get("controller"))


def _parallelism(draft: Draft) -> int:
    found = draft.get("spec", "parallelism")
    return found if isinstance(found, int) else 1
