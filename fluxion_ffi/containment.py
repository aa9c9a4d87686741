"""The containment tree of one graph, a copy of the library's own.

The library has no call that returns it, and some calls hang or read freed memory if their arguments don't fit the
graph: the last child of a vertex can't be removed, a rank without vertices can't be marked, and an addition that fails
stays half added. Invariant: after every call that succeeded `Containment` describes the
graph that the library holds; nothing here changes before `commit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fluxion_ffi.errors import FluxionError, InvalidGraph, InvalidRequest, shown
from fluxion_ffi.vertices import Vertex, read_vertex


@dataclass(frozen=True, slots=True)
class Subtree:
    """A checked document: its vertices by path, and of these the new ones; ``children`` are the new edges, as paths."""

    vertices: dict[str, Vertex]
    new: list[Vertex]
    children: list[tuple[str, str]]


@dataclass(slots=True)
class Containment:
    """The vertices of a graph by path, and the children of each by uniq_id.

    ``units`` is the sum of their sizes; ``loaded`` counts the removed ones too, whose memory the library keeps.
    """

    root: str = ""
    vertices: dict[str, Vertex] = field(default_factory=dict)
    children: dict[str, dict[int, str]] = field(default_factory=dict)
    ranks: Counter[int] = field(default_factory=Counter)
    units: int = 0
    loaded: int = 0

    def read(self, document: dict[str, Any], errno: int) -> Subtree:
        """Check a document that is to be loaded into this graph. Raises `InvalidGraph` with the place."""
        return _Reader(self, errno).read(document)

    def commit(self, subtree: Subtree) -> None:
        """Note that the library loaded ``subtree``."""
        self.loaded += len(subtree.new)
        for vertex in subtree.new:
            self.vertices[vertex.path] = vertex
            self.ranks[vertex.rank] += 1
            self.units += vertex.size
            if vertex.path.count("/") == 1:
                self.root = vertex.path
        for parent, child in subtree.children:
            self.children.setdefault(parent, {})[self.vertices[child].uniq_id] = child

    def check_removal(self, path: str) -> None:
        """Raise `InvalidRequest` if removing ``path`` is impossible or would hang the library."""
        if path not in self.vertices:
            raise InvalidRequest(f"remove_subgraph: no vertex at {path}")
        if path == self.root:
            raise InvalidRequest(f"remove_subgraph: {path} is the root")
        parent = path.rpartition("/")[0]
        siblings = self.children.get(parent, {})
        if list(siblings.values()) == [path]:
            raise InvalidRequest(
                f"remove_subgraph: {path} is the last child of {parent}, which the library can't remove; "
                f"set it down, or build the graph anew without it"
            )

    def commit_removal(self, path: str) -> None:
        """Note that the library removed ``path`` and all below it."""
        del self.children[path.rpartition("/")[0]][self.vertices[path].uniq_id]
        waiting = [path]
        while waiting:
            vertex = self.vertices.pop(waiting.pop())
            self.ranks[vertex.rank] -= 1
            self.units -= vertex.size
            waiting.extend(self.children.pop(vertex.path, {}).values())

    def joins(self, parent: str, child: str) -> bool:
        """Whether an edge leads from the vertex at ``parent`` to the one at ``child``."""
        vertex = self.vertices.get(child)
        return vertex is not None and self.children.get(parent, {}).get(vertex.uniq_id) == child

    def check_ranks(self, ranks: Collection[object], place: str) -> None:
        """Raise `InvalidRequest` unless each rank is an integer that has a vertex."""
        if not ranks:
            raise InvalidRequest(f"{place}: no rank given")
        for rank in ranks:
            if type(rank) is not int:
                raise InvalidRequest(f"{place}: must be integers, not {shown(rank)}")
        unknown = sorted(
            rank for rank in ranks if isinstance(rank, int) and (rank < 0 or self.ranks[rank] <= 0)
        )
        if unknown:
            raise InvalidRequest(f"{place}: no vertex of rank {', '.join(map(shown, unknown[:20]))}")

    def leaf_types(self) -> set[str]:
        """Return the types of the vertices that contain nothing, the root excepted."""
        return {
            self.vertices[child].type
            for children in self.children.values()
            for child in children.values()
            if not self.children.get(child)
        }


class _Reader:
    """Reads one document against the graph that it is to join."""

    def __init__(self, graph: Containment, errno: int) -> None:
        self._graph = graph
        self._errno = errno
        self._by_key: dict[str, Vertex] = {}
        self._by_path: dict[str, Vertex] = {}
        self._new: list[Vertex] = []
        self._children: list[tuple[str, str]] = []
        self._siblings: set[tuple[str, int]] = set()

    def read(self, document: dict[str, Any]) -> Subtree:
        graph = document.get("graph")
        if not isinstance(graph, dict):
            raise self._refuse("graph: must be an object")
        for name in ("nodes", "edges"):
            if not isinstance(graph.get(name), list):
                raise self._refuse(f"graph.{name}: must be a list")
        for index, entry in enumerate(graph["nodes"]):
            self._take_vertex(entry, f"graph.nodes[{index}]")
        for index, entry in enumerate(graph["edges"]):
            self._take_edge(entry, f"graph.edges[{index}]")
        return Subtree(self._by_path, self._new, self._children)

    def _take_vertex(self, entry: Any, place: str) -> None:
        vertex = read_vertex(entry, place, self._refuse)
        if vertex.key in self._by_key:
            raise self._refuse(f"{place}.id: {shown(vertex.key)} appears twice")
        if vertex.path in self._by_path:
            raise self._refuse(f"{place}.metadata.paths.containment: {vertex.path} appears twice")
        known = self._graph.vertices.get(vertex.path)
        if known is None:
            if vertex.path.count("/") == 1 and (root := self._root()):
                raise self._refuse(f"{place}: {vertex.path} would be a second root beside {root}")
            self._new.append(vertex)
        elif known.rank != vertex.rank:
            raise self._refuse(
                f"{place}.metadata.rank: {vertex.path} has rank {known.rank} in the graph, not {vertex.rank}"
            )
        self._by_key[vertex.key] = self._by_path[vertex.path] = vertex

    def _root(self) -> str:
        return self._graph.root or next((v.path for v in self._new if v.path.count("/") == 1), "")

    def _take_edge(self, entry: Any, place: str) -> None:
        if not isinstance(entry, dict):
            raise self._refuse(f"{place}: must be an object")
        metadata = entry.get("metadata", {})
        if not isinstance(metadata, dict) or metadata.get("subsystem", "containment") != "containment":
            raise self._refuse(f"{place}.metadata: only the containment subsystem is supported")
        ends: list[Vertex] = []
        for end in ("source", "target"):
            key = entry.get(end)
            if not isinstance(key, str) or key not in self._by_key:
                raise self._refuse(f"{place}.{end}: {shown(key)} isn't the id of a vertex of this document")
            ends.append(self._by_key[key])
        parent, child = ends
        if child.path.rpartition("/")[0] != parent.path:
            raise self._refuse(f"{place}: {child.path} doesn't lie directly below {parent.path}")
        # The library adds an edge only if one of its ends is new.
        if parent.path not in self._graph.vertices or child.path not in self._graph.vertices:
            self._take_child(parent, child, place)

    def _take_child(self, parent: Vertex, child: Vertex, place: str) -> None:
        mark = (parent.path, child.uniq_id)
        taken = self._graph.children.get(parent.path, {}).get(child.uniq_id)
        if taken is not None or mark in self._siblings:
            raise self._refuse(f"{place}: {parent.path} has another child with uniq_id {child.uniq_id}")
        self._siblings.add(mark)
        self._children.append((parent.path, child.path))

    def _refuse(self, message: str) -> FluxionError:
        return InvalidGraph(message, self._errno)
