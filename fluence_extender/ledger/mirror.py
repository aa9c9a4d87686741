"""A matcher on the graph of the cluster, asked in the ledger's words: nodes by name, requests in exact amounts.

The matcher counts in whole leaves, so requests are rounded up here, once. Job ids are given here and never used again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set

import structlog

from fluence_extender.graph.catalogue import DeviceCatalogue
from fluence_extender.graph.changes import Removal
from fluence_extender.graph.cluster_graph import NO_RESOURCES
from fluence_extender.graph.containment import LEVELS, Containment
from fluence_extender.graph.growth import Addition
from fluence_extender.graph.jgf import GraphTooLarge, addition_jgf, to_jgf
from fluence_extender.graph.jobspecs import Jobspec, compute_jobspec
from fluence_extender.graph.units import FINE, Units, request_counts
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.graph import ClusterGraph, Edit
from fluence_extender.matcher.errors import Busy, EngineLost, InvalidJobspec, MatcherError, UnknownJob
from fluence_extender.matcher.port import Allocator, Hold, Jgf, Match, MatchOp, Placement
from fluence_extender.model.node import Node
from fluence_extender.model.resources import CPU, MEMORY, Resources

log = structlog.get_logger(__name__)

MakeMatcher = Callable[[Jgf], Allocator]
LoadFailed = (MatcherError, GraphTooLarge)
"""Why a matcher can't be made of a graph."""

COUNTED = ("core", "memory", "gpu")
"""The leaf types that a match's placement counts."""

FEW = 16
"""Up to one node in so many is put in order by itself, rather than picked from the order of all."""


class Mirror:
    """See the module docstring. ``incremental`` says that the matcher's graph can be changed in place.

    ``graph.units`` are those of the graph as it was built: memory is counted in larger blocks where a node has very
    much of it. ``on_lost`` is called when the engine has ended by itself, with all that was booked.
    """

    def __init__(
        self,
        make: MakeMatcher,
        units: Units = FINE,
        levels: Mapping[str, str] = LEVELS,
        incremental: bool = True,
    ) -> None:
        self._make = make
        self._finest = units
        self._levels = levels
        self._ids = itertools.count(time.time_ns() // 1000)
        self._matcher: Allocator | None = None
        self._placed: dict[int, Placement] = {}
        self.incremental = incremental
        self.on_lost: Callable[[], None] = lambda: None
        self.graph = ClusterGraph((), NO_RESOURCES, units, levels)

    @property
    def containment(self) -> Containment:
        """The graph itself."""
        return self.graph.containment

    @property
    def levels(self) -> Mapping[str, str]:
        """The topology levels of the graph, outermost first, with the node labels that name them."""
        return self._levels

    @property
    def units(self) -> Units:
        """What one leaf stands for."""
        return self.graph.units

    @property
    def catalogue(self) -> DeviceCatalogue:
        """The virtual devices that can be had."""
        return self.graph.catalogue

    # The graph.

    def blank(self) -> Mirror:
        """Another mirror of the same kind, with nothing in it."""
        return Mirror(self._make, self._finest, self._levels, self.incremental)

    def load(self, nodes: Iterable[Node], resources: VirtualResources) -> None:
        """Build the graph and a matcher on it, without any job.

        Raises `MatcherError` and `GraphTooLarge` when no matcher can be made of it; then everything is as before.
        """
        graph = ClusterGraph(nodes, resources, self._finest, self._levels)
        matcher = None if graph.empty else self._make(to_jgf(graph.containment))
        self.close()
        self._matcher = matcher
        self._placed.clear()
        self.graph = graph

    def plan(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None = None
    ) -> Edit | None:
        """Plan a change of the graph in place; None where it has to be built anew.

        The document of a graph whose nodes offer nothing has no counts, so the engine may take it for a plain one.
        """
        countless = bool(self.graph.nodes) and not any(self.graph.leaves.values())
        return None if countless or not self.incremental else self.graph.plan(leaving, joining, declared)

    def carry_out(self, edit: Edit) -> list[str]:
        """Make a planned change; the jobs on what leaves must be gone. The paths of the new devices.

        Raises `MatcherError`; then the graph has to be built anew.
        """
        return self.graph.carry_out(edit, self._change)

    def _change(self, change: Removal | Addition) -> None:
        if isinstance(change, Removal):
            if change.empties_root:
                self.close()
            elif self._matcher is not None:
                self._matcher.remove_subgraph(change.path)
            return
        document = addition_jgf(self.containment, change)
        if self._matcher is None:
            self._matcher = self._make(document)
        else:
            self._matcher.add_subgraph(document)

    def rank(self, node: str) -> int:
        """The rank of a node's vertex."""
        return self.graph.rank(node)

    def everywhere(self, descending: bool) -> tuple[str, ...]:
        """All nodes of the graph by rank."""
        return self.graph.order.names(descending)

    def in_order(self, names: Collection[str], descending: bool) -> tuple[str, ...]:
        """Those of ``names`` that are nodes of the graph, by rank."""
        if len(names) * FEW < len(self.graph.nodes):
            present = [name for name in names if name in self.graph.nodes]
            return tuple(sorted(present, key=self.rank, reverse=descending))
        wanted = names if isinstance(names, Set) else set(names)
        return tuple(name for name in self.everywhere(descending) if name in wanted)

    def level_values(self, node: Node) -> tuple[str, ...]:
        """Where in the topology a node hangs: its labels that name levels."""
        return tuple(node.labels.get(label, "") for label in self._levels.values())

    def sketch(self, nodes: Iterable[Node], resources: VirtualResources) -> ClusterGraph:
        """A graph without a matcher, to be shown."""
        return ClusterGraph(nodes, resources, self._finest, self._levels)

    def close(self) -> None:
        """Free the matcher."""
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None

    # Jobs.

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` with cpu and memory rounded up to whole units."""
        units = self.units
        if units.cpu_millicores == 1 and units.memory_bytes == 1:
            return requests
        cpu, memory = units.cpu_millicores, units.memory_bytes
        if not requests[CPU] % cpu and not requests[MEMORY] % memory:
            return requests
        sizes = {CPU: cpu, MEMORY: memory}
        return Resources(
            {name: -(-amount // sizes.get(name, 1)) * sizes.get(name, 1) for name, amount in requests.items()}
        )

    def match(self, jobspec: Jobspec) -> Match:
        """Allocate ``jobspec`` under a new id. Raises `MatcherError`."""
        if self._matcher is None:
            raise Busy("the graph is empty")
        try:
            match = self._matcher.match(MatchOp.ALLOCATE, jobspec, next(self._ids))
        except EngineLost as lost:
            self._give_up(lost)
            raise Busy("the engine has ended and is started anew") from lost
        self._placed[match.jobid] = match.placement
        return match

    def cancel(self, jobs: Iterable[int]) -> None:
        """Free jobs; one that is unknown is free already."""
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
        self.on_lost()

    @property
    def jobs(self) -> frozenset[int]:
        """Every job that was made here and not cancelled."""
        return frozenset(self._placed)

    def placement(self, job: int) -> Placement | None:
        """What a job holds, None for one that the matcher doesn't have."""
        if self._matcher is None:
            return None
        try:
            there = self._matcher.info(job).mode == "ALLOCATED"
        except (UnknownJob, EngineLost):
            return None
        return self._placed.get(job) if there else None

    def holds(self, job: int, node: str, counts: Mapping[str, int]) -> bool:
        """Whether the matcher has the job, on ``node`` and with those leaves."""
        placement = self.placement(job)
        path = self.containment.nodes.get(node)
        if placement is None or path is None or path not in placement:
            return False
        return all(placement[path].get(leaf, 0) == counts.get(leaf, 0) for leaf in COUNTED)

    def ask(self, requests: Resources, slots: int, nodes: Collection[str]) -> dict[str, int]:
        """Ask where on ``nodes`` ``slots`` times ``requests`` would go; nothing is held afterwards.

        The answer is node -> number of slots. Raises `MatcherError`.
        """
        counts = request_counts(requests, self.units)
        leaf = next((one for one in COUNTED if one in counts), None)
        if leaf is None:
            raise InvalidJobspec("nothing in the request is counted in the graph")
        everywhere = len(nodes) == len(self.graph.nodes)
        ranks = None if everywhere else self.graph.idset(nodes)
        found = self.match(compute_jobspec(counts, slots, ranks))
        self.cancel((found.jobid,))
        placed: dict[str, int] = {}
        for path, amounts in found.placement.items():
            amount = amounts.get(leaf, 0)
            if amount:
                placed[self.containment.vertex(path).name] = amount // counts[leaf]
        return placed

    def take(self, node: str, counts: Mapping[str, int]) -> int:
        """Hold so many leaves of a node. Raises `MatcherError`, `KeyError`."""
        (job,) = self.take_all(((node, counts),))
        if isinstance(job, MatcherError):
            raise job
        return job

    def book_all(self, shares: Iterable[tuple[str, Resources]]) -> list[int | MatcherError | None]:
        """Hold pods' shares of nodes, one after the other. Raises `KeyError`.

        None stands for a share that takes no leaf, an error for one that it is about.
        """
        units = self.units
        counted: dict[Resources, dict[str, int]] = {}
        wanted: list[tuple[str, Mapping[str, int]]] = []
        for node, requests in shares:
            counts = counted.get(requests)
            if counts is None:
                counts = counted[requests] = request_counts(requests, units)
            wanted.append((node, counts))
        jobs = iter(self.take_all([one for one in wanted if one[1]]))
        return [next(jobs) if counts else None for _, counts in wanted]

    def take_all(self, wanted: Iterable[tuple[str, Mapping[str, int]]]) -> list[int | MatcherError]:
        """Hold so many leaves of each node, one after the other: the jobs, or why there is none. Raises `KeyError`."""
        holds = [Hold(next(self._ids), self.rank(node), counts) for node, counts in wanted]
        if self._matcher is None:
            return [Busy("the graph is empty")] * len(holds)
        try:
            granted = self._matcher.hold_all(holds)
        except EngineLost as lost:
            self._give_up(lost)
            return [Busy("the engine has ended and is started anew")] * len(holds)
        jobs: list[int | MatcherError] = []
        for hold, placement in zip(holds, granted, strict=True):
            if isinstance(placement, MatcherError):
                jobs.append(placement)
                continue
            self._placed[hold.jobid] = placement
            jobs.append(hold.jobid)
        return jobs
