"""A worker whose graph is the oracle's, in the caller's process or in a child's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fluence_extender.engine.errors import EngineError, EngineLost
from fluence_extender.engine.graph_worker import PRUNE_FILTERS, GraphWorker, placement_of
from fluence_extender.engine.jobspec import Jobspec
from fluence_extender.engine.worker import Placement
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import unit_jgf
from fluxion_ffi import GraphOptions, MatchOp, MatchResult
from tests.oracle.fake import FakeGraph

Use = dict[str, dict[str, int]]
"""Path of a node or a device -> the leaves or units in use there."""


class OracleGraph(FakeGraph):
    """The oracle; ``held`` is what each job holds."""

    def __init__(self, containment: Containment, policy: str = "lonode") -> None:
        super().__init__(unit_jgf(containment), GraphOptions(policy, prune_filters=PRUNE_FILTERS))
        self.held: dict[int, Placement] = {}

    def match_with_jobid(self, op: MatchOp, jobspec: Mapping[str, Any], jobid: int) -> MatchResult:
        result = super().match_with_jobid(op, jobspec, jobid)
        self.held[jobid] = placement_of(result.R)
        return result

    def cancel(self, jobid: int, noent_ok: bool = False) -> None:
        super().cancel(jobid, noent_ok)
        self.held.pop(jobid, None)

    def use(self, jobids: Iterable[int]) -> Use:
        """What jobs hold together."""
        use: Use = {}
        for jobid in jobids:
            for path, amounts in self.held[jobid].items():
                for kind, amount in amounts.items():
                    if kind not in ("cluster", "zone", "node"):
                        below = use.setdefault(path, {})
                        below[kind] = below.get(kind, 0) + amount
        return use


class OracleWorker:
    """A worker that records what each `apply` has cancelled and held. ``fails`` is raised by every call."""

    def __init__(self, containment: Containment, policy: str = "lonode") -> None:
        self.graph = OracleGraph(containment, policy)
        self._worker = GraphWorker(self.graph)
        self.applied: list[tuple[Use, Use]] = []
        self.fails: EngineError | None = None
        self.closed = False

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
        self._fail()
        cancelled = self.graph.use(cancel)
        refused = self._worker.apply(cancel, hold)
        self.applied.append((cancelled, self.graph.use({jobid for jobid, _ in hold} - set(refused))))
        return refused

    def match(self, jobspec: Jobspec) -> Placement | None:
        self._fail()
        return self._worker.match(jobspec)

    def close(self) -> None:
        self.closed = True

    def _fail(self) -> None:
        if self.closed:
            raise EngineLost("the worker is closed")
        if self.fails is not None:
            raise self.fails


def load_oracle(containment: Containment) -> GraphWorker:
    """Load a graph in this process."""
    return GraphWorker(OracleGraph(containment))


def refuse(containment: Containment) -> GraphWorker:
    """Load nothing."""
    raise EngineError("the graph contains nothing")
