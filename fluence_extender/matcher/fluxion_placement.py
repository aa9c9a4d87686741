"""The compact form of an R: how much of core, memory and gpu was granted under each vertex."""

from __future__ import annotations

import msgspec

from fluence_extender.matcher.port import Placement

_COUNTED = frozenset({"core", "memory", "gpu"})


class _Metadata(msgspec.Struct):
    type: str
    paths: dict[str, str]
    size: int = 1


class _Node(msgspec.Struct):
    metadata: _Metadata


class _Graph(msgspec.Struct):
    nodes: list[_Node]


class _ResourceSet(msgspec.Struct):
    """The part of an R that placement needs: a bare JGF document, or RFC 20 with one under ``scheduling``."""

    graph: _Graph | None = None
    scheduling: _ResourceSet | None = None


_decode = msgspec.json.Decoder(_ResourceSet).decode


def placement_of(text: str) -> Placement:
    """Sum the leaves of an R under the vertices that hold them (the rule of `Match.placement`).

    Empty for a format that carries no graph (``simple``, ``rv1_nosched``).
    """
    placement: dict[str, dict[str, int]] = {}
    for node in _nodes(text):
        vertex = node.metadata
        path = vertex.paths["containment"]
        if vertex.type in _COUNTED:
            amounts = placement.setdefault(path.rpartition("/")[0], {})
            amounts[vertex.type] = amounts.get(vertex.type, 0) + vertex.size
        else:
            placement.setdefault(path, {})
    return placement


def _nodes(text: str) -> list[_Node]:
    if not text.startswith("{"):
        return []
    resources = _decode(text)
    graph = resources.graph or (resources.scheduling.graph if resources.scheduling else None)
    return graph.nodes if graph else []
