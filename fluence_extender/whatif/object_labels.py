"""Labels of flux-k8s that stand on a Deployment, ReplicaSet or StatefulSet itself, not on its template.

The admission policy ``fluence-groups`` (``deploy/base/groups.yaml``, which says why) hands them on to the template.
This is its rule for an object that is created; a test asks both about the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluence_extender.gangs.membership.conventions.pod_groups import COSCHEDULING_NAMES, COSCHEDULING_SIZES
from fluence_extender.model.names import (
    COSCHEDULING_GROUP,
    FLUX_SIZE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    LONGEST_LABEL,
)

KINDS = ("Deployment", "ReplicaSet", "StatefulSet")


def labels_handed_on(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What the template of the object gets: the name of its group and the size, each unless it says so itself.

    ``manifest`` has the name and namespace that it is created with. Raises what reading a mapping of another form
    raises.
    """
    meta = manifest["metadata"]
    labels = meta.get("labels")
    if manifest["kind"] not in KINDS or not isinstance(labels, dict) or _of_a_controller(manifest):
        return {}
    group, size = labels.get(COSCHEDULING_GROUP), labels.get(FLUX_SIZE)
    if not group and not size:
        return {}
    template = manifest["spec"]["template"].get("metadata") or {}
    own, notes = template.get("labels") or {}, template.get("annotations") or {}
    named = any(own.get(key) for key in (*COSCHEDULING_NAMES, GROUP_LABEL))
    sized = any(key in own for key in COSCHEDULING_SIZES) or GROUP_SIZE_ANNOTATION in notes
    handed = {}
    name = group or f"fluence-group-{meta['namespace']}-{meta['name']}"
    if not named and len(name) <= LONGEST_LABEL:
        handed[COSCHEDULING_GROUP] = name
    if not sized and (size or not named):
        handed[FLUX_SIZE] = size or str(manifest["spec"].get("replicas") or 1)
    return handed


def _of_a_controller(manifest: Mapping[str, Any]) -> bool:
    """Whether it is a ReplicaSet that a Deployment, say, knows by its template."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return manifest["kind"] == "ReplicaSet" and any(one.get("controller") for one in owners)
