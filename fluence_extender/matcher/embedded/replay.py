"""Allocating exactly what an R lists, as after a restart.

R is JGF, or RFC 20, which also brings the times, with JGF under ``scheduling`` or with ranks and ids alone. Everything
is checked before anything is booked; what doesn't fit is an `InvalidJobspec`, and the graph is as it was (fluxion
reference 5.3). Bare JGF with the mark of shorthand is read as such, where libreapi_cli would overlook the mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.embedded.graph import CONTAINMENT, Graph, Vertex
from fluence_extender.matcher.embedded.idset import Idset
from fluence_extender.matcher.embedded.jgf import Document, VertexEntry, parse_json, read_document
from fluence_extender.matcher.embedded.r_lite import RLiteReplay
from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.embedded.search import GRAPH_END
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec

_WRITERS = ("fluxion", "fluxion:", "fluxion:jgf")
_SHORTHAND = "fluxion:jgf_shorthand"
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
        top = parse_json(text)
        at, duration = times_of(top)
        if is_bare(top):
            if isinstance(top, Mapping) and "execution" in top and "graph" not in top:
                wrong = isinstance(top["execution"], Mapping)
                raise ValueError("version must be 1" if wrong else "execution must be an object")
            return _read_vertices(graph, top, at, duration)
        scheduling = top.get("scheduling")
        if scheduling is None:
            return _read_ranks(graph, top["execution"], at, duration)
        if not isinstance(scheduling, Mapping):
            raise ValueError("'scheduling' must be an object")
        return _read_vertices(graph, scheduling, at, duration)
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None


def is_bare(top: Any) -> bool:
    """Whether an R is JGF by itself, without the envelope of RFC 20."""
    if not isinstance(top, Mapping) or not isinstance(top.get("execution"), Mapping):
        return True
    version = top.get("version")
    return type(version) is not int or version != 1


def lists_vertices(text: Mapping[str, Any] | str | bytes) -> bool:
    """Whether an R lists what it means vertex by vertex, neither by ranks and ids alone nor in shorthand."""
    try:
        top = parse_json(text)
        scheduling = top if is_bare(top) else top.get("scheduling")
        return scheduling is not None and not (isinstance(scheduling, Mapping) and is_shorthand(scheduling))
    except (InvalidGraph, ValueError):
        return True


def times_of(top: Any) -> tuple[int, int]:
    """The start and duration that an R names, in seconds. Raises ValueError for what aren't times."""
    if is_bare(top):
        return 0, GRAPH_END
    start, end = (_time(top["execution"].get(key, 0.0), key) for key in ("starttime", "expiration"))
    return int(start), (int(end - start) if end > start else 0) or GRAPH_END


def is_shorthand(scheduling: Mapping[str, Any]) -> bool:
    """Whether what is below an exclusive vertex goes without saying. Raises ValueError for an unknown writer."""
    writer = scheduling.get("writer", "fluxion")
    if writer != _SHORTHAND and writer not in _WRITERS:
        raise ValueError(f"the scheduling writer {shown(writer)} isn't supported")
    return bool(writer == _SHORTHAND)


def all_below(vertex: Vertex) -> list[Vertex]:
    """All vertices below, each before its own children."""
    found: list[Vertex] = []
    for edge in vertex.out:
        found += [edge.target, *all_below(edge.target)]
    return found


def vertex_of(graph: Graph, entry: VertexEntry) -> Vertex:
    """The vertex that an entry of an R describes. Raises InvalidJobspec."""
    found = {_at_path(graph, path, entry) for path in entry.paths.values()}
    if len(found) != 1:
        raise InvalidJobspec(f"R: {entry.where}: its paths lead to {len(found)} vertices")
    vertex = found.pop()
    for name in ("type", "basename", "name", "id", "size", "rank", "paths"):
        own, listed = getattr(vertex, name), getattr(entry, name)
        if own != listed:
            raise InvalidJobspec(f"R: {entry.where}: {name} is {own!r} in the graph, not {listed!r}")
    return vertex


def _at_path(graph: Graph, path: str, entry: VertexEntry) -> Vertex:
    for vertex in graph.by_path.get(path, ()):
        if vertex.rank == entry.rank:
            return vertex
    raise InvalidJobspec(f"R: {entry.where}: no vertex of rank {entry.rank} is at {path!r}")


def _read_ranks(graph: Graph, execution: Mapping[str, Any], at: int, duration: int) -> Replay:
    seq = graph.new_walk()
    held = RLiteReplay(graph, execution, seq, at, duration).held
    return Replay(seq, at, duration, graph.root.size, False, list(held))


def _read_vertices(graph: Graph, jgf: Any, at: int, duration: int) -> Replay:
    document = read_document(jgf)
    shorthand = is_shorthand(jgf)
    skipped = Idset([document.free_ranks]) if document.free_ranks is not None else None
    found = _Found(graph, at, duration)
    for entry in document.vertices:
        vertex = found.vertex_of(entry)
        if skipped is None or entry.rank not in skipped:
            found.admit(entry, vertex)
            if shorthand and entry.exclusive:
                found.admit_below(entry, vertex, skipped)
    root = found.mark_edges(document, lenient=skipped is not None)
    return Replay(found.seq, at, duration, root.size, found.exclusive[root], found.held)


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
        self._root_left = False
        self._by_key: dict[str, Vertex] = {}

    def vertex_of(self, entry: VertexEntry) -> Vertex:
        """The vertex that the entry describes."""
        if entry.key in self._by_key:
            raise InvalidJobspec(f"R: {entry.where}: the id appears twice")
        return vertex_of(self._graph, entry)

    def admit(self, entry: VertexEntry, vertex: Vertex) -> None:
        """Take the vertex up, if all of it is free for the whole time."""
        self._take_up(entry, vertex, entry.key, entry.exclusive)

    def admit_below(self, entry: VertexEntry, vertex: Vertex, skipped: Idset | None) -> None:
        """Take up all that is below an exclusive vertex, exclusively too."""
        for below in all_below(vertex):
            key = str(below.uniq_id)
            if key in self._by_key:
                raise InvalidJobspec(f"R: {entry.where}: {below.path!r} below it is listed, too")
            if skipped is None or below.rank not in skipped:
                self._take_up(entry, below, key, True)
                for edge in below.parents:
                    edge.mark(self.seq, below.size, True)
                    self._root_left = self._root_left or edge.source is self._graph.root

    def _take_up(self, entry: VertexEntry, vertex: Vertex, key: str, exclusive: bool) -> None:
        free = vertex.free_during(self._at, self._duration)
        if free < vertex.size or self.exclusive.get(vertex):
            raise InvalidJobspec(f"R: {entry.where}: {vertex.path!r} isn't free")
        self._by_key[key] = vertex
        self.exclusive[vertex] = exclusive
        if exclusive:
            self.held.append(vertex)

    def mark_edges(self, document: Document, *, lenient: bool) -> Vertex:
        """Mark the document's edges; returns the root, which must be the source of one."""
        root = self._graph.root if self._root_left else None
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
