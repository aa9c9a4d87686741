"""Keeping the matcher's graph equal to the cluster: changed in place where that can be done, else rebuilt beside.

Where the graph can't follow a change it has fallen behind. It serves on then, and nothing is offered on it that has
gone, until one that was rebuilt takes its place with all bookings on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.account import NodeAccount
from fluence_extender.ledger.allocation import Allocation
from fluence_extender.ledger.bookings import Bookings, NodeUse, Position
from fluence_extender.ledger.mirror import LoadFailed, Mirror
from fluence_extender.ledger.rebuild import Rebuild
from fluence_extender.ledger.shown import ShownGraph
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node

log = structlog.get_logger(__name__)

FEW_DIFFERENCES = 16
"""What may be booked while everybody waits, when a rebuilt graph is put in place of the old one."""


class Upkeep:
    """See the module docstring. ``nodes``, ``accounts`` and ``allocations`` are the ledger's own, looked at as they
    change.

    ``resources`` are the virtual resources that the graph is to have. ``on_behind`` is called when the graph has fallen
    behind and is to be rebuilt, ``fault`` says why that has failed. ``on_renewed`` is called when another graph has
    taken the place of the old one; whether it counts in other units.
    """

    def __init__(
        self,
        mirror: Mirror,
        nodes: Mapping[str, Node],
        accounts: Mapping[str, NodeAccount],
        allocations: Mapping[str, Allocation],
        on_renewed: Callable[[bool], None],
    ) -> None:
        self._nodes = nodes
        self._accounts = accounts
        self._allocations = allocations
        self._on_renewed = on_renewed
        self.bookings = Bookings(mirror, allocations)
        mirror.on_lost = self._fall_behind
        self.resources = VirtualResources("")
        self.fault = ""
        self.on_behind: Callable[[], None] = lambda: None
        self._changes = 0
        self._followed = 0
        self._shown = ShownGraph(lambda: self._mirror.sketch(self._nodes.values(), self.resources))

    @property
    def _mirror(self) -> Mirror:
        return self.bookings.mirror

    @property
    def behind(self) -> bool:
        """Whether the graph lacks changes that are in the accounts."""
        return self._followed != self._changes

    @property
    def containment(self) -> Containment:
        """The graph as the cluster has it now, to be shown: it doesn't lag as the matcher's may."""
        return self._shown.over(self._mirror.graph).containment

    def follow(
        self,
        leaving: str | None,
        joining: Node | None,
        use: NodeUse,
        resources: VirtualResources | None = None,
    ) -> None:
        """Change the graph in place if that can be done; else it has fallen behind, and serves as far as it can.

        ``use`` is what the joining node has to give and what of it others use.
        """
        if resources is not None:
            self.resources = resources
        self._shown.follow(leaving, joining, resources)
        edit = None if self.behind else self._mirror.plan(leaving, joining, resources)
        if edit is not None:
            name = joining.name if joining is not None else leaving
            try:
                self.bookings.change(edit, self._ours_on(name) if name is not None else (), use)
                return
            except MatcherError as error:
                log.warning("the graph could not be changed in place; it is rebuilt", error=str(error))
        self._fall_behind()

    def unhook(self, node: str) -> None:
        """Take back what is booked on a node."""
        self.bookings.unhook(node, self._ours_on(node))

    def _ours_on(self, node: str) -> list[str]:
        return [uid for uid in self._accounts[node].users if uid in self._allocations]

    def _fall_behind(self) -> None:
        self._changes += 1
        self._shown.keep()
        self._mirror.graph.mask_devices(self._nodes, self.resources)
        self.on_behind()

    def load(self) -> None:
        """Build the graph for all nodes here and now. Raises as `catch_up`."""
        self._changes += 1
        if not self._mirror.incremental:
            self._shown.forget()
            self._shown.keep()
        self.catch_up()

    def catch_up(self) -> None:
        """Rebuild the graph here and now if it has fallen behind. Raises `MatcherError`, `GraphTooLarge`."""
        if not self.behind:
            return
        rebuild = self.begin_rebuild()
        try:
            rebuild.run()
        except LoadFailed as error:
            self.fault = f"the resource graph can't be loaded: {error}"
            raise
        self.finish_rebuild(rebuild, None)

    def begin_rebuild(self) -> Rebuild:
        """Begin to build a graph for what the ledger says now. Run it, wherever, then `finish_rebuild` it here."""
        return Rebuild(self._mirror.blank(), self._position(), self._changes)

    def finish_rebuild(self, rebuild: Rebuild, most: int | None = FEW_DIFFERENCES) -> bool:
        """Put a graph that has been built in place of the old one, which is freed.

        False when more than ``most`` has to be booked yet: run it once more.
        """
        now = self._position()
        if most is not None and rebuild.lacks(now) > most:
            return False
        rebuild.run()
        old, self.bookings = self.bookings, rebuild.bookings
        self.bookings.allocations = self._allocations
        self._mirror.on_lost = self._fall_behind
        self._followed = rebuild.changes
        self.fault = ""
        if self.behind:
            self._mirror.graph.mask_devices(self._nodes, self.resources)
            self.on_behind()
        elif self._mirror.incremental:
            self._shown.forget()
        self._on_renewed(old.mirror.units != self._mirror.units)
        old.close()
        return True

    def take_back_resources(self) -> VirtualResources | None:
        """Go back to the resources that are in the graph, and return those that weren't; None when there are none."""
        refused, declared = self.resources, self._mirror.graph.declared
        if refused == declared:
            return None
        self.resources = declared
        self._shown.follow(None, None, declared)
        self._fall_behind()
        return refused

    def _position(self) -> Position:
        use: dict[str, NodeUse] = {}
        for name in self._nodes:
            account = self._accounts[name]
            use[name] = (account.allocatable, account.foreign_use)
        return Position(dict(self._nodes), self.resources, use, dict(self._allocations))
