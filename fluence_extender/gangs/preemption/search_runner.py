"""Runs one search for victims at a time, a part of it in each step, for the gang that comes first.

Invariants: the searches of one step cost no more than a limit, except for the last piece of a search. A result that
took several steps is confirmed on the present ledger before anything acts on it. A search is dropped if its gang does
not continue it in each round of attempts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.evictions import Evictions
from fluence_extender.gangs.preemption.preemptions import Preemption, Preemptions, preempting_priority
from fluence_extender.gangs.preemption.search import (
    POD_COST,
    Found,
    VictimQuery,
    VictimSearch,
    confirm,
    search,
    usable_nodes,
)
from fluence_extender.gangs.queue.reclaims import NO_CLAIM, QuotaRoom, Reclaims, VictimClaim
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.ranks import rank_key
from fluence_extender.room.ledger import Ledger

IN_VAIN = Found((), ())
"""The result of a search for a gang that no eviction would help."""

OTHERS_BUDGETS = "PodDisruptionBudgets of other namespaces forbid evictions"


class SearchRunner:
    """Runs searches; ``step_budget`` is the most that they may cost in one step."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        planner: Planner,
        evictions: Evictions,
        preemptions: Preemptions,
        reclaims: Reclaims,
        step_budget: int,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._planner = planner
        self._evictions = evictions
        self._preemptions = preemptions
        self._reclaims = reclaims
        self._step_budget = step_budget
        self._protected: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        self._running: VictimSearch | None = None
        self._round = 0
        self._budget = 0

    def begin_round(self) -> None:
        """Begin a round of attempts, and drop a search that the last round did not continue."""
        if self._running is not None and self._running.round != self._round:
            self._running = None
        self._round += 1
        self._budget = self._step_budget

    @property
    def gang(self) -> GangKey | None:
        """Return the gang whose search continues in the next step, None for none."""
        return None if self._running is None else self._running.query.key

    @property
    def under_way(self) -> bool:
        """Return whether a search continues in the next step."""
        return self._running is not None

    @property
    def busy(self) -> bool:
        """Return whether no other search can begin in this step."""
        return self._running is not None or self._budget <= 0

    def may_take_back(self, gang: Gang, members: Sequence[Member]) -> bool:
        """Return whether the gang may take gangs of other queues regardless of their priority."""
        return self._reclaims.is_owed(gang.key, Resources.total(one.pod.amounts for one in members))

    def gave_way(self, key: GangKey) -> None:
        """Note that a gang takes no places any more that others in its queue may want."""
        self._reclaims.gave_way(key)

    def quota_room(self, gang: Gang, members: Sequence[Member]) -> QuotaRoom | None:
        """Return a function that says whether quotas have room without some pods, None if they have room anyway."""
        return self._reclaims.quota_room(gang, members)

    def may_help(self, priority: float, now: float) -> bool:
        """Return whether a search may find places for a gang of that preempting priority, or has more to do."""
        if self._running is not None or self._protected or self._registry.lowest_priority < priority:
            return True
        return priority > -math.inf and bool(self._evictions.departing(None, now))

    def order(self, gang: Gang, members: list[Member]) -> None:
        """Sort members of ``gang`` that need a place as the running search has them, otherwise by rank."""
        running = self._running
        if running is None or running.query.key != gang.key or not running.order(members):
            members.sort(key=lambda member: rank_key(member.pod))

    def known_reason(self, gang: Gang) -> Reason | None:
        """Return why the gang of the running search has no place, None if the ledger has changed since."""
        running = self._running
        if running is not None and running.query.key == gang.key and running.version == self._ledger.version:
            return running.reason
        return None

    def running_for(self, gang: Gang, members: Sequence[Member]) -> VictimSearch | None:
        """Return the search that is under way for exactly these members."""
        running = self._running
        if running is None or running.query.key != gang.key:
            return None
        if [demand.pod for demand in running.query.demands] == [member.pod for member in members]:
            return running
        self._running = None
        return None

    def find(
        self,
        gang: Gang,
        members: Sequence[Member],
        preemption: Preemption | None,
        now: float,
        running: VictimSearch | None,
        patient: bool = False,
    ) -> Found | None:
        """Return the victims that are needed besides the departing pods, and where the members will go.

        ``running`` is the search that is under way for them. If it is None, a search begins if one is needed. Return
        `IN_VAIN` if no eviction would help, and None as long as the result isn't known.
        """
        if running is None:
            if preemption is not None and self._enough_depart(gang, members, preemption, now, patient):
                return Found((), tuple(Assignment(member.pod.uid, member.held_node) for member in members))
            query = self._query(gang, members, preemption, now, patient)
            found = None
            if query.departing or not query.in_vain(self._registry.lowest_priority):
                if self._running is not None:
                    return None
                running = self._running = search(self._registry, self._ledger.room(), self._planner, query)
                # This step has already made a plan, which showed that the members have no place.
                self._budget -= POD_COST * len(members)
        if running is not None:
            running.round, patient = self._round, running.query.patient
            if running.over and running.found is not None:
                # A result that took several steps is confirmed in steps of its own.
                query = self._query(gang, members, preemption, now, patient)
                running.confirm(confirm(self._registry, self._ledger, self._planner, query, running.found))
            self._budget = running.proceed(self._budget)
            found = running.found
            if not running.over or (found is not None and running.steps > 1 and not running.confirming):
                return None
            self._running = None
            if found is None and running.confirming:
                return None
        if found is None and preemption is not None and not patient:
            # There are no other victims, so the gang waits even for pods that terminate too slowly.
            return self.find(gang, members, preemption, now, None, patient=True)
        return found or IN_VAIN

    def _enough_depart(
        self, gang: Gang, members: Sequence[Member], preemption: Preemption, now: float, patient: bool
    ) -> bool:
        """Return whether the nodes held for ``members`` suffice once the departing pods are gone."""
        if preemption.projection is None or not all(member.held_node for member in members):
            return False
        allowed = self.quota_room(gang, members)
        if allowed is not None and not allowed(self._evictions.departing(preemption, now, patient)):
            return False
        departs = partial(self._evictions.departs, preemption=preemption, now=now, patient=patient)
        return preemption.projection.good_everywhere(departs, self._preemptions.passes(gang))

    def _query(
        self, gang: Gang, members: Sequence[Member], preemption: Preemption | None, now: float, patient: bool
    ) -> VictimQuery:
        protected = set()
        for (key, victim), (until, _) in self._protected.items():
            if key == gang.key and until > now:
                gang.attempt.again_at = min(gang.attempt.again_at, until)
                protected.add(victim)
        claim = self._claim(gang, members)
        gang.attempt.again_at = min(gang.attempt.again_at, now + claim.again_in)
        protected |= claim.spared
        return VictimQuery(
            gang.key,
            self._places.demands(members, now, self._places.reserved(gang)),
            self._places.settled(gang),
            self._evictions.departing(preemption, now, patient),
            preempting_priority(members),
            lambda one: one is not gang and one.key not in protected and one.key not in self._evictions,
            usable_nodes(self._planner, [member.pod for member in members]),
            self._preemptions.passes(gang),
            patient,
            claim.owed,
            self.quota_room(gang, members),
        )

    def _claim(self, gang: Gang, members: Sequence[Member]) -> VictimClaim:
        """Return the victims that the gang may have by the guarantee of its queue."""
        if not self._reclaims.active:
            return NO_CLAIM
        taken = {victim.gang for one in self._preemptions.values() for victim in one.victims}
        return self._reclaims.claim(gang, members, self._evictions.gangs | taken)

    def protect(self, key: GangKey, victim: GangKey, until: float, why: str) -> None:
        """Note that disruption budgets forbid evicting ``victim`` for the gang ``key``, up to the time ``until``."""
        self._protected[key, victim] = (until, why)

    def in_vain(self, gang: Gang, reason: Reason, now: float) -> Reason:
        """Return ``reason`` extended by a budget that forbids evictions for the gang."""
        self._protected = {pair: one for pair, one in self._protected.items() if one[0] > now}
        found = sorted(
            (text, victim) for (key, victim), (_, text) in self._protected.items() if key == gang.key
        )
        if not found:
            return reason
        own = [text for text, victim in found if victim.namespace == gang.key.namespace]
        first, victim = found[0]
        return reason.followed_by(
            own[0] if own else OTHERS_BUDGETS, WithNames(first, frozenset({victim.namespace}))
        )

    def forget(self) -> None:
        """Drop the search, and forget which gangs budgets protect."""
        self._protected.clear()
        self._running = None
