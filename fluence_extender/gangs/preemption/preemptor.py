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

from fluence_extender.gangs.execution.actions import Action, AskBudgets, Keep
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.evictions import Evictions
from fluence_extender.gangs.preemption.going import Going
from fluence_extender.gangs.preemption.leaving import Leaving
from fluence_extender.gangs.preemption.making_way import full_order
from fluence_extender.gangs.preemption.precedence import Precedence, lowest_priority, may_preempt, named
from fluence_extender.gangs.preemption.preempting import Preempting, Pressing
from fluence_extender.gangs.preemption.preemption import Victim
from fluence_extender.gangs.preemption.prospect import prospect
from fluence_extender.gangs.preemption.searches import Searches
from fluence_extender.gangs.preemption.victim_search import Found
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.plan import Planner


class Preemptor:
    """See the module docstring.

    ``evictions`` are those who make way, ``precedence`` says who is in front of whom, ``searches`` look for victims.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        planner: Planner,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._planner = planner
        self._limits = limits
        self._clock = clock
        self._of: dict[GangKey, Preempting] = {}
        self._leaving = Leaving(ledger.allocations, limits.leaving, clock)
        self._next_search: dict[GangKey, float] = {}
        self._deferred: set[GangKey] = set()
        self.evictions = Evictions(registry, places, limits, self._of, self._leaving.__contains__)
        self._going = Going(ledger.allocations, self._leaving, self.evictions)
        self.precedence = Precedence(ledger, self._of, self.evictions)
        self.searches = Searches(
            registry,
            ledger,
            places,
            planner,
            self._going,
            self.evictions,
            self.precedence,
            limits.search_step,
        )
        places.passes = self.precedence.passes

    # Deciding.

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return (
            self.searches.under_way
            or self.evictions.due
            or any(one.fresh or not one.asked for one in self._of.values())
        )

    def consider(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Reason:
        """Make others make way for ``members``, which have no place; the reason for which the gang waits now."""
        if reason.code is not ReasonCode.BUSY or not may_preempt(members):
            self.end(gang.key)
            return reason
        known = self._of.get(gang.key)
        waits = reason if known is None else self._reason(known, now)
        running = self.searches.running_for(gang, members)
        if known is not None and running is None and self._only_planned(gang, known, reason, now):
            return waits
        if running is None:
            not_before = self._next_search.get(gang.key, 0.0)
            if known is None and self.searches.busy:
                self._deferred.add(gang.key)
                not_before = max(not_before, now + self._limits.preempt_again)
            if now < not_before:
                gang.try_again_at = min(gang.try_again_at, not_before)
                return waits
            self._next_search[gang.key] = now + self._limits.preempt_again
        found = self.searches.find(gang, members, known, now, running)
        if found is None:
            running = self.searches.running_for(gang, members)
            if running is not None:
                running.version, running.reason = self._ledger.version, reason
            gang.try_again_at = now if running is not None else now + self._limits.preempt_again
            return waits
        return self._decide(gang, members, known, found, reason, now)

    def _only_planned(self, gang: Gang, known: Preempting, reason: Reason, now: float) -> bool:
        """Whether planning the gang in vain was enough for one step: who goes is looked at in the next."""
        known.planned |= reason is not known.busy
        known.to_be_checked = known.planned and known.awaits(self._ledger.allocations)
        if known.planned:
            known.busy, known.plan_at, known.planned = reason, now + self._limits.preempt_again, False
        gang.try_again_at = min(gang.try_again_at, now if known.to_be_checked else known.plan_at)
        return known.to_be_checked

    def asked_already(self, gang: Gang, members: Iterable[Member], now: float) -> Reason | None:
        """Why the gang has no place, where that needn't be found out again.

        Either victims are looked for and the ledger is as when it was; or those whose room it is to have are there
        still, and it was planned in vain a moment ago.
        """
        found_out = self.searches.known_reason(gang)
        if found_out is not None:
            return found_out
        known = self._of.get(gang.key)
        if (
            known is None
            or not known.awaits(self._ledger.allocations)
            or not all(one.kept for one in members)
        ):
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
            return self.searches.in_vain(gang, reason, now)
        if known is None and not found.victims:
            return reason
        if known is None or found.victims:
            known = self._begin(gang, members, found.victims, known)
        if found.victims or known.hope is None or any(_kept_elsewhere(members, found.places)):
            self._keep(gang, members, found, known, now)
        known.busy, known.plan_at = reason, now + self._limits.preempt_again
        gang.try_again_at = min(gang.try_again_at, known.plan_at, self._leaving.next_late(known.pods, now))
        return self._reason(known, now)

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
        self._ledger.preemptor_holds.hold(gang.key, nodes.values())
        for member in members:
            member.kept = nodes[member.pod.uid]
        demands = self._places.demands(members, now) if found.hope is None else ()
        known.hope = found.hope or prospect(self._ledger, self._planner, gang.key, demands, found.places)
        held, accounts = self._ledger.allocations, self._ledger.accounts
        there = (uid for name in set(nodes.values()) for uid in accounts[name].users if uid in held)
        known.awaited = [uid for uid in there if self._going.has(uid, known, now, patient=True)]

    # Saying.

    def _reason(self, known: Preempting, now: float) -> Reason:
        return known.reason(self._ledger.allocations, self._leaving.late(now), self._limits.leaving)

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
        if self.searches.under_way or not self._deferred:
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
        return gang is not None and gang.reason is not None and gang.reason.code is ReasonCode.PREEMPTING

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
        self.searches.forbid(key, victim, self._clock() + self._limits.barred_for, why)

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
        if self._of.pop(key, None) is None and not self._ledger.preemptor_holds.nodes_for(key):
            return
        self.evictions.nobody_waits(key)
        self._ledger.preemptor_holds.hold(key, ())
        self._ledger.changed()
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
            self._ledger.preemptor_holds.hold(gang.key, {one.pod.nominated for one in kept})
            for member in kept:
                member.kept = member.pod.nominated

    def forget(self) -> None:
        """Decide no more: another replica leads."""
        for key in list(self._of):
            self.end(key)
        self.evictions.clear()
        self.searches.forget()
        self._next_search.clear()
        self._deferred.clear()


def _kept_elsewhere(members: Sequence[Member], places: Sequence[Assignment]) -> Iterator[bool]:
    return (member.kept != place.node for member, place in zip(members, places, strict=True))


def _awaits_nomination(member: Member) -> bool:
    return member.assignment is None and GATE in member.pod.gates and not member.clearing
