"""Bind a pod of a Job by its creation.

The rule is that of the policy ``fluence-gate`` (``deploy/base/gate.yaml``), which explains it.

Invariant: a pod gets a node only from its Job's plan, for its own index; every other pod waits for its place.
"""

from __future__ import annotations

import re

from fluence_extender.embeddedcluster.classes import containers_of, is_filtered
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    COMPLETION_INDEX,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    RESOURCE_PREFIX,
)
from fluence_extender.webhook.contract import Json

LONGEST_PLAN = 200 * 1024
"""The most characters of the annotation."""

INDEX = re.compile(r"[0-9]{1,6}")
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def planned_node(pod: Json) -> str:
    """Return the node that the plan of the pod's Job names for its index, "" if it has to be bound otherwise."""
    notes = pod["metadata"].get("annotations") or {}
    plan, index = notes.get(NODES_ANNOTATION) or "", notes.get(COMPLETION_INDEX) or ""
    if PLACED_ANNOTATION not in notes or not _is_of_job(pod) or not _is_plain(pod):
        return ""
    if len(plan) > LONGEST_PLAN or not INDEX.fullmatch(index):
        return ""
    nodes = plan.split(",")
    node = nodes[int(index)] if int(index) < len(nodes) else ""
    return node if NAME.fullmatch(node) else ""


def _is_plain(pod: Json) -> bool:
    """Return whether a Binding of the pod would say nothing but its node, and nothing else keeps it waiting."""
    notes, spec = pod["metadata"].get("annotations") or {}, pod["spec"]
    stamped = any(name == ALLOCATION_ANNOTATION or describes_backend(name) for name in notes)
    devices = any(
        name.startswith(RESOURCE_PREFIX)
        for container in containers_of(spec)
        for name in (container.get("resources") or {}).get("requests") or ()
    )
    return not (stamped or devices or spec.get("schedulingGates") or is_filtered(pod))


def _is_of_job(pod: Json) -> bool:
    found = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    return len(found) == 1 and (found[0].get("kind"), found[0].get("apiVersion")) == ("Job", "batch/v1")
