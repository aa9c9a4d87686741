"""Give a pod of a Job that is placed at birth its node.

The rule is that of the policy ``fluence-births`` (``deploy/base/suspend.yaml``), which explains it.

Invariant: a pod gets a node only from its Job's plan, for its own index; every other pod gets the gate.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    MARK_RESOURCE,
    NODE_NAME,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
    PLACED_LABEL,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

LONGEST_PLAN = 200 * 1024
"""The most characters of the annotation."""

MOST_TERMS = 16
INDEX = re.compile(r"[0-9]{1,6}")
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
TERMS = (*REQUIRED, "nodeSelectorTerms")


def is_placed(pod: Json) -> bool:
    """Return whether the pod is made from the template of a Job that is placed at birth."""
    return PLACED_LABEL in (pod["metadata"].get("labels") or {})


def node_at_birth(pod: Json, gated_jobs: Collection[str]) -> str:
    """Return the node that the pod's Job names for its index, "" if the pod is to wait at the gate.

    ``gated_jobs`` are the uids of Jobs whose pods wait there.
    """
    notes, job = pod["metadata"].get("annotations") or {}, _job(pod)
    plan, index = notes.get(NODES_ANNOTATION) or "", notes.get(COMPLETION_INDEX) or ""
    if not is_placed(pod) or job is None or job["uid"] in gated_jobs or pod["spec"].get("schedulingGates"):
        return ""
    if len(plan) > LONGEST_PLAN or not INDEX.fullmatch(index) or not _may_be_confined(pod):
        return ""
    nodes = plan.split(",")
    node = nodes[int(index)] if int(index) < len(nodes) else ""
    return node if NAME.fullmatch(node) else ""


def settle(draft: Draft, node: str, bound: bool) -> None:
    """Bind the draft's pod to ``node`` if it is to be ``bound``, or pin it there if it needs other checks first."""
    notes = draft.get("metadata", "annotations") or {}
    marked = MARK_RESOURCE in (draft.get("spec", "containers", 0, "resources", "requests") or {})
    if bound and PLACED_ANNOTATION in notes and not marked:
        draft.put("spec", "nodeName", value=node)
        return
    draft.put("metadata", "annotations", PINNED_ANNOTATION, value=node)
    field = {"key": NODE_NAME, "operator": "In", "values": [node]}
    terms = draft.get(*TERMS)
    if not terms:
        draft.put(*TERMS, value=[{"matchFields": [field]}])
        return
    for at, term in enumerate(terms):
        if term.get("matchFields"):
            draft.insert(*TERMS, at, "matchFields", values=[field])
        elif term.get("matchExpressions"):
            draft.put(*TERMS, at, "matchFields", value=[field])


def _may_be_confined(pod: Json) -> bool:
    """Return whether the pod's required node affinity can be narrowed to a node, because an empty term selects none."""
    terms: list[Json] = Draft(pod).get(*TERMS) or []
    usable = any(one.get("matchExpressions") or one.get("matchFields") for one in terms)
    return not terms or (len(terms) <= MOST_TERMS and usable)


def _job(pod: Json) -> dict[str, Any] | None:
    """Return the reference to the Job that controls the pod, None if nothing or anything else does."""
    found = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    is_job = len(found) == 1 and (found[0].get("kind"), found[0].get("apiVersion")) == ("Job", "batch/v1")
    return found[0] if is_job else None
