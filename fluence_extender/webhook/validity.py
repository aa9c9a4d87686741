"""Find reasons not to patch a pod: an unexpected shape, or a conflict with what handlers add.

Sources: validation of core/v1 (names are unique within a pod, a pod with a node has no gates). The API server
refuses a pod that is invalid by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from fluence_extender.model.coordination import PACKAGE_VOLUME, TOKEN_VOLUME
from fluence_extender.webhook.containers import COMMANDS, is_own
from fluence_extender.webhook.contract import Json

MOST_ANNOTATIONS = 256 * 1024
"""The most bytes of all annotations together."""

MOST_CONTAINERS = 128
"""The most containers of a pod, and also the most init containers."""
MOST_ENTRIES = 1024
"""The most labels, annotations, volumes and other entries of a pod, and variables and mounts of a container."""
MOST_AMOUNTS = 64
"""The most resources in the requests, and in the limits, of a container."""


_Item = TypeVar("_Item")
_Entries = Annotated[list[_Item], Meta(max_length=MOST_ENTRIES)]
_Amounts = Annotated[Json, Meta(max_length=MOST_AMOUNTS)]
_Texts = Annotated[dict[str, str], Meta(max_length=MOST_ENTRIES)]


class _Named(Struct):
    name: str | None = None


class _Variable(Struct, rename="camel"):
    name: str | None = None
    value: str | None = None
    value_from: Json | None = None


class _Resources(Struct):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


class _Container(Struct, rename="camel"):
    name: str | None = None
    env: _Entries[_Variable] | None = None
    env_from: _Entries[Json] | None = None
    volume_mounts: _Entries[_Named] | None = None
    resources: _Resources | None = None


class _SchedulingGroup(Struct, rename="camel"):
    pod_group_name: str | None = None


class _Metadata(Struct, rename="camel"):
    labels: _Texts | None = None
    annotations: _Texts | None = None
    owner_references: _Entries[Json] | None = None


class _Spec(Struct, rename="camel"):
    containers: Annotated[list[_Container], Meta(min_length=1, max_length=MOST_CONTAINERS)]
    init_containers: Annotated[list[_Container], Meta(max_length=MOST_CONTAINERS)] | None = None
    volumes: _Entries[_Named] | None = None
    scheduling_gates: _Entries[_Named] | None = None
    scheduling_group: _SchedulingGroup | None = None
    os: Json | None = None


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec


def shape_fault(pod: Json) -> str:
    """Return the field at which the pod doesn't have the shape that handlers rely on, "" if it has.

    The API server sends pods of the right shape, but before it validates them: they may have any number of entries.
    """
    try:
        convert(pod, _Pod)
    except ValidationError as error:
        if " of length <= " in str(error):
            return f"it is larger than the pods that admission prepares: {error}"
        return f"the pod isn't well-formed: {error}"
    return ""


def conflicts(pod: Json) -> list[str]:
    """Return why the API server would refuse what admission has added to a pod of the right shape.

    The user's containers and volumes may have our names, the pod may be for Windows or have a node already, and its
    annotations may be full. The API server has no other reason to refuse what admission adds.
    """
    spec = pod["spec"]
    init_containers, volumes = spec.get("initContainers") or (), spec.get("volumes") or ()
    found = [
        *_taken("container", COMMANDS, (*init_containers, *(spec.get("containers") or ()))),
        *_taken("volume", (PACKAGE_VOLUME, TOKEN_VOLUME), volumes),
    ]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        found.append("a pod with spec.nodeName can't have scheduling gates: remove spec.nodeName")
    if (spec.get("os") or {}).get("name") == "windows":
        found += [
            f"spec.initContainers[{index}] has a securityContext for Linux: quantum pods run on Linux, remove spec.os"
            for index, container in enumerate(init_containers)
            if is_own(container)
        ]
    annotations = pod["metadata"].get("annotations") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MOST_ANNOTATIONS:
        found.append(f"annotations take more than {MOST_ANNOTATIONS} bytes")
    return found


def _taken(field: str, ours: Iterable[str], named: Iterable[Json]) -> list[str]:
    """Return a conflict for each of the names ``ours`` that the user also uses."""
    names = [one.get("name") for one in named]
    advice = "exists twice: admission adds one of that name, so choose another for yours"
    return [f"{field} {name!r} {advice}" for name in ours if names.count(name) > 1]
