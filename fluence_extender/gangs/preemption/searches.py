"""One search for victims at a time, a little of it in each step, for whichever gang comes first.

Invariants: what the searches of one step cost stays below a limit, but for the last part of one; what was found in
several steps is confirmed on the ledger as it is before anybody acts on it; a search that its gang doesn't go on
with in each round of attempts is given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.confirming import confirm
from fluence_extender.gangs.preemption.evictions import Evictions
from fluence_extender.gangs.preemption.going import Going
from fluence_extender.gangs.preemption.precedence import Precedence, lowest_priority
from fluence_extender.gangs.preemption.preempting import Preempting
from fluence_extender.gangs.preemption.victim_search import A_POD, Found, Query, VictimSearch, search, usable
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.ranks import rank_key

NOBODY = Found((), ())
"""Nobody's going would help."""


class Searches:
    """See the module docstring. ``a_step`` is what they may cost in one; ``evictions`` are who makes way already."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        planner: Planner,
        going: Going,
        evictions: Evictions,
        precedence: Precedence,
        a_step: int,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._planner = planner
        self._going = going
        self._evictions = evictions
        self._precedence = precedence
        self._a_step = a_step
        self._forbidden: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        self._running: VictimSearch | None = None
        self._round = 0
        self._left = 0

    def begin(self) -> None:
        """A round of attempts begins. A search that the last one didn't go on with is wanted no more."""
        if self._running is not None and self._running.round != self._round:
            self._running = None
        self._round += 1
        self._left = self._a_step

    @property
    def under_way(self) -> bool:
        """Whether a search goes on in the next step."""
        return self._running is not None

    @property
    def busy(self) -> bool:
        """Whether no other search can begin in this step."""
        return self._running is not None or self._left <= 0

    def order(self, gang: Gang, members: list[Member]) -> None:
        """Sort members of ``gang`` that need a place in the order of their ranks."""
        running = self._running
        if running is None or running.query.key != gang.key or not running.order(members):
            members.sort(key=lambda member: rank_key(member.pod))

    def known_reason(self, gang: Gang) -> Reason | None:
        """Why the gang that is searched for has no place, as long as the ledger is as when that was found."""
        running = self._running
        if running is not None and running.query.key == gang.key and running.version == self._ledger.version:
            return running.reason
        return None

    def running_for(self, gang: Gang, members: Sequence[Member]) -> VictimSearch | None:
        """The search that is under way for just these members."""
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
        known: Preempting | None,
        now: float,
        running: VictimSearch | None,
        patient: bool = False,
    ) -> Found | None:
        """The victims that are needed beside those who are going already, and where the members will go.

        ``running`` is the search that is under way for them; None to begin one, if that is wanted. `NOBODY` when that
        wouldn't help; None while it isn't known yet.
        """
        if running is None:
            if known is not None and self._enough_go(gang, members, known, now, patient):
                return Found((), tuple(Assignment(member.pod.uid, member.kept) for member in members))
            query = self._query(gang, members, known, now, patient)
            found = None
            if query.going or self._registry.lowest_priority < query.priority:
                if self._running is not None:
                    return None
                running = self._running = search(self._registry, self._ledger, self._planner, query)
                # That it has no place was found out in the same step.
                self._left -= A_POD * len(members)
        if running is not None:
            running.round, patient = self._round, running.query.patient
            if running.over and running.found is not None:
                # What was found in several steps is confirmed in steps of its own.
                query = self._query(gang, members, known, now, patient)
                running.confirm(confirm(self._registry, self._ledger, self._planner, query, running.found))
            self._left = running.go_on(self._left)
            found = running.found
            if not running.over or (found is not None and running.steps > 1 and not running.confirming):
                return None
            self._running = None
            if found is None and running.confirming:
                return None
        if found is None and known is not None and not patient:
            # Nobody else can make way: who has been going for too long is waited for all the same.
            return self.find(gang, members, known, now, None, patient=True)
        return found or NOBODY

    def _enough_go(
        self, gang: Gang, members: Sequence[Member], known: Preempting, now: float, patient: bool
    ) -> bool:
        """Whether the nodes that are kept for ``members`` will do, once those have gone who are going."""
        if known.hope is None or not all(member.kept for member in members):
            return False
        going = partial(self._going.has, known=known, now=now, patient=patient)
        return known.hope.good_everywhere(going, self._precedence.passes(gang))

    def _query(
        self, gang: Gang, members: Sequence[Member], known: Preempting | None, now: float, patient: bool
    ) -> Query:
        untouchable = set()
        for (key, victim), (until, _) in self._forbidden.items():
            if key == gang.key and until > now:
                gang.try_again_at = min(gang.try_again_at, until)
                untouchable.add(victim)
        return Query(
            gang.key,
            self._places.demands(members, now),
            self._places.settled(gang),
            self._going.all(known, now, patient),
            lowest_priority(members),
            lambda one: one is not gang and one.key not in untouchable and one.key not in self._evictions,
            usable(self._planner, [member.pod for member in members]),
            self._precedence.passes(gang),
            patient,
        )

    def forbid(self, key: GangKey, victim: GangKey, until: float, why: str) -> None:
        """Budgets don't allow that ``victim`` goes for the gang ``key``: it isn't taken before ``until``."""
        self._forbidden[key, victim] = (until, why)

    def in_vain(self, gang: Gang, reason: Reason, now: float) -> Reason:
        """``reason`` with the budgets that stand in the way."""
        self._forbidden = {pair: one for pair, one in self._forbidden.items() if one[0] > now}
        why = sorted(text for (key, _), (_, text) in self._forbidden.items() if key == gang.key)
        return Reason(reason.code, f"{reason.text}; {why[0]}") if why else reason

    def forget(self) -> None:
        """Search no more, and forget whom budgets protect."""
        self._forbidden.clear()
        self._running = None
