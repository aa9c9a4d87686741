"""Writing a grant as JGF and as a placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.port import Jgf
from tests.oracle.walker.grant import Granted
from tests.oracle.walker.graph import CONTAINMENT, Edge

_LEAVES = ("core", "memory", "gpu")


def placement_of(vertices: Sequence[Granted]) -> dict[str, dict[str, int]]:
    """Return holder path -> {leaf type: units}, in the order of emission."""
    placement: dict[str, dict[str, int]] = {}
    for granted in vertices:
        vertex = granted.vertex
        if vertex.type not in _LEAVES:
            placement.setdefault(vertex.path, {})
        elif granted.parent is not None:
            amounts = placement.setdefault(granted.parent.path, {})
            amounts[vertex.type] = amounts.get(vertex.type, 0) + granted.units
    return placement


def jgf_of(vertices: Sequence[Granted], edges: Sequence[Edge]) -> Jgf:
    """Return the grant as a JGF document, children before their parents."""
    return {
        "graph": {
            "nodes": [
                {"id": str(granted.vertex.uniq_id), "metadata": _metadata(granted)} for granted in vertices
            ],
            "edges": [
                {"source": str(edge.source.uniq_id), "target": str(edge.target.uniq_id)} for edge in edges
            ],
        }
    }


def _metadata(granted: Granted) -> dict[str, Any]:
    vertex = granted.vertex
    metadata: dict[str, Any] = {"type": vertex.type}
    if vertex.basename != vertex.type:
        metadata["basename"] = vertex.basename
    if vertex.name != f"{vertex.basename}{vertex.id}":
        metadata["name"] = vertex.name
    metadata["id"] = vertex.id
    metadata["rank"] = vertex.rank
    if vertex.properties:
        metadata["properties"] = dict(sorted(vertex.properties.items()))
    if granted.exclusive:
        metadata["exclusive"] = True
    if granted.units != 1:
        metadata["size"] = granted.units
    paths = dict(vertex.paths)
    metadata["paths"] = {CONTAINMENT: paths.pop(CONTAINMENT)} | paths if CONTAINMENT in paths else paths
    if granted.label is not None:
        metadata["ephemeral"] = {"label": granted.label}
    return metadata
