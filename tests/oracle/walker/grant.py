"""Taking the vertices that a selection marked, and giving them back.

The walk follows the marked edges in the graph's own order, books every vertex on its timelines, and lists what it took
in the order in which libreapi_cli emits it: children first. A grant that takes nothing changes
nothing. Invariant: a `Span` records exactly what its job has booked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from errno import EINVAL, ERANGE

from tests.oracle.walker.graph import SHARERS, Edge, Graph, GraphVertex
from tests.oracle.walker.planner import Aggregates, Counted, SpanPlanner
from tests.oracle.walker.pruning import PruningFilters


class Booking(Enum):
    """What a grant does to the timelines. PLANNED: the vertices' own units are booked already."""

    ALLOCATE = "allocate"
    RESERVE = "reserve"
    PLANNED = "planned"
    NOTHING = "nothing"


@dataclass(slots=True)
class _Booked:
    """What one job has booked on one vertex.

    ``units``: those it holds exclusively, None for none, ``allocated`` by a job rather than by a reservation.
    ``claimed``: it counts among the jobs that share the vertex. ``counted``: what is counted of it below the vertex, in
    ``totals``; None if the vertex counts nothing of it.
    """

    units: int | None = None
    allocated: bool = False
    claimed: bool = False
    counted: Counted | None = None
    totals: Aggregates | None = None


@dataclass(slots=True)
class Span:
    """The time that a job has, and what it has booked for that time on each vertex."""

    at: int
    duration: int
    booked: dict[GraphVertex, _Booked] = field(default_factory=dict)

    def hold(self, vertex: GraphVertex, units: int, *, allocate: bool) -> bool:
        """Book units of a vertex. Return False if they aren't free."""
        if vertex.plans is None:
            vertex.plans = SpanPlanner(vertex.size)
        if not vertex.plans.add(self.at, self.duration, units):
            return False
        booked = self._on(vertex)
        booked.units = units
        booked.allocated = allocate
        vertex.allocations += allocate
        return True

    def claim(self, vertex: GraphVertex) -> None:
        """Count the job among those that share the vertex."""
        if vertex.claims is None:
            vertex.claims = SpanPlanner(SHARERS)
        self._on(vertex).claimed = vertex.claims.add(self.at, self.duration, 1)

    def count(self, vertex: GraphVertex, totals: Aggregates, below: Mapping[str, int]) -> bool:
        """Count what the job takes below the vertex. Return False if a total can't hold it."""
        counted = totals.add(self.at, self.duration, below)
        if counted is None:
            return False
        booked = self._on(vertex)
        booked.counted = counted
        booked.totals = totals
        return True

    def release(self) -> bool:
        """Give everything back. Return False if a planner has more free than its total now."""
        sound = True
        for vertex, booked in self.booked.items():
            if booked.units is not None and vertex.plans is not None:
                sound &= vertex.plans.remove(self.at, self.duration, booked.units)
                vertex.allocations -= booked.allocated
            if booked.claimed and vertex.claims is not None:
                sound &= vertex.claims.remove(self.at, self.duration, 1)
            if booked.counted is not None and booked.totals is not None:
                sound &= booked.totals.remove(self.at, self.duration, booked.counted)
        self.booked.clear()
        return sound

    def _on(self, vertex: GraphVertex) -> _Booked:
        booked = self.booked.get(vertex)
        if booked is None:
            booked = self.booked[vertex] = _Booked()
        return booked


@dataclass(frozen=True, slots=True)
class Granted:
    """A vertex of a grant: its units, and whether the job has it to itself. ``parent`` is the vertex above it."""

    vertex: GraphVertex
    parent: GraphVertex | None
    units: int
    exclusive: bool
    label: str | None


class Grant:
    """The walk that takes the selection ``seq`` for ``span``.

    ``whole_types`` are taken with everything below them. ``weighs``: edges that are walked get the weight of what stays
    free below them now, for the policies that stop early; under a replay, as in libreapi_cli, the weight 0. ``errno``
    is what the walk leaves, None if it sets none.
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
        """Take the root's ``needs`` and everything marked below. Return False if nothing is wanted exclusively."""
        self._walk = self._graph.new_walk()
        return self._descend(self._graph.root, None, needs, exclusive, False, {}) > 0

    def _descend(
        self,
        vertex: GraphVertex,
        parent: GraphVertex | None,
        needs: int,
        exclusive: bool,
        whole: bool,
        to_parent: dict[str, int],
    ) -> int:
        """Take a vertex and what is below. Return how many vertices are wanted exclusively."""
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
        self,
        vertex: GraphVertex,
        needs: int,
        exclusive: bool,
        below: dict[str, int],
        to_parent: dict[str, int],
    ) -> bool:
        """Book a vertex. Where the timelines can't hold it, the grant leaves it out, as in libreapi_cli."""
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
