"""Give a pod of a Job that is placed at birth its node, on clusters without the admission policy for that.

The rule is that of the policy ``fluence-births`` (``deploy/base/suspend.yaml``), which explains it. The same tests
apply to both.

Invariant: a pod gets a node only from its Job's plan, for its own index; every other pod gets the gate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
from fluence_extender.webhook.contract import AdmissionRequest, Json
from fluence_extender.webhook.draft import Draft

JOB_CONTROLLERS = ("system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager")

LONGEST_PLAN = 200 * 1024
"""The most characters of the annotation."""

MOST_TERMS = 16
INDEX = re.compile(r"[0-9]{1,6}")
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
TERMS = (*REQUIRED, "nodeSelectorTerms")


@dataclass(frozen=True, slots=True)
class Birth:
    """The node of a new pod, and until when (RFC 3339 in UTC) its creation binds it, "" if it doesn't."""

    node: str
    binds_until: str = ""


def is_placed(pod: Json) -> bool:
    """Return whether the pod is made from the template of a Job that is placed at birth."""
    return PLACED_LABEL in (_meta(pod).get("labels") or {})


def is_born(pod: Json) -> bool:
    """Return whether the pod already has its node: the webhook may be called again for the same pod."""
    node = (_meta(pod).get("annotations") or {}).get(PINNED_ANNOTATION)
    named = any(_named(node) in (one.get("matchFields") or ()) for one in _terms(pod))
    return is_placed(pod) and named and _job(pod) is not None


def birth(pod: Json, gated_jobs: str | None) -> Birth | None:
    """Return the node that the pod's Job names for its index, None if the pod is to wait at the gate.

    ``gated_jobs`` is the list of gated Jobs, None if it couldn't be read.
    """
    notes, job = _meta(pod).get("annotations") or {}, _job(pod)
    plan, index = notes.get(NODES_ANNOTATION) or "", notes.get(COMPLETION_INDEX) or ""
    if job is None or gated_jobs is None or job["uid"] in gated_jobs or pod["spec"].get("schedulingGates"):
        return None
    if len(plan) > LONGEST_PLAN or not INDEX.fullmatch(index) or not _may_be_confined(pod):
        return None
    listed, *times = plan.split(";")
    nodes = listed.split(",")
    node = nodes[int(index)] if int(index) < len(nodes) else ""
    return Birth(node, times[0] if len(times) == 1 else "") if NAME.fullmatch(node) else None


def settle(draft: Draft, born: Birth, request: AdmissionRequest) -> None:
    """Bind the draft's pod to its node, or pin it there if it needs other checks before it is bound."""
    if draft.get("metadata", "managedFields"):
        # Managed fields cost the API server time with each later write, and no other client writes these pods.
        draft.remove("metadata", "managedFields")
    notes = draft.get("metadata", "annotations") or {}
    by_its_job = request.user in JOB_CONTROLLERS
    marked = MARK_RESOURCE in (draft.get("spec", "containers", 0, "resources", "requests") or {})
    if by_its_job and request.now < born.binds_until and PLACED_ANNOTATION in notes and not marked:
        draft.put("spec", "nodeName", value=born.node)
        return
    if PLACED_ANNOTATION in notes and not by_its_job:
        draft.remove("metadata", "annotations", PLACED_ANNOTATION)
    draft.put("metadata", "annotations", PINNED_ANNOTATION, value=born.node)
    terms = draft.get(*TERMS)
    if not terms:
        draft.put(*TERMS, value=[{"matchFields": [_named(born.node)]}])
        return
    for at, term in enumerate(terms):
        if term.get("matchFields"):
            draft.insert(*TERMS, at, "matchFields", values=[_named(born.node)])
        elif term.get("matchExpressions"):
            draft.put(*TERMS, at, "matchFields", value=[_named(born.node)])


def _may_be_confined(pod: Json) -> bool:
    """Return whether the pod's required node affinity can be narrowed to a node, because an empty term selects none."""
    terms = _terms(pod)
    usable = any(one.get("matchExpressions") or one.get("matchFields") for one in terms)
    return not terms or (len(terms) <= MOST_TERMS and usable)


def _terms(pod: Json) -> list[Json]:
    """Return the terms of the required node affinity."""
    return Draft(pod).get(*TERMS) or []


def _job(pod: Json) -> Json | None:
    """Return the reference to the Job that controls the pod, None if nothing or anything else does."""
    found = [one for one in _meta(pod).get("ownerReferences") or () if one.get("controller")]
    is_job = len(found) == 1 and (found[0].get("kind"), found[0].get("apiVersion")) == ("Job", "batch/v1")
    return found[0] if is_job else None


def _named(node: str | None) -> dict[str, Any]:
    return {"key": NODE_NAME, "operator": "In", "values": [node]}


def _meta(pod: Json) -> Json:
    meta: Json = pod.get("metadata") or {}
    return meta
