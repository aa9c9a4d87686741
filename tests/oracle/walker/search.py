"""Find when a request fits: now, else at a later time, else whether ever.

The search also decides what a failure means: EBUSY (not now) or ENODEV (never on this graph).
"""

from __future__ import annotations

from collections.abc import Iterator
from errno import EBUSY, ENODEV, ENOENT, ERANGE

from tests.oracle.port import MatchOp
from tests.oracle.walker.graph import UP, Graph, GraphVertex
from tests.oracle.walker.planner import GRAPH_END, TIME_END
from tests.oracle.walker.policy import Policy
from tests.oracle.walker.request import WalkerRequest
from tests.oracle.walker.traverser import Traversal

_NOW = 0


class Search:
    """The search of one operation. ``errno`` is what libreapi_cli would leave, and says why the search failed."""

    def __init__(self, graph: Graph, policy: Policy, request: WalkerRequest, errno: int) -> None:
        self.errno = errno
        self._graph = graph
        self._policy = policy
        self._request = request

    def run(self, op: MatchOp) -> Traversal | None:
        """Return the traversal that found the vertices for the operation, or None with ``errno`` set."""
        if op is MatchOp.SATISFIABILITY:
            return self._ever()
        if not self._feasible(op):
            return None
        selection = self._select(_NOW)
        if selection is not None:
            return selection
        if op in (MatchOp.ALLOCATE, MatchOp.WITHOUT_ALLOCATING):
            self.errno = EBUSY
            return None
        if op is not MatchOp.ALLOCATE_WITH_SATISFIABILITY:
            selection = self._later()
            if selection is not None:
                return selection
        self.errno = EBUSY
        self._ever()
        return None

    def _select(self, at: int, *, ever: bool = False, now: bool = True) -> Traversal | None:
        selection = Traversal(
            self._graph, self._policy, self._request, at, ever=ever, now=now, errno=self.errno
        )
        found = selection.run()
        self.errno = selection.errno
        return selection if found else None

    def _ever(self) -> Traversal | None:
        """Select as if no job were left and nothing down; a failure is ENODEV."""
        selection = self._select(TIME_END - self._request.duration - 1, ever=True, now=False)
        if selection is None and self.errno in (EBUSY, ERANGE):
            self.errno = ENODEV
        return selection

    def _later(self) -> Traversal | None:
        """Select at the first time that works. libreapi_cli asks for one time more than it needs."""
        times = self._start_times()
        for at in times:
            selection = self._select(at, now=False)
            if selection is not None:
                next(times, None)
                return selection
        return None

    def _start_times(self) -> Iterator[int]:
        """Yield the times at which the root may have enough: where its first counter has, and no other refuses."""
        root = self._graph.root
        counts = self._request.top.counts
        duration = self._request.duration
        if root.aggregates is None:
            if root.claims is not None:
                yield from root.claims.starts(1, duration, 0)
            self.errno = ENOENT
            return
        named = iter(root.aggregates.planners.items())
        name, first = next(named)
        rest = [(planner, counts.get(other, 0)) for other, planner in named]
        wanted = counts.get(name, 0)
        if wanted > first.total:
            self.errno = ERANGE
            return
        for at in first.starts(1, duration, wanted):
            refused = next(((p, n) for p, n in rest if not p.fits(at, duration, n)), None)
            if refused is None:
                yield at
            else:
                self.errno = ERANGE if refused[1] > refused[0].total else EBUSY
        self.errno = ENOENT

    def _feasible(self, op: MatchOp) -> bool:
        """Whether there are as many nodes as are asked for, up or allowed by the constraint, before any walk."""
        wanted = self._request.top.counts.get("node", 0)
        constraint = self._request.constraint
        ever = op is MatchOp.ALLOCATE_WITH_SATISFIABILITY
        refusal = ENODEV if ever else EBUSY
        if wanted > self._graph.nodes_up:
            self.errno = refusal
            return False
        if constraint is None or not self._graph.had_nodes:
            return True
        at = _NOW if op in (MatchOp.ALLOCATE, MatchOp.WITHOUT_ALLOCATING) else GRAPH_END - 1
        found = 0
        for node in self._graph.nodes:
            if found >= wanted:
                break
            if constraint(node) and self._usable(node, at, ever):
                found += 1
        if found < wanted:
            self.errno = refusal
            return False
        return True

    def _usable(self, node: GraphVertex, at: int, ever: bool) -> bool:
        """Whether a node counts: it is up and exactly one unit of it is free, so nodes of another size never do."""
        return (ever or node.status == UP) and node.free_during(at, self._request.duration) == 1
