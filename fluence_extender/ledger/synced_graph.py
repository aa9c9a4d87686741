"""The resource graph kept in sync with the cluster: changed in place where possible, otherwise rebuilt.

A graph that can't follow a change in place falls behind. It stays in use, without the devices that have gone, until a
rebuilt graph replaces it with all bookings. The *shown* graph represents the present cluster. Invariant: while the
matcher's graph lacks a change, the shown graph is a separate one that has the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from fluence_extender.graph.catalogue import DeviceCatalogue
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.live_graph import LiveGraph
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.accounts import Allocation, NodeAccount
from fluence_extender.ledger.bookings import Bookings, LedgerState, NodeUse
from fluence_extender.ledger.graph_matcher import GraphMatcher, MatcherSetup
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node

log = structlog.get_logger(__name__)

FEW_DIFFERENCES = 16
"""The most differences that are booked on the event loop when a rebuilt graph replaces the old one."""


class SyncedGraph:
    """The graph in use and its bookings.

    ``nodes``, ``accounts`` and ``allocations`` are the ledger's own mappings. ``on_renewed`` is called when another
    graph comes into use; its argument says whether that graph counts in other units. ``resources`` are the virtual
    resources that the graph should have. ``on_behind`` is called when a rebuild is needed, and ``fault`` says why a
    rebuild has failed.
    """

    def __init__(
        self,
        setup: MatcherSetup,
        nodes: Mapping[str, Node],
        accounts: Mapping[str, NodeAccount],
        allocations: Mapping[str, Allocation],
        on_renewed: Callable[[bool], None],
    ) -> None:
        self._setup = setup
        self._nodes = nodes
        self._accounts = accounts
        self._allocations = allocations
        self._on_renewed = on_renewed
        self.bookings = Bookings(GraphMatcher(setup, self._engine_lost), allocations)
        self.resources = VirtualResources("")
        self.fault = ""
        self.on_behind: Callable[[], None] = lambda: None
        self._changes = 0
        self._followed = 0
        self._shown: LiveGraph | None = None

    @property
    def levels(self) -> Mapping[str, str]:
        """The topology levels, outermost first, with the node labels that name them."""
        return self._setup.levels

    @property
    def matched(self) -> LiveGraph:
        """The matcher's graph."""
        return self.bookings.matcher.graph

    @property
    def catalogue(self) -> DeviceCatalogue:
        """The virtual devices that can be allocated."""
        return self.matched.catalogue

    @property
    def shown(self) -> Containment:
        """The graph of the present cluster, which never lags."""
        return (self._shown or self.matched).containment

    @property
    def behind(self) -> bool:
        """Whether the matcher's graph lacks changes that are in the accounts."""
        return self._followed != self._changes

    def follow(
        self,
        leaving: str | None,
        joining: Node | None,
        use: NodeUse,
        resources: VirtualResources | None = None,
    ) -> None:
        """Change the graph in place if possible; otherwise it falls behind.

        ``use`` is what the joining node has to give and what foreign pods use of it.
        """
        if resources is not None:
            self.resources = resources
        self._edit_shown(leaving, joining, resources)
        edit = None if self.behind else self.bookings.matcher.plan_edit(leaving, joining, resources)
        if edit is not None:
            name = joining.name if joining is not None else leaving
            try:
                self.bookings.change_graph(edit, self._ours_on(name) if name is not None else (), use)
                return
            except MatcherError as error:
                log.warning("the graph could not be changed in place; it is rebuilt", error=str(error))
        self._fall_behind()

    def cancel_node(self, node: str) -> None:
        """Cancel all jobs on a node, which are to be booked again."""
        self.bookings.cancel_node(node, self._ours_on(node))

    def _ours_on(self, node: str) -> list[str]:
        return [uid for uid in self._accounts[node].users if uid in self._allocations]

    def _engine_lost(self, matcher: GraphMatcher) -> None:
        if matcher is self.bookings.matcher:
            self._fall_behind()

    def _fall_behind(self) -> None:
        self._changes += 1
        self._show_own()
        self.matched.mask_devices(self._nodes, self.resources)
        self.on_behind()

    # The shown graph.

    def _show_own(self) -> None:
        if self._shown is None:
            self._shown = self._setup.graph(self._nodes.values(), self.resources)

    def _edit_shown(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None
    ) -> None:
        if self._shown is None:
            return
        edit = self._shown.plan_edit(leaving, joining, declared)
        if edit is None:
            self._shown = self._setup.graph(self._nodes.values(), self.resources)
        else:
            self._shown.apply_edit(edit, lambda change: None)

    # Rebuilding.

    def load(self) -> None:
        """Build the graph for all nodes at once. Raises as `catch_up`."""
        self._changes += 1
        if not self._setup.incremental:
            self._shown = None
            self._show_own()
        self.catch_up()

    def catch_up(self) -> None:
        """Rebuild the graph at once if it is behind. Raises `MatcherError`."""
        if not self.behind:
            return
        rebuild = self.begin_rebuild()
        try:
            rebuild.run()
        except MatcherError as error:
            self.fault = f"the resource graph can't be loaded: {error}"
            raise
        self.finish_rebuild(rebuild, None)

    def begin_rebuild(self) -> Rebuild:
        """Prepare a graph for the ledger's present state; run it in any thread, then call `finish_rebuild`."""
        return Rebuild(GraphMatcher(self._setup, self._engine_lost), self._state(), self._changes)

    def finish_rebuild(self, rebuild: Rebuild, most: int | None = FEW_DIFFERENCES) -> bool:
        """Replace the graph in use by a rebuilt one and free the old one.

        If more than ``most`` differences have to be booked first, return False; the rebuild has to run once more.
        """
        now = self._state()
        if most is not None and rebuild.lacks(now) > most:
            return False
        rebuild.run()
        old, self.bookings = self.bookings, rebuild.bookings
        self.bookings.allocations = self._allocations
        self._followed = rebuild.changes
        self.fault = ""
        if self.behind:
            self.matched.mask_devices(self._nodes, self.resources)
            self.on_behind()
        elif self._setup.incremental:
            self._shown = None
        self._on_renewed(old.matcher.graph.units != self.matched.units)
        old.matcher.close()
        return True

    def take_back_resources(self) -> VirtualResources | None:
        """Restore the resources of the matcher's graph; return the refused ones, None if there are none."""
        refused, declared = self.resources, self.matched.declared
        if refused == declared:
            return None
        self.resources = declared
        self._edit_shown(None, None, declared)
        self._fall_behind()
        return refused

    def _state(self) -> LedgerState:
        use: dict[str, NodeUse] = {}
        for name in self._nodes:
            account = self._accounts[name]
            use[name] = NodeUse(account.allocatable, account.foreign_use)
        return LedgerState(dict(self._nodes), self.resources, use, dict(self._allocations))


class Rebuild:
    """A graph and its bookings under construction; ``changes`` is the number of graph changes that it includes.

    Only `run` takes long. It touches no shared state, so it may run in a thread of its own. Changes of the ledger in
    the meantime are booked by further runs, each shorter than the one before.
    """

    def __init__(self, matcher: GraphMatcher, wanted: LedgerState, changes: int) -> None:
        self.changes = changes
        self.bookings = Bookings(matcher, {})
        self._reached: LedgerState | None = None
        self._closed = False
        self._wanted = wanted

    def lacks(self, now: LedgerState) -> int:
        """Make ``now`` the wanted state and return how many differences have to be booked for it."""
        differences = self._wanted.differences(now)
        self._wanted = now
        return differences

    def run(self) -> None:
        """Build the graph, or book what has changed since the last run. Raises `MatcherError`."""
        wanted, reached = self._wanted, self._reached
        if reached is None:
            self.bookings.matcher.load(wanted.nodes.values(), wanted.resources)
            reached = LedgerState()
        if not self._closed:
            self.bookings.follow(reached, wanted)
            self._reached = wanted
        if self._closed:
            self.bookings.matcher.close()

    def close(self) -> None:
        """Abandon the rebuild; a run that is under way frees what it has made when it ends."""
        self._closed = True
        if self._reached is not None:
            self.bookings.matcher.close()
