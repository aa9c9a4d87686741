"""Copies of the ledger and of the gangs at one moment, for plans in another thread.

A `Snapshot` only copies references to immutable values, which takes milliseconds of the event loop. All further work is
done on a `LedgerCopy` of it, in another thread, and never changes the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.queue.beside import Beside, LedgerBeside
from fluence_extender.graph.catalogue import DeviceCatalogue
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.claims import DeviceRooms
from fluence_extender.room.holdings import Allocation
from fluence_extender.room.holds import GangNodes, PreemptorHolds
from fluence_extender.room.kept_apart import KeptApart
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.pod_use import PodUse


@dataclass(frozen=True, slots=True)
class GraphCopy:
    """The part of the resource graph that placement reads."""

    levels: Mapping[str, str]
    catalogue: DeviceCatalogue


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger at one moment.

    ``tables`` are the free capacity of the nodes, and their capacity when nothing runs; a `LedgerCopy` writes to them.
    ``order`` are the nodes in the order in which the policy fills them. ``closed_to_all`` are nodes that take no new
    pods, ``preemptor_holds`` the nodes that are held for preemptors. ``spreads`` says that the policy takes the nodes
    with the most room first. ``uses`` is the use of pods with devices or with a known end, ``allocations`` what all of
    our pods hold. ``gang_nodes`` are the gangs on each node, if only pods of one gang may share a node. ``kept_apart``
    says from which nodes pods keep others.
    """

    nodes: Sequence[Node]
    tables: tuple[CapacityTable, CapacityTable]
    order: tuple[str, ...]
    graph: GraphCopy
    closed_to_all: frozenset[str]
    spreads: bool
    uses: Mapping[str, PodUse]
    allocations: Mapping[str, Allocation]
    preemptor_holds: PreemptorHolds
    gang_nodes: GangNodes
    device_rooms: DeviceRooms
    kept_apart: KeptApart

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that ``gang`` may not use, if the pods ``without`` were gone."""
        held = self.preemptor_holds.closed_to(gang)
        return held | self.closed_to_all | self.gang_nodes.closed_to(gang, without)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that exist, in the order in which the policy fills them."""
        if len(names) == len(self.order):
            return self.order
        wanted = frozenset(names)
        return tuple(name for name in self.order if name in wanted)


def snapshot(ledger: Ledger, nodes: Iterable[Node], ending: Iterable[str]) -> Snapshot:
    """Take a snapshot of the ledger; ``ending`` are the uids of running pods with a known end."""
    present = list(nodes)
    uses = (ledger.use_of(uid) for uid in ending)
    return Snapshot(
        present,
        (ledger.free.now().copy(), ledger.whole.now().copy()),
        ledger.in_order([node.name for node in present]),
        GraphCopy(ledger.graph.levels, ledger.graph.catalogue),
        frozenset(ledger.overcommitted),
        ledger.spreads,
        {use.uid: use for use in (*uses, *ledger.device_holders()) if use is not None},
        dict(ledger.allocations),
        ledger.preemptor_holds.copy(),
        ledger.gang_nodes.copy(),
        ledger.device_rooms.copy(),
        ledger.kept_apart.copy(),
    )


class LedgerCopy(PlanningCopy):
    """A ledger on the tables of a snapshot, which it changes.

    ``planner`` plans gangs on it. The search for victims reads it like the ledger.
    """

    def __init__(self, taken: Snapshot) -> None:
        self.preemptor_holds = taken.preemptor_holds
        self._gang_nodes = taken.gang_nodes
        self._uses: dict[str, PodUse] = {}
        for held in taken.allocations.values():
            self._uses[held.uid] = PodUse(held.assignment, held.requests, held.ports)
        index = EligibilityIndex()
        for node in taken.nodes:
            index.put(node)
        holders = {uid: use for uid, use in taken.uses.items() if use.assignment.devices}
        super().__init__(taken, taken.tables, holders)
        self.planner = Planner(self, index)
        self._beside = LedgerBeside(self)
        self._careful_planner = Planner(self._beside, index)

    def find_beside(
        self, demands: Sequence[Demand], gang: GangKey, terms: Beside
    ) -> Sequence[Assignment] | None:
        """Place a gang on the queue's terms; None if it has no place on them. No other call may be under way."""
        planner = self.planner
        if terms.short is not None:
            return None
        if terms.kept is not None:
            self._beside.keep(terms.kept)
            planner = self._careful_planner
        kept = (
            [replace(one, barred=one.barred | terms.closed) for one in demands] if terms.closed else demands
        )
        return planner.find(kept, gang)

    def hold(self, uid: str, gang: object) -> None:
        """Count the place that a pod of ``gang`` got in this copy as held."""
        use = self._uses[uid] = self.allocations[uid]
        self._gang_nodes.add(uid, use.assignment.node, gang)

    def use_of(self, uid: str) -> PodUse | None:
        """Return what one of our pods uses."""
        return self._uses.get(uid)

    def device_holders(self) -> list[PodUse]:
        """Return the use of each of our pods with virtual devices."""
        return [use for use in self.allocations.values() if use.assignment.devices]


@dataclass(slots=True)
class CopiedGangs:
    """The gangs that may become victims: their members with their places."""

    gangs: dict[GangKey, Gang] = field(default_factory=dict)

    @property
    def lowest_priority(self) -> int:
        """Return the lowest priority of any of their pods; 0 without pods."""
        return min(
            (one.pod.priority for gang in self.gangs.values() for one in gang.members.values()), default=0
        )

    def any_below(self, priority: int) -> bool:
        """Return whether any of their pods has a lower priority."""
        return bool(self.gangs) and self.lowest_priority < priority

    def add(self, key: GangKey, size: int, placed: Iterable[tuple[Pod, Membership, Assignment]]) -> None:
        """Add a gang that has places, unless it was added before."""
        members = {
            pod.uid: Member.as_shown(pod, membership, assignment) for pod, membership, assignment in placed
        }
        self.gangs.setdefault(key, Gang(key, members, size, whole=True))


def copies_of_gangs(gangs: Mapping[GangKey, Gang], below: int) -> Iterator[Gang]:
    """Copy, one at a time, the gangs that hold something for a member of a priority lower than ``below``."""
    for key in list(gangs):
        gang = gangs.get(key)
        if gang is None or not any(
            one.assignment is not None and one.pod.priority < below for one in gang.members.values()
        ):
            continue
        members = {
            uid: Member(one.pod, one.membership, one.state, one.data, one.assignment)
            for uid, one in gang.members.items()
        }
        yield Gang(key, members, gang.size, whole=gang.whole, gathering=gang.gathering, history=gang.history)
