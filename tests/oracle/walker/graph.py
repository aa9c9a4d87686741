"""The resource graph: vertices, the containment edges between them, and the indexes the walk needs.

Invariant: below the root the containment edges close no cycle and are at most `MAX_DEPTH` deep; ``nodes`` holds the
vertices of type ``node`` in load order; ``by_path`` lists every attached vertex under each of its paths.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from tests.oracle.walker.planner import Aggregates, SpanPlanner

CONTAINMENT = "containment"
MAX_DEPTH = 100
"""The most levels of containment that are walked."""

UP = 0
DOWN = 1

UNWEIGHED = 2**64 - 1
"""The weight of an edge before the first job passed through it."""

SHARERS = 0x40000000
"""How many jobs may share a vertex at a time."""

STATIC_TYPES = (
    "cluster",
    "core",
    "socket",
    "gpu",
    "node",
    "rack",
    "slot",
    "xor_slot",
    "ssd",
    "storage_node",
)
"""The types that libreapi_cli knows from the start, in its order."""


class GraphVertex:
    """One resource of the graph, with its timelines.

    ``plans`` counts its units, ``claims`` the jobs that are on it or below it; both are made at their first use.
    ``allocations`` is the number of jobs, not reservations, that hold it exclusively.
    """

    __slots__ = (
        "aggregates",
        "allocations",
        "basename",
        "by_weight",
        "child_types",
        "claims",
        "id",
        "label",
        "name",
        "out",
        "parents",
        "path",
        "paths",
        "plans",
        "properties",
        "rank",
        "seen",
        "size",
        "status",
        "type",
        "uniq_id",
    )

    def __init__(
        self,
        *,
        type: str,
        basename: str,
        name: str,
        id: int,
        uniq_id: int,
        rank: int,
        status: int,
        size: int,
        properties: Mapping[str, str],
        paths: Mapping[str, str],
    ) -> None:
        self.type = type
        self.basename = basename
        self.name = name
        self.id = id
        self.uniq_id = uniq_id
        self.rank = rank
        self.status = status
        self.size = size
        self.properties = properties
        self.paths = paths
        self.path = paths.get(CONTAINMENT, "")
        self.out: list[Edge] = []
        self.parents: list[Edge] = []
        self.child_types: dict[str, int] = {}
        self.by_weight: list[tuple[int, int, int, Edge]] | None = None
        self.plans: SpanPlanner | None = None
        self.claims: SpanPlanner | None = None
        self.aggregates: Aggregates | None = None
        self.allocations = 0
        self.seen = 0
        self.label: tuple[int, str] | None = None

    def free_during(self, at: int, duration: int) -> int:
        """Return how many units no job holds exclusively during [at, at + duration)."""
        return self.size if self.plans is None else self.plans.free_during(at, duration)

    def heaviest_first(self) -> list[tuple[int, int, int, Edge]]:
        """Return the out-edges by weight, then by the child's uniq_id, both descending, each with its sort key."""
        if self.by_weight is None:
            self.by_weight = sorted(edge.order() for edge in self.out)
        return self.by_weight

    def __repr__(self) -> str:
        return f"Vertex({self.path or self.name!r})"


class Edge:
    """A containment edge, and what the last traversal that chose it wants below."""

    __slots__ = ("exclusive", "needs", "seq", "serial", "source", "target", "weight")

    def __init__(self, source: GraphVertex, target: GraphVertex, serial: int) -> None:
        self.source = source
        self.target = target
        self.serial = serial
        self.weight = UNWEIGHED
        self.seq = 0
        self.needs = 0
        self.exclusive = False

    def order(self) -> tuple[int, int, int, Edge]:
        """Return the key that puts heavy edges first."""
        return (-self.weight, -self.target.uniq_id, self.serial, self)

    def reweigh(self, weight: int) -> None:
        """Change the weight, and the edge's place among its siblings."""
        if weight == self.weight:
            return
        turns = self.source.by_weight
        if turns is None:
            self.weight = weight
            return
        key = self.order()
        del turns[bisect_left(turns, key[:3], key=_turn)]
        self.weight = weight
        insort(turns, self.order(), key=_turn)

    def mark(self, seq: int, needs: int, exclusive: bool) -> None:
        """Note that the traversal ``seq`` chose the target."""
        self.seq = seq
        self.needs = needs
        self.exclusive = exclusive


def _turn(key: tuple[int, int, int, Edge]) -> tuple[int, int, int]:
    return key[:3]


class Graph:
    """All vertices, by path and by type, and the count of nodes that are up."""

    def __init__(self) -> None:
        self.roots: dict[str, GraphVertex] = {}
        self.by_path: dict[str, list[GraphVertex]] = {}
        self.nodes: dict[GraphVertex, None] = {}
        self.had_nodes = False
        self.nodes_up = 0
        self.walks = 0
        self._edges = 0
        self._type_ids = {name: index for index, name in enumerate(STATIC_TYPES)}

    @property
    def root(self) -> GraphVertex:
        """The root of the containment tree."""
        return self.roots[CONTAINMENT]

    def intern(self, name: str) -> None:
        """Note a resource type; types sort by when they were first noted."""
        self._type_ids.setdefault(name, len(self._type_ids))

    def knows_type(self, name: str) -> bool:
        """Whether the graph or its options ever named the type."""
        return name in self._type_ids

    def type_order(self, name: str) -> int:
        """Return the type's place among all noted types."""
        return self._type_ids[name]

    def new_walk(self) -> int:
        """Start a walk, for which no vertex counts as seen; return its number."""
        self.walks += 1
        return self.walks

    def attach(self, vertex: GraphVertex) -> None:
        """Add a vertex without edges."""
        self.intern(vertex.type)
        for subsystem, path in vertex.paths.items():
            if path.count("/") == 1:
                self.roots[subsystem] = vertex
            self.by_path.setdefault(path, []).append(vertex)
        if vertex.type == "node":
            self.nodes[vertex] = None
            self.had_nodes = True

    def connect(self, source: GraphVertex, target: GraphVertex, subsystem: str) -> None:
        """Add an edge; those of other subsystems only make the target a child by type."""
        source.child_types[target.type] = source.child_types.get(target.type, 0) + 1
        if subsystem != CONTAINMENT:
            return
        self._edges += 1
        edge = Edge(source, target, self._edges)
        source.out.append(edge)
        target.parents.append(edge)
        if source.by_weight is not None:
            insort(source.by_weight, edge.order(), key=_turn)

    def count_nodes(self) -> None:
        """Count the nodes that are up as libreapi_cli does on loading: a node that isn't counts -1."""
        self.nodes_up += sum(1 if node.status == UP else -1 for node in self.nodes)

    def set_status(self, path: str, status: int) -> None:
        """Set the status of the vertices at ``path``, a known one, and count the nodes at and below them."""
        changed: dict[GraphVertex, None] = {}
        for vertex in self.by_path[path]:
            if vertex.status != status:
                vertex.status = status
                changed.update(subtree(vertex))
        nodes = sum(vertex.size for vertex in changed if vertex.type == "node")
        self.nodes_up += nodes if status == UP else -nodes

    def detach(self, path: str) -> None:
        """Remove the vertices at ``path``, a known one other than the root's, and all below them."""
        gone: dict[GraphVertex, None] = {}
        for vertex in self.by_path[path]:
            gone.update(subtree(vertex))
        for vertex in gone:
            for edge in vertex.parents:
                if edge.source not in gone:
                    _disconnect(edge)
            self._forget(vertex)

    def _forget(self, vertex: GraphVertex) -> None:
        self.nodes.pop(vertex, None)
        for path in vertex.paths.values():
            at_path = self.by_path.get(path)
            if at_path and vertex in at_path:
                at_path.remove(vertex)
                if not at_path:
                    del self.by_path[path]


def _disconnect(edge: Edge) -> None:
    source = edge.source
    source.out.remove(edge)
    source.by_weight = None
    kind = edge.target.type
    source.child_types[kind] -= 1
    if source.child_types[kind] == 0:
        del source.child_types[kind]


def subtree(vertex: GraphVertex) -> dict[GraphVertex, None]:
    """Return the vertex and everything below it."""
    found = {vertex: None}
    waiting = [vertex]
    while waiting:
        for edge in waiting.pop().out:
            if edge.target not in found:
                found[edge.target] = None
                waiting.append(edge.target)
    return found
