"""Giving members places and taking them back.

Invariant: a member has an assignment exactly while the ledger holds its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.demands import Demands
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangState, HistoryKind
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner
from fluence_extender.room.ledger import Ledger, NoCapacity

NODES_SHOWN = 4


class Places:
    """Plans and drops assignments.

    ``passes`` returns the preemptors that a gang could preempt itself; nodes held for them are open to the gang.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        planner: Planner,
        clock: Callable[[], float],
        passes: Callable[[Gang], frozenset[object]],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._planner = planner
        self._clock = clock
        self.demands = Demands(
            registry.workloads, registry.gangs, ledger.held_nodes, ledger.kept_apart, passes
        )

    def plan(
        self,
        gang: Gang,
        members: Sequence[Member],
        now: float,
        avoided: frozenset[str] = frozenset(),
        within: Set[str] | None = None,
    ) -> Reason | None:
        """Place all of ``members``, or none of them and return why.

        They get no nodes that are ``avoided``, and only nodes ``within`` some if these are given.
        """
        room = self._ledger.room().open_to(gang.key, self.demands.overtaken_by(gang)).within(within)
        demands = self.demands.of(gang, members, now, avoided)
        try:
            places = self._planner.plan(room, demands, self.demands.settled(gang))
        except GangRefused as refused:
            return refused.reason
        return self.give(gang, members, places)

    def counted(self, members: Iterable[Member]) -> bool:
        """Count what nodes host for the claims of ``members``, a little at a time; return whether all is counted."""
        return self._ledger.claim_rooms.prepare(member.pod.claims for member in members)

    def give(self, gang: Gang, members: Sequence[Member], assignments: Sequence[Assignment]) -> Reason | None:
        """Give ``members`` these places, or none of them if the nodes have no room for them; return why not."""
        pods = [member.pod for member in members]
        try:
            self._ledger.take_all([*zip(pods, assignments, strict=True)], gang.key)
        except NoCapacity as error:
            # Amounts that exceed `capacity.LARGEST` are planned as that amount.
            return Reason(ReasonCode.BUSY, f"busy: {error.reason}")
        for member, assignment in zip(members, assignments, strict=True):
            placed = gang.place(member.pod.uid, assignment)
            gang.change(placed.pod.uid, refusals=placed.refusals.anew)
        gang.count_gathering()
        gang.note(
            HistoryKind.PLANNED, members[0].pod.name if len(members) == 1 else "", _summary(assignments)
        )
        if gang.state in (GangState.WAITING, GangState.BOUND, GangState.FINISHED):
            gang.state = GangState.COMMITTED if gang.begun else GangState.PLANNED
        return None

    def never(self, pods: Sequence[Pod], size: int) -> Reason | None:
        """Return why ``size`` members with ``pods`` couldn't be placed even if nothing ran.

        Return None if they might be, or if what nodes host for their claims isn't counted.
        """
        if not self._ledger.claim_rooms.prepare(pod.claims for pod in pods):
            return None
        return self._planner.never(self._ledger.room(), pods, size)

    def replan(self, gang: Gang, uid: str) -> None:
        """Find another place for one member; without one, withdraw the whole gang unless it has begun."""
        self.drop(gang, uid)
        self._registry.dirty.add(gang.key)
        if self.plan(gang, [gang.members[uid]], self._clock()) is not None:
            self.withdraw(gang)

    def replan_apart(self, gang: Gang, uid: str) -> None:
        """Find another place for a refused member, if possible on a node without other members of its gang.

        Members that keep each other away (anti-affinity, spread, ports) would otherwise meet again on each next node.
        """
        self.drop(gang, uid)
        member = gang.members[uid]
        avoided = {one.assignment.node for one in gang.alive() if one.assignment is not None}
        if not avoided or self.plan(gang, [member], self._clock(), frozenset(avoided)) is not None:
            self.replan(gang, uid)
            return
        self._registry.dirty.add(gang.key)

    def relieve(self, gangs: Iterable[Gang]) -> None:
        """Move members of ``gangs`` that aren't bound yet off nodes whose capacity others have taken.

        The first gangs lose their places first.
        """
        overcommitted = self._ledger.overcommitted
        for gang in gangs:
            for uid in [member.pod.uid for member in gang.pending()]:
                member = gang.members[uid]
                node = member.assignment.node if member.assignment is not None else ""
                if node in overcommitted and not member.binding and node in self._ledger.overcommitted:
                    self.replan(gang, uid)

    def drop(self, gang: Gang, uid: str) -> None:
        """Take a member's place back, unless it is bound or a Binding is under way."""
        if not gang.members[uid].movable:
            return
        for other in self._ledger.gated_beside(uid):
            found = self._registry.member(other)
            if found is not None:
                self._registry.dirty.add(found[0].key)
        self._ledger.release(uid)
        self._registry.dirty.add(gang.key)
        member = gang.take_back(uid)
        gang.change(uid, refusals=member.refusals.anew)

    def end(self, gang: Gang, uid: str, how: str = "") -> None:
        """Take the place of a member back whose pod has ended, ``how`` for the history."""
        member = gang.members[uid]
        if member.assignment is not None:
            gang.note(HistoryKind.RELEASED, member.pod.name, how)
        self._ledger.release(uid)
        gang.take_back(uid)

    def drop_others(self, gang: Gang) -> None:
        """Take back the places that members got while they belonged to another gang."""
        for member in list(gang.members.values()):
            if member.record is not None and member.record.gang != gang.key:
                self.drop(gang, member.pod.uid)

    def withdraw(self, gang: Gang) -> None:
        """Drop the plan of a gang, unless the gang has begun."""
        if not gang.begun:
            if any(member.assignment is not None for member in gang.members.values()):
                gang.note(HistoryKind.WITHDRAWN, "", "the plan of the gang was dropped")
            for uid in list(gang.members):
                self.drop(gang, uid)
            gang.fail_waits("the plan of the gang was withdrawn")
            gang.gather_anew()

    def leave_if_unfit(self, gang: Gang, uid: str) -> None:
        """Find another place for a member that no longer suits its planned node or requests something else now."""
        member = gang.members[uid]
        if member.assignment is None or member.binding:
            return
        if not self.suits(member, member.assignment.node) or not self._holds_its_requests(member):
            self.replan(gang, uid)

    def suits(self, member: Member, name: str) -> bool:
        """Return whether a node takes a member, apart from its room, given the present state of both."""
        node = self._planner.node(name)
        if node is None or refusal(member.pod, node) is not None:
            return False
        return not self._ledger.kept_apart.keeper(member.pod, name)

    def _holds_its_requests(self, member: Member) -> bool:
        """Return whether the ledger holds what the member requests now; users can edit a waiting pod."""
        held = self._ledger.holdings.get(member.pod.uid)
        if held is None or held.requests != member.pod.requests or held.ports != member.pod.host_ports:
            return False
        devices = held.assignment.devices
        if not devices:
            return True
        return self._ledger.devices_match(member.pod, devices)


def _summary(assignments: Sequence[Assignment]) -> str:
    """Return a plan in words: its first few nodes, and its backends."""
    nodes = sorted({one.node for one in assignments}, key=natural_order)
    on = f"on {first_few(nodes, NODES_SHOWN)}"
    backends = ", ".join(sorted({one.backend for one in assignments if one.backend})[:NODES_SHOWN])
    return f"{on} with {backends}" if backends else on
