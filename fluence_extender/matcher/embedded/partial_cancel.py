"""Freeing a part of what a job has allocated (fluxion reference 5.2).

Everything is read and checked before anything is freed; what can't be freed soundly is an `InvalidJobspec`, and the job
is as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fluence_extender.matcher.embedded.graph import Graph, Vertex
from fluence_extender.matcher.embedded.jgf import parse_json, read_document
from fluence_extender.matcher.embedded.replay import all_below, is_shorthand, vertex_of
from fluence_extender.matcher.embedded.span import Span
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec
from fluence_extender.matcher.release import Tree, check_release, parts_of, read_ranks


@dataclass(slots=True)
class _Freed:
    """What is to be freed, by rank, and above which vertex each rank is counted out."""

    vertices: dict[int, dict[Vertex, None]] = field(default_factory=dict)
    tops: dict[int, Vertex] = field(default_factory=dict)

    def add(self, rank: int, vertex: Vertex) -> None:
        self.vertices.setdefault(rank, {})[vertex] = None

    def see(self, rank: int, vertex: Vertex) -> None:
        top = self.tops.get(rank)
        if top is None or len(vertex.path) < len(top.path):
            self.tops[rank] = vertex


def free_part(graph: Graph, jobid: int, span: Span, text: Mapping[str, Any] | str | bytes) -> bool:
    """Free what R lists of the job's span; returns whether the job is gone. Raises InvalidJobspec."""
    try:
        freed = _read(graph, jobid, span, parse_json(text))
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None
    exclusive = {vertex: None for vertex, booked in span.booked.items() if booked.units is not None}
    unclaimed = {vertex for vertex, booked in span.booked.items() if booked.tagged and not booked.claimed}
    tree = Tree(_above, lambda vertex: vertex.type, lambda vertex: vertex.path, _totals, unclaimed)
    check_release(tree, exclusive, freed.vertices, freed.tops)
    reductions = _reductions(span, freed)
    for vertices in freed.vertices.values():
        for vertex in vertices:
            span.free(vertex)
    for vertex, counts in reductions.items():
        span.reduce(vertex, counts)
    if graph.root in span.booked and span.booked[graph.root].tagged:
        return False
    span.release()
    return True


def _read(graph: Graph, jobid: int, span: Span, top: Any) -> _Freed:
    execution, scheduling = parts_of(top)
    if scheduling is None:
        return _of_ranks(graph, span, execution)
    if jobid == 0:
        raise ValueError("of job 0 vertices can't be freed, only ranks")
    return _of_vertices(graph, span, scheduling)


def _of_ranks(graph: Graph, span: Span, execution: Mapping[str, Any]) -> _Freed:
    freed = _Freed()
    for rank in read_ranks(execution):
        freed.vertices[rank] = {}
        for vertex in graph.of_rank(rank):
            freed.see(rank, vertex)
            if vertex in span.booked and span.booked[vertex].tagged:
                freed.add(rank, vertex)
        if rank not in freed.tops:
            raise ValueError(f"execution.R_lite: no vertex has rank {rank}")
    return freed


def _of_vertices(graph: Graph, span: Span, scheduling: Mapping[str, Any]) -> _Freed:
    shorthand = is_shorthand(scheduling)
    document = read_document(scheduling)
    if document.free_ranks is not None:
        raise ValueError("scheduling.free_ranks has no meaning here")
    freed = _Freed()
    keys: set[str] = set()
    for entry in document.vertices:
        vertex = vertex_of(graph, entry)
        if not entry.exclusive or not _holds(span, vertex):
            raise ValueError(f"{entry.where}: the job doesn't hold {vertex.path!r} exclusively")
        below = [each for each in all_below(vertex) if _holds(span, each)] if shorthand else []
        for each in (vertex, *below):
            if entry.key in keys or each in freed.vertices.get(each.rank, ()):
                raise ValueError(f"{entry.where}: {each.path!r} is listed twice")
            freed.add(each.rank, each)
            freed.see(each.rank, each)
        keys.add(entry.key)
    if not freed.vertices:
        raise ValueError("it lists no vertex")
    return freed


def _holds(span: Span, vertex: Vertex) -> bool:
    booked = span.booked.get(vertex)
    return booked is not None and booked.units is not None and booked.tagged


def _reductions(span: Span, freed: _Freed) -> dict[Vertex, Counter[str]]:
    """What each vertex above has to count out. Raises InvalidJobspec where that is more than it counted in."""
    reductions: dict[Vertex, Counter[str]] = {}
    for rank, vertices in freed.vertices.items():
        counts: Counter[str] = Counter()
        for vertex in vertices:
            counts[vertex.type] += span.booked[vertex].units or 0
        for above in _above(freed.tops[rank]):
            reductions.setdefault(above, Counter()).update(counts)
    for vertex, counts in reductions.items():
        booked = span.booked.get(vertex)
        counted = booked.counted if booked is not None and booked.counted is not None else {}
        for name, (_, amount) in counted.items():
            if counts[name] > amount:
                raise InvalidJobspec(
                    f"R: {vertex.path!r} counts {amount} {name} of the job, and {counts[name]} would be freed"
                )
    return reductions


def _totals(vertex: Vertex) -> tuple[str, ...]:
    return () if vertex.aggregates is None else tuple(vertex.aggregates.planners)


def _above(vertex: Vertex) -> list[Vertex]:
    """The vertices above, the nearest first."""
    above: list[Vertex] = []
    while vertex.parents:
        vertex = vertex.parents[0].source
        above.append(vertex)
    return above
