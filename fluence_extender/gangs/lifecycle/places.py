"""Giving members places and taking them back.

Invariants: a member has an assignment exactly while the ledger holds its share. A nomination without an assignment is
taken back before another pod is nominated there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from fluence_extender.gangs.execution.actions import Clear
from fluence_extender.gangs.lifecycle.member_states import MOVABLE, WAITING, MemberEvent, move, update
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import owner_topology
from fluence_extender.gangs.preemption.awaited_places import AwaitedPlaces
from fluence_extender.gangs.queue.beside import FREELY, Beside
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangState, HistoryKind
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import refusal, signature
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.topology_constraints import topology_constraints
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger, NoCapacity

DemandKey = frozenset[tuple[object, int]]

NODES_SHOWN = 4


class Places:
    """Plans and drops assignments, and gathers the nominations to be taken back.

    ``passes`` returns the preemptors that a gang could preempt itself; nodes held for them are open to the gang.
    ``reserved`` returns the nodes that are reserved for gangs ahead of a gang.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        planner: Planner,
        clock: Callable[[], float],
        passes: Callable[[Gang], frozenset[object]],
        reserved: Callable[[Gang], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._planner = planner
        self._clock = clock
        self._clears: list[Clear] = []
        self.passes = passes
        self.reserved = reserved
        self._awaited: tuple[int, dict[frozenset[object], AwaitedPlaces]] = -1, {}

    def clears(self) -> list[Clear]:
        """Return the nominations to take back, each once."""
        clears, self._clears = self._clears, []
        return clears

    def plan(
        self,
        gang: Gang,
        members: Sequence[Member],
        now: float,
        avoided: frozenset[str] = frozenset(),
        beside: Beside = FREELY,
    ) -> Reason | None:
        """Place all of ``members`` on nodes that aren't ``avoided``, or none of them and return why.

        ``beside`` says what the queue keeps for others.
        """
        demands, settled = self.demands(members, now, avoided), self.settled(gang)
        room = self._ledger.room().open_to(gang.key, self.passes(gang))
        assignments = None
        if beside is not FREELY and beside.short is None:
            assignments = self._planner.find(beside.left_of(room), demands, settled)
        if assignments is None:
            try:
                assignments = self._planner.plan(room, demands, settled)
            except GangRefused as refused:
                return refused.reason
            if beside is not FREELY:
                return beside.reason
        pods = (member.pod for member in members)
        try:
            self._ledger.take_all([*zip(pods, assignments, strict=True)], gang.key)
        except NoCapacity as error:
            # Amounts that exceed `capacity.LARGEST` are planned as that amount.
            return Reason(ReasonCode.BUSY, f"busy: {error.reason}")
        for member, assignment in zip(members, assignments, strict=True):
            move(gang, member, MemberEvent.PLAN, assignment)
            member.refusals = member.refusals.anew
        gang.expect()
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

    def demands(
        self, members: Sequence[Member], now: float, avoided: frozenset[str] = frozenset()
    ) -> list[Demand]:
        """Return the demands of ``members`` for a planner."""
        awaited = self._awaited_places(members)
        return [
            Demand(member.pod, _barred(member, now, awaited) | avoided, *self.topology(member.pod))
            for member in members
        ]

    def _awaited_places(self, members: Sequence[Member]) -> AwaitedPlaces | None:
        """Return where preemptors go that the gang of ``members`` can't preempt, None if there are none."""
        held = self._ledger.held_nodes
        holders = held.holders(HoldKind.PREEMPTION)
        found = self._registry.member(members[0].pod.uid) if holders and members else None
        if found is None:
            return None
        others = frozenset(holders - {found[0].key} - self.passes(found[0]))
        if not others:
            return None
        if self._awaited[0] != held.revision:
            self._awaited = held.revision, {}
        known = self._awaited[1]
        if others not in known:
            gangs = [gang for key, gang in self._registry.gangs.items() if key in others]
            waiting = (
                (one.pod, one.held_node) for gang in gangs for one in gang.members.values() if one.held_node
            )
            known[others] = AwaitedPlaces(self._ledger.kept_apart, waiting)
        return known[others]

    def settled(self, gang: Gang) -> list[SettledMember]:
        """Return the members that have a place already, for a planner."""
        return [
            SettledMember(Demand(one.pod, frozenset(), *self.topology(one.pod)), one.assignment.node)
            for one in gang.alive()
            if one.assignment is not None
        ]

    def demand_key(self, gang: Gang, members: Iterable[Member], now: float) -> DemandKey:
        """Return a key for the demand of ``members``. Of demands with equal keys either all fit or none does."""
        # Under a node-exclusive policy a gang may use the nodes that it has already, and no other gang may.
        members = list(members)
        awaited = self._awaited_places(members)
        ruled = any(member.pod.ruled for member in members)
        own = gang.key if any(member.assignment is not None for member in gang.members.values()) else None
        return frozenset(
            Counter(
                (
                    member.pod.requests,
                    signature(member.pod),
                    member.pod.claims,
                    tuple(sorted(member.pod.devices.items())) if member.pod.devices else (),
                    tuple(member.pod.requires.items()) if member.pod.devices else (),
                    member.pod.host_ports,
                    _by_rules(member.pod) if ruled else None,
                    _barred(member, now, awaited) | self._ledger.kept_apart.nodes(member.pod),
                    topology_constraints(member.pod, *self.topology(member.pod)),
                    own,
                )
                for member in members
            ).items()
        )

    def topology(self, pod: Pod) -> tuple[tuple[str, ...], int]:
        """Return what the pod's owners require of its gang's placement."""
        return owner_topology(self._registry.workloads, pod)

    def replan(self, gang: Gang, member: Member) -> None:
        """Find another place for one member; without one, withdraw the whole gang unless it has begun."""
        self.drop(gang, member)
        self._registry.dirty.add(gang.key)
        if self.plan(gang, [member], self._clock()) is not None:
            self.withdraw(gang)

    def replan_apart(self, gang: Gang, member: Member) -> None:
        """Find another place for a refused member, if possible on a node without other members of its gang.

        Members that keep each other away (anti-affinity, spread, ports) would otherwise meet again on each next node.
        """
        self.drop(gang, member)
        avoided = {one.assignment.node for one in gang.alive() if one.assignment is not None}
        if not avoided or self.plan(gang, [member], self._clock(), frozenset(avoided)) is not None:
            self.replan(gang, member)
            return
        self._registry.dirty.add(gang.key)

    def relieve(self, gangs: Iterable[Gang]) -> None:
        """Move members of ``gangs`` that aren't bound yet off nodes whose capacity others have taken.

        The first gangs lose their places first.
        """
        overcommitted = self._ledger.overcommitted
        for gang in gangs:
            for member in gang.pending():
                node = member.assignment.node if member.assignment is not None else ""
                if node in overcommitted and not member.binding and node in self._ledger.overcommitted:
                    self.replan(gang, member)

    def drop(self, gang: Gang, member: Member) -> None:
        """Take a member's place back, unless it is bound or a Binding is under way."""
        if member.state not in MOVABLE:
            return
        for uid in self._ledger.gated_beside(member.pod.uid):
            found = self._registry.member(uid)
            if found is not None:
                self._registry.dirty.add(found[0].key)
        self._ledger.release(member.pod.uid)
        move(gang, member, MemberEvent.DROP)
        self._clear(member)
        member.refusals = member.refusals.anew

    def drop_others(self, gang: Gang) -> None:
        """Take back the places that members got while they belonged to another gang."""
        for member in gang.members.values():
            if member.promise is not None and member.promise.gang != gang.key:
                self.drop(gang, member)

    def clear_unplanned(self, gang: Gang) -> None:
        """Take back nominations without a plan: kube-scheduler counts such a pod as running there."""
        for member in gang.pending():
            if member.state is WAITING:
                self._clear(member)

    def _clear(self, member: Member) -> None:
        pod = member.pod
        if pod.nominated not in ("", member.held_node) and not (member.clearing or pod.foreseen):
            update(member, clearing=True)
            self._clears.append(Clear(member.pod))

    def withdraw(self, gang: Gang) -> None:
        """Drop the plan of a gang, unless the gang has begun."""
        if not gang.begun:
            if any(member.assignment is not None for member in gang.members.values()):
                gang.note(HistoryKind.WITHDRAWN, "", "the plan of the gang was dropped")
            for member in gang.members.values():
                self.drop(gang, member)
            gang.fail_waits("the plan of the gang was withdrawn")
            gang.gather_anew()

    def leave_if_unfit(self, gang: Gang, member: Member) -> None:
        """Find another place for a member that no longer suits its planned node or requests something else now."""
        if member.assignment is None or member.binding:
            return
        if not self.suits(member, member.assignment.node) or not self._holds_its_requests(member):
            self.replan(gang, member)

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


def _barred(member: Member, now: float, awaited: AwaitedPlaces | None) -> frozenset[str]:
    """Return the nodes that refused the member, and those where it would exclude a preemptor."""
    refused = member.refusals.barred_nodes(now)
    return refused if awaited is None else refused | awaited.kept_from(member.pod)


def _by_rules(pod: Pod) -> object:
    """Return all of a pod by which rules about other pods judge it, its own included."""
    return pod.namespace, pod.apart, pod.near, pod.spread, frozenset(pod.labels.items())


def _summary(assignments: Sequence[Assignment]) -> str:
    """Return a plan in words: its first few nodes, and its backends."""
    nodes = sorted({one.node for one in assignments}, key=natural_order)
    on = f"on {first_few(nodes, NODES_SHOWN)}"
    backends = ", ".join(sorted({one.backend for one in assignments if one.backend})[:NODES_SHOWN])
    return f"{on} with {backends}" if backends else on
