"""The ledger as it was at one moment, to plan on beside the event loop.

Taking references to immutable values is done in milliseconds between two observations; all that follows works on the
copy alone, in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible
from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.ledger.closed_nodes import GangNodes, PreemptorHolds
from fluence_extender.ledger.device_drafts import why_not
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.ledger.pod_use import PodUse, device_uses, pod_use
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources
from fluence_extender.placement.device_search import Asker, Chosen, DeviceSearch, DeviceUse
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.planning_copy import PlanningCopy


@dataclass(frozen=True, slots=True)
class GraphCopy:
    """The resource graph, as far as placement asks about it."""

    levels: Mapping[str, str]
    catalogue: DeviceCatalogue


class Holds(Protocol):
    """What one pod holds."""

    @property
    def assignment(self) -> Assignment:
        """Its place."""
        ...

    @property
    def requests(self) -> Resources:
        """What it asks for."""
        ...

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """Its host ports."""
        ...


@dataclass(slots=True)
class Snapshot:
    """All that a copy is made of, and the rules by which it plans.

    ``table`` are what the nodes have left and what they have when nothing runs.
    ``order`` are the nodes as the policy fills them; ``uses`` what pods hold whose end is known or that have devices,
    ``held`` what all pods of ours hold; ``rounded`` rounds requests as they are counted; ``shut`` are nodes that take
    nothing new, ``preemptor_holds`` those that are held for a preemptor. ``gang_nodes`` are the
    gangs on each node where only pods of one gang may share a node.
    """

    nodes: Sequence[Node]
    tables: tuple[CapacityTable, CapacityTable]
    order: tuple[str, ...]
    graph: GraphCopy
    shut: frozenset[str] = frozenset()
    rounded: Callable[[Resources], Resources] = lambda requests: requests
    uses: Mapping[str, PodUse] = field(default_factory=dict)
    held: dict[str, Holds] = field(default_factory=dict)
    preemptor_holds: PreemptorHolds = field(default_factory=PreemptorHolds)
    gang_nodes: GangNodes = field(default_factory=GangNodes)
    _place: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._place = {name: place for place, name in enumerate(self.order)}

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """The nodes that ``gang`` may not use, if the pods ``without`` held nothing."""
        return self.preemptor_holds.closed_to(gang) | self.shut | self.gang_nodes.closed_to(gang, without)

    def hold(self, use: PodUse, gang: object) -> None:
        """Take note of what a pod more holds; its room is counted elsewhere."""
        self.held[use.uid] = use
        self.gang_nodes.add(use.uid, use.assignment.node, gang)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        if len(names) == len(self.order):
            return self.order
        return tuple(sorted((name for name in names if name in self._place), key=self._place.__getitem__))


def snapshot(ledger: Ledger, nodes: Iterable[Node], ending: Iterable[str]) -> Snapshot:
    """Copy the ledger as it is now; ``ending`` are the uids of running pods whose end is known."""
    present = list(nodes)
    uses = (pod_use(ledger, uid) for uid in ending)
    return Snapshot(
        present,
        (ledger.free.now().copy(), ledger.whole.now().copy()),
        ledger.in_order([node.name for node in present]),
        GraphCopy(ledger.graph.levels, ledger.graph.catalogue),
        frozenset(ledger.overcommitted),
        ledger.rounded,
        {use.uid: use for use in uses if use is not None} | device_uses(ledger),
        dict(ledger.allocations),
        ledger.preemptor_holds.copy(),
        ledger.gang_nodes.copy(),
    )


def planning(taken: Snapshot) -> tuple[PlanningCopy, Planner]:
    """A copy of the ledger as it was, which uses ``taken`` up, and a planner on it."""
    index = EligibilityIndex()
    for node in taken.nodes:
        index.put(node)
    holders = {uid: use for uid, use in taken.uses.items() if use.assignment.devices}
    shares = [share for use in holders.values() for share in use.assignment.devices]
    devices = _DraftedDevices(taken.tables[0], index.nodes.keys(), taken.graph.catalogue, shares)
    copy = PlanningCopy(taken.tables, taken.graph, taken, holders, devices)
    return copy, Planner(copy, index)


class _DraftedDevices:
    """The devices of a copy, drafted pod by pod as the service does."""

    def __init__(
        self,
        free: CapacityTable,
        nodes: Set[str],
        catalogue: DeviceCatalogue,
        shares: Sequence[DeviceShare],
    ) -> None:
        self._free = free
        self._nodes = nodes
        self._catalogue = catalogue
        self._use = DeviceUse(catalogue, shares)
        self._drafts: dict[str, list[tuple[Device, int]]] = {}

    def draft(
        self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()
    ) -> tuple[DeviceShare, ...] | Reason:
        """Hold what the pod asks for, or say why that can't be done."""
        nodes = set(self._nodes) - set(barred_nodes)
        asker = Asker(pod, nodes)
        search = DeviceSearch([asker], self._catalogue, self._use, self._free)
        for way, _ in search.ways():
            found = list(way[pod.uid])
            # The search takes its choices back when it goes on, which it doesn't: they are counted here instead.
            search.release()
            return self.hold(pod, found)
        for kind, amount in sorted(pod.devices.items()):
            usable = [one for one in eligible(self._catalogue, kind, requires) if one.node in ("", *nodes)]
            if not any(self._use.free(one) for one in usable) or len(pod.devices) == 1:
                return why_not(self._catalogue, kind, amount, requires, usable)
        kind, amount = sorted(pod.devices.items())[0]
        return why_not(self._catalogue, kind, amount, requires, eligible(self._catalogue, kind, requires))

    def hold(
        self, pod: Pod, chosen: Iterable[Chosen | Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...]:
        """Hold exactly these devices."""
        shares = []
        for some in chosen:
            for device, amount in some:
                self._use.take(device, amount)
                self._drafts.setdefault(pod.uid, []).append((device, amount))
                shares.append(device.share(amount))
        return tuple(shares)

    def give_up(self, uid: str) -> None:
        """Free what a pod has drafted."""
        for device, amount in self._drafts.pop(uid, ()):
            self._use.take(device, -amount)

    def end(self, shares: Iterable[DeviceShare], back: bool) -> None:
        """Count shares as free that others hold, or take that back."""
        for share in shares:
            device = self._catalogue.at(share.path)
            if device is not None:
                self._use.take(device, share.amount if back else -share.amount)
