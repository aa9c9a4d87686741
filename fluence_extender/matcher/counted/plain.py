"""Plain documents whose leaves could as well be counted: equal siblings in a row, one vertex each.

Only what counts can hold without any doubt passes: a cluster of levels, of nodes below them, and of unit leaves below
those, everything up. Anything else is `Uncountable`: sized pools, sockets, devices, leaves with names or properties of
their own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fluence_extender.matcher.counted.document import NODE, VIRTUAL
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.port import Jgf

LEAVES = frozenset({"core", "memory", "gpu"})
_LEVELS_NEVER = LEAVES | {NODE, "cluster", "slot", "xor_slot", "storage_node"}
_MOST_ID = 9_999
"""The library's scores tell nodes apart while ids of leaves stay below (fluxion reference 4.3)."""
_MOST_NUMBER = 2**40


class _Metadata(msgspec.Struct):
    type: str
    paths: dict[str, str]
    basename: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    id: int | msgspec.UnsetType = msgspec.UNSET
    uniq_id: int | msgspec.UnsetType = msgspec.UNSET
    rank: int = -1
    status: int = 0
    exclusive: bool = False
    size: int = 1
    unit: str = ""
    properties: dict[str, str] = {}


class _Node(msgspec.Struct):
    id: str
    metadata: _Metadata


class _Subsystem(msgspec.Struct):
    subsystem: str = "containment"


class _Edge(msgspec.Struct):
    source: str
    target: str
    metadata: _Subsystem = msgspec.field(default_factory=_Subsystem)


class _Graph(msgspec.Struct):
    nodes: list[_Node]
    edges: list[_Edge]


class _Document(msgspec.Struct):
    graph: _Graph


def counts_of(document: Any) -> Jgf:
    """The document with each run of equal leaves as one entry with a count. Raises `Uncountable`."""
    try:
        if "free_ranks" in document:
            raise Uncountable("ranks are left out")
        graph = msgspec.convert(document, _Document).graph
    except (
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        UnicodeError,
        msgspec.ValidationError,
    ) as error:
        raise Uncountable(f"malformed graph: {error}") from None
    by_key = {node.id: node for node in graph.nodes}
    children: dict[str, list[_Node]] = {}
    for edge in graph.edges:
        child = by_key.get(edge.target)
        if child is None or edge.metadata.subsystem != "containment":
            raise Uncountable(f"the edge {edge.source} -> {edge.target} is for the walker")
        children.setdefault(edge.source, []).append(child)
    if len(by_key) != len(graph.nodes) or len(graph.edges) != len(graph.nodes) - 1:
        raise Uncountable("the graph isn't a tree")
    compact = _Compact(children)
    for node in graph.nodes:
        compact.take(node)
    return {"graph": {"nodes": compact.nodes, "edges": compact.edges}}


class _Compact:
    """The compact document in the making."""

    def __init__(self, children: dict[str, list[_Node]]) -> None:
        self.nodes: list[Jgf] = []
        self.edges: list[Jgf] = []
        self._children = children

    def take(self, vertex: _Node) -> None:
        """Add a vertex that isn't a leaf, and the edges from it, leaves counted."""
        metadata = vertex.metadata
        if metadata.type in LEAVES:
            # It is taken with its node, where one is above it. Leaves elsewhere have no entry there, so that the
            # reader of the compact document misses them.
            return
        below = self._children.get(vertex.id, [])
        _check_vertex(vertex, below)
        entry = msgspec.to_builtins(metadata)
        self.nodes.append({"id": vertex.id, "metadata": entry})
        if metadata.type == NODE:
            self._take_leaves(vertex, below)
            return
        for child in below:
            if child.metadata.type in LEAVES:
                raise Uncountable(f"the leaf {child.id} isn't below a node")
            self.edges.append({"source": vertex.id, "target": child.id})

    def _take_leaves(self, node: _Node, leaves: list[_Node]) -> None:
        path, rank = node.metadata.paths["containment"] + "/", node.metadata.rank
        first = None
        seen: set[str] = set()
        count = number = uniq_id = 0
        kind = basename = ""
        for leaf in leaves:
            metadata = leaf.metadata
            own = _uniq_id(leaf)
            if metadata.type != kind:
                if metadata.type in seen or metadata.type not in LEAVES:
                    raise Uncountable(f"the leaves of {node.id} aren't in order")
                if first is not None:
                    self._add(node, first, number - count, uniq_id - count, count)
                first, count, kind = leaf, 0, metadata.type
                seen.add(kind)
                basename = kind if metadata.basename is msgspec.UNSET else metadata.basename
                uniq_id = own
                number = own if metadata.id is msgspec.UNSET else metadata.id
            name = f"{basename}{number}"
            if (
                metadata.size != 1
                or metadata.status
                or metadata.rank != rank
                or own != uniq_id
                or (own if metadata.id is msgspec.UNSET else metadata.id) != number
                or (metadata.name is not msgspec.UNSET and metadata.name != name)
                or (kind if metadata.basename is msgspec.UNSET else metadata.basename) != basename
                or metadata.properties
                or len(metadata.paths) != 1
                or metadata.paths.get("containment") != path + name
                or not 0 <= number <= _MOST_ID
                or not 0 <= uniq_id <= _MOST_NUMBER
                or leaf.id in self._children
            ):
                raise Uncountable(f"the leaf {leaf.id} isn't one of equal ones")
            count += 1
            number += 1
            uniq_id += 1
        if first is not None:
            self._add(node, first, number - count, uniq_id - count, count)

    def _add(self, node: _Node, first: _Node, number: int, uniq_id: int, count: int) -> None:
        metadata = msgspec.to_builtins(first.metadata)
        self.nodes.append(
            {"id": first.id, "metadata": {**metadata, "id": number, "uniq_id": uniq_id, "count": count}}
        )
        self.edges.append({"source": node.id, "target": first.id})


def _check_vertex(vertex: _Node, children: list[_Node]) -> None:
    metadata = vertex.metadata
    path = metadata.paths.get("containment", "")
    is_root = path.count("/") == 1
    fit = (
        bool(children)
        and metadata.size == 1
        and metadata.status == 0
        and len(metadata.paths) == 1
        and path.startswith("/")
        and not path.endswith("/")
        and VIRTUAL not in metadata.properties
        and _is_small(metadata.id)
        and 0 <= _uniq_id(vertex) <= _MOST_NUMBER
        and -1 <= metadata.rank < 2**31
    )
    kind = metadata.type
    if not fit or (kind != "cluster" if is_root else kind != NODE and kind in _LEVELS_NEVER):
        raise Uncountable(f"the vertex {vertex.id} is for the walker")


def _uniq_id(vertex: _Node) -> int:
    uniq_id = vertex.metadata.uniq_id
    if uniq_id is msgspec.UNSET:
        if not (vertex.id.isascii() and vertex.id.isdigit() and len(vertex.id) < 15):
            raise Uncountable(f"the vertex {vertex.id} has no uniq_id")
        return int(vertex.id)
    return uniq_id


def _is_small(number: int | msgspec.UnsetType) -> bool:
    return number is msgspec.UNSET or 0 <= number <= _MOST_NUMBER
