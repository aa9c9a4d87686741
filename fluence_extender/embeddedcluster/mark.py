"""Mark the pods that the extender itself has to bind, and take off its annotations that a pod brings.

The rule is that of the policy ``fluence-gate`` (``deploy/base/gate.yaml``), which explains it. A test applies both to
the same pods.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fluence_extender.cluster.decode.pod import PodSpec, is_interdependent
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    COSCHEDULING_NAMES,
    FLUX_SIZE,
    GROUP_LABEL,
    KUEUE_QUEUE_LABEL,
    MARK_RESOURCE,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    RESOURCE_PREFIX,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

GROUP_LABELS = (GROUP_LABEL, *COSCHEDULING_NAMES, FLUX_SIZE)
"""The labels by which a pod itself names its gang. The policy deploy/base/gate.yaml lists the same ones, twice."""

MOST_LOOKED_AT = 1000
"""A pod with more annotations, containers or the like is marked unseen: the API server limits what the policy costs."""

CONSTRAINTS = ("affinity", "topologySpreadConstraints", "volumes", "resourceClaims")
"""The fields of a pod's spec by which kube-scheduler's filters may look at more than its node and free capacity."""


def mark(draft: Draft, always: bool = False) -> None:
    """Mark the draft's pod if the extender has to bind it, or ``always``."""
    if not (always or needs_mark(draft.object)):
        return
    for kind in ("requests", "limits"):
        draft.put("spec", "containers", 0, "resources", kind, MARK_RESOURCE, value="0")


def take_off_copies(draft: Draft) -> None:
    """Remove the annotations that say on which node another pod was placed, and what the plan of its Job was."""
    for name in (PINNED_ANNOTATION, NODES_ANNOTATION):
        if name in (draft.get("metadata", "annotations") or {}):
            draft.remove("metadata", "annotations", name)


def needs_mark(pod: Json) -> bool:
    """Return whether the extender itself has to bind the pod."""
    meta, spec = pod.get("metadata") or {}, pod["spec"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return (
        _is_large(meta, spec)
        or _requests_devices(spec)
        or any(_is_stamp(name) for name in annotations)
        or (_needs_barrier(meta, spec, labels) and KUEUE_QUEUE_LABEL not in labels)
    )


def _is_large(meta: Json, spec: Json) -> bool:
    containers = tuple(_containers(spec))
    looked_at = (
        *(meta.get(name) for name in ("annotations", "ownerReferences")),
        *(spec.get(name) for name in ("volumes", "topologySpreadConstraints")),
        containers,
        *(one.get("ports") for one in containers),
        *((one.get("resources") or {}).get("requests") for one in containers),
    )
    return any(len(one or ()) > MOST_LOOKED_AT for one in looked_at)


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _requests_devices(spec: Json) -> bool:
    return any(
        name.startswith(RESOURCE_PREFIX)
        for container in _containers(spec)
        for name in (container.get("resources") or {}).get("requests") or ()
    )


def _is_stamp(name: str) -> bool:
    return name == ALLOCATION_ANNOTATION or describes_backend(name)


def _needs_barrier(meta: Json, spec: Json, labels: Json) -> bool:
    grouped = any(name in labels for name in GROUP_LABELS)
    has_controller = any(one.get("controller") for one in meta.get("ownerReferences") or ())
    ports = any(
        (port.get("hostPort") or 0) > 0
        for container in _containers(spec)
        for port in container.get("ports") or ()
    )
    constraints = {name: spec[name] for name in CONSTRAINTS if name in spec}
    return (
        is_interdependent(msgspec.convert(constraints, PodSpec))
        or ports
        or bool(spec.get("schedulingGroup"))
        or (grouped and not has_controller)
    )
