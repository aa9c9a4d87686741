"""Making lower gangs make way: who is to go for whom, what is kept meanwhile, and until when.

A gang that has no place for want of room, and may preempt, gets the nodes of a plan on the cluster without its victims
kept; then its victims' disruption budgets are asked; then the victims are evicted, and the gang is planned like any
other as soon as the room is there. Invariants: who couldn't preempt a gang for which others make way is neither placed
on its nodes nor gets devices of its kinds; a gang whose eviction has begun is evicted to its last bound member, unless
it can do without the evicted ones; a victim's priority is lower than that of every member it makes way for, so chains
of preemptions end.

What outlives the process is in the cluster: the nodes that are kept, as nominations of pods that are still gated, and
the victims that are going. A new leader keeps those nodes first and then decides anew, counting on who is going.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from fluence_extender.gangs.actions import Action, AskBudgets, Keep
from fluence_extender.gangs.assembly import foreign_gates
from fluence_extender.gangs.confirming import confirm
from fluence_extender.gangs.evictions import Evictions
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.gangs.going import Going
from fluence_extender.gangs.leaving import Leaving
from fluence_extender.gangs.limits import Limits
from fluence_extender.gangs.making_way import full_order
from fluence_extender.gangs.places import Places
from fluence_extender.gangs.precedence import Precedence, lowest_priority, may_preempt, named
from fluence_extender.gangs.preempting import Preempting, Pressing
from fluence_extender.gangs.preemption import Victim
from fluence_extender.gangs.prospect import prospect
from fluence_extender.gangs.registry import Registry
from fluence_extender.gangs.victim_search import A_POD, Found, Query, VictimSearch, search
from fluence_extender.ledger.books import Books
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.ranks import rank_key

NOBODY = Found((), ())
"""Nobody's going would help."""


class Preemptor:
    """See the module docstring. ``evictions`` are those who make way, ``precedence`` says who is in front of whom."""

    def __init__(
        self,
        registry: Registry,
        books: Books,
        places: Places,
        planner: Planner,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._books = books
        self._places = places
        self._planner = planner
        self._limits = limits
        self._clock = clock
        self._of: dict[GangKey, Preempting] = {}
        self._leaving = Leaving(books.holdings, limits.leaving, clock)
        self._forbidden: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        self._next_search: dict[GangKey, float] = {}
        self._running: VictimSearch | None = None
        self._deferred: set[GangKey] = set()
        self._round = 0
        self._left = 0
        self.evictions = Evictions(registry, places, limits, self._of, self._leaving.__contains__)
        self._going = Going(books.holdings, self._leaving, self.evictions)
        self.precedence = Precedence(books, self._of, self.evictions)
        places.passes = self.precedence.passes

    # Deciding.

    def begin(self) -> None:
        """A round of attempts begins. A search that the last one didn't go on with is wanted no more."""
        if self._running is not None and self._running.round != self._round:
            self._running = None
        self._round += 1
        self._left = self._limits.search_step

    @property
    def searching(self) -> bool:
        """Whether victims are being looked for, so that another step is wanted at once."""
        return self._running is not None

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return (
            self.searching
            or self.evictions.due
            or any(one.fresh or not one.asked for one in self._of.values())
        )

    def consider(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Reason:
        """Make others make way for ``members``, which have no place; the reason for which the gang waits now."""
        if reason.why is not Why.BUSY or not may_preempt(members):
            self.end(gang.key)
            return reason
        known = self._of.get(gang.key)
        waits = reason if known is None else self._reason(known, now)
        running = self._running_for(gang, members)
        if known is not None and running is None and self._only_planned(gang, known, reason, now):
            return waits
        if running is None:
            not_before = self._next_search.get(gang.key, 0.0)
            if known is None and (self._running is not None or self._left <= 0):
                self._deferred.add(gang.key)
                not_before = max(not_before, now + self._limits.preempt_again)
            if now < not_before:
                gang.try_again_at = min(gang.try_again_at, not_before)
                return waits
            self._next_search[gang.key] = now + self._limits.preempt_again
        found = self._search(gang, members, known, now, running)
        if found is None:
            running = self._running_for(gang, members)
            if running is not None:
                running.version, running.reason = self._books.version, reason
            gang.try_again_at = now if running is not None else now + self._limits.preempt_again
            return waits
        return self._decide(gang, members, known, found, reason, now)

    def _only_planned(self, gang: Gang, known: Preempting, reason: Reason, now: float) -> bool:
        """Whether planning the gang in vain was enough for one step: who goes is looked at in the next."""
        known.planned |= reason is not known.busy
        known.to_be_checked = known.planned and known.awaits(self._books.holdings)
        if known.planned:
            known.busy, known.plan_at, known.planned = reason, now + self._limits.preempt_again, False
        gang.try_again_at = min(gang.try_again_at, now if known.to_be_checked else known.plan_at)
        return known.to_be_checked

    def order(self, gang: Gang, members: list[Member]) -> None:
        """Sort members of ``gang`` that need a place in the order of their ranks."""
        running = self._running
        if running is None or running.query.key != gang.key or not running.order(members):
            members.sort(key=lambda member: rank_key(member.pod))

    def asked_already(self, gang: Gang, members: Iterable[Member], now: float) -> Reason | None:
        """Why the gang has no place, where that needn't be found out again.

        Either victims are looked for and the books are as when it was; or those whose room it is to have are there
        still, and it was planned in vain a moment ago.
        """
        running = self._running
        if running is not None and running.query.key == gang.key and running.version == self._books.version:
            return running.reason
        known = self._of.get(gang.key)
        if known is None or not known.awaits(self._books.holdings) or not all(one.kept for one in members):
            return None
        if known.to_be_checked or now < known.plan_at:
            return known.busy
        if known.hope is None or known.hope.may_fit_now(self.precedence.passes(gang)):
            return None
        known.planned = True
        return known.busy

    def _decide(
        self,
        gang: Gang,
        members: Sequence[Member],
        known: Preempting | None,
        found: Found,
        reason: Reason,
        now: float,
    ) -> Reason:
        if not found.places:
            self.end(gang.key)
            return self._in_vain(gang, reason, now)
        if known is None and not found.victims:
            return reason
        if known is None or found.victims:
            known = self._begin(gang, members, found.victims, known)
        if found.victims or known.hope is None or any(_kept_elsewhere(members, found.places)):
            self._keep(gang, members, found, known, now)
        known.busy, known.plan_at = reason, now + self._limits.preempt_again
        gang.try_again_at = min(gang.try_again_at, known.plan_at, self._leaving.next_late(known.pods, now))
        return self._reason(known, now)

    def _running_for(self, gang: Gang, members: Sequence[Member]) -> VictimSearch | None:
        """The search that is under way for just these members."""
        running = self._running
        if running is None or running.query.key != gang.key:
            return None
        if [wish.pod for wish in running.query.wishes] == [member.pod for member in members]:
            return running
        self._running = None
        return None

    def _search(
        self,
        gang: Gang,
        members: Sequence[Member],
        known: Preempting | None,
        now: float,
        running: VictimSearch | None,
        patient: bool = False,
    ) -> Found | None:
        """The victims that are needed beside those who are going already, and where the members will go.

        `NOBODY` when that wouldn't help; None while it isn't known yet.
        """
        if running is None:
            if known is not None and known.hope is not None and all(member.kept for member in members):
                going = partial(self._going.has, known=known, now=now, patient=patient)
                if known.hope.good_everywhere(going, self.precedence.passes(gang)):
                    places = tuple(Assignment(member.pod.uid, member.kept) for member in members)
                    return Found((), places)
            query = self._query(gang, members, known, now, patient)
            found = None
            if query.going or self._registry.lowest_priority < query.priority:
                if self._running is not None:
                    return None
                running = self._running = search(self._registry, self._books, self._planner, query)
                # That it has no place was found out in the same step.
                self._left -= A_POD * len(members)
        if running is not None:
            running.round, patient = self._round, running.query.patient
            if running.over and running.found is not None:
                # What was found in several steps is confirmed in steps of its own.
                query = self._query(gang, members, known, now, patient)
                running.confirm(confirm(self._registry, self._books, self._planner, query, running.found))
            self._left = running.go_on(self._left)
            found = running.found
            if not running.over or (found is not None and running.steps > 1 and not running.confirming):
                return None
            self._running = None
            if found is None and running.confirming:
                return None
        if found is None and known is not None and not patient:
            # Nobody else can make way: who has been going for too long is waited for all the same.
            return self._search(gang, members, known, now, None, patient=True)
        return found or NOBODY

    def _query(
        self, gang: Gang, members: Sequence[Member], known: Preempting | None, now: float, patient: bool
    ) -> Query:
        usable: set[str] | None = None
        if not any(member.pod.devices for member in members):
            sets = {id(nodes): nodes for nodes in map(self._planner.eligibility.eligible, _pods(members))}
            usable = set().union(*sets.values())
        untouchable = set()
        for (key, victim), (until, _) in self._forbidden.items():
            if key == gang.key and until > now:
                gang.try_again_at = min(gang.try_again_at, until)
                untouchable.add(victim)
        return Query(
            gang.key,
            self._places.wishes(members, now),
            self._places.settled(gang),
            self._going.all(known, now, patient),
            lowest_priority(members),
            lambda one: one is not gang and one.key not in untouchable and one.key not in self.evictions,
            usable,
            self.precedence.passes(gang),
            patient,
        )

    def _begin(
        self, gang: Gang, members: Sequence[Member], victims: tuple[Victim, ...], known: Preempting | None
    ) -> Preempting:
        kinds = frozenset(kind for member in members for kind in member.pod.devices)
        uids = frozenset(chain.from_iterable(victim.uids for victim in victims))
        begun = Preempting(full_order(gang), lowest_priority(members), victims, uids, kinds=kinds)
        if known is not None and known.granted:
            begun.pods = dict(known.pods)
        for victim in victims:
            there = self._registry.gangs[victim.gang].members if victim.gang in self._registry.gangs else {}
            begun.pods.update(
                (uid, there[uid].pod) for uid in victim.uids if uid in there and there[uid].bound
            )
        self._of[gang.key] = begun
        return begun

    def _keep(
        self, gang: Gang, members: Sequence[Member], found: Found, known: Preempting, now: float
    ) -> None:
        nodes = {one.uid: one.node for one in found.places}
        self._books.keeps.keep(gang.key, nodes.values())
        for member in members:
            member.kept = nodes[member.pod.uid]
        wishes = self._places.wishes(members, now) if found.hope is None else ()
        known.hope = found.hope or prospect(self._books, self._planner, gang.key, wishes, found.places)
        held, accounts = self._books.holdings, self._books.accounts
        there = (uid for name in set(nodes.values()) for uid in accounts[name].users if uid in held)
        known.awaited = [uid for uid in there if self._going.has(uid, known, now, patient=True)]

    # Saying.

    def _reason(self, known: Preempting, now: float) -> Reason:
        return known.reason(self._books.holdings, self._leaving.late(now), self._limits.leaving)

    def _in_vain(self, gang: Gang, reason: Reason, now: float) -> Reason:
        """``reason``, with the budgets that stand in the way."""
        self._forbidden = {pair: one for pair, one in self._forbidden.items() if one[0] > now}
        why = sorted(text for (key, _), (_, text) in self._forbidden.items() if key == gang.key)
        return Reason(reason.why, f"{reason.text}; {why[0]}") if why else reason

    # What comes of it.

    def actions(self, now: float, looked_at: Collection[GangKey]) -> list[Action]:
        """What is to be done now, given the gangs of which something may have changed.

        Ends the preemptions of gangs that don't wait for them any more.
        """
        for key in [key for key in self._of if not self._waits(key)]:
            self.end(key)
        self._next_search = {key: at for key, at in self._next_search.items() if at > now}
        self._wake_deferred()
        found: list[Action] = []
        for key, one in sorted(self._of.items()):
            if one.fresh:
                one.fresh = False
                continue
            found.extend(self._nominations(key, one))
            if not one.granted and not one.asked:
                one.asked = True
                found.append(AskBudgets(key, one.bound_victims()))
        found.extend(self.evictions.actions(looked_at))
        return found

    def _wake_deferred(self) -> None:
        """Let the most important of those have its turn that had to wait until somebody else's search is over."""
        if self._running is not None or not self._deferred:
            return
        waiting = [gang for key in self._deferred if (gang := self._registry.gangs.get(key)) is not None]
        if waiting:
            first = min(waiting, key=full_order)
            self._deferred.discard(first.key)
            self._registry.dirty.add(first.key)
        else:
            self._deferred.clear()

    def _waits(self, key: GangKey) -> bool:
        gang = self._registry.gangs.get(key)
        return gang is not None and gang.reason is not None and gang.reason.why is Why.PREEMPTING

    def _nominations(self, key: GangKey, one: Preempting) -> Iterable[Keep]:
        for member in self._registry.gangs[key].pending():
            uid = member.pod.uid
            if member.kept == member.pod.nominated:
                one.told.pop(uid, None)
            elif member.kept and one.told.get(uid) != member.kept and _awaits_nomination(member):
                one.told[uid] = member.kept
                yield Keep(member.pod, member.kept)

    def not_told(self, uid: str) -> None:
        """A nomination failed: it is tried again."""
        found = self._registry.member(uid)
        if found is not None and found[0].key in self._of:
            self._of[found[0].key].told.pop(uid, None)
            self._registry.dirty.add(found[0].key)

    def allowed(self, key: GangKey) -> None:
        """The budgets allow the evictions that were asked for."""
        one = self._of.get(key)
        if one is None or one.granted:
            return
        gang = self._registry.gangs.get(key)
        self._registry.dirty.update({key} & self._registry.gangs.keys())
        going = partial(self._going.has, known=one, now=self._clock())
        if (
            gang is not None
            and one.hope is not None
            and not one.hope.good_everywhere(going, self.precedence.passes(gang))
        ):
            # Their going wouldn't be enough any more, or is wanted elsewhere: it is decided anew.
            self.end(key)
            self._next_search.pop(key, None)
            return
        one.granted = True
        why = f"preempted by gang {named(key, one)}"
        for victim in one.victims:
            if victim.gang in self._registry.gangs:
                self.evictions.ask(victim.gang, key, why, victim.uids, victim.surplus)

    def forbidden(self, key: GangKey, victim: GangKey, why: str) -> None:
        """Budgets don't allow that all those pods of ``victim`` are evicted together: others are looked for."""
        if key in self._of:
            self.end(key)
            self._registry.dirty.add(key)
        self._next_search.pop(key, None)
        self._forbidden[key, victim] = (self._clock() + self._limits.barred_for, why)

    def not_evicted(self, uid: str, why: str) -> None:
        """An eviction failed: it is tried again for as long as it is wanted."""
        way = self.evictions.refused(uid, self._clock())
        found = self._registry.member(uid)
        if found is None or way is None:
            return
        known = self._of.get(way.preemptor)
        if known is not None:
            known.troubles[uid] = why
        self._registry.dirty.update(
            key for key in (found[0].key, way.preemptor) if key in self._registry.gangs
        )

    def evicted(self, uid: str) -> None:
        """An eviction was accepted."""
        self.evictions.accepted(uid)
        for one in self._of.values():
            one.troubles.pop(uid, None)

    def leaving(self, uid: str) -> None:
        """A bound pod is being deleted."""
        self._leaving.note(uid)

    def end(self, key: GangKey) -> None:
        """Nobody need make way for that gang any more; what is kept for it is anybody's."""
        if self._of.pop(key, None) is None and not self._books.keeps.of(key):
            return
        self.evictions.nobody_waits(key)
        self._books.keeps.keep(key, ())
        self._books.changed()
        gang = self._registry.gangs.get(key)
        if gang is not None:
            for member in gang.members.values():
                member.kept = ""
            self._registry.dirty.add(key)

    def under_way(self) -> tuple[frozenset[str], frozenset[GangKey], dict[GangKey, Pressing]]:
        """The pods whose room comes free by itself, the gangs that make way, and those for which they do."""
        pressing = {key: Pressing(one.priority, one.kinds) for key, one in self._of.items()}
        return self._going.all(None, self._clock()), self.evictions.gangs, pressing

    # A new leader.

    def take_over(self) -> None:
        """Keep the nodes that the leader before us kept: those of gated pods that are nominated."""
        for _, member in self._registry.members():
            if member.bound and member.pod.deleting:
                self.leaving(member.pod.uid)
        for gang in self._registry.gangs.values():
            pending = gang.pending()
            kept = [
                one for one in pending if GATE in one.pod.gates and one.pod.nominated and not one.assignment
            ]
            if not kept or any(foreign_gates(one.pod) for one in kept) or not may_preempt(kept):
                continue
            kinds = frozenset(kind for member in kept for kind in member.pod.devices)
            self._of[gang.key] = Preempting(
                full_order(gang), lowest_priority(kept), asked=True, granted=True, kinds=kinds
            )
            self._books.keeps.keep(gang.key, {one.pod.nominated for one in kept})
            for member in kept:
                member.kept = member.pod.nominated

    def forget(self) -> None:
        """Decide no more: another replica leads."""
        for key in list(self._of):
            self.end(key)
        self.evictions.clear()
        self._forbidden.clear()
        self._next_search.clear()
        self._deferred.clear()
        self._running = None


def _kept_elsewhere(members: Sequence[Member], places: Sequence[Assignment]) -> Iterator[bool]:
    return (member.kept != place.node for member, place in zip(members, places, strict=True))


def _awaits_nomination(member: Member) -> bool:
    return member.assignment is None and GATE in member.pod.gates and not member.clearing


def _pods(members: Iterable[Member]) -> Iterator[Pod]:
    return (member.pod for member in members)
