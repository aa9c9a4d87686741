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

from collections.abc import Callable, Iterable, Iterator, Sequence

from fluence_extender.gangs.actions import Action, AskBudgets, Evict, Keep
from fluence_extender.gangs.agenda import NEVER
from fluence_extender.gangs.assembly import foreign_gates
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.gangs.limits import Limits
from fluence_extender.gangs.making_way import MakingWay, full_order
from fluence_extender.gangs.places import Places
from fluence_extender.gangs.preempting import Preempting, Pressing
from fluence_extender.gangs.preemption import Victim
from fluence_extender.gangs.registry import Registry
from fluence_extender.gangs.victim_search import Found, Query, VictimSearch, confirmed, search, without_more
from fluence_extender.ledger.books import Books
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.placement.plan import Planner

NOBODY = Found((), ())
"""Nobody's going would help."""


class Preemptor:
    """See the module docstring. ``on_preempted`` is told of each gang that is made to make way."""

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
        self._leaving: dict[str, float] = {}
        self._making_way: dict[GangKey, MakingWay] = {}
        self._forbidden: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        self._next_search: dict[GangKey, float] = {}
        self._running: VictimSearch | None = None
        self._deferred: set[GangKey] = set()
        self._round = 0
        self._left = 0
        self.on_preempted: Callable[[], None] = lambda: None
        places.passes = self.passes

    # Who is in front of whom.

    def passes(self, gang: Gang) -> frozenset[object]:
        """The gangs that ``gang`` could preempt itself: nodes kept for them are open to it."""
        members = gang.alive() if self._of else []
        if not members or not _may_preempt(members):
            return frozenset()
        priority = _priority(members)
        return frozenset(key for key, one in self._of.items() if one.priority < priority)

    def barrier_to(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Why ``gang`` may not be tried now: it makes way itself, or for one that waits for the same devices."""
        if gang.key in self._making_way:
            return Reason(Why.PREEMPTED, self._making_way[gang.key].why)
        if not self._of:
            return None
        kinds = {kind for member in members for kind in member.pod.devices}
        order, passed = full_order(gang), self.passes(gang)
        for key, one in sorted(self._of.items()):
            shared = sorted(kinds & one.kinds)
            first = key not in passed and (gang.key not in self._of or one.order < order)
            if key != gang.key and shared and first:
                return Reason(Why.BUSY, f"busy: {', '.join(shared)} kept for {_named(key, one)}")
        return None

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """``reason`` with those for whom nodes are kept from ``gang``."""
        if reason.why is not Why.BUSY or not self._of:
            return reason
        passed = self.passes(gang)
        ahead = sorted(
            (one.order, key)
            for key, one in self._of.items()
            if key != gang.key and key not in passed and self._books.keeps.of(key)
        )
        if not ahead:
            return reason
        first = ahead[0][1]
        return Reason(reason.why, f"{reason.text}; behind {_named(first, self._of[first])}")

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

    def consider(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Reason:
        """Make others make way for ``members``, which have no place; the reason for which the gang waits now."""
        if reason.why is not Why.BUSY or not _may_preempt(members):
            self.end(gang.key)
            return reason
        known = self._of.get(gang.key)
        waits = reason if known is None else self._reason(known, now)
        running = self._running_for(gang, members)
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

    def asked_already(self, gang: Gang) -> Reason | None:
        """Why the gang has no place, while victims are looked for and the books are as when that was found out."""
        running = self._running
        if running is None or running.query.key != gang.key or running.version != self._books.version:
            return None
        return running.reason

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
        self._keep(gang, members, found.places)
        gang.try_again_at = min(gang.try_again_at, self._patience_ends(known, now))
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
            query = self._query(gang, members, known, now, patient)
            found = without_more(self._registry, self._books, self._planner, query)
            if found is None and self._registry.lowest_priority < query.priority:
                if self._running is not None:
                    return None
                running = self._running = search(self._registry, self._books, self._planner, query)
        if running is not None:
            running.round = self._round
            ended = running.over
            self._left = running.go_on(self._left)
            if not running.over or (running.steps > 1 and not ended):
                # What was found is confirmed in a step of its own.
                return None
            self._running = None
            patient, found = running.query.patient, running.found
            if found is not None and running.steps > 1:
                query = self._query(gang, members, known, now, patient)
                return confirmed(self._registry, self._books, self._planner, query, found)
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
            self._going(known, now, patient),
            _priority(members),
            lambda one: one is not gang and one.key not in untouchable and one.key not in self._making_way,
            usable,
            self.passes(gang),
            patient,
        )

    def _going(self, known: Preempting | None, now: float, patient: bool) -> frozenset[str]:
        """Pods whose room comes free by itself: those being deleted for not too long, and who makes way already."""
        held = self._books.holdings
        self._leaving = {uid: since for uid, since in self._leaving.items() if uid in held}
        going = {uid for uid, since in self._leaving.items() if patient or now - since < self._limits.leaving}
        if known is not None and not known.granted:
            going |= {
                uid for one in known.victims for uid in one.uids if uid in held and uid not in self._leaving
            }
        for way in self._making_way.values():
            going |= {uid for uid in way.uids if uid in held and uid not in self._leaving}
        return frozenset(going)

    def _begin(
        self, gang: Gang, members: Sequence[Member], victims: tuple[Victim, ...], known: Preempting | None
    ) -> Preempting:
        kinds = frozenset(kind for member in members for kind in member.pod.devices)
        begun = Preempting(full_order(gang), _priority(members), victims, kinds=kinds)
        if known is not None and known.granted:
            begun.pods = dict(known.pods)
        for victim in victims:
            for member in self._registry.gangs[victim.gang].members.values():
                if member.pod.uid in victim.uids and member.bound:
                    begun.pods[member.pod.uid] = member.pod
        self._of[gang.key] = begun
        return begun

    def _keep(self, gang: Gang, members: Sequence[Member], places: Iterable[Assignment]) -> None:
        nodes = {one.uid: one.node for one in places}
        self._books.keeps.keep(gang.key, nodes.values())
        for member in members:
            member.kept = nodes[member.pod.uid]

    def _patience_ends(self, known: Preempting, now: float) -> float:
        """When the first pod that is going will no longer be reckoned with."""
        ends = (self._leaving[uid] + self._limits.leaving for uid in known.pods if uid in self._leaving)
        return min((end for end in ends if end > now), default=NEVER)

    # Saying.

    def _reason(self, known: Preempting, now: float) -> Reason:
        patience = self._limits.leaving
        late = [uid for uid, since in self._leaving.items() if now - since >= patience]
        return known.reason(self._books.holdings, late, patience)

    def _in_vain(self, gang: Gang, reason: Reason, now: float) -> Reason:
        """``reason``, with the budgets that stand in the way."""
        self._forbidden = {pair: one for pair, one in self._forbidden.items() if one[0] > now}
        why = sorted(text for (key, _), (_, text) in self._forbidden.items() if key == gang.key)
        return Reason(reason.why, f"{reason.text}; {why[0]}") if why else reason

    # What comes of it.

    def actions(self, now: float) -> list[Action]:
        """What is to be done now; ends the preemptions of gangs that don't wait for them any more."""
        for key in [key for key in self._of if not self._waits(key)]:
            self.end(key)
        self._next_search = {key: at for key, at in self._next_search.items() if at > now}
        self._wake_deferred()
        found: list[Action] = []
        for key, one in sorted(self._of.items()):
            found.extend(self._nominations(key, one))
            if not one.granted and not one.asked:
                one.asked = True
                found.append(AskBudgets(key, one.bound_victims()))
        for key in sorted(self._making_way):
            found.extend(self._evictions(key))
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
        one.granted = True
        preemptor = f"preempted by gang {_named(key, one)}"
        for victim in one.victims:
            gang = self._registry.gangs.get(victim.gang)
            if gang is None:
                continue
            way = self._making_way.setdefault(gang.key, MakingWay(preemptor, key, victim.surplus))
            way.surplus = way.surplus and victim.surplus
            way.uids |= victim.uids
            self._registry.dirty.add(gang.key)
            self.on_preempted()
        self._registry.dirty.add(key)

    def forbidden(self, key: GangKey, victim: GangKey, why: str) -> None:
        """Budgets don't allow that all those pods of ``victim`` are evicted together: others are looked for."""
        if key in self._of:
            self.end(key)
            self._registry.dirty.add(key)
        self._next_search.pop(key, None)
        self._forbidden[key, victim] = (self._clock() + self._limits.barred_for, why)

    def not_evicted(self, uid: str, why: str) -> None:
        """An eviction failed: it is tried again for as long as it is wanted."""
        found = self._registry.member(uid)
        way = self._making_way.get(found[0].key) if found is not None else None
        if found is None or way is None:
            return
        way.sent.discard(uid)
        known = self._of.get(way.preemptor)
        if known is not None:
            known.troubles[uid] = why
        self._registry.dirty.update(
            key for key in (found[0].key, way.preemptor) if key in self._registry.gangs
        )

    def evicted(self, uid: str) -> None:
        """An eviction was accepted."""
        for one in self._of.values():
            one.troubles.pop(uid, None)

    def leaving(self, uid: str) -> None:
        """A bound pod is being deleted."""
        self._leaving.setdefault(uid, self._clock())

    def _evictions(self, key: GangKey) -> Iterable[Evict]:
        gang, way = self._registry.gangs.get(key), self._making_way[key]
        wanted = [] if gang is None else way.members(gang)
        if way.preemptor not in self._of and (way.surplus or not way.sent):
            wanted = []
        if gang is None or not wanted:
            del self._making_way[key]
            self._registry.dirty.update({key, way.preemptor} & self._registry.gangs.keys())
            return
        if not gang.begun:
            self._places.withdraw(gang)
            self._registry.dirty.add(key)
            return
        for member in wanted:
            if member.bound and member.pod.uid not in way.sent:
                way.sent.add(member.pod.uid)
                yield Evict(member.pod, way.why, again=True)
            elif not member.bound and not member.binding and member.assignment is not None:
                self._places.drop(member)
                self._registry.dirty.add(key)

    def end(self, key: GangKey) -> None:
        """Nobody need make way for that gang any more; what is kept for it is anybody's."""
        if self._of.pop(key, None) is None and not self._books.keeps.of(key):
            return
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
        return self._going(None, self._clock(), False), frozenset(self._making_way), pressing

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
            if not kept or any(foreign_gates(one.pod) for one in kept) or not _may_preempt(kept):
                continue
            kinds = frozenset(kind for member in kept for kind in member.pod.devices)
            self._of[gang.key] = Preempting(
                full_order(gang), _priority(kept), asked=True, granted=True, kinds=kinds
            )
            self._books.keeps.keep(gang.key, {one.pod.nominated for one in kept})
            for member in kept:
                member.kept = member.pod.nominated

    def forget(self) -> None:
        """Decide no more: another replica leads."""
        for key in list(self._of):
            self.end(key)
        self._making_way.clear()
        self._forbidden.clear()
        self._next_search.clear()
        self._deferred.clear()
        self._running = None


def _named(key: GangKey, one: Preempting) -> str:
    return f"{key} (priority {one.priority})"


def _priority(members: Iterable[Member]) -> int:
    """The priority that counts for preempting: the lowest of those who need a place."""
    return min((member.pod.priority for member in members), default=0)


def _awaits_nomination(member: Member) -> bool:
    return member.assignment is None and GATE in member.pod.gates and not member.clearing


def _pods(members: Iterable[Member]) -> Iterator[Pod]:
    return (member.pod for member in members)


def _may_preempt(members: Iterable[Member]) -> bool:
    return all(member.pod.preempts for member in members)
