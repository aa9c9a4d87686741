"""Copies of the ledger's room and of the gangs at one moment, for plans in another thread.

A copy has references to immutable values, so it takes milliseconds of the event loop. All further work is done in
another thread, and never changes the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.queue.beside import Beside
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.topology import Topology
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.room import Room


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment: its nodes, the topology levels, and what is free for gangs."""

    nodes: Sequence[Node]
    levels: Mapping[str, str]
    room: Room

    def planner(self) -> Planner:
        """Return a new planner for these nodes."""
        index = EligibilityIndex()
        for node in self.nodes:
            index.put(node)
        return Planner(index, Topology(index, self.levels))


def snapshot(ledger: Ledger, nodes: Iterable[Node], ending: Iterable[str]) -> Snapshot:
    """Take a snapshot of the ledger; ``ending`` are the uids of running pods with a known end."""
    room = ledger.snapshot()
    foreign = ((uid, held) for uid in ending if (held := ledger.held_by_foreign(uid)) is not None)
    room.facts.holdings = room.facts.holdings.update(foreign)
    return Snapshot(list(nodes), ledger.graph.levels, room)


@dataclass(slots=True)
class Outlook:
    """What is free once the gangs of a question that fit have their places; ``planner`` plans there."""

    planner: Planner
    room: Room

    def find_beside(
        self, demands: Sequence[Demand], gang: GangKey, terms: Beside, passing: Collection[object] = ()
    ) -> Sequence[Assignment] | None:
        """Return places for a gang on the queue's terms; None if it has none on them.

        Nodes that are held for the gangs ``passing`` are open to it.
        """
        if terms.short is not None:
            return None
        return self.planner.find(terms.left_of(self.room.open_to(gang, passing)), demands)

    def take(self, pods: Sequence[Pod], places: Sequence[Assignment], gang: GangKey) -> None:
        """Count places of a gang as taken."""
        self.room = self.room.open_to(gang).take(zip(pods, places, strict=True))

    def hold(self, nodes: Collection[str], gang: GangKey) -> None:
        """Hold nodes for a preemptor."""
        held_nodes = self.room.held_nodes.copy()
        held_nodes.hold(HoldKind.PREEMPTION, gang, nodes)
        self.room = replace(self.room, held_nodes=held_nodes)


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
