"""Say whether a new pod is direct or filtered, and take off what it may have copied from another.

The rule is that of the policy ``fluence-gate`` (``deploy/base/gate.yaml``), which explains it. A test applies both to
the same pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GATE, NODES_ANNOTATION, SCHEDULER_NAME
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

NODE_VOLUMES = frozenset(
    {"projected", "emptyDir", "configMap", "secret", "downwardAPI", "hostPath", "nfs", "image"}
)
"""The sources of volumes that are the same to kube-scheduler on every node."""

MOST_LOOKED_AT = 1000
"""A pod with more annotations, volumes or the like is filtered unseen: the API server limits what the policy costs."""


def classify(draft: Draft) -> None:
    """Make the draft's pod direct, or filtered with our gate."""
    filtered = is_filtered(draft.object)
    draft.put("spec", "schedulerName", value=SCHEDULER_NAME if filtered else DIRECT_SCHEDULER_NAME)
    if filtered:
        draft.add_gate(GATE)


def take_off_copies(draft: Draft) -> None:
    """Remove the annotation that names the nodes of a Job's pods."""
    if NODES_ANNOTATION in (draft.get("metadata", "annotations") or {}):
        draft.remove("metadata", "annotations", NODES_ANNOTATION)


def is_filtered(pod: Json) -> bool:
    """Return whether kube-scheduler's filters have to judge the pod, because the service can't."""
    meta, spec = pod["metadata"], pod["spec"]
    return (
        any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ())
        or any(len(one or ()) > MOST_LOOKED_AT for one in _looked_at(meta, spec))
        or any(NODE_VOLUMES.isdisjoint(_sources(one)) for one in spec.get("volumes") or ())
        or bool(spec.get("resourceClaims"))
    )


def containers_of(spec: Json) -> tuple[Json, ...]:
    """Return the containers and init containers."""
    return *(spec.get("containers") or ()), *(spec.get("initContainers") or ())


def _looked_at(meta: Json, spec: Json) -> Iterator[Sized | None]:
    yield meta.get("annotations")
    yield spec.get("volumes")
    yield containers_of(spec)


def _sources(volume: Json) -> set[str]:
    """Return where a volume comes from; the API server makes one without a source an emptyDir."""
    return {key for key, source in volume.items() if key != "name" and source is not None} or {"emptyDir"}
