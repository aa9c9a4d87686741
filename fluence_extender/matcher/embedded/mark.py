"""Marking the edges that a selection chose (fluxion reference 4.6)."""

from __future__ import annotations

from fluence_extender.matcher.embedded.graph import MAX_DEPTH, Edge, Graph
from fluence_extender.matcher.embedded.scores import Scores


def mark_chosen(scores: Scores, seq: int) -> None:
    """Mark the edges of the groups chosen below a vertex."""
    for found in scores.by_type.values():
        for group in found.groups[: found.chosen]:
            for edge, needs, exclusive in group.members:
                edge.mark(seq, needs, exclusive)


def mark_with_parents(graph: Graph, scores: Scores, seq: int) -> None:
    """Mark the edges chosen at the top, and above each of them those to vertices that were passed over."""
    for name in sorted(scores.by_type, key=graph.type_order):
        found = scores.by_type[name]
        for group in found.groups[: found.chosen]:
            for edge, needs, exclusive in group.members:
                edge.mark(seq, needs, exclusive)
                _mark_above(edge, scores, seq)


def _mark_above(edge: Edge, scores: Scores, seq: int) -> None:
    """Climb to the root; an edge that is marked already has its own climb behind it or before it."""
    vertex = edge.source
    for _ in range(MAX_DEPTH):
        if not vertex.parents:
            return
        above = vertex.parents[0]
        if above.seq == seq:
            return
        found = scores.by_type.get(vertex.type)
        if found is not None and not found.best:
            above.mark(seq, vertex.size, False)
        vertex = above.source
