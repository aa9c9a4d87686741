"""The matcher's copy of the accounts: for each hold a job, for each node one job that stands for others' pods.

The matcher counts in whole leaves, the accounts exactly; what a node has left for us is its allocatable less the exact
sum of others' requests, rounded once. What can't be booked because its leaves are taken is kept as a deficit of the
node and booked as soon as it can be.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue
from fluence_extender.graph.changes import apply, plan_node, plan_node_removal
from fluence_extender.graph.cluster_graph import build_containment, check_against_cluster
from fluence_extender.graph.containment import LEVELS, Containment
from fluence_extender.graph.jgf import addition_jgf, expand, to_jgf
from fluence_extender.graph.jobspecs import Jobspec, compute_jobspec
from fluence_extender.graph.shown import in_units, sized
from fluence_extender.graph.units import COARSE, FINE, Units, leaf_counts, request_counts, widened
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.matcher.errors import Busy, InvalidJobspec, MatcherError, UnknownJob
from fluence_extender.matcher.port import Jgf, Match, Matcher, MatchOp, Placement
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

log = structlog.get_logger(__name__)

MakeMatcher = Callable[[Jgf], Matcher]
COUNTED = ("core", "memory", "gpu")
"""The leaf types that a match's placement counts."""


class Mirror:
    """A matcher on the graph of the cluster, and the ids of the jobs on it.

    ``incremental`` says that nodes may be added and removed in place; otherwise the owner has to load anew. ``units``
    are those of the graph as it is loaded: memory is counted in larger blocks where a node has very much of it.
    """

    def __init__(
        self,
        make: MakeMatcher,
        units: Units = FINE,
        levels: Mapping[str, str] = LEVELS,
        incremental: bool = True,
    ) -> None:
        self._make = make
        self._levels = levels
        self._ids = itertools.count(time.time_ns() // 1000)
        self._matcher: Matcher | None = None
        self._foreign: dict[str, tuple[int, dict[str, int]]] = {}
        self._placed: dict[int, Placement] = {}
        self._deficits: dict[str, dict[str, int]] = {}
        self._finest = units
        self.units = units
        self.incremental = incremental
        self.containment = Containment(units=units, levels=levels)
        self.catalogue = DeviceCatalogue()
        self._resources = VirtualResources("")

    # The graph.

    def load(self, nodes: Iterable[Node], resources: VirtualResources) -> None:
        """Build the graph and a matcher on it, without any job.

        Raises `MatcherError` and `GraphTooLarge` when no matcher can be made of it; then everything is as before.
        """
        present = list(nodes)
        usable = self._fitting(resources, [node.name for node in present])
        units = widened(self._finest, (node.allocatable for node in present))
        containment = build_containment(present, usable, units=units, levels=self._levels)
        empty = not containment.nodes and not containment.devices
        matcher = None if empty else self._make(to_jgf(containment))
        self.close()
        self._matcher = matcher
        self.units = units
        self.containment = containment
        self.catalogue = device_catalogue(containment)
        self._resources = resources
        self._foreign.clear()
        self._placed.clear()
        self._deficits.clear()

    def _fitting(self, resources: VirtualResources, names: Collection[str]) -> VirtualResources:
        """The resources that the present nodes allow; what is wrong with the others is logged.

        A parent node that has gone, or a node that takes a backend's name, must not stop everything else.
        """
        kept: list[VirtualResource] = []
        for one in resources.resources:
            problems = check_against_cluster(VirtualResources(resources.source, (one,)), names, self._levels)
            for problem in problems:
                log.warning("a virtual resource is left out", problem=str(problem))
            if not problems:
                kept.append(one)
        return VirtualResources(resources.source, tuple(kept))

    def replace_node(self, old: str | None, node: Node | None) -> bool:
        """Take a node out, put one in, or both; False when that needs a `load`. Its jobs must be gone."""
        if not self.incremental or self._matcher is None:
            return False
        if node is not None and widened(self.units, (node.allocatable,)) != self.units:
            return False
        if old is not None:
            removal = plan_node_removal(self.containment, old)
            if removal.empties_root:
                return False
            self._matcher.remove_subgraph(removal.path)
            apply(self.containment, removal)
        if node is not None:
            try:
                addition = plan_node(self.containment, node, self._resources.resources)
            except ValueError:
                return False
            self._matcher.add_subgraph(addition_jgf(self.containment, addition))
            apply(self.containment, addition)
        if any(one.parent != CLUSTER_PARENT for one in self._resources.resources):
            self.catalogue = device_catalogue(self.containment)
        return True

    def level_values(self, node: Node) -> tuple[str, ...]:
        """Where in the topology a node hangs: its labels that name levels."""
        return tuple(node.labels.get(label, "") for label in self._levels.values())

    def rank(self, node: str) -> int:
        """The rank of a node's vertex."""
        return self.containment.vertex(self.containment.nodes[node]).rank

    def document(self, expanded: bool) -> Jgf:
        """The graph as JGF in whole cores and GiB: one vertex a leaf, or one for equal leaves, sized."""
        document = to_jgf(self.containment)
        scale = {
            "core": (self.units.cpu_millicores, COARSE.cpu_millicores),
            "memory": (self.units.memory_bytes, COARSE.memory_bytes),
        }
        return expand(in_units(document, scale)) if expanded else sized(in_units(document, scale))

    def close(self) -> None:
        """Free the matcher."""
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None

    # Jobs.

    def match(self, jobspec: Jobspec) -> Match:
        """Allocate ``jobspec`` under a new id. Raises `MatcherError`."""
        if self._matcher is None:
            raise Busy("the graph is empty")
        match = self._matcher.match(MatchOp.ALLOCATE, jobspec, next(self._ids))
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
        except UnknownJob:
            return None
        return self._placed.get(job) if there else None

    def foreign_job(self, node: str) -> int | None:
        """The job that stands for others' pods on a node, None where there is none."""
        job, counts = self._foreign.get(node, (0, {}))
        return job if counts else None

    def foreign_differs(self, node: str, allocatable: Resources, foreign: Resources) -> bool:
        """Whether what is booked for others on ``node``, and what couldn't be, isn't what they use."""
        job, booked = self._foreign.get(node, (0, {}))
        short = self._deficits.get(node, {})
        both = {leaf: booked.get(leaf, 0) + short.get(leaf, 0) for leaf in (*booked, *short)}
        if both != self._foreign_leaves(allocatable, foreign):
            return True
        return bool(booked) and not self.holds(job, node, booked)

    def holds(self, job: int, node: str, counts: Mapping[str, int]) -> bool:
        """Whether the matcher has the job, on ``node`` and with those leaves."""
        placement = self.placement(job)
        path = self.containment.nodes.get(node)
        if placement is None or path not in placement:
            return False
        return all(placement[path].get(leaf, 0) == counts.get(leaf, 0) for leaf in COUNTED)

    def ask(self, requests: Resources, slots: int, nodes: Iterable[str] | None) -> dict[str, int]:
        """Ask where ``slots`` times ``requests`` would go; nothing is held afterwards. Raises `MatcherError`.

        ``nodes`` None means any. The answer is node -> number of slots.
        """
        counts = request_counts(requests, self.units)
        leaf = next((one for one in COUNTED if one in counts), None)
        if leaf is None:
            raise InvalidJobspec("nothing in the request is counted in the graph")
        ranks = None if nodes is None else [self.rank(name) for name in nodes]
        found = self.match(compute_jobspec(counts, slots, ranks))
        self.cancel((found.jobid,))
        placed: dict[str, int] = {}
        for path, amounts in found.placement.items():
            amount = amounts.get(leaf, 0)
            if amount:
                placed[self.containment.vertex(path).name] = amount // counts[leaf]
        return placed

    def book(self, node: str, requests: Resources) -> int | None:
        """Hold a pod's share of a node; None when it takes no leaf. Raises `MatcherError`."""
        counts = request_counts(requests, self.units)
        if not counts:
            return None
        return self.match(compute_jobspec(counts, 1, [self.rank(node)])).jobid

    def book_foreign(self, node: str, allocatable: Resources, foreign: Resources) -> None:
        """Let one job stand for what others use of ``node``, as far as its leaves are free."""
        held, wanted = self._foreign.pop(node, (0, {})), self._foreign_leaves(allocatable, foreign)
        if held[1] == wanted and node not in self._deficits:
            if wanted:
                self._foreign[node] = held
            return
        self._deficits.pop(node, None)
        if held[1]:
            self.cancel((held[0],))
        missing: dict[str, int] = {}
        booked = dict(wanted)
        while booked:
            try:
                job = self.match(compute_jobspec(booked, 1, [self.rank(node)])).jobid
            except MatcherError:
                booked, short = self._shrunk(node, booked)
                for leaf, count in short.items():
                    missing[leaf] = missing.get(leaf, 0) + count
                continue
            self._foreign[node] = (job, booked)
            break
        if missing:
            self._deficits[node] = missing

    def _foreign_leaves(self, allocatable: Resources, foreign: Resources) -> dict[str, int]:
        left = {name: max(amount - foreign[name], 0) for name, amount in allocatable.items()}
        whole, free = leaf_counts(allocatable, self.units), leaf_counts(Resources(left), self.units)
        taken = {leaf: count - free.get(leaf, 0) for leaf, count in whole.items()}
        return {leaf: count for leaf, count in taken.items() if count > 0}

    def _shrunk(self, node: str, counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """What of ``counts`` is free on the node, leaf type by leaf type, and what isn't."""
        fitting: dict[str, int] = {}
        for leaf, count in counts.items():
            low, high = 0, count
            while low < high:
                middle = (low + high + 1) // 2
                try:
                    job = self.match(compute_jobspec({leaf: middle}, 1, [self.rank(node)])).jobid
                except MatcherError:
                    high = middle - 1
                else:
                    self.cancel((job,))
                    low = middle
            if low:
                fitting[leaf] = low
        missing = {leaf: count - fitting.get(leaf, 0) for leaf, count in counts.items()}
        return fitting, {leaf: count for leaf, count in missing.items() if count}

    def forget_node(self, node: str) -> None:
        """Free what stands for others' pods on ``node``."""
        job, counts = self._foreign.pop(node, (0, {}))
        if counts:
            self.cancel((job,))
        self._deficits.pop(node, None)

    @property
    def deficits(self) -> Mapping[str, Mapping[str, int]]:
        """Node -> leaves that others use and that couldn't be booked."""
        return self._deficits
