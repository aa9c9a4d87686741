"""Allocating exactly what an R lists, as after a restart.

R is JGF, or RFC 20 with JGF under ``scheduling``, which also brings the times. Everything is checked before anything is
booked; what doesn't fit is an `InvalidJobspec`, and the graph is as it was (fluxion reference 5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.embedded.graph import CONTAINMENT, Graph, Vertex
from fluence_extender.matcher.embedded.idset import Idset
from fluence_extender.matcher.embedded.jgf import Document, VertexEntry, parse_json, read_document
from fluence_extender.matcher.embedded.search import GRAPH_END
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec

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
    held: list[Vertex]


def read_replay(graph: Graph, text: Mapping[str, Any] | str | bytes) -> Replay:
    """Find R's vertices, check that they are free, and mark its edges. Raises InvalidJobspec."""
    try:
        document, at, duration = _read(parse_json(text))
        skipped = Idset([document.free_ranks]) if document.free_ranks is not None else None
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None
    found = _Found(graph, at, duration)
    for entry in document.vertices:
        vertex = found.vertex_of(entry)
        if skipped is None or entry.rank not in skipped:
            found.admit(entry, vertex)
    root = found.mark_edges(document, lenient=skipped is not None)
    return Replay(found.seq, at, duration, root.size, found.exclusive[root], found.held)


def _read(top: Any) -> tuple[Document, int, int]:
    """The JGF part of R, the start and the duration."""
    execution = top.get("execution") if isinstance(top, Mapping) else None
    if not isinstance(execution, Mapping) or top.get("version") != 1:
        return read_document(top), 0, GRAPH_END
    start, end = (_time(execution.get(key, 0.0), key) for key in ("starttime", "expiration"))
    at = int(start)
    duration = int(end - start) if end > start else 0
    scheduling = top.get("scheduling")
    if not isinstance(scheduling, Mapping):
        raise ValueError("there is no 'scheduling' in it that says which vertices are meant")
    writer = scheduling.get("writer", "fluxion")
    if writer not in _WRITERS:
        raise ValueError(f"the scheduling writer {writer!r} isn't supported")
    return read_document(scheduling), at, duration or GRAPH_END


def _time(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST:
        raise ValueError(f"execution.{key} must be a time of 0 or later in seconds")
    return value


class _Found:
    """The graph's vertices for the ids of the document."""

    def __init__(self, graph: Graph, at: int, duration: int) -> None:
        self.seq = graph.new_walk()
        self.held: list[Vertex] = []
        self.exclusive: dict[Vertex, bool] = {}
        self._graph = graph
        self._at = at
        self._duration = duration
        self._by_key: dict[str, Vertex] = {}

    def vertex_of(self, entry: VertexEntry) -> Vertex:
        """The vertex that the entry describes."""
        if entry.key in self._by_key:
            raise InvalidJobspec(f"R: {entry.where}: the id appears twice")
        found = {self._at_path(path, entry) for path in entry.paths.values()}
        if len(found) != 1:
            raise InvalidJobspec(f"R: {entry.where}: its paths lead to {len(found)} vertices")
        vertex = found.pop()
        for name in ("type", "basename", "name", "id", "size", "rank", "paths"):
            own, listed = getattr(vertex, name), getattr(entry, name)
            if own != listed:
                raise InvalidJobspec(f"R: {entry.where}: {name} is {own!r} in the graph, not {listed!r}")
        return vertex

    def _at_path(self, path: str, entry: VertexEntry) -> Vertex:
        for vertex in self._graph.by_path.get(path, ()):
            if vertex.rank == entry.rank:
                return vertex
        raise InvalidJobspec(f"R: {entry.where}: no vertex of rank {entry.rank} is at {path!r}")

    def admit(self, entry: VertexEntry, vertex: Vertex) -> None:
        """Take the vertex up, if all of it is free for the whole time."""
        free = vertex.free_during(self._at, self._duration)
        if free < vertex.size or self.exclusive.get(vertex):
            raise InvalidJobspec(f"R: {entry.where}: {vertex.path!r} isn't free")
        self._by_key[entry.key] = vertex
        self.exclusive[vertex] = entry.exclusive
        if entry.exclusive:
            self.held.append(vertex)

    def mark_edges(self, document: Document, *, lenient: bool) -> Vertex:
        """Mark the document's edges; returns the root, which must be the source of one."""
        root: Vertex | None = None
        for entry in document.edges:
            source = self._by_key.get(entry.source)
            target = self._by_key.get(entry.target)
            if source is None or target is None:
                if lenient:
                    continue
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
