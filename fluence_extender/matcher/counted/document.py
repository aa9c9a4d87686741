"""Read a compact graph document: JGF in which a leaf entry with ``count: N`` stands for N equal unit leaves.

The units of an entry have the ids ``id..id+N-1`` and the uniq_ids ``uniq_id..uniq_id+N-1``; its name and path are
those of the first unit. Invariant: in the tree that `read_tree` returns there is one root, every entry has one parent,
and paths and document ids are unique. Any other document is `Uncountable`: the walker either reads it or reports the
place of the fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from errno import EINVAL
from typing import Any

import msgspec

from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Jgf

NODE = "node"
VIRTUAL = "virtual=true"
"""The property key of a `node` vertex that stands for a device or a service instead of a machine."""

_LARGEST = 2**53
_LARGEST_UNIQ_ID = 2**62
_LEADING_NUMBER = re.compile(r"\s*([+-]?\d{1,18})", re.ASCII)
_TRAILING_NUMBER = re.compile(r"\d+$", re.ASCII)


class Uncountable(MatcherError):
    """Counts can't express this document or request; the walker has to answer. Nothing has changed."""

    errno = EINVAL


class VertexMetadata(msgspec.Struct, omit_defaults=True):
    """The metadata of one vertex, with ``count`` for equal unit leaves."""

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
    metadata: VertexMetadata


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


class CompactEntry:
    """One entry of the document with its defaults filled in, and its place in the tree."""

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

    def __init__(self, node: _Node) -> None:
        metadata = node.metadata
        path = metadata.paths.get("containment", "")
        if not path.startswith("/"):
            raise Uncountable(f"{node.id}: there is no containment path")
        if metadata.count < 1 or not 0 <= metadata.size <= _LARGEST or metadata.count > _LARGEST:
            raise Uncountable(f"{path}: count and size must be whole numbers up to 2^53")
        if metadata.type == NODE and metadata.count > 1:
            raise Uncountable(f"{path}: a node can't have a count, because nodes differ from each other")
        self.key = node.id
        self.metadata = metadata
        self.path = path
        self.type = metadata.type
        self.basename = metadata.type if metadata.basename is msgspec.UNSET else metadata.basename
        self.uniq_id = _uniq_id(node)
        self.id = _own_id(metadata, self.uniq_id)
        if self.uniq_id < 0 or self.uniq_id + metadata.count > _LARGEST_UNIQ_ID:
            raise Uncountable(f"{path}: uniq_id must be from 0 to 2^62")
        if self.id < -1 or self.id + metadata.count > _LARGEST:
            raise Uncountable(f"{path}: id must be from -1 to 2^53")
        if metadata.count > 1 and path.rpartition("/")[2] != f"{self.basename}{self.id}":
            raise Uncountable(f"{path}: the units would have other paths than the entry")
        self.name = f"{self.basename}{self.id}" if metadata.name is msgspec.UNSET else metadata.name
        self.children: list[CompactEntry] = []
        self.parent: CompactEntry | None = None
        self.turn = 0
        """The place of the entry in the depth-first order of the document."""

    @property
    def is_physical(self) -> bool:
        """Whether the entry is a node that stands for a machine."""
        return self.type == NODE and VIRTUAL not in self.metadata.properties

    @property
    def is_leaf(self) -> bool:
        """Whether the entry, a child of a physical node, is a leaf of that node."""
        return not self.children and self.type != NODE

    def walk(self) -> Iterator[CompactEntry]:
        """Yield the entry and all entries below it, parents first, children in edge order."""
        stack = [self]
        while stack:
            entry = stack.pop()
            yield entry
            stack.extend(reversed(entry.children))


def is_compact(graph: Jgf) -> bool:
    """Whether any entry of the document has a count, or no entry exists yet that could have one."""
    try:
        nodes = graph["graph"]["nodes"]
        return len(nodes) == 1 or any("count" in node["metadata"] for node in nodes)
    except (KeyError, TypeError, IndexError):
        return False


def read_tree(document: Any) -> tuple[CompactEntry, list[str]]:
    """Return the root of the tree in ``document`` (parsed JSON), and its types in document order.

    Raises `Uncountable`.
    """
    try:
        graph = msgspec.convert(document, _Document).graph
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise Uncountable(f"malformed graph: {error}") from None
    entries = [CompactEntry(node) for node in graph.nodes]
    by_key = {entry.key: entry for entry in entries}
    if len(by_key) < len(entries) or len({entry.path for entry in entries}) < len(entries):
        raise Uncountable("two entries have the same id or path")
    for edge in graph.edges:
        _join(by_key, edge)
    roots = [entry for entry in entries if entry.path.count("/") == 1]
    if len(roots) != 1 or roots[0].type == NODE:
        raise Uncountable("the graph must have one root, which is no node")
    root = roots[0]
    # A child's path is longer than its parent's: there are no cycles, and every entry with a parent is below the root.
    for entry in entries:
        if entry.parent is None and entry is not root:
            raise Uncountable(f"no edge leads to {entry.path}")
    return root, list(dict.fromkeys(entry.type for entry in entries))


def _join(by_key: dict[str, CompactEntry], edge: _Edge) -> None:
    if edge.metadata.subsystem != "containment":
        return
    parent, child = by_key.get(edge.source), by_key.get(edge.target)
    if parent is None or child is None:
        raise Uncountable(f"the edge {edge.source} -> {edge.target} has an unknown end")
    if child.parent is not None or child is parent:
        raise Uncountable(f"{child.path} has two parents")
    if child.path.rpartition("/")[0] != parent.path:
        raise Uncountable(f"the path {child.path} doesn't lead through {parent.path}")
    if parent.metadata.count > 1:
        raise Uncountable(f"{parent.path} has a count, so nothing can be below it")
    child.parent = parent
    parent.children.append(child)


def _uniq_id(node: _Node) -> int:
    if node.metadata.uniq_id is not msgspec.UNSET:
        return node.metadata.uniq_id
    match = _LEADING_NUMBER.match(node.id)
    if match is None:
        raise Uncountable(f"{node.id}: there is no uniq_id, and the id doesn't begin with a number")
    return int(match[1])


def _own_id(metadata: VertexMetadata, uniq_id: int) -> int:
    if metadata.id is not msgspec.UNSET:
        return metadata.id
    if metadata.type == NODE and metadata.name is not msgspec.UNSET:
        match = _TRAILING_NUMBER.search(metadata.name)
        if match is not None and len(match[0]) <= 15:
            return int(match[0])
    return uniq_id
