"""What the API server would refuse in a pod, of all that a patch of ours can touch.

Sources: validation of core/v1 (names and mounts are unique within a pod, extended resources aren't overcommitted, a pod
with a node has no gates), DNS-1123 and label syntax of apimachinery. It isn't a full validation: a pod is compared with
its patched self, and only what is new counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from fluence_extender.model.names import LONGEST_LABEL
from fluence_extender.model.requests import is_extended
from fluence_extender.webhook.contract import Json

MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations together."""

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""An RFC 1123 subdomain; its length isn't looked at."""

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")

_LINUX_ONLY = {"allowPrivilegeEscalation", "capabilities", "runAsUser", "seccompProfile"}
_MAPS = ("metadata.labels", "metadata.annotations", "spec.schedulingGroup", "spec.os")
_LISTS = ("metadata.ownerReferences", "spec.initContainers", "spec.volumes", "spec.schedulingGates")
_CONTAINER_LISTS = ("env", "envFrom", "volumeMounts")


class _Named(Struct):
    name: str | None = None


class _Variable(Struct, rename="camel"):
    name: str | None = None
    value: str | None = None
    value_from: Json | None = None


class _Resources(Struct):
    requests: Json | None = None
    limits: Json | None = None


class _Container(Struct, rename="camel"):
    name: str | None = None
    env: list[_Variable] | None = None
    env_from: list[Json] | None = None
    volume_mounts: list[_Named] | None = None
    resources: _Resources | None = None


class _SchedulingGroup(Struct, rename="camel"):
    pod_group_name: str | None = None


class _Metadata(Struct, rename="camel"):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Json] | None = None


class _Spec(Struct, rename="camel"):
    containers: Annotated[list[_Container], Meta(min_length=1)]
    init_containers: list[_Container] | None = None
    volumes: list[_Named] | None = None
    scheduling_gates: list[_Named] | None = None
    scheduling_group: _SchedulingGroup | None = None
    os: Json | None = None


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec


def shape_faults(pod: Json) -> list[str]:
    """Where the pod isn't even of the form that a pod has, as far as handlers look."""
    try:
        convert(pod, _Pod)
    except ValidationError:
        # Which of all that may be wrong is found out for the few pods where something is.
        return exact_shape_faults(pod)
    return []


def exact_shape_faults(pod: Json) -> list[str]:
    """The same, of any pod, looked at field by field."""
    if not isinstance(pod.get("metadata"), dict):
        return ["metadata must be an object"]
    found = [f"{path} must be an object" for path in _MAPS if not isinstance(_at(pod, path), dict | None)]
    found += [f"{path} must be a list of objects" for path in _LISTS if not _objects(_at(pod, path))]
    containers = pod["spec"].get("containers")
    if not containers or not _objects(containers):
        found.append("spec.containers must be a list of one or more objects")
    if found:
        return found
    return list(_container_shapes(pod)) or list(_text_shapes(pod))


def _container_shapes(pod: Json) -> Iterator[str]:
    for where, container in _containers(pod):
        for field in _CONTAINER_LISTS:
            if not _objects(container.get(field)):
                yield f"{where}.{field} must be a list of objects"
                return
        resources = container.get("resources")
        if not isinstance(resources, dict | None):
            yield f"{where}.resources must be an object"
            continue
        for field in ("requests", "limits"):
            if not isinstance((resources or {}).get(field), dict | None):
                yield f"{where}.resources.{field} must be an object"
        for number, one in enumerate(container.get("env") or ()):
            value, source = one.get("value"), one.get("valueFrom")
            if not isinstance(value, str | None) or not isinstance(source, dict | None):
                yield f"{where}.env[{number}] must have a text as value, or an object as valueFrom"


def _text_shapes(pod: Json) -> Iterator[str]:
    for path in ("metadata.labels", "metadata.annotations"):
        for key, value in (_at(pod, path) or {}).items():
            if not isinstance(value, str):
                yield f"{path}[{key!r}] must be a text: put it in quotes"
    for where, one in _named(pod):
        if not isinstance(one.get("name"), str | None):
            yield f"{where}.name must be a text"
    if not isinstance(_at(pod, "spec.schedulingGroup.podGroupName"), str | None):
        yield "spec.schedulingGroup.podGroupName must be a text"


def _named(pod: Json) -> Iterator[tuple[str, Json]]:
    """Everything in the pod's spec that goes by a name."""
    for field in ("volumes", "schedulingGates"):
        for index, one in enumerate(pod["spec"].get(field) or ()):
            yield f"spec.{field}[{index}]", one
    for where, container in _containers(pod):
        yield where, container
        for field in ("env", "volumeMounts"):
            for index, one in enumerate(container.get(field) or ()):
                yield f"{where}.{field}[{index}]", one


def faults(pod: Json) -> list[str]:
    """What is wrong with a pod of the right form."""
    spec = pod["spec"]
    containers = list(_containers(pod))
    gates = [str(one.get("name")) for one in spec.get("schedulingGates") or ()]
    volumes = [str(one.get("name")) for one in spec.get("volumes") or ()]
    found = [
        *_twice("container", (str(one.get("name")) for _, one in containers)),
        *_twice("volume", volumes),
        *_twice("scheduling gate", gates),
    ]
    if gates and spec.get("nodeName"):
        found.append("a pod with spec.nodeName can't have scheduling gates: remove spec.nodeName")
    windows = (spec.get("os") or {}).get("name") == "windows"
    for where, container in containers:
        found += _container_faults(where, container, frozenset(volumes))
        if windows and _LINUX_ONLY & (container.get("securityContext") or {}).keys():
            found.append(
                f"{where} has a securityContext for Linux: quantum pods run on Linux, remove spec.os"
            )
    group = (spec.get("schedulingGroup") or {}).get("podGroupName") or "unnamed"
    if not OBJECT_NAME.fullmatch(group):
        found.append(f"spec.schedulingGroup.podGroupName {group!r} isn't the name of an object")
    return found + _metadata_faults(pod["metadata"])


def _container_faults(where: str, container: Mapping[str, Any], volumes: frozenset[str]) -> list[str]:
    mounts = container.get("volumeMounts") or []
    found = _twice(f"mount path in {where}", (str(one.get("mountPath")) for one in mounts))
    for one in mounts:
        if one.get("name") not in volumes:
            found.append(f"{where} mounts volume {one.get('name')!r}, which isn't there")
    for one in container.get("env") or ():
        if not _names_variable(str(one.get("name"))):
            found.append(f"{where} sets {one.get('name')!r}, which isn't the name of a variable")
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found += [
        f"{where} requests {name}, and its limit isn't the same"
        for name in requests.keys() | limits.keys()
        if is_extended(name) and name in requests and name not in limits
    ]
    return found


@lru_cache(maxsize=4096)
def _names_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def _metadata_faults(metadata: Mapping[str, Any]) -> list[str]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    found = [
        f"label {key}={value} isn't valid: at most {LONGEST_LABEL} letters, digits, '-', '_' and '.'"
        for key, value in labels.items()
        if not LABEL_VALUE.fullmatch(value)
    ]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MOST_ANNOTATIONS:
        found.append(f"annotations take more than {MOST_ANNOTATIONS} bytes")
    return found


def _twice(what: str, names: Iterable[str]) -> list[str]:
    names = list(names)
    if len(set(names)) == len(names):
        return []
    told = "is there twice: it is one that admission adds, choose another for yours"
    return [f"{what} {name!r} {told}" for name, count in Counter(names).items() if count > 1]


def _containers(pod: Json) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod["spec"].get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _at(pod: Json, path: str) -> Any:
    found: Any = pod
    for step in path.split("."):
        found = found.get(step)
        if found is None:
            return None
    return found


def _objects(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, dict) for one in value))
