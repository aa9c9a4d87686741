"""In any order of calls no vertex is booked twice, and cancelling all jobs frees everything."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.oracle import MatcherError, MatcherOptions, MatchOp
from tests.oracle.tests.walker_graphs import cluster, jobspec, slots
from tests.oracle.walker import Walker
from tests.oracle.walker.graph import SHARERS, GraphVertex, subtree
from tests.oracle.walker.policy import NAMED

GRAPH = cluster(3, 3, 2, 4)

durations = st.sampled_from([0, 10, 25, 100])
slot_requests = st.builds(
    lambda count, cores, memory, duration: slots(count, cores, memory, duration=duration),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([0, 2, 4, 6]),
    durations,
)
node_requests = st.builds(
    lambda count, exclusive, duration: jobspec(
        [{"type": "node", "count": count, "exclusive": exclusive, "with": [
            {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}
        ]}], duration
    ),
    st.integers(1, 3),
    st.booleans(),
    durations,
)  # fmt: skip


class Bookkeeping(RuleBasedStateMachine):
    """Random operations on one matcher."""

    @initialize(policy=st.sampled_from(sorted(NAMED)))
    def load(self, policy: str) -> None:
        self.matcher = Walker(GRAPH, MatcherOptions(policy))
        self.vertices = list(subtree(self.matcher._graph.root))
        self.new = [_timelines(vertex) for vertex in self.vertices]
        self.jobs: dict[int, Any] = {}

    @rule(op=st.sampled_from(list(MatchOp)), request=slot_requests | node_requests)
    def match(self, op: MatchOp, request: dict[str, Any]) -> None:
        before = [_timelines(vertex) for vertex in self.vertices]
        try:
            match = self.matcher.match(op, request)
        except MatcherError:
            assert [_timelines(vertex) for vertex in self.vertices] == before
            return
        if op.value.startswith("allocate"):
            self.jobs[match.jobid] = match
        else:
            assert [_timelines(vertex) for vertex in self.vertices] == before

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.jobs:
            jobid = data.draw(st.sampled_from(sorted(self.jobs)))
            del self.jobs[jobid]
            self.matcher.cancel(jobid)

    @rule(number=st.integers(0, 2), up=st.booleans())
    def change_status(self, number: int, up: bool) -> None:
        self.matcher.set_status(f"/cluster0/node{number}", up)

    @invariant()
    def no_vertex_is_booked_beyond_its_size(self) -> None:
        for vertex in self.vertices:
            if vertex.plans is not None:
                assert all(0 <= free <= vertex.size for _, free in vertex.plans.timeline())

    def teardown(self) -> None:
        if not hasattr(self, "matcher"):
            return
        for jobid in self.jobs:
            self.matcher.cancel(jobid)
        assert [_timelines(vertex) for vertex in self.vertices] == self.new


def _timelines(vertex: GraphVertex) -> Any:
    """A vertex's free state: its units, its sharers, the counts below it, its allocations."""
    counters = vertex.aggregates
    return (
        [(0, vertex.size)] if vertex.plans is None else vertex.plans.timeline(),
        [(0, SHARERS)] if vertex.claims is None else vertex.claims.timeline(),
        None if counters is None else [planner.timeline() for planner in counters.planners.values()],
        vertex.allocations,
    )


TestBookkeeping = Bookkeeping.TestCase
TestBookkeeping.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
