"""Find what the API server would refuse in a pod, as far as a patch of ours can cause it.

Sources: validation of core/v1 (names and mounts are unique within a pod, extended resources aren't overcommitted, a pod
with a node has no gates), and the DNS-1123 and label syntax of apimachinery. This isn't a full validation: the faults
of a patched pod are compared with those that it had before, and only new ones count.
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
"""Bytes that all annotations together may take."""

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""An RFC 1123 subdomain; its length isn't checked."""

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")

_LINUX_ONLY = {"allowPrivilegeEscalation", "capabilities", "runAsUser", "seccompProfile"}


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


def shape_fault(pod: Json) -> str:
    """Return where the pod doesn't have the shape that handlers rely on, "" if it has.

    The API server sends only pods of the right shape; this protects the webhook from other clients.
    """
    try:
        convert(pod, _Pod)
    except ValidationError as error:
        return f"the pod isn't well-formed: {error}"
    return ""


def faults(pod: Json) -> list[str]:
    """Return what the API server would refuse in a pod of the right shape."""
    spec = pod["spec"]
    containers = list(_containers(pod))
    gates = [str(one.get("name")) for one in spec.get("schedulingGates") or ()]
    volumes = [str(one.get("name")) for one in spec.get("volumes") or ()]
    found = [
        *_duplicates("container", (str(one.get("name")) for _, one in containers)),
        *_duplicates("volume", volumes),
        *_duplicates("scheduling gate", gates),
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
        found.append(f"spec.schedulingGroup.podGroupName {group!r} isn't a valid object name")
    return found + _metadata_faults(pod["metadata"])


def _container_faults(where: str, container: Mapping[str, Any], volumes: frozenset[str]) -> list[str]:
    mounts = container.get("volumeMounts") or []
    found = _duplicates(f"mount path in {where}", (str(one.get("mountPath")) for one in mounts))
    for one in mounts:
        if one.get("name") not in volumes:
            found.append(f"{where} mounts volume {one.get('name')!r}, which the pod doesn't have")
    for one in container.get("env") or ():
        if not _names_variable(str(one.get("name"))):
            found.append(f"{where} sets {one.get('name')!r}, which isn't a valid name of a variable")
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found += [
        f"{where} requests {name} without a limit: set a limit that equals the request"
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


def _duplicates(what: str, names: Iterable[str]) -> list[str]:
    names = list(names)
    if len(set(names)) == len(names):
        return []
    advice = "exists twice: admission adds one of that name, so choose another for yours"
    return [f"{what} {name!r} {advice}" for name, count in Counter(names).items() if count > 1]


def _containers(pod: Json) -> Iterator[tuple[str, Json]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod["spec"].get(field) or ()):
            yield f"spec.{field}[{index}]", container
