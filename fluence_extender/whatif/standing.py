"""A copy of the ledger and of the gangs, as the search for victims reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.ledger.closed_nodes import PreemptorHolds
from fluence_extender.ledger.pod_use import PodUse
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.ledger_port import CapacitySource, Graph
from fluence_extender.placement.planning_copy import PlanningCopy
from fluence_extender.whatif.snapshot import Snapshot


@dataclass(slots=True)
class CopiedGangs:
    """Gangs of which some may have to make way: their members with their places."""

    gangs: dict[GangKey, Gang] = field(default_factory=dict)

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of any gang's least important pod; 0 when there is none."""
        return min(
            (one.pod.priority for gang in self.gangs.values() for one in gang.members.values()), default=0
        )

    def add(self, key: GangKey, size: int, placed: Iterable[tuple[Pod, Membership, Assignment]]) -> None:
        """Take in a gang that has got places; nothing happens where one of that name is there."""
        members = {
            pod.uid: Member(pod, membership, assignment, bound=pod.node)
            for pod, membership, assignment in placed
        }
        self.gangs.setdefault(key, Gang(key, members, size, whole=True))


def copied_gangs(gangs: Mapping[GangKey, Gang], below: int) -> Iterator[Gang]:
    """Copies of those that hold something and have a member of a priority lower than ``below``, one by one."""
    for key in list(gangs):
        gang = gangs.get(key)
        if gang is None or not any(
            one.assignment is not None and one.pod.priority < below for one in gang.members.values()
        ):
            continue
        members = {
            uid: Member(one.pod, one.membership, one.assignment, binding=one.binding, bound=one.bound)
            for uid, one in gang.members.items()
        }
        yield Gang(key, members, gang.size, whole=gang.whole, barrier=gang.barrier, history=gang.history)


@dataclass(frozen=True, slots=True)
class _Account:
    users: Mapping[str, Resources]


class CopiedLedger:
    """What a snapshot's pods hold, and what was placed on its planning ``copy`` since."""

    def __init__(self, taken: Snapshot, copy: PlanningCopy) -> None:
        self._taken = taken
        self._copy = copy
        self._users: dict[str, Resources] = {}
        self.foreign: Mapping[str, str] = {}
        self.allocations: dict[str, PodUse] = {}
        sizes: dict[Resources, Resources] = {}
        for held in taken.held.values():
            requests = sizes.get(held.requests)
            if requests is None:
                requests = sizes[held.requests] = taken.rounded(held.requests)
            self.put(PodUse(held.assignment, requests, held.ports))
        # What a pod uses is asked of the account of its node alone, so one serves for all.
        self.accounts = dict.fromkeys(taken.order, _Account(self._users))

    def put(self, use: PodUse) -> None:
        """Take in what one pod more holds."""
        self.allocations[use.uid] = use
        self._users[use.uid] = use.requests

    @property
    def preemptor_holds(self) -> PreemptorHolds:
        """The nodes that are kept for somebody."""
        return self._taken.preemptor_holds

    @property
    def free(self) -> CapacitySource:
        """What the nodes have left."""
        return self._copy.free

    @property
    def whole(self) -> CapacitySource:
        """What the nodes have when nothing runs."""
        return self._copy.whole

    @property
    def graph(self) -> Graph:
        """The resource graph."""
        return self._copy.graph

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """The nodes that ``gang`` may not use, if the pods ``without`` held nothing."""
        return self._taken.closed(gang, without)

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that there are, in the order the policy fills them."""
        return self._copy.in_order(names)

    def rounded(self, requests: Resources) -> Resources:
        """``requests`` as they are counted."""
        return self._taken.rounded(requests)
