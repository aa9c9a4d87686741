"""What saves a pass time: memory from earlier passes, and reasons of gangs that were found without planning them.

Ten thousand waiting gangs have only some hundred different demands. If a demand has no place for one gang, it has none
for the gangs behind it. Often a count is enough to show that it has none.

Passes keep their memory from one to the next in their own thread. Invariant: it can be lost at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.demands import Demanded
from fluence_extender.gangs.planning.reservations import KeptRoom
from fluence_extender.gangs.queue.book import BLOCKED
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.chooser import NodeChooser
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex, Signature, signature
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import Part
from fluence_extender.placement.shortfalls import Counts, countable
from fluence_extender.placement.topology import Topology
from fluence_extender.queueing.entry import Rank
from fluence_extender.room.room import Room

# What passes remember.

MOST_DEMANDS = 20_000
"""The most demands that are kept so that equal ones are one object."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a gang without places asks for, as long as the gang doesn't change.

    ``demand`` is the demand of all its members. It is None if more than the demand decides about the gang; else the
    gang gets the same answers as the gangs of an equal demand. ``duration`` is how many seconds the gang runs, None if
    that depends on when it starts.
    """

    demand: Demanded | None
    duration: float | None


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What has changed about nodes since the last pass.

    ``changed`` has the nodes that are new, and those that aren't as they were. ``gone`` has the names of the nodes that
    have left. If ``gone`` is None, ``changed`` has all nodes that there are.
    """

    changed: Sequence[Node]
    gone: Set[str] | None


FIRST_FAILED, MOST_FAILED = 128, 192
"""The most failed plans of one namespace in one pass: of the first gangs in order, and in total.

Most gangs need no plan of their own, because a gang with the same demand has no place, or because a count shows that
there is none. The difference of the two numbers is for gangs that the last pass has deferred, so that each gang is
planned in some pass.
"""

COUNT = 0.25
"""How many failed plans a count of all nodes stands for: it takes about a quarter of the time of one."""


class FailedPlans:
    """Counts and limits the failed plans of each namespace in a pass, so that other namespaces don't wait long."""

    def __init__(self) -> None:
        self._plans: dict[str, float] = {}
        """By namespace, how many plans have failed in this pass."""
        self._deferred: dict[str, Rank] = {}
        """By namespace, the rank of the first gang that this pass has deferred."""
        self._deferred_before: Mapping[str, Rank] = {}
        """By namespace, the rank of the first gang that the last pass has deferred."""

    def begin_pass(self) -> None:
        """Begin a pass."""
        self._plans = {}
        self._deferred_before, self._deferred = self._deferred, {}

    def note(self, namespace: str, plans: float = 1) -> None:
        """Count failed plans of a namespace. A fraction stands for work that takes less time than a plan."""
        self._plans[namespace] = self._plans.get(namespace, 0) + plans

    def may_plan(self, namespace: str, rank: Rank) -> bool:
        """Return whether a gang of that rank may be planned, given the failed plans of its namespace so far."""
        plans, first = self._plans.get(namespace, 0), self._deferred_before.get(namespace)
        return plans < FIRST_FAILED or (plans < MOST_FAILED and (first is None or rank >= first))

    def defer(self, namespace: str, rank: Rank) -> None:
        """Defer a gang that may not be planned to the next pass."""
        first = self._deferred_before.get(namespace)
        if first is None or rank >= first:
            self._deferred.setdefault(namespace, rank)


class PassMemory:
    """The nodes of the last pass with what was derived from them, and what was found out about gangs.

    ``levels`` maps the names of topology levels to node labels. ``chooser`` places equal members, by default first fit.
    """

    def __init__(self, levels: Mapping[str, str], chooser: NodeChooser | None = None) -> None:
        self._levels = levels
        self._chooser = chooser
        self.wishes: dict[GangKey, Wish] = {}
        self.beyond: dict[GangKey, int] = {}
        """The position, among the members beyond a gang's size, at which the next attempt begins, 0 if not given."""
        self._demands: dict[tuple[Hashable, float], Demanded] = {}
        self.failed_plans = FailedPlans()
        self._forget_nodes()

    def _forget_nodes(self) -> None:
        eligibility = EligibilityIndex()
        self.planner = Planner(eligibility, Topology(eligibility, self._levels), self._chooser)

    def follow(self, nodes: NodeChanges, changed: Iterable[GangKey], gangs: Collection[GangKey]) -> None:
        """Begin a pass: take in which nodes and gangs have changed since the last one. ``gangs`` are all that exist."""
        if nodes.gone is None:
            self._forget_nodes()
        for name in nodes.gone or ():
            self.planner.eligibility.drop(name)
        for node in nodes.changed:
            self.planner.eligibility.put(node)
        self.failed_plans.begin_pass()
        for key in changed:
            self.wishes.pop(key, None)
        if len(self.wishes) > 2 * len(gangs) + 1:
            self.wishes = {key: wish for key, wish in self.wishes.items() if key in gangs}
        self.beyond = {key: at for key, at in self.beyond.items() if key in gangs}
        if len(self._demands) >= MOST_DEMANDS:
            self._demands.clear()

    def same(self, key: Hashable, priority: float, demands: Callable[[], Sequence[Demand]]) -> Demanded:
        """Return the one object that stands for equal demands; ``demands`` returns the demand of each member."""
        same = self._demands.get((key, priority))
        if same is None:
            each = demands()
            group = [each[0].pod] * len(each) if countable(each) else []
            same = self._demands[key, priority] = Demanded(key, priority, group)
        return same


# Why demands have no place in one pass.

NO_ROOM = (*BLOCKED, ReasonCode.UNSATISFIABLE)
"""The reasons of gangs that have passed all other checks and only lack room."""


@dataclass(slots=True)
class _Findings:
    """What a pass has found out about a demand.

    ``tried`` says that a gang with this demand has passed all checks that come before the search for room. ``nowhere``
    is why the demand has no place, as found after ``nowhere_at`` placements. ``behind`` is why it has none beside what
    is kept, with the shortest duration for which that was found; its keys are the operators' Reservations that close
    nodes. After ``fitted_at`` placements the demand was found to fit on the nodes, but not in the pool.
    """

    tried: bool = False
    nowhere: Reason | None = None
    nowhere_at: int = -1
    behind: dict[tuple[str, ...], tuple[Reason, float]] = field(default_factory=dict)
    fitted_at: int = -1


class KnownReasons:
    """Remembers why demands have no place in the ``room`` of one pass.

    A reason that says how many members would fit holds only until another gang is placed, because fewer may fit then.
    ``overtaken_by`` returns the gangs whose held nodes are open to a gang.
    """

    def __init__(
        self, room: Room, planner: Planner, overtaken_by: Callable[[Gang], frozenset[object]]
    ) -> None:
        self._room = room
        self._planner = planner
        self._overtaken_by = overtaken_by
        self.placements = 0
        """How many gangs this pass has placed."""
        self.sizes: set[Resources] = set()
        """The sizes of the members that this pass has counted."""
        self._findings: dict[Demanded, _Findings] = {}
        self._nodes: dict[Signature, tuple[str, ...]] = {}
        """The nodes that pods may use, by their signature."""
        self._counts = Counts(room.free)
        self._less_kept: dict[object, tuple[Room, Counts]] = {}
        """By what is kept for others: the room of `_counts` less that, and the counts in it."""

    def of(self, gang: Gang, demand: Demanded, kept_room: KeptRoom, in_full: bool = True) -> Reason | None:
        """Return why members of a gang have no place, None if that isn't known.

        Unless ``in_full``, members of a size that this pass hasn't counted aren't counted.
        """
        in_pool, findings = kept_room.pool_reason, self._findings_on(demand)
        never = in_pool is not None and in_pool.code is ReasonCode.UNSATISFIABLE
        fitted = findings.fitted_at == self.placements
        # The nodes needn't be judged if the pool's reason isn't about capacity, or if they are known to have places.
        if in_pool is not None and ((in_pool.code not in BLOCKED and not never) or fitted):
            return in_pool
        reason = self.of_others(demand, kept_room.duration, kept_room.closing)
        if reason is None and in_pool is None:
            reason = self._by_count(gang, demand, kept_room, in_full)
        return reason if reason is None else reason_to_tell(reason, in_pool)

    def of_others(self, demand: Demanded, duration: float, closing: tuple[str, ...] = ()) -> Reason | None:
        """Return why gangs with that demand had no place, None if that isn't known."""
        findings = self._findings.get(demand)
        if findings is None:
            return None
        nowhere = findings.nowhere
        if nowhere is not None and (findings.nowhere_at == self.placements or not nowhere.fitting):
            return nowhere
        behind = findings.behind.get(closing)
        return behind[0] if behind is not None and duration >= behind[1] else None

    def was_tried(self, demand: Demanded) -> bool:
        """Return whether a gang with that demand was tried in this pass, so that only a lack of room stops others."""
        return self._findings_on(demand).tried

    def note_tried(self, demand: Demanded) -> None:
        """Note that a gang with that demand passes all checks that come before the search for room."""
        self._findings_on(demand).tried = True

    def note(self, demand: Demanded, reason: Reason, kept_room: KeptRoom) -> None:
        """Note why members that were planned have no place."""
        findings = self._findings_on(demand)
        if reason is kept_room.pool_reason:
            # The nodes have places, while the gang waits for something else.
            findings.fitted_at = self.placements
        else:
            self._note(findings, reason, kept_room)

    def _findings_on(self, demand: Demanded) -> _Findings:
        findings = self._findings.get(demand)
        if findings is None:
            findings = self._findings[demand] = _Findings()
        return findings

    def _note(self, findings: _Findings, reason: Reason, kept_room: KeptRoom) -> None:
        if reason.code is not ReasonCode.BEHIND_RESERVATION:
            findings.nowhere, findings.nowhere_at = reason, self.placements
            return
        before = findings.behind.get(kept_room.closing)
        if before is None or kept_room.duration < before[1]:
            findings.behind[kept_room.closing] = reason, kept_room.duration

    # Counts.

    def _by_count(self, gang: Gang, demand: Demanded, kept_room: KeptRoom, in_full: bool) -> Reason | None:
        """Return why a count shows that there is no place, None if it doesn't show that."""
        pods = demand.group
        if not pods or not (in_full or pods[0].requests in self.sizes):
            return None
        room = self._room.open_to(gang.key, self._overtaken_by(gang))
        if room.keeps_apart or any(member.assignment is not None for member in gang.members.values()):
            return None
        kind = signature(pods[0])
        if kind not in self._nodes:
            self._nodes[kind] = self._room.in_order(self._planner.eligibility.eligible(pods[0]))
        self.sizes.add(pods[0].requests)
        shape = Shape(pods[0].requests, len(pods), self._nodes[kind])
        reason = self._shortage(demand, shape, room, kept_room)
        if reason is None:
            return None
        self._note(self._findings_on(demand), reason, kept_room)
        return reason

    def _shortage(self, demand: Demanded, shape: Shape, room: Room, kept_room: KeptRoom) -> Reason | None:
        """Return why a count finds no room for all members of a shape, None if it finds room."""
        if self._counts.table is not self._room.free:
            self._counts, self._less_kept = Counts(self._room.free), {}
        part = self._counts.part(shape, room.closed)
        if part.members < shape.count:
            state = part, room.whole.revision, self._planner.eligibility.journal.now
            if demand.counted[0] != state:
                # Equal reasons are one object, so that the reasons of many gangs are compared fast.
                demand.counted = state, self._planner.reasons.lacking(room, (shape, demand.group), part)
            return demand.counted[1]
        if kept_room.free or self._part_less_kept(shape, room, kept_room).members >= shape.count:
            return None
        return kept_room.reason

    def _part_less_kept(self, shape: Shape, room: Room, kept_room: KeptRoom) -> Part:
        """Return how many members of a shape have room beside what is kept for others."""
        kept = id(kept_room.reserved), kept_room.closing
        if kept not in self._less_kept:
            left = kept_room.left_of(self._room)
            self._less_kept[kept] = left, Counts(left.free)
        left, counts = self._less_kept[kept]
        return counts.part(shape, left.open_to(room.gang, room.overtaken).closed)


def reason_to_tell(on_nodes: Reason, in_pool: Reason | None) -> Reason:
    """Return the reason that users see, given why the nodes have no place and why the pool has none."""
    if on_nodes.code is ReasonCode.UNSATISFIABLE or in_pool is None:
        return on_nodes
    # If the pool can never have room for the gang, it doesn't help users to read that nodes are busy.
    return in_pool if in_pool.code is ReasonCode.UNSATISFIABLE else on_nodes
