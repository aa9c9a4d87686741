"""A pass: one walk over the gangs in line, in their order, which decides for each whether it gets its places.

There are two kinds of pass. If room may have grown since the last one, all gangs are tried. If it has only shrunk, a
gang that lacked room still lacks it. Then only gangs that are new or have changed are tried, and the reservations stay.
Within a pass room only shrinks, and reservations are only added. So if a demand has no place for one gang, it has none
for the gangs behind it.

Invariant: a gang is placed beside the reservations of all gangs before it, and of no others.

Gangs that a rule keeps waiting aren't in line (`rules`). Limits and quotas of queues are judged here, because the pass
itself may reach them. Nothing is reserved for a gang that one of them keeps waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import structlog

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.rules import (
    UNCOUNTED,
    has_places,
    invalid,
    need,
    placeless_of,
    places_needed,
    planning_failed,
    together,
)
from fluence_extender.gangs.membership.gang import Gang, Member, foreign_gates
from fluence_extender.gangs.planning.cluster_timeline import (
    ClusterTimeline,
    DeclaredEnds,
    Request,
    cluster_timeline,
)
from fluence_extender.gangs.planning.demands import Demanded, Demands
from fluence_extender.gangs.planning.known_reasons import (
    COUNT,
    NO_ROOM,
    KnownReasons,
    PassMemory,
    Wish,
    reason_to_tell,
)
from fluence_extender.gangs.planning.reservations import Blocked, KeptRoom, Reservations, moved_to
from fluence_extender.gangs.planning.view import Decided, Plan, View, ranked
from fluence_extender.gangs.preemption.preempting import Preempting
from fluence_extender.gangs.preemption.preemptions import may_preempt, preempting_priority
from fluence_extender.gangs.queue.admission import NO_LIMITS
from fluence_extender.gangs.queue.book import AFTER_BLOCKED, BEYOND_DEPTH, BLOCKED
from fluence_extender.gangs.queue.fair_shares import was_unable_to_start
from fluence_extender.gangs.queue.settings import ClosedNodes
from fluence_extender.gangs.queue.submissions import entry_key
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.ranks import rank_key
from fluence_extender.queueing.entry import Entry, PolicyName, Rank, has_begun
from fluence_extender.room.holds import Hold, HoldKind
from fluence_extender.room.records import PlaceRecord
from fluence_extender.room.room import Room

log = structlog.get_logger(__name__)

MOST_LOOKED_AT = 20_000
"""How many members one attempt may look at when it places members beyond a gang's size one by one.

Each single plan looks at all members of the gang. The next attempt goes on where this one has ended.
"""

MOST_HOPELESS = 64
"""How many kinds of members beyond a gang's size may fail before an attempt ends."""


def plan(view: View, memory: PassMemory) -> Plan:
    """Decide for each gang in line whether it gets its places.

    The pass counts what it decides in the view, which no other code uses. ``memory`` only saves time.
    """
    memory.follow(view.nodes, view.untried, view.registry.gangs.keys())
    return Pass(view, memory).run()


class Pass:
    """One pass. It leaves the gangs in the view as they are, and records each decision in another copy."""

    def __init__(self, view: View, memory: PassMemory) -> None:
        self._view = view
        self._memory = memory
        self.planner = memory.planner
        self._now = view.now
        self._policy = view.queues.policy
        self._admission = view.queues.admission
        self._order = ranked(view)
        self._pool = view.queues.pool
        self._closed = ClosedNodes(view.queues.settings, memory.planner.eligibility, lambda: view.calendar)
        self._room = view.room
        self._preempting = Preempting(
            view.preemption, view.registry, self.planner, view.queues.reclaims, view.now, self._avoided
        )
        self._preemptions = self._admission.ahead = self._preempting.preemptions
        self._demands = Demands(
            view.registry.workloads,
            view.registry.gangs,
            view.room.held_nodes,
            view.room.facts.kept_apart,
            self._preemptions.overtaken_by,
        )
        self._reservations: Reservations | None = None
        self._unreserved = 0
        """How many blocked gangs have no reservation, because no end is known and they haven't waited long enough."""
        self._reasons = KnownReasons(view.room, memory.planner, self._preemptions.overtaken_by)
        self._preemption_useless: dict[float, bool] = {}
        """By priority, whether preemption can't help; see `_is_preemption_useless`."""
        self._shares_reasons = not (
            view.room.held_nodes.holders(HoldKind.PREEMPTION) or view.room.facts.kept_apart.has_terms
        )
        """Whether gangs may get the reasons of others: no preemptor waits, and no pod keeps others away."""
        settings, quotas = view.queues.settings, self._admission.quotas
        limits = [queue.limits for queue in settings.queues.values()]
        self._has_limits = quotas.active or any(of_queue != NO_LIMITS for of_queue in limits)
        self._limits_lines = any(of_queue.queued or of_queue.queued_per_user for of_queue in limits)
        self._keeps_room = quotas.keeps or bool(settings.reservations)
        """Whether other queues or operators keep something free."""
        self._reached: dict[tuple[str, str, Resources], tuple[Reason | None, bool, int]] = {}
        """By queue, user and demand: the limit or quota that is reached, whether the queue takes back what is asked
        for, and how many gangs had been placed when that was found."""
        self._demand_decides = False
        """Whether all later gangs in line with the same demand and duration get the same answer."""
        self._placed: list[Pod] = []
        """The pods that got places before something was reserved."""
        self._made = Plan(view)

    def run(self) -> Plan:
        """Try gangs in their order."""
        gangs, view, made = self._view.registry.gangs, self._view, self._made
        made.entitled, made.cut = self._order.entitled, self._order.cut
        everyone, now, unevaluated = view.grew or self._order.moved, self._now, view.unevaluated
        for rank, key in self._order.line:
            if unevaluated and key in unevaluated:
                continue
            gang = gangs[key]
            if gang.back_off.until > now:
                made.skipped.add(key)
                continue
            due = everyone or key in view.untried or gang.again_at <= now
            if not due and key not in view.ends.blocked:
                continue
            made.tried.add(key)
            if due or not self._reserve().keep(key, rank):
                self._attempt(gang, rank)
        made.blocked, made.cluster = self.blocked, self.cluster
        if self._admission.shares.active:
            made.unsettled = self._has_reordered()
        return made

    @property
    def placements(self) -> int:
        """How many gangs this pass has placed."""
        return self._reasons.placements

    @property
    def blocked(self) -> Sequence[Blocked]:
        """The gangs that lack capacity, with what is reserved for them on the timeline ``cluster``."""
        return () if self._reservations is None else self._reservations.blocked

    @property
    def cluster(self) -> ClusterTimeline | None:
        """The timeline of this pass, None if it has needed none."""
        return None if self._reservations is None else self._reservations.cluster

    def _has_reordered(self) -> bool:
        """Return whether other gangs than before were unable to start, which may change the order of the rest."""
        gangs, made = self._view.registry.gangs, self._made
        reasons = chain(made.explained, ((decided.key, decided.after.reason) for decided in made.decided))
        return any(
            was_unable_to_start(reason) != was_unable_to_start(gangs[key].reason) for key, reason in reasons
        )

    # Attempts.

    def _attempt(self, gang: Gang, rank: Rank) -> None:
        """Try a gang, unless the plans of other gangs have shown why it has no place."""
        limit, tried_anyway = self._limit(gang) if self._has_limits else (None, False)
        reason = None if tried_anyway else limit or self._known_reason(gang, rank)
        if reason is not None:
            if (gang.reason is not reason and gang.reason != reason) or gang.again_at < NEVER:
                self._made.explained.append((gang.key, reason))
            return
        if not gang.placeless():
            return
        if gang.key not in self._view.untried and not self._may_look(gang):
            self._made.postponed.append(gang.key)
            return
        if not self._may_plan(gang, rank):
            self._memory.failed_plans.defer(gang.key.namespace, rank)
            self._made.deferred.append(gang.key)
            return
        if not self.decide(gang, rank).placed:
            self._memory.failed_plans.note(gang.key.namespace)

    def _limit(self, gang: Gang) -> tuple[Reason | None, bool]:
        """Return the limit or quota that keeps a gang without places waiting, and whether the gang is tried anyway.

        It is tried if it has a reservation or a preemption, or if its queue takes back what it asks for. Within a pass,
        what is reached stays reached.
        """
        key, admission, placements = gang.key, self._admission, self._reasons.placements
        place = admission.usage.place(key)
        if place is None or place.runs:
            return None, False
        alike = place.queue, place.user, place.asks
        reached, takes_back, placed = self._reached.get(alike, (None, False, -1))
        if reached is None and placed != placements:
            reached = admission.limit_reached(place)
            over_quota = reached is not None and reached.code is ReasonCode.OVER_QUOTA
            takes_back = over_quota and self._view.queues.reclaims.may_reclaim(key, place.asks)
            # A reason that the gang has already is used again, because an object is quickly compared with itself.
            reached = gang.reason if gang.reason == reached else reached
            self._reached[alike] = reached, takes_back, placements
        limit = (admission.line_limit(key, place) if self._limits_lines else None) or reached
        if limit is None:
            return None, False
        return limit, takes_back or key in self._view.ends.blocked or key in self._preemptions

    def decide(self, gang: Gang, rank: Rank) -> Decided:
        """Plan a gang, whatever the plans of other gangs have shown, and count the places that it gets."""
        decided = Decided(gang.copy())
        decided.after.remember(again_at=NEVER)
        try:
            self._try(decided, rank)
        except Exception as error:
            # One gang that can't be planned must not keep the others from being placed.
            log.exception("a gang could not be planned", gang=str(gang.key))
            decided.after.remember(reason=planning_failed(error))
        self._made.decided.append(decided)
        if decided.placed:
            self._reasons.placements += 1
            self._preemption_useless.clear()
            self._admission.count(decided.after)
            self._view.quotas.note(decided.after)
        return decided

    def drop_preemption(self, decided: Decided) -> None:
        """End the preemption for a gang that has no place, without recording that as a decision."""
        self._preempting.end(decided.key, self._room)

    def _may_plan(self, gang: Gang, rank: Rank) -> bool:
        """Return whether a gang may be planned, given the failed plans of its namespace in this pass."""
        return has_begun(rank) or self._memory.failed_plans.may_plan(gang.key.namespace, rank)

    def _may_look(self, gang: Gang) -> bool:
        """Return whether a gang may be looked at now, and count the look at a large one."""
        large = self._view.large
        before = large.pace.left(gang.key.namespace)
        if not large.may_look(gang):
            return False
        counted = before - large.pace.left(gang.key.namespace)
        if counted:
            self._made.large.append((gang.key.namespace, len(gang.members)))
        return True

    def _known_reason(self, gang: Gang, rank: Rank) -> Reason | None:
        """Return why a gang has no place, as gangs with its demand have shown in this pass; None to try it.

        While the demand alone decides, the answer is known without a look at the gang or its place in line.
        """
        wish = self._memory.wishes.get(gang.key)
        if wish is None and self._shares_reasons:
            wish = self._wish(gang)
        demand = wish.demand if wish is not None and self._demand_decides and not gang.asks_since else None
        reason = None
        if wish is not None and demand is not None and self._preemption_useless.get(demand.priority):
            reason = self._reasons.of_others(demand, wish.duration or 0.0)
        return self._known_reason_in_line(gang, rank, wish) if reason is None else reason

    def _known_reason_in_line(self, gang: Gang, rank: Rank, wish: Wish | None) -> Reason | None:
        """Return the same, as it follows from what is kept for others at the gang's place in line."""
        demand = wish.demand if wish is not None and self._shares_reasons and not gang.asks_since else None
        if wish is None or demand is None or not self._is_preemption_useless(demand.priority):
            return None
        may_reserve, pending = self._may_reserve(gang), gang.pending()
        kept_room = self.kept_room(gang, rank, pending, wish.duration)
        if isinstance(kept_room, Reason):
            return None if may_reserve or gang.key in self._view.ends.blocked else kept_room
        if not (self._reasons.was_tried(demand) or self._was_tried(gang)):
            return None
        before = len(self._reasons.sizes)
        reason = self._reasons.of(gang, demand, kept_room, self._may_plan(gang, rank))
        counted = len(self._reasons.sizes) - before
        if counted:
            self._memory.failed_plans.note(gang.key.namespace, COUNT * counted)
        if may_reserve and reason is not None and reason.code in BLOCKED:
            return None
        self._demand_decides = not (self._has_limits or self._keeps_room) and self._is_queue_settled
        return reason

    @property
    def _is_queue_settled(self) -> bool:
        """Whether no later gang in line can get a reservation or be stopped by the queue."""
        reserved = self._reservations is not None and not self._reservations.may_add
        return reserved and self._order.cut is None and not self._is_first_come()

    def _was_tried(self, gang: Gang) -> bool:
        """Return whether a gang has passed all checks but that for room since it last changed."""
        return gang.reason is not None and gang.reason.code in NO_ROOM and gang.key not in self._view.untried

    def _wish(self, gang: Gang) -> Wish:
        """Find out what a gang asks for, and remember it."""
        ready = gang.pending()
        whole = len(ready) == len(gang.alive()) == gang.size and not gang.ended
        if not whole or any(map(_differs, ready)):
            wish = Wish(None, None)
        else:
            ends, calendar = self._admission.ends, self._view.calendar
            duration, fixed = ends.run_time([member.pod for member in ready], calendar)
            wish = Wish(self.demanded(gang, ready), duration if fixed else None)
        self._memory.wishes[gang.key] = wish
        return wish

    def demanded(self, gang: Gang, members: Sequence[Member]) -> Demanded:
        """Return what decides whether members have room; equal demands are one object."""
        # Nodes and devices that are held for a gang are open to it alone, so other gangs may get another result.
        keeper = gang.key if self._room.held_nodes.any_for(gang.key) else None
        priority = preempting_priority(members) if may_preempt(members) else -NEVER
        key = self._demands.key(gang, members, self._now), self._preemptions.overtaken_by(gang), keeper
        return self._memory.same(key, priority, lambda: self._demands.of(gang, members, self._now))

    def open_to(self, gang: Gang) -> Room:
        """Return the room as it is for a gang."""
        return self._room.open_to(gang.key, self._preemptions.overtaken_by(gang))

    def _is_preemption_useless(self, priority: float) -> bool:
        """Return whether preemption can't help gangs of that priority."""
        if priority not in self._preemption_useless:
            self._preemption_useless[priority] = self._preempting.is_useless(priority)
        return self._preemption_useless[priority]

    def _try(self, decided: Decided, rank: Rank) -> None:
        """Try to place a gang."""
        gang, now, size = decided.after, self._now, decided.after.size
        ready, placed, missing = need(gang, size)
        if not gang.begun and len(ready) < missing:
            return
        ready.sort(key=lambda member: rank_key(member.pod))
        # At least the ``fewest`` of the ready members get places together, or none does.
        ready, later, fewest = together(gang, ready, missing)
        needed_now = min(fewest, len(ready))
        ready, rule = self._admission.joining(gang, ready)
        allowed, over = self._admission.within_quota(gang, ready, fewest)
        # ``rule`` and ``over`` say why not all may get places. They stop the gang only if too few may.
        over_quota = over if allowed < fewest else None
        if self._is_stopped(decided, ready, fewest, rule if len(ready) < needed_now else None, over_quota):
            return
        if not placed and (gang.reason is None or gang.reason.lacks_members):
            decided.became_whole = f"{len(ready) + gang.ended} of {size} members are there"
        ready = ready[: max(allowed, fewest)]
        reason = over_quota or self._plan_as_many(decided, rank, ready, fewest)
        needed = places_needed(gang, size)
        if reason is not None:
            next_admission = min((member.refusals.next_admission(now) for member in ready), default=NEVER)
            gang.remember(again_at=next_admission)
            movable = any(member.assignment is not None for member in gang.pending())
            if missing > 0 and movable and not gang.begun and needed:
                # The others can't join the members that have places, so all get new places together.
                self._withdraw(decided)
            elif needed:
                # Only for members within the gang's size are others preempted.
                lacking = placeless_of(gang, ready)[:needed]
                decided.without_preemption = self._preemptions.behind(gang, reason)
                reason = self._consider(decided, lacking, reason)
            reason = self._preemptions.behind(gang, reason)
        reason = reason or over or rule
        if not needed:
            self._end_preemption(decided)
        decided.again |= bool(later) and reason is None
        gang.remember(reason=reason)
        self._block(gang, rank, placeless_of(gang, ready)[: places_needed(gang, size)])

    def _withdraw(self, decided: Decided) -> None:
        """Let a gang give back the places of its members that aren't bound; the next pass has the room."""
        decided.withdrawn = decided.again = True
        gang = decided.after
        for uid in [member.pod.uid for member in gang.members.values() if member.movable]:
            gang.change(uid, assignment=None)

    def _consider(self, decided: Decided, lacking: Sequence[Member], reason: Reason) -> Reason:
        """Find out whether to preempt for members that lack a place, and return why the gang waits after that."""
        new_reason, considered = self._preempting.consider(
            decided.after, lacking, reason, self._room, self._demands
        )
        if considered is not None:
            decided.considered.append(considered)
        self._shares_reasons = self._shares_reasons and not self._preemptions
        return new_reason

    def _avoided(self) -> frozenset[str]:
        """Return the nodes of the reservations ahead of the gang that is tried."""
        return self._reservations.nodes() if self._reservations is not None else frozenset()

    def _end_preemption(self, decided: Decided) -> None:
        """End the preemption for a gang that needs nothing more."""
        considered = self._preempting.end(decided.key, self._room)
        if considered is not None:
            decided.considered.append(considered)

    def _is_stopped(
        self,
        decided: Decided,
        ready: list[Member],
        fewest: int,
        rule: Reason | None,
        over_quota: Reason | None,
    ) -> bool:
        """Return whether something other than a lack of room keeps a gang from being tried, and record what it is.

        The ``fewest`` of its members have to get places together. If there is a ``rule`` against that, or if their
        queue is ``over_quota`` with them, it says why.
        """
        gang = decided.after
        obstacle = (
            self._admission.limit(gang)
            or rule
            or invalid(ready)
            or self._preempting.eviction_of(gang)
            or self._preemptions.device_conflict(gang, ready)
            or self._over_quota(decided, ready, fewest, over_quota)
            or self._uncounted(decided, ready)
        )
        if obstacle is not None:
            gang.remember(reason=obstacle)
        return obstacle is not None

    def _uncounted(self, decided: Decided, ready: Sequence[Member]) -> Reason | None:
        """Return a reason to wait while nodes aren't counted for the gang's claims, None once they are."""
        if self._room.claims.prepare(member.pod.claims for member in ready):
            return None
        decided.again = True
        return UNCOUNTED

    def _over_quota(
        self, decided: Decided, ready: Sequence[Member], fewest: int, over_quota: Reason | None
    ) -> Reason | None:
        """Return the reason if a quota keeps a gang from its places, None if none does.

        The quota of the namespace needs room for all expected pods among the members, and that of the queue for the
        ``fewest``, unless the queue takes back what they need. A gang that was placed only in part gives its places
        back.
        """
        gang = decided.after
        reason = self._view.quotas.obstacle(gang, ready)
        if reason is not None:
            # Until its namespace has room, a rule keeps a gang without places from being tried.
            decided.again |= not has_places(gang)
            gang.remember(again_at=self._view.quotas.uncreated.until(gang.key.namespace))
        elif over_quota is None or self._preempting.takes_back(gang, ready[:fewest]):
            return None
        else:
            reason = over_quota
        some_placed = any(member.assignment is not None for member in gang.pending())
        if some_placed and not gang.begun and places_needed(gang, gang.size):
            # The other members can't join those that have places, so all places are given back.
            self._withdraw(decided)
        return reason

    # Places.

    def _plan_as_many(self, decided: Decided, rank: Rank, ready: list[Member], fewest: int) -> Reason | None:
        """Place all of ``ready``, or else the ``fewest`` that are needed, and then each other one that fits.

        Return why some have no place, None if all have one. A gang that runs needs no members together, so each member
        is placed by itself.
        """
        gang = decided.after
        kept_room = self.kept_room(gang, rank, ready)
        if isinstance(kept_room, Reason):
            return kept_room
        # If the pool lacks room for all members, only fewer of them are planned.
        all_at_once = len(ready) <= fewest or kept_room.pool_reason is None
        reason = self._plan(decided, ready, kept_room) if all_at_once else kept_room.pool_reason
        if reason is None or len(ready) <= fewest:
            return reason
        needed = 0 if gang.begun and gang.was_complete else fewest
        if needed:
            kept_room_needed = self.kept_room(gang, rank, ready[:needed])
            if isinstance(kept_room_needed, Reason):
                return kept_room_needed
            needed_reason = self._plan(decided, ready[:needed], kept_room_needed)
            if needed_reason is not None:
                return needed_reason
        each_reason = self._plan_each(decided, rank, ready[needed:])
        # That the pool lacked room for all at once doesn't matter if each of the other members has a place.
        return reason if kept_room.pool_reason is None else each_reason

    def _plan(self, decided: Decided, members: list[Member], kept_room: KeptRoom) -> Reason | None:
        """Place all of ``members`` or return why not. A demand that has failed isn't planned again."""
        gang = decided.after
        demand = self.demanded(gang, members)
        self._reasons.note_tried(demand)
        reason = self._reasons.of(gang, demand, kept_room)
        if reason is not None:
            return reason
        reason = self._place(decided, members, kept_room)
        if reason is None:
            return None
        self._reasons.note(demand, reason, kept_room)
        return reason_to_tell(reason, kept_room.pool_reason)

    def _place(self, decided: Decided, members: list[Member], kept_room: KeptRoom) -> Reason | None:
        """Find places for members, and take them from the room; return why there are none."""
        gang, room = decided.after, self.open_to(decided.after)
        places = self._find(room, gang, members, kept_room)
        if isinstance(places, Reason):
            return places
        pods = [member.pod for member in members]
        self._room.occupy(zip(pods, places, strict=True), gang.key)
        own = {member.assignment.node for member in gang.alive() if member.assignment is not None}
        record = PlaceRecord(gang.key, gang.size, gang.queue)
        for member, place in zip(members, places, strict=True):
            decided.placed.append(gang.change(member.pod.uid, assignment=place, record=record))
        if self._reservations is None:
            self._placed.extend(pods)
        else:
            demands = [Demand(pod) for pod in pods]
            self._reservations.cluster.start(demands, places, own, self._view.calendar + kept_room.duration)
        return None

    def _find(
        self, room: Room, gang: Gang, members: Sequence[Member], kept_room: KeptRoom
    ) -> Sequence[Assignment] | Reason:
        """Return places for all of ``members`` in a room of their gang, or why there are none."""
        demands, settled = self._demands.of(gang, members, self._now), self._demands.settled(gang)
        if not kept_room.free and kept_room.pool_reason is None:
            places = self.planner.find(kept_room.left_of(room), demands, settled)
            if places is not None:
                return places
        try:
            places = self.planner.plan(room, demands, settled)
        except GangRefused as refused:
            return refused.reason
        return places if kept_room.free else kept_room.reason

    def _plan_each(self, decided: Decided, rank: Rank, beyond: list[Member]) -> Reason | None:
        """Place those of the members ``beyond`` that fit, each by itself, in turns if there are many.

        Return why the first that was tried and has no place has none, None if each that was tried has one.
        """
        gang, reason = decided.after, None
        start = self._memory.beyond.pop(gang.key, 0)
        hopeless: set[object] = set()
        plans = max(MOST_LOOKED_AT // len(gang.members), 1)
        for at, member in enumerate(beyond[start:] + beyond[:start], start + 1):
            kind = self._demands.key(gang, [member], self._now), member.pod.duration
            if kind in hopeless:
                continue
            plans -= 1
            kept_room = self.kept_room(gang, rank, [member])
            if isinstance(kept_room, Reason):
                return kept_room
            why = kept_room.pool_reason or self._place(decided, [member], kept_room)
            if why is not None:
                reason = reason or why
                hopeless.add(kind)
            else:
                # More of them may fit, so the next pass goes on.
                decided.again = True
            if len(hopeless) >= MOST_HOPELESS or not plans:
                # The next attempt begins with the others.
                self._memory.beyond[gang.key] = at % len(beyond)
                break
        return reason

    # The queue.

    def _stops(self, rank: Rank) -> Reason | None:
        """Return why the queue doesn't let a gang of that rank be tried, whatever it asks for; None if it lets it."""
        if has_begun(rank):
            return None
        cut = self._order.cut
        if cut is not None and rank > cut:
            return BEYOND_DEPTH
        stops = self._is_first_come() and self._reservations is not None and self._reservations.any_possible
        return AFTER_BLOCKED if stops else None

    def kept_room(
        self, gang: Gang, rank: Rank, members: Sequence[Member], duration: float | None = None
    ) -> KeptRoom | Reason:
        """Return what is kept for others from the view of a gang that wants to place members, or why it isn't tried."""
        stopped = self._stops(rank)
        if stopped is not None:
            return stopped
        if duration is None:
            duration = self._admission.ends.duration([member.pod for member in members], self._view.calendar)
        kept = None
        closing: tuple[str, ...] = ()
        if self._reservations is not None and (has_begun(rank) or not self._is_first_come()):
            kept = self._reservations.cluster.kept_within(duration)
        if not has_begun(rank) and self._view.queues.settings.reservations:
            closing = self._closed.closing(self._admission.queue_name(gang), duration)
        closed = Hold(closed=self._closed.of(closing)) if closing else None
        pool_reason = self._pool_reason(gang, members, duration) if self._keeps_room else None
        return KeptRoom(kept, closed, closing, pool_reason, duration)

    def _is_first_come(self) -> bool:
        return self._policy.policy is PolicyName.FCFS

    def _pool_reason(self, gang: Gang, members: Sequence[Member], duration: float) -> Reason | None:
        """Return why the pool has no room for members of a gang, None if it has."""
        pool, share = self._pool, self._pool.share(gang, members)
        if share is None:
            return None
        reason = pool.obstacle(share, Resources.total(member.pod.amounts for member in members))
        if reason is not None or self._reservations is None:
            return reason
        return pool.behind(share, self._reservations.ahead_in_pool(), self._view.calendar, duration)

    def _may_reserve(self, gang: Gang) -> bool:
        """Return whether a blocked gang may get a reservation."""
        if self._reservations is not None:
            return self._reservations.may_add
        return self._unreserved < self._policy.depth or self._is_judged(gang)

    def _is_judged(self, gang: Gang) -> bool:
        """Return whether a blocked gang may get a reservation or drained nodes, or stops the gangs behind it."""
        if self._is_first_come():
            return True
        starves = self._view.calendar - gang.created[0] >= self._policy.starvation_after
        any_end = self._view.ends.any_known or bool(self._view.queues.settings.reservations)
        return self._policy.depth > 0 and (any_end or starves)

    def _reserve(self) -> Reservations:
        """Return the reservations of this pass. The first call takes time in proportion to the size of the cluster."""
        if self._reservations is None:
            ends, cluster = self._view.ends, self._timeline()
            before = {old.key: old for old in moved_to(cluster, ends.cluster, ends.blocked.values())}
            operators = self._closed.on_rows(cluster.rows)
            self._reservations = Reservations(
                cluster, self._pool, self._policy, operators, before, self._view.grew
            )
        return self._reservations

    def _timeline(self) -> ClusterTimeline:
        """Return the timeline of the room: that of the last pass if nothing has changed since."""
        ends, calendar = self._view.ends, self._view.calendar
        if ends.cluster is not None and ends.cluster.revision == ends.revision and not self._placed:
            renewed = ends.cluster.renewed(self._room, calendar)
            if renewed is not None:
                return renewed
        placed = {pod.uid: self._admission.ends.end(pod, calendar) for pod in self._placed}
        declared = DeclaredEnds(ends.leaving, ends.own, placed)
        cluster = cluster_timeline(self._room, declared, self.planner, calendar)
        cluster.revision = None if self._placed else ends.revision
        return cluster

    def _block(self, gang: Gang, rank: Rank, lacking: Sequence[Member]) -> None:
        """Reserve room for a gang if it is blocked and may get a reservation."""
        blocked = lacking and gang.reason is not None and gang.reason.code in BLOCKED
        if not blocked or not self._may_reserve(gang):
            return
        if self._reservations is None and not self._is_judged(gang):
            self._unreserved += 1
            starving = gang.created[0] + self._policy.starvation_after - self._view.calendar
            gang.remember(again_at=min(gang.again_at, self._now + starving))
            return
        self._reserve().block(*self._later(gang, rank, lacking))

    def expected_start(self, gang: Gang, rank: Rank) -> float | None:
        """Return when a gang that was just tried in vain will start, None if that doesn't follow from known ends."""
        if not self._view.ends.any_known:
            return None
        reservations = self._reserve()
        own = next((blocked.reservation for blocked in reservations.blocked if blocked.key == gang.key), None)
        if own is not None:
            return own.start if own.start < NEVER else None
        lacking = gang.placeless()
        return reservations.start(*self._later(gang, rank, lacking[: places_needed(gang, gang.size) or None]))

    def _later(self, gang: Gang, rank: Rank, lacking: Sequence[Member]) -> tuple[Blocked, Request]:
        """Return the request to place members of a gang later."""
        calendar = self._view.calendar
        overtaken, share = self._preemptions.overtaken_by(gang), self._pool.share(gang, lacking)
        demands = tuple(self._demands.of(gang, lacking, self._now))
        request = Request(gang.key, demands, tuple(self._demands.settled(gang)), overtaken)
        alike = self._demands.key(gang, lacking, self._now), overtaken, share
        duration = self._admission.ends.duration([member.pod for member in lacking], calendar)
        key = entry_key(gang.key)
        entry = Entry(key, (), gang.created, duration, where=key, queue=self._admission.queue_name(gang))
        return Blocked(gang.key, rank, entry, alike, share), request


def _differs(member: Member) -> bool:
    """Return whether a member may get another answer than a member with the same demand that was never placed."""
    placed = member.assignment is not None
    return placed or bool(member.refusals.excluded or foreign_gates(member.pod))
