"""What the API server would refuse in a pod, as far as a patch could cause it.

Sources: validation of core/v1 (names and mounts are unique within a pod, extended resources aren't overcommitted, a pod
with a node has no gates), and the DNS-1123 and label syntax of apimachinery. Containers are named, not numbered, so the
faults of a pod and of its patched copy can be compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fluence_extender.model.requests import is_extended
from fluence_extender.model.syntax import is_label_value, is_object_name
from fluence_extender.webhook.validity import MOST_ANNOTATIONS

Json = dict[str, Any]

VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
LINUX_ONLY = {"allowPrivilegeEscalation", "capabilities", "runAsUser", "seccompProfile"}


def faults(pod: Json) -> list[str]:
    """Return what the API server would refuse in a pod of the right shape."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    gates = [str(one.get("name")) for one in spec.get("schedulingGates") or ()]
    volumes = [str(one.get("name")) for one in spec.get("volumes") or ()]
    found = [
        *_duplicates("container", (str(one.get("name")) for one in containers)),
        *_duplicates("volume", volumes),
        *_duplicates("scheduling gate", gates),
    ]
    if gates and spec.get("nodeName"):
        found.append("scheduling gates with spec.nodeName")
    windows = (spec.get("os") or {}).get("name") == "windows"
    for container in containers:
        found += _container_faults(container, frozenset(volumes))
        if windows and LINUX_ONLY & (container.get("securityContext") or {}).keys():
            found.append(f"container {container.get('name')} has a securityContext for Linux")
    group = (spec.get("schedulingGroup") or {}).get("podGroupName") or "unnamed"
    if not is_object_name(group):
        found.append(f"spec.schedulingGroup.podGroupName {group!r}")
    return found + _metadata_faults(pod["metadata"])


def _container_faults(container: Mapping[str, Any], volumes: frozenset[str]) -> list[str]:
    name = container.get("name")
    mounts = container.get("volumeMounts") or []
    found = _duplicates(f"mount path in {name}", (str(one.get("mountPath")) for one in mounts))
    found += [
        f"{name} mounts volume {one.get('name')!r}, which the pod doesn't have"
        for one in mounts
        if one.get("name") not in volumes
    ]
    found += [
        f"{name} sets variable {one.get('name')!r}"
        for one in container.get("env") or ()
        if not VARIABLE.fullmatch(str(one.get("name")))
    ]
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found += [
        f"{name} requests {one} without a limit" for one in requests if is_extended(one) and one not in limits
    ]
    return found


def _metadata_faults(metadata: Mapping[str, Any]) -> list[str]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found = [f"label {key}={value}" for key, value in labels.items() if not is_label_value(value)]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MOST_ANNOTATIONS:
        found.append("annotations are too long")
    return found


def _duplicates(what: str, names: Iterable[str]) -> list[str]:
    return [f"{what} {name!r} exists {count} times" for name, count in Counter(names).items() if count > 1]
