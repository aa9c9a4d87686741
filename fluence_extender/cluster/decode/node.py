"""Decode Nodes, and the ConfigMap that holds resources.yaml (core/v1).

A node whose allocatable is missing or can't be read has nothing to allocate, so it gets no pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from fluence_extender.cluster.decode.objects import Metadata
from fluence_extender.cluster.decode.pod import Condition, is_ready
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import RESOURCES_KEY
from fluence_extender.model.node import Node, Taint
from fluence_extender.model.requests import allocatable_resources
from fluence_extender.model.resources import NOTHING, Resources

log = structlog.get_logger(__name__)


class _Spec(msgspec.Struct):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class _Status(msgspec.Struct):
    allocatable: dict[str, Any] | None = None
    conditions: list[Condition] | None = None


class _Object(msgspec.Struct):
    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] | None = None


_node = msgspec.json.Decoder(_Object).decode
_config_map = msgspec.json.Decoder(_ConfigMap).decode


def decode_node(raw: bytes) -> Node:
    """Decode a Node; it is ready only where its Ready condition says so."""
    decoded = _node(raw)
    meta = decoded.metadata
    spec, status = decoded.spec or _Spec(), decoded.status or _Status()
    return Node(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        allocatable=_allocatable(meta.name, status.allocatable),
        taints=spec.taints or (),
        unschedulable=bool(spec.unschedulable),
        ready=is_ready(status.conditions),
    )


def _allocatable(node: str, amounts: Mapping[str, Any] | None) -> Resources:
    if not amounts:
        return NOTHING
    try:
        allocatable = allocatable_resources(amounts)
    except (ValueError, TypeError, ArithmeticError) as error:
        log.warning("a node's allocatable can't be read; it gets no pods", node=node, problem=str(error))
        return NOTHING
    negative = [name for name, amount in allocatable.items() if amount < 0]
    if negative:
        log.warning(
            "a node's allocatable is negative; that resource counts as 0", node=node, resources=negative
        )
        return Resources({name: max(amount, 0) for name, amount in allocatable.items()})
    return allocatable


def decode_resources_file(raw: bytes) -> ResourcesFile:
    """Decode the ConfigMap that holds resources.yaml; without that key the text is None, and ``source`` says so."""
    decoded = _config_map(raw)
    text = (decoded.data or {}).get(RESOURCES_KEY)
    source = config_map_source(decoded.metadata.namespace, decoded.metadata.name)
    if text is None:
        return ResourcesFile(f"{source} (it has no key {RESOURCES_KEY})", None)
    return ResourcesFile(source, text)


def config_map_source(namespace: str, name: str) -> str:
    """Return the name of a ConfigMap for messages."""
    return f"ConfigMap {namespace}/{name}"
