"""The ledger copied, to plan on what isn't so: without some of the pods, or later.

A copy counts on accounts of its own and asks no matcher: whether a gang fits is for the exact search to say, on the
same accounts as the service's. What is found is a promise for later and not a place; nothing of it reaches the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from fluence_extender.ledger.capacity import CapacityTable, CopiedCapacity
from fluence_extender.ledger.pod_use import PodUse, RemovablePods
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.ledger_port import DeviceLedger, Graph


class Rules(Protocol):
    """What a copy doesn't count itself: the ledger, or what was noted of them."""

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """The nodes that ``gang`` may not use, if the pods ``without`` held nothing."""
        ...

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        ...

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        ...


class CopiedDevices(DeviceLedger, Protocol):
    """The virtual devices of a copy."""

    def give_up(self, uid: str) -> None:
        """Free what a pod has drafted."""
        ...

    def end(self, shares: Iterable[DeviceShare], back: bool) -> None:
        """Let shares come free that others hold, or take that ``back``."""
        ...


class PlanningCopy:
    """A `LedgerPort` for the planner, from which pods can be taken out and put back.

    ``table`` are what its nodes have left and what they have when nothing runs, for it alone to count on; ``within``
    are the only nodes that may be used, None for all. ``allocations`` are those of pods with devices and of those that
    were placed here.
    """

    def __init__(
        self,
        table: tuple[CapacityTable, CapacityTable],
        graph: Graph,
        rules: Rules,
        holders: Mapping[str, PodUse],
        devices: CopiedDevices,
    ) -> None:
        self.free = CopiedCapacity(table[0])
        self.whole = CopiedCapacity(table[1])
        self.graph = graph
        self.devices = devices
        self.allocations: dict[str, PodUse] = dict(holders)
        self.within: Collection[str] | None = None
        self._rules = rules
        self._gone: set[str] = set()
        self._placed: set[str] = set()
        self._all_there: tuple[str, ...] = ()

    def closed(self, gang: object) -> set[str]:
        """The nodes that ``gang`` may not use."""
        shut = self._rules.closed(gang, self._gone)
        if self.within is not None:
            shut |= self.free.now().rows.keys() - set(self.within)
        return shut

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        rows, ordered = self.free.now().rows, self._rules.in_order(names)
        # Who plans beside the loop, or in steps, may know of nodes that have come since.
        if ordered is not self._all_there:
            if not all(map(rows.__contains__, ordered)):
                return tuple(filter(rows.__contains__, ordered))
            self._all_there = ordered
        return ordered

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        return self._rules.rounded(requests)

    def match_equal(self, requests: Resources, count: int, nodes: Collection[str]) -> None:
        """Return None: a copy has no matcher."""

    def take_all(self, places: Sequence[tuple[Pod, Assignment]], gang: object) -> None:
        """Hold places; their devices have been chosen before."""
        sizes: dict[Resources, Resources] = {}
        uses: list[PodUse] = []
        for pod, assignment in places:
            requests = sizes.get(pod.requests)
            if requests is None:
                requests = sizes[pod.requests] = self.rounded(pod.requests)
            uses.append(PodUse(assignment, requests, pod.host_ports))
        self.allocations.update((use.assignment.uid, use) for use in uses)
        self._placed.update(use.assignment.uid for use in uses)
        self.free.count_all([(use.assignment.node, use.requests, use.ports) for use in uses], -1)

    def undo(self, uids: Iterable[str]) -> None:
        """Give back what these pods were given here, drafts included."""
        uses: list[PodUse] = []
        for uid in uids:
            self.devices.give_up(uid)
            if uid in self._placed:
                self._placed.remove(uid)
                uses.append(self.allocations.pop(uid))
        self.free.count_all([(use.assignment.node, use.requests, use.ports) for use in uses], 1)

    def end(self, use: PodUse) -> None:
        """Let a pod be gone that holds ``use``."""
        self._gone.add(use.uid)
        self.allocations.pop(use.uid, None)
        self.devices.end(use.assignment.devices, back=False)
        self._count(use, 1)

    def bring_back(self, use: PodUse) -> None:
        """Let a pod be there again that was gone."""
        self._gone.remove(use.uid)
        if use.assignment.devices or use.uid in self._placed:
            self.allocations[use.uid] = use
        self.devices.end(use.assignment.devices, back=True)
        self._count(use, -1)

    def end_all(self, uids: Collection[str], removable: RemovablePods) -> None:
        """Let many pods be gone that are in ``removable``, which counts in this copy's table."""
        self._gone.update(uids)
        removable.count(uids, 1)

    def bring_all_back(self, uids: Collection[str], removable: RemovablePods) -> None:
        """Let many pods be there again that were gone."""
        self._gone.difference_update(uids)
        removable.count(uids, -1)

    def _count(self, use: PodUse, sign: int) -> None:
        self.free.count(use.assignment.node, use.requests, use.ports, sign)
