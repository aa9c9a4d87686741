"""Pruning filters: which types are counted at which vertices, and the counters' set-up.

A specification such as ``ALL:core,rack:node`` names a type to count (core) at an anchor type (ALL: everywhere above).
Vertices of type ``cluster`` also count the type of every leaf. Priming walks the graph depth first, and the order
matters: a new leaf type is counted only from its first leaf on.
"""

from __future__ import annotations

import errno

from tests.oracle.errors import InvalidOptions
from tests.oracle.walker.graph import Graph, GraphVertex
from tests.oracle.walker.planner import Aggregates

_ANY = "*"


class PruningFilters:
    """The counted types by anchor, growing with the leaf types that priming meets."""

    def __init__(self, specification: str) -> None:
        """Read ``specification``; empty counts nothing but leaves. Raises `InvalidOptions`."""
        self.types: set[str] = set()
        self._by_anchor: dict[str, set[str]] = {}
        self._named = _parse(specification) if specification else []

    def prime(self, graph: Graph) -> None:
        """Set up the aggregates of every vertex, or update their totals after a change of the graph."""
        self._note(graph)
        self._prime(graph, graph.root, graph.new_walk(), {})

    def _note(self, graph: Graph) -> None:
        """Note the types that the specification names, after those of the graph."""
        while self._named:
            anchor, counted = self._named.pop(0)
            graph.intern(anchor)
            graph.intern(counted)
            self._count_at(anchor, counted)

    def _count_at(self, anchor: str, counted: str) -> None:
        everywhere = self._by_anchor.get(_ANY, set())
        if anchor == _ANY:
            for types in self._by_anchor.values():
                types.discard(counted)
            self._by_anchor.setdefault(_ANY, set()).add(counted)
        elif counted not in everywhere:
            self._by_anchor.setdefault(anchor, set()).add(counted)
        self.types.add(counted)

    def _prime(self, graph: Graph, vertex: GraphVertex, walk: int, to_parent: dict[str, int]) -> None:
        vertex.seen = walk
        self.accumulate(to_parent, vertex.type, vertex.size)
        if not vertex.child_types:
            vertex.aggregates = None
            if vertex.type not in self.types:
                self._count_at("cluster", vertex.type)
                self.accumulate(to_parent, vertex.type, vertex.size)
            return
        below: dict[str, int] = {}
        for edge in vertex.out:
            if edge.target.seen != walk:
                self._prime(graph, edge.target, walk, below)
        for name, count in below.items():
            self.accumulate(to_parent, name, count)
        totals = [(name, below.get(name, 0)) for name in self.counted_at(graph, vertex.type)]
        if not totals:
            return
        if vertex.aggregates is None:
            vertex.aggregates = Aggregates(totals)
        else:
            vertex.aggregates.retotal(totals)

    def accumulate(self, into: dict[str, int], name: str, count: int) -> None:
        """Add ``count`` to ``into`` if the type is counted at all."""
        if name in self.types:
            into[name] = into.get(name, 0) + count

    def counted_at(self, graph: Graph, anchor: str) -> list[str]:
        """Return the types that are counted at vertices of type ``anchor``, the first noted first in each part."""
        own = sorted(self._by_anchor.get(anchor, ()), key=graph.type_order)
        everywhere = sorted(self._by_anchor.get(_ANY, ()), key=graph.type_order)
        return own + [name for name in everywhere if name != anchor]


def _parse(specification: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for part in specification.split(","):
        anchor, colon, counted = ("".join(text.split()) for text in part.partition(":"))
        if not (anchor and colon and counted):
            raise InvalidOptions(f"prune filter {part!r} isn't of the form TYPE:TYPE", errno.EPROTO)
        pairs.append((_ANY if anchor == "ALL" else anchor, counted))
    return pairs
