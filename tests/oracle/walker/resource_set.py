"""Allocating exactly what an R lists, as after a restart.

R is JGF, or an RFC 20 object with JGF under ``scheduling``, which also brings the times. Everything is checked before
anything is booked; what doesn't fit is an `InvalidJobspec`, and the graph is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.oracle.errors import InvalidGraph, InvalidJobspec, shown
from tests.oracle.walker.graph import CONTAINMENT, Graph, GraphVertex
from tests.oracle.walker.planner import GRAPH_END
from tests.oracle.walker.reader import Document, VertexEntry, parse_json, read_document

_WRITERS = ("fluxion", "fluxion:", "fluxion:jgf")
_LATEST = 2**62


@dataclass(frozen=True, slots=True)
class Replay:
    """What an R asks for: the marked selection ``seq``, the root's part, the time, and the exclusive vertices."""

    seq: int
    at: int
    duration: int
    needs: int
    exclusive: bool
    held: list[GraphVertex]


@dataclass(frozen=True, slots=True)
class ListedVertex:
    """The vertices that an R lists, and when they are held, in seconds."""

    document: Document
    at: int
    duration: int


def read_resources(text: Mapping[str, Any] | str | bytes) -> ListedVertex:
    """Read an R. Raises `InvalidJobspec`."""
    try:
        top = parse_json(text)
        at, duration, jgf = 0, GRAPH_END, top
        if isinstance(top, Mapping) and "execution" in top and "graph" not in top:
            at, duration = _times_of(top)
            jgf = top.get("scheduling")
            if not isinstance(jgf, Mapping):
                raise ValueError("'scheduling' must be an object that lists the vertices")
        if isinstance(jgf, Mapping):
            if jgf.get("writer", "fluxion") not in _WRITERS:
                raise ValueError(f"the scheduling writer {shown(jgf['writer'])} isn't supported")
            if "free_ranks" in jgf:
                raise ValueError("free_ranks isn't supported: list what is held")
        return ListedVertex(read_document(jgf), at, duration)
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None


def _times_of(top: Mapping[str, Any]) -> tuple[int, int]:
    """Return the start and the duration. Raises ValueError for what isn't RFC 20."""
    execution, version = top["execution"], top.get("version")
    if not isinstance(execution, Mapping):
        raise ValueError("execution must be an object")
    if type(version) is not int or version != 1:
        raise ValueError("version must be 1")
    start, end = (_time(execution.get(key, 0.0), key) for key in ("starttime", "expiration"))
    return int(start), (int(end - start) if end > start else 0) or GRAPH_END


def _time(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST:
        raise ValueError(f"execution.{key} must be a time of 0 or later in seconds")
    return value


def replay_of(graph: Graph, text: Mapping[str, Any] | str | bytes) -> Replay:
    """Find R's vertices, check that they are free, and mark its edges. Raises `InvalidJobspec`."""
    listed = read_resources(text)
    found = _Found(graph, listed)
    for entry in listed.document.vertices:
        found.take_up(entry)
    root = found.mark_edges(listed.document)
    return Replay(found.seq, listed.at, listed.duration, root.size, found.exclusive[root], found.held)


class _Found:
    """The graph's vertices for the ids of the document."""

    def __init__(self, graph: Graph, listed: ListedVertex) -> None:
        self.seq = graph.new_walk()
        self.held: list[GraphVertex] = []
        self.exclusive: dict[GraphVertex, bool] = {}
        self._graph = graph
        self._listed = listed
        self._by_key: dict[str, GraphVertex] = {}

    def take_up(self, entry: VertexEntry) -> None:
        """Take up the vertex that the entry describes, if all of it is free for the whole time."""
        if entry.key in self._by_key:
            raise InvalidJobspec(f"R: {entry.where}: the id appears twice")
        vertex = self._vertex_of(entry)
        free = vertex.free_during(self._listed.at, self._listed.duration)
        if free < vertex.size or self.exclusive.get(vertex):
            raise InvalidJobspec(f"R: {entry.where}: {vertex.path!r} isn't free")
        self._by_key[entry.key] = vertex
        self.exclusive[vertex] = entry.exclusive
        if entry.exclusive:
            self.held.append(vertex)

    def _vertex_of(self, entry: VertexEntry) -> GraphVertex:
        found = {self._at_path(path, entry) for path in entry.paths.values()}
        if len(found) != 1:
            raise InvalidJobspec(f"R: {entry.where}: its paths lead to {len(found)} vertices")
        vertex = found.pop()
        for name in ("type", "basename", "name", "id", "size", "rank", "paths"):
            own, listed = getattr(vertex, name), getattr(entry, name)
            if own != listed:
                raise InvalidJobspec(f"R: {entry.where}: {name} is {own!r} in the graph, not {listed!r}")
        return vertex

    def _at_path(self, path: str, entry: VertexEntry) -> GraphVertex:
        for vertex in self._graph.by_path.get(path, ()):
            if vertex.rank == entry.rank:
                return vertex
        raise InvalidJobspec(f"R: {entry.where}: no vertex of rank {entry.rank} is at {path!r}")

    def mark_edges(self, document: Document) -> GraphVertex:
        """Mark the document's edges. Return the root, which must be the source of one."""
        root = None
        for entry in document.edges:
            source = self._by_key.get(entry.source)
            target = self._by_key.get(entry.target)
            if source is None or target is None:
                raise InvalidJobspec(f"R: {entry.where}: no vertex has the id of one of its ends")
            if source is self._graph.roots.get(CONTAINMENT):
                root = source
            edge = next((edge for edge in source.out if edge.target is target), None)
            if edge is None:
                raise InvalidJobspec(f"R: {entry.where}: {target.path!r} isn't below {source.path!r}")
            edge.mark(self.seq, target.size, self.exclusive[target])
        if root is None:
            raise InvalidJobspec("R: it has no edge from the root")
        return root
