"""Decode Nodes, and the ConfigMap that holds resources.yaml (core/v1).

A node whose allocatable is missing or can't be read has nothing to allocate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fluence_extender.cluster.decode.pod import Condition, is_ready
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import KEEPING, KEPT_ANNOTATION, RESOURCES_KEY
from fluence_extender.model.node import Node
from fluence_extender.model.requests import allocatable_resources
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.taints import Taint
from fluence_extender.objects.meta import Metadata, report_unreadable, tolerant_decoder


class _Spec(msgspec.Struct):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class _Status(msgspec.Struct):
    allocatable: dict[str, Any] | None = None
    features: list[str] | None = msgspec.field(name="declaredFeatures", default=None)
    conditions: list[Condition] | None = None


class _ConfigMap(msgspec.Struct):
    metadata: Metadata
    data: dict[str, str] | None = None


_node = tolerant_decoder("Node", _Spec, _Status)
_config_map = msgspec.json.Decoder(_ConfigMap).decode


def decode_node(raw: bytes) -> Node:
    """Decode a Node. It is ready only if its Ready condition is true."""
    meta, spec, status, problem = _node(raw)
    allocatable, fault = _allocatable(meta, status.allocatable)
    annotations = meta.annotations or {}
    kept = annotations.get(KEPT_ANNOTATION, "").split(",")
    return Node(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or {},
        allocatable=allocatable,
        taints=spec.taints or (),
        unschedulable=bool(spec.unschedulable),
        ready=is_ready(status.conditions),
        problem=problem or fault,
        created=meta.created,
        features=frozenset(status.features or ()),
        guards=tuple(key for key in KEEPING if key in annotations),
        kept=tuple(key for key in KEEPING if key in kept),
    )


def _allocatable(meta: Metadata, amounts: Mapping[str, Any] | None) -> tuple[Resources, str]:
    """Return the node's allocatable amounts, and why they can't be read."""
    if not amounts:
        return NOTHING, ""
    try:
        allocatable = allocatable_resources(amounts)
    except (ValueError, TypeError, ArithmeticError) as error:
        report_unreadable("Node", meta, str(error))
        return NOTHING, str(error)
    negative = [name for name, amount in allocatable.items() if amount < 0]
    if negative:
        report_unreadable("Node", meta, f"status.allocatable: {', '.join(negative)} below 0 counts as 0")
        return Resources({name: max(amount, 0) for name, amount in allocatable.items()}), ""
    return allocatable, ""


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
