"""From an operation to a selection: now, else at a later time, else whether ever (fluxion reference 4.2).

Besides finding the time, this decides what a failure means: EBUSY (not now) or ENODEV (never on this graph).
"""

from __future__ import annotations

from collections.abc import Iterator
from errno import EBUSY, ENODEV, ENOENT, ERANGE

from fluence_extender.matcher.embedded.graph import UP, Graph, Vertex
from fluence_extender.matcher.embedded.planner import TIME_END
from fluence_extender.matcher.embedded.policy import Policy
from fluence_extender.matcher.embedded.request import Request
from fluence_extender.matcher.embedded.selection import Selection
from fluence_extender.matcher.port import MatchOp

GRAPH_END = 3_153_600_000
"""The end of the graph's life in seconds from the matcher's start: no job lasts longer."""

_NOW = 0


class Search:
    """The search of one operation. ``errno`` says why it failed, and is what libreapi_cli would leave there."""

    def __init__(self, graph: Graph, policy: Policy, request: Request, errno: int) -> None:
        self.errno = errno
        self._graph = graph
        self._policy = policy
        self._request = request

    def run(self, op: MatchOp) -> Selection | None:
        """Find a selection for the operation, or set ``errno``."""
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

    def _select(self, at: int, *, ever: bool = False, now: bool = True) -> Selection | None:
        selection = Selection(
            self._graph, self._policy, self._request, at, ever=ever, now=now, errno=self.errno
        )
        found = selection.run()
        self.errno = selection.errno
        return selection if found else None

    def _ever(self) -> Selection | None:
        """Select where no job is left and nothing counts as down; a failure is ENODEV."""
        selection = self._select(TIME_END - self._request.duration - 1, ever=True, now=False)
        if selection is None and self.errno in (EBUSY, ERANGE):
            self.errno = ENODEV
        return selection

    def _later(self) -> Selection | None:
        """Select at the first time that works. libreapi_cli asks for one time more than it needs."""
        times = self._start_times()
        for at in times:
            selection = self._select(at, now=False)
            if selection is not None:
                next(times, None)
                return selection
        return None

    def _start_times(self) -> Iterator[int]:
        """The times at which the root may have room: where its first counter does, and no other objects."""
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
        for at in list(first.starts(1, duration, wanted)):
            refused = next(((p, n) for p, n in rest if not p.fits(at, duration, n)), None)
            if refused is None:
                yield at
            else:
                self.errno = ERANGE if refused[1] > refused[0].total else EBUSY
        self.errno = ENOENT

    def _feasible(self, op: MatchOp) -> bool:
        """Count nodes before any walk: those that are up, or those that satisfy the constraint."""
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

    def _usable(self, node: Vertex, at: int, ever: bool) -> bool:
        """A node counts if it is up and exactly one unit of it is free: nodes of another size never do."""
        return (ever or node.status == UP) and node.free_during(at, self._request.duration) == 1
