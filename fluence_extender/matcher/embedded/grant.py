"""Taking what a selection marked.

The walk follows the marked edges in the graph's own order, books every vertex on its time line, and lists what it took
in the order that libreapi_cli emits it: children first (fluxion reference 4.7). A booking that takes nothing changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from errno import EINVAL, ERANGE

from fluence_extender.matcher.embedded.graph import Edge, Graph, Vertex
from fluence_extender.matcher.embedded.pruning import PruningFilters
from fluence_extender.matcher.embedded.span import Span


class Booking(Enum):
    """What a grant does to the time lines. PLANNED: the vertices' own units are booked already."""

    ALLOCATE = "allocate"
    RESERVE = "reserve"
    PLANNED = "planned"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Granted:
    """A vertex of a grant: its units, and whether the job has it to itself. ``parent`` is the vertex above it."""

    vertex: Vertex
    parent: Vertex | None
    units: int
    exclusive: bool
    label: str | None


class Grant:
    """The walk that takes the selection ``seq`` for ``span``.

    ``whole_types`` are taken with all that is below them. ``weighs``: edges walked get the weight of what stays free
    below them now, for the policies that stop early; under a replay, as in libreapi_cli, the weight 0. ``errno`` is
    what the walk leaves, None where it sets none.
    """

    def __init__(
        self,
        graph: Graph,
        filters: PruningFilters,
        span: Span,
        booking: Booking,
        *,
        seq: int,
        whole_types: Collection[str],
        weighs: bool,
    ) -> None:
        self.vertices: list[Granted] = []
        self.edges: list[Edge] = []
        self._graph = graph
        self._filters = filters
        self._span = span
        self._booking = booking
        self._seq = seq
        self._whole_types = whole_types
        self._weighs = weighs
        self._walk = 0
        self.errno: int | None = None

    def take(self, needs: int, exclusive: bool) -> bool:
        """Take the root's ``needs`` and all that is marked below; False where nothing is wanted exclusively."""
        self._walk = self._graph.new_walk()
        return self._descend(self._graph.root, None, needs, exclusive, False, {}) > 0

    def _descend(
        self,
        vertex: Vertex,
        parent: Vertex | None,
        needs: int,
        exclusive: bool,
        whole: bool,
        to_parent: dict[str, int],
    ) -> int:
        """Take a vertex and what is below; returns how many vertices are wanted exclusively."""
        whole = whole or vertex.type in self._whole_types
        exclusive = exclusive or whole
        vertex.seen = self._walk
        below: dict[str, int] = {}
        taken = 0
        for edge in vertex.out:
            child = edge.target
            if child.seen == self._walk or not (whole or edge.seq == self._seq):
                continue
            units = child.size if whole else edge.needs
            count = self._descend(child, vertex, units, whole or edge.exclusive, whole, below)
            if count:
                if self._weighs:
                    self._reweigh(edge)
                self.edges.append(edge)
                taken += count
        taken += exclusive
        if taken and self._book(vertex, needs, exclusive, below, to_parent):
            label = vertex.label
            text = label[1] if label is not None and label[0] == self._seq else None
            self.vertices.append(Granted(vertex, parent, needs, exclusive, text))
        return taken

    def _book(
        self, vertex: Vertex, needs: int, exclusive: bool, below: dict[str, int], to_parent: dict[str, int]
    ) -> bool:
        """Book a vertex. Where the time lines can't hold it, it is left out of the grant, as in libreapi_cli."""
        if self._booking is Booking.NOTHING:
            return True
        span = self._span
        if exclusive and self._booking is not Booking.PLANNED:
            allocate = self._booking is Booking.ALLOCATE
            if not span.hold(vertex, needs, allocate=allocate):
                self.errno = EINVAL
                return False
        span.claim(vertex)
        if vertex.aggregates is not None and below and not span.count(vertex, vertex.aggregates, below):
            self.errno = EINVAL
            return False
        self._filters.accumulate(to_parent, vertex.type, vertex.size if exclusive else vertex.size - needs)
        for name, count in below.items():
            self._filters.accumulate(to_parent, name, count)
        return True

    def _reweigh(self, edge: Edge) -> None:
        """Set the weight to what is free now, of the type counted last, below the edge."""
        aggregates = edge.target.aggregates
        if aggregates is None:
            return
        if self._booking is Booking.PLANNED:
            self.errno = ERANGE
            edge.reweigh(0)
            return
        free = aggregates.last().free_at(0)
        if free or aggregates.live:
            edge.reweigh(free)
