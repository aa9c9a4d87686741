"""Read a compact graph document: JGF in which a leaf entry with ``count: N`` stands for N equal unit leaves.

The units of an entry have the ids ``id..id+N-1`` and uniq_ids ``uniq_id..uniq_id+N-1``; name and path are the first
one's. Invariant: a `Vertex` tree that `read_tree` returns has one root, every vertex has one parent, and paths,
document ids and siblings' uniq_ids are unique. What a person wrote wrong is refused with the place named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.errors import InvalidGraph
from fluence_extender.matcher.port import Jgf

NODE = "node"
VIRTUAL = "virtual=true"
"""The property key that marks a `node` vertex which no machine stands behind."""

_LARGEST = 2**53
_LARGEST_ID = 2**62
_LEADING_NUMBER = re.compile(r"\s*([+-]?\d{1,18})", re.ASCII)
_TRAILING_NUMBER = re.compile(r"\d+$", re.ASCII)


class Metadata(msgspec.Struct, omit_defaults=True):
    """The metadata of one vertex (fluxion reference 2.1), with ``count`` for equal unit leaves."""

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
    count: int = 1
    properties: dict[str, str] = {}


class _Node(msgspec.Struct):
    id: str
    metadata: Metadata


class _EdgeMetadata(msgspec.Struct):
    subsystem: str = "containment"


class _Edge(msgspec.Struct):
    source: str
    target: str
    metadata: _EdgeMetadata = msgspec.field(default_factory=_EdgeMetadata)


class _Graph(msgspec.Struct):
    nodes: list[_Node]
    edges: list[_Edge]


class _Document(msgspec.Struct):
    graph: _Graph


class Vertex:
    """One entry of the document, its defaults filled in."""

    __slots__ = (
        "basename",
        "children",
        "id",
        "key",
        "metadata",
        "name",
        "parent",
        "path",
        "turn",
        "type",
        "uniq_id",
    )

    def __init__(self, node: _Node, place: int) -> None:
        metadata = node.metadata
        path = metadata.paths.get("containment", "")
        if not path.startswith("/"):
            raise Uncountable(f"graph.nodes[{place}].metadata.paths has no containment path")
        if metadata.count < 1 or not 0 <= metadata.size <= _LARGEST or metadata.count > _LARGEST:
            raise Uncountable(
                f"graph.nodes[{place}] ({path}): count and size must be whole numbers up to 2^53"
            )
        if metadata.type == NODE and metadata.count > 1:
            raise Uncountable(f"graph.nodes[{place}] ({path}): nodes are told apart, so they aren't counted")
        self.key = node.id
        self.metadata = metadata
        self.path = path
        self.type = metadata.type
        self.basename = metadata.type if metadata.basename is msgspec.UNSET else metadata.basename
        self.uniq_id = _uniq_id(node, place)
        self.id = _own_id(metadata, self.uniq_id)
        if self.uniq_id < 0 or self.uniq_id + metadata.count > _LARGEST_ID:
            raise Uncountable(f"graph.nodes[{place}] ({path}): uniq_id must be from 0 to 2^62")
        if self.id < -1 or self.id + metadata.count > _LARGEST:
            raise Uncountable(f"graph.nodes[{place}] ({path}): id must be from -1 to 2^53")
        if metadata.count > 1 and path.rpartition("/")[2] != f"{self.basename}{self.id}":
            raise Uncountable(
                f"graph.nodes[{place}] ({path}): the units would have other paths than the entry"
            )
        self.name = f"{self.basename}{self.id}" if metadata.name is msgspec.UNSET else metadata.name
        self.children: list[Vertex] = []
        self.parent: Vertex | None = None
        self.turn = 0
        """Its place in the depth-first order of the document."""

    @property
    def is_virtual(self) -> bool:
        """Whether it is a `node` that stands for a device or service, not for a machine."""
        return self.type == NODE and VIRTUAL in self.metadata.properties

    def walk(self) -> Iterator[Vertex]:
        """The vertex and all below it, parents first, children in edge order."""
        stack = [self]
        while stack:
            vertex = stack.pop()
            yield vertex
            stack.extend(reversed(vertex.children))


def parse_json(value: Mapping[str, Any] | str | bytes) -> Any:
    """``value`` itself, or what its JSON text holds. Raises `InvalidGraph`."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidGraph(f"the document isn't JSON: {error}") from None


def is_compact(graph: Jgf) -> bool:
    """Whether any entry of the document carries a count, or there is none yet that could."""
    try:
        nodes = graph["graph"]["nodes"]
        return len(nodes) == 1 or any("count" in node["metadata"] for node in nodes)
    except (KeyError, TypeError, IndexError):
        return False


def read_tree(document: Any) -> tuple[Vertex, list[str]]:
    """The root of the tree in ``document`` (parsed JSON), and the types in node order. Raises `Uncountable`."""
    try:
        graph = msgspec.convert(document, _Document).graph
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise Uncountable(f"malformed graph: {error}") from None
    vertices = [Vertex(node, place) for place, node in enumerate(graph.nodes)]
    by_key = {vertex.key: vertex for vertex in vertices}
    if len(by_key) < len(vertices):
        raise Uncountable("found duplicate JGF node id for " + _first_repeated([v.key for v in vertices]))
    if len({vertex.path for vertex in vertices}) < len(vertices):
        raise Uncountable("two vertices have the path " + _first_repeated([v.path for v in vertices]))
    for place, edge in enumerate(graph.edges):
        _join(by_key, edge, place)
    roots = [vertex for vertex in vertices if vertex.path.count("/") == 1]
    if len(roots) != 1:
        raise Uncountable(f"the graph must have one root (a path with one /), not {len(roots)}")
    root = roots[0]
    if root.type == NODE:
        raise Uncountable(f"the root {root.path} is a node, which counts are kept of below a root only")
    # A child's path is longer than its parent's, so there are no cycles, and who has a parent is below the root.
    for vertex in vertices:
        if vertex.parent is None and vertex is not root:
            raise Uncountable(f"no edge leads to {vertex.path}")
    return root, list(dict.fromkeys(vertex.type for vertex in vertices))


def _join(by_key: dict[str, Vertex], edge: _Edge, place: int) -> None:
    if edge.metadata.subsystem != "containment":
        return
    parent, child = by_key.get(edge.source), by_key.get(edge.target)
    if parent is None or child is None:
        raise Uncountable(
            f"graph.edges[{place}]: source and/or target not found {edge.source} -> {edge.target}"
        )
    if child.parent is not None or child is parent:
        raise Uncountable(f"graph.edges[{place}]: {child.path} has two parents")
    if child.path.rpartition("/")[0] != parent.path:
        raise Uncountable(f"graph.edges[{place}]: the path {child.path} doesn't lead through {parent.path}")
    if parent.metadata.count > 1:
        raise Uncountable(f"graph.edges[{place}]: {parent.path} has a count, so nothing can be below it")
    child.parent = parent
    parent.children.append(child)


def _uniq_id(node: _Node, place: int) -> int:
    if node.metadata.uniq_id is not msgspec.UNSET:
        return node.metadata.uniq_id
    match = _LEADING_NUMBER.match(node.id)
    if match is None:
        raise Uncountable(
            f"graph.nodes[{place}]: value for key (uniq_id) could not be inferred from outer 'id' field {node.id}"
        )
    return int(match[1])


def _own_id(metadata: Metadata, uniq_id: int) -> int:
    if metadata.id is not msgspec.UNSET:
        return metadata.id
    if metadata.type == NODE and metadata.name is not msgspec.UNSET:
        match = _TRAILING_NUMBER.search(metadata.name)
        if match is not None and len(match[0]) <= 15:
            return int(match[0])
    return uniq_id


def _first_repeated(values: list[str]) -> str:
    seen: set[str] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
