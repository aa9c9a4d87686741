"""A matcher on the resource graph, in the ledger's terms: nodes by name, requests in exact amounts.

The matcher counts whole leaves, so requests are rounded up here, once. Job ids are chosen here and never used again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from fluence_extender.graph.changes import Removal
from fluence_extender.graph.cluster_graph import NO_RESOURCES
from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.growth import Addition
from fluence_extender.graph.jgf import addition_jgf, to_jgf
from fluence_extender.graph.jobspecs import Jobspec, compute_jobspec
from fluence_extender.graph.live_graph import Edit, LiveGraph
from fluence_extender.graph.units import FINE, Units, request_counts
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.matcher.errors import Busy, EngineLost, InvalidJobspec, MatcherError, UnknownJob
from fluence_extender.matcher.port import Allocator, Hold, Jgf, Match, MatchOp, Placement
from fluence_extender.model.node import Node
from fluence_extender.model.resources import CPU, MEMORY, Resources

log = structlog.get_logger(__name__)

COUNTED = ("core", "memory", "gpu")
"""The leaf types that a match's placement counts."""


@dataclass(frozen=True, slots=True)
class MatcherSetup:
    """How matchers are made: the engine, the finest units, and the topology levels with their node labels.

    ``incremental`` says that the engine can change a graph in place.
    """

    make: Callable[[Jgf], Allocator]
    units: Units = FINE
    levels: Mapping[str, str] = field(default_factory=lambda: LEVELS)
    incremental: bool = True

    def graph(self, nodes: Iterable[Node], resources: VirtualResources) -> LiveGraph:
        """Build a graph that has no matcher."""
        return LiveGraph(nodes, resources, self.units, self.levels)


class GraphMatcher:
    """A graph and the matcher on it; both are empty until `load`.

    ``on_lost`` is called with this object when the engine has ended by itself. All jobs are lost then.
    """

    def __init__(
        self, setup: MatcherSetup, on_lost: Callable[[GraphMatcher], None] = lambda matcher: None
    ) -> None:
        self.setup = setup
        self.graph = setup.graph((), NO_RESOURCES)
        self._on_lost = on_lost
        self._ids = itertools.count(time.time_ns() // 1000)
        self._matcher: Allocator | None = None
        self._placed: dict[int, Placement] = {}

    # The graph.

    def load(self, nodes: Iterable[Node], resources: VirtualResources) -> None:
        """Build the graph and a matcher on it, without any job.

        Raises `MatcherError` when no matcher can be made; then nothing has changed.
        """
        graph = self.setup.graph(nodes, resources)
        matcher = None if graph.empty else self.setup.make(to_jgf(graph.containment))
        self.close()
        self._matcher = matcher
        self._placed.clear()
        self.graph = graph

    def plan_edit(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None = None
    ) -> Edit | None:
        """Plan a change of the graph in place; None when the graph must be rebuilt.

        If no node offers anything, the document of the graph has no counts, and the engine may have read it as an
        expanded document. Such a graph is rebuilt.
        """
        countless = bool(self.graph.nodes) and not any(self.graph.leaves.values())
        if countless or not self.setup.incremental:
            return None
        return self.graph.plan_edit(leaving, joining, declared)

    def apply_edit(self, edit: Edit) -> list[str]:
        """Apply a planned edit and return the paths of the new devices; no job may be left on what leaves.

        Raises `MatcherError`; then the graph must be rebuilt.
        """
        return self.graph.apply_edit(edit, self._change)

    def _change(self, change: Removal | Addition) -> None:
        if isinstance(change, Removal):
            if change.empties_root:
                self.close()
            elif self._matcher is not None:
                self._matcher.remove_subgraph(change.path)
            return
        document = addition_jgf(self.graph.containment, change)
        if self._matcher is None:
            self._matcher = self.setup.make(document)
        else:
            self._matcher.add_subgraph(document)

    def close(self) -> None:
        """Free the matcher."""
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None

    # Jobs.

    def rounded(self, requests: Resources) -> Resources:
        """Return ``requests`` with cpu and memory rounded up to whole units."""
        cpu, memory = self.graph.units.cpu_millicores, self.graph.units.memory_bytes
        if cpu == 1 and memory == 1:
            return requests
        if not requests[CPU] % cpu and not requests[MEMORY] % memory:
            return requests
        sizes = {CPU: cpu, MEMORY: memory}
        return Resources(
            {name: -(-amount // sizes.get(name, 1)) * sizes.get(name, 1) for name, amount in requests.items()}
        )

    def match(self, jobspec: Jobspec) -> Match:
        """Allocate ``jobspec`` under a new job id. Raises `MatcherError`."""
        if self._matcher is None:
            raise Busy("the graph is empty")
        try:
            match = self._matcher.match(MatchOp.ALLOCATE, jobspec, next(self._ids))
        except EngineLost as lost:
            self._give_up(lost)
            raise Busy("the engine has ended and is being restarted") from lost
        self._placed[match.jobid] = match.placement
        return match

    def match_equal(self, requests: Resources, count: int, nodes: Collection[str]) -> dict[str, int]:
        """Return the number of pods by node with which the matcher places ``count`` equal pods on ``nodes``.

        Nothing is held afterwards, because each pod needs a job of its own. Raises `MatcherError`.
        """
        counts = request_counts(requests, self.graph.units)
        leaf = next((one for one in COUNTED if one in counts), None)
        if leaf is None:
            raise InvalidJobspec("nothing in the request is counted in the graph")
        everywhere = len(nodes) == len(self.graph.nodes)
        ranks = None if everywhere else self.graph.idset(nodes)
        found = self.match(compute_jobspec(counts, count, ranks))
        self.cancel((found.jobid,))
        placed: dict[str, int] = {}
        for path, amounts in found.placement.items():
            amount = amounts.get(leaf, 0)
            if amount:
                placed[self.graph.containment.vertex(path).name] = amount // counts[leaf]
        return placed

    def hold(self, node: str, counts: Mapping[str, int]) -> int:
        """Hold leaves of one node and return the job. Raises `MatcherError`, `KeyError`."""
        (job,) = self.hold_leaves(((node, counts),))
        if isinstance(job, MatcherError):
            raise job
        return job

    def hold_shares(self, shares: Iterable[tuple[str, Resources]]) -> list[int | MatcherError | None]:
        """Hold pods' shares of nodes, in order. Raises `KeyError`.

        For each share return its job, None when it takes no leaf, or the error for which it isn't held.
        """
        units = self.graph.units
        counted: dict[Resources, dict[str, int]] = {}
        wanted: list[tuple[str, Mapping[str, int]]] = []
        for node, requests in shares:
            counts = counted.get(requests)
            if counts is None:
                counts = counted[requests] = request_counts(requests, units)
            wanted.append((node, counts))
        jobs = iter(self.hold_leaves([one for one in wanted if one[1]]))
        return [next(jobs) if counts else None for _, counts in wanted]

    def hold_leaves(self, wanted: Iterable[tuple[str, Mapping[str, int]]]) -> list[int | MatcherError]:
        """Hold leaves of nodes, in order. Return each job, or the error for which there is none. Raises `KeyError`."""
        holds = [Hold(next(self._ids), self.graph.rank(node), counts) for node, counts in wanted]
        if self._matcher is None:
            return [Busy("the graph is empty")] * len(holds)
        try:
            granted = self._matcher.hold_all(holds)
        except EngineLost as lost:
            self._give_up(lost)
            return [Busy("the engine has ended and is being restarted")] * len(holds)
        jobs: list[int | MatcherError] = []
        for hold, placement in zip(holds, granted, strict=True):
            if isinstance(placement, MatcherError):
                jobs.append(placement)
                continue
            self._placed[hold.jobid] = placement
            jobs.append(hold.jobid)
        return jobs

    def cancel(self, jobs: Iterable[int]) -> None:
        """Free jobs; an unknown job counts as free."""
        for job in jobs:
            self._placed.pop(job, None)
            if self._matcher is None:
                return
            try:
                self._matcher.cancel(job)
            except UnknownJob:
                continue
            except EngineLost as lost:
                self._give_up(lost)

    def _give_up(self, lost: EngineLost) -> None:
        log.error("the engine has ended; the graph is rebuilt", error=str(lost))
        self.close()
        self._on_lost(self)

    @property
    def jobs(self) -> frozenset[int]:
        """Every job that was made by this object and not cancelled."""
        return frozenset(self._placed)

    def placement(self, job: int) -> Placement | None:
        """Return what a job holds, or None when the matcher doesn't have the job."""
        if self._matcher is None:
            return None
        try:
            allocated = self._matcher.info(job).mode == "ALLOCATED"
        except (UnknownJob, EngineLost):
            return None
        return self._placed.get(job) if allocated else None

    def holds(self, job: int, node: str, counts: Mapping[str, int]) -> bool:
        """Return whether the matcher has the job, on ``node`` and with these leaves."""
        placement = self.placement(job)
        path = self.graph.nodes.get(node)
        if placement is None or path is None or path not in placement:
            return False
        return all(placement[path].get(leaf, 0) == counts.get(leaf, 0) for leaf in COUNTED)
