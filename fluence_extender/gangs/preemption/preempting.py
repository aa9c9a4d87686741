"""The part of preemption that a pass decides: whether others are preempted for a gang, and which.

A gang that lacks capacity and may preempt is planned as if its victims were gone, and the nodes of that plan are held
for it. `manager` carries the decisions out.

Invariants: a pass searches for victims only for the first few gangs, and it changes nothing but its own view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.demands import Demands
from fluence_extender.gangs.preemption.preemptions import (
    Departures,
    Preemption,
    Preemptions,
    may_preempt,
    preempting_priority,
)
from fluence_extender.gangs.preemption.search import SearchResult, Victim, VictimQuery, search, usable_nodes
from fluence_extender.gangs.queue.guarantees import NOTHING_RECLAIMABLE, Reclaimable, Reclaims
from fluence_extender.gangs.queue.submissions import precedence
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.room import Room

OTHERS_BUDGETS = "PodDisruptionBudgets of other namespaces forbid evictions"

SEARCHES = 4
"""The most gangs without a preemption for which one pass searches. Later gangs have their turn in the next pass."""

Protected = Mapping[tuple[GangKey, GangKey], tuple[float, str]]
"""For a preemptor and a victim: until when disruption budgets forbid the eviction, and why."""


@dataclass(frozen=True, slots=True)
class PreemptionFacts:
    """The preemptions under way when a pass begins.

    ``preemptions`` are copies. ``not_before`` says for some gangs when victims may be searched for again. The pass
    searches for victims for at most ``searches`` gangs without a preemption.
    """

    preemptions: Preemptions
    departures: Departures
    protected: Protected
    not_before: Mapping[GangKey, float]
    limits: Limits
    searches: int = SEARCHES


@dataclass(frozen=True, slots=True)
class Considered:
    """What was decided about the preemption for a gang.

    ``begins`` is a new preemption for it, None if there is no new one. ``places`` are to be held for its members; they
    are empty if what is held stays as it is. Without a preemption nothing is held, and ``places`` says where the
    members go once pods that depart anyway are gone. ``ends`` says that a preemption under way ends. ``searched`` says
    that victims were searched for. ``lacking`` has the uids of the members that ``begins`` is for.
    """

    begins: Preemption | None = None
    places: tuple[Assignment, ...] = ()
    ends: bool = False
    searched: bool = False
    lacking: tuple[str, ...] = ()


class Preempting:
    """Decides on preemptions in one pass, which began at ``now``.

    ``registry`` has the gangs, and ``reclaims`` says what queues take back. ``avoided`` returns the nodes that are
    reserved for the gangs ahead of the one that is tried.
    """

    def __init__(
        self,
        facts: PreemptionFacts,
        registry: Registry,
        planner: Planner,
        reclaims: Reclaims,
        now: float,
        avoided: Callable[[], frozenset[str]],
    ) -> None:
        self.preemptions = facts.preemptions
        self._facts = facts
        self._registry = registry
        self._planner = planner
        self._reclaims = reclaims
        self._now = now
        self._avoided = avoided
        self._searches_left = facts.searches

    def eviction_of(self, gang: Gang) -> Reason | None:
        """Return why a gang is being evicted, None if it isn't."""
        return self._facts.departures.evicted.get(gang.key)

    def is_useless(self, priority: float) -> bool:
        """Return whether preemption can't help gangs of that preempting priority, because no pod could be evicted."""
        return not self.preemptions and not self._facts.departures.evicted and not self._may_help(priority)

    def takes_back(self, gang: Gang, members: Iterable[Member]) -> bool:
        """Return whether the guarantee of its queue lets the gang evict gangs of other queues."""
        return self._reclaims.may_reclaim(gang.key, Resources.total(member.pod.amounts for member in members))

    def end(self, key: GangKey, room: Room) -> Considered | None:
        """End the preemption for a gang; return that as a decision, None if there is none."""
        if key not in self.preemptions and not room.held_nodes.nodes(HoldKind.PREEMPTION, key):
            return None
        self.preemptions.pop(key, None)
        room.held_nodes.hold(HoldKind.PREEMPTION, key, ())
        return Considered(ends=True)

    def consider(
        self, gang: Gang, members: Sequence[Member], reason: Reason, room: Room, demands: Demands
    ) -> tuple[Reason, Considered | None]:
        """Decide whether to preempt for ``members`` without a place or a quota; return why the gang waits then."""
        if reason.code not in (ReasonCode.BUSY, ReasonCode.OVER_QUOTA) or not may_preempt(members):
            return reason, self.end(gang.key, room)
        before = self.preemptions.get(gang.key)
        if before is None:
            if not self._may_help(preempting_priority(members)) and not self.takes_back(gang, members):
                return reason, None
            not_before = self._facts.not_before.get(gang.key, 0.0)
            if self._now < not_before or self._searches_left <= 0:
                _look_again(gang, not_before if self._now < not_before else self._now)
                return self._with_budget(gang, reason), None
            self._searches_left -= 1
        result = self._find(gang, members, before, room, demands)
        if result is None:
            if self._any_binding_below(preempting_priority(members)):
                _look_again(gang, self._now + self._facts.limits.preempt_again)
            ended = self.end(gang.key, room)
            return self._with_budget(gang, reason), Considered(
                ends=ended is not None, searched=before is None
            )
        if before is None and not result.victims:
            return reason, Considered(places=result.places, searched=True)
        begins = self._new_preemption(gang, members, result.victims, before) if result.victims else None
        preemption = begins or before
        assert preemption is not None, "without victims there was a preemption before"
        moved = any(
            member.held_node != place.node for member, place in zip(members, result.places, strict=True)
        )
        places = result.places if begins is not None or moved else ()
        if places:
            nodes = {place.node for place in places}
            room.held_nodes.hold(HoldKind.PREEMPTION, gang.key, nodes)
        self.preemptions[gang.key] = preemption
        departures, patience = self._facts.departures, self._facts.limits.leaving
        _look_again(gang, departures.next_late(preemption.pods, self._now))
        new_reason = preemption.reason(gang.key.namespace, room.facts.holdings, departures.late, patience)
        return new_reason, Considered(
            begins, places, searched=True, lacking=tuple(member.pod.uid for member in members)
        )

    def _new_preemption(
        self, gang: Gang, members: Sequence[Member], victims: tuple[Victim, ...], before: Preemption | None
    ) -> Preemption:
        """Return a new preemption for the gang, which replaces the one ``before``."""
        preemption = Preemption(
            priority=preempting_priority(members),
            device_types=frozenset(kind for member in members for kind in member.pod.devices),
            order=precedence(gang),
            victims=victims,
            reclaimed=frozenset(victim.gang for victim in victims if victim.borrowed),
        )
        if before is not None and before.granted:
            preemption.pods = dict(before.pods)
        for victim in victims:
            victim_gang = self._registry.gangs.get(victim.gang)
            by_uid = victim_gang.members if victim_gang is not None else {}
            preemption.pods.update(
                (uid, by_uid[uid].pod) for uid in victim.uids if uid in by_uid and by_uid[uid].runs
            )
        return preemption

    # The search.

    def _may_help(self, priority: float) -> bool:
        """Return whether a search may find places for a gang of that preempting priority."""
        if self._facts.protected or self._registry.lowest_priority < priority:
            return True
        return priority > -math.inf and bool(self._facts.departures.pods())

    def _find(
        self, gang: Gang, members: Sequence[Member], before: Preemption | None, room: Room, demands: Demands
    ) -> SearchResult | None:
        """Return the victims that are needed besides the departing pods, and where the members will go.

        If that doesn't help a preemptor, it also waits for pods that terminate too slowly. Return None if no eviction
        would help.
        """
        for patient in (False, True) if before is not None else (False,):
            query = self._query(gang, members, before, patient, demands)
            if query.departing or query.reclaimable or self._registry.lowest_priority < query.priority:
                result = search(self._registry.gangs.values(), room, self._planner, query)
                if result is not None:
                    return result
        return None

    def _query(
        self,
        gang: Gang,
        members: Sequence[Member],
        before: Preemption | None,
        patient: bool,
        demands: Demands,
    ) -> VictimQuery:
        protected = set()
        for (key, victim), (until, _) in self._facts.protected.items():
            if key == gang.key and until > self._now:
                _look_again(gang, until)
                protected.add(victim)
        reclaimable, departures = self._reclaimable(gang, members), self._facts.departures
        _look_again(gang, self._now + reclaimable.again_in)
        protected |= reclaimable.protected
        return VictimQuery(
            gang.key,
            demands.of(gang, members, self._now, self._avoided()),
            demands.settled(gang),
            departures.pods(before, patient),
            preempting_priority(members),
            lambda other: (
                other.key != gang.key and other.key not in protected and other.key not in departures.evicted
            ),
            usable_nodes(self._planner, [member.pod for member in members]),
            self.preemptions.overtaken_by(gang),
            reclaimable.reclaimable,
            self._reclaims.quota_room(gang, members),
        )

    def _reclaimable(self, gang: Gang, members: Sequence[Member]) -> Reclaimable:
        """Return the victims that the gang may have by the guarantee of its queue."""
        if not self._reclaims.active:
            return NOTHING_RECLAIMABLE
        taken = {victim.gang for preemption in self.preemptions.values() for victim in preemption.victims}
        return self._reclaims.reclaimable(gang, members, taken | self._facts.departures.evicted.keys())

    def _any_binding_below(self, priority: int) -> bool:
        """Return whether a gang of lower priority may become a victim as soon as its Bindings are over."""
        if self._registry.lowest_priority >= priority:
            return False
        gangs = self._registry.gangs.values()
        return any(
            member.binding and member.pod.priority < priority
            for gang in gangs
            for member in gang.members.values()
        )

    def _with_budget(self, gang: Gang, reason: Reason) -> Reason:
        """Return ``reason``, extended by a budget that forbids evictions for the gang if there is one."""
        forbidden = sorted(
            (text, victim)
            for (key, victim), (until, text) in self._facts.protected.items()
            if key == gang.key and until > self._now
        )
        if not forbidden:
            return reason
        own = [text for text, victim in forbidden if victim.namespace == gang.key.namespace]
        first, victim = forbidden[0]
        return reason.followed_by(
            own[0] if own else OTHERS_BUDGETS, WithNames(first, frozenset({victim.namespace}))
        )


def _look_again(gang: Gang, at: float) -> None:
    """Have a gang tried again at a time, or earlier."""
    gang.remember(again_at=min(gang.again_at, at))
