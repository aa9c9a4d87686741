"""Which pods are marked for our bind verb, where no admission policy marks them.

The rule is that of the policy ``fluence-gate`` in ``deploy/base/gate.yaml``, which says what it is for; a test asks
both about the same pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluence_extender.gangs.membership.conventions import pod_groups
from fluence_extender.model.assignment import describes_backend
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    FLUX_SIZE,
    GROUP_LABEL,
    MARK_RESOURCE,
    RESOURCE_PREFIX,
)
from fluence_extender.webhook.contract import Json
from fluence_extender.webhook.draft import Draft

GROUP_LABELS = (GROUP_LABEL, *pod_groups.COSCHEDULING_NAMES, FLUX_SIZE)
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
JUDGED_VOLUMES = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "iscsi",
    "rbd",
)


def mark(draft: Draft) -> None:
    """Mark the draft's pod if it has to be, and isn't bound already."""
    if draft.spec.get("nodeName") or not is_to_be_marked(draft.pod):
        return
    for kind in ("requests", "limits"):
        draft.put("spec", "containers", 0, "resources", kind, MARK_RESOURCE, value="1")


def is_to_be_marked(pod: Json) -> bool:
    """Whether the extender itself has to bind the pod."""
    meta, spec = pod.get("metadata") or {}, pod["spec"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return (
        _asks_for_devices(spec)
        or any(_is_stamp(name) for name in annotations)
        or (_is_bound_together(meta, spec, labels) and KUEUE_LABEL not in labels)
    )


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _asks_for_devices(spec: Json) -> bool:
    return any(
        name.startswith(RESOURCE_PREFIX)
        for container in _containers(spec)
        for name in (container.get("resources") or {}).get("requests") or ()
    )


def _is_stamp(name: str) -> bool:
    return name == ALLOCATION_ANNOTATION or describes_backend(name)


def _is_bound_together(meta: Json, spec: Json, labels: Json) -> bool:
    grouped = any(name in labels for name in GROUP_LABELS)
    replaced = any(one.get("controller") for one in meta.get("ownerReferences") or ())
    ports = any(
        (port.get("hostPort") or 0) > 0
        for container in _containers(spec)
        for port in container.get("ports") or ()
    )
    return _is_judged(spec) or ports or bool(spec.get("schedulingGroup")) or (grouped and not replaced)


def _is_judged(spec: Json) -> bool:
    """Whether kube-scheduler's filters judge the pod by more than its node and what is free there."""
    affinity = spec.get("affinity") or {}
    between = (affinity.get(kind) or {} for kind in ("podAffinity", "podAntiAffinity"))
    return (
        any(one.get(REQUIRED) for one in between)
        or any(
            one.get("whenUnsatisfiable") != "ScheduleAnyway"
            for one in spec.get("topologySpreadConstraints") or ()
        )
        or any(kind in volume for volume in spec.get("volumes") or () for kind in JUDGED_VOLUMES)
        or bool(spec.get("resourceClaims"))
    )
