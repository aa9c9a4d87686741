"""Attempts to place gangs: which of them might fit now, in which order, and why one doesn't fit.

A gang is tried once for each version of the ledger. A demand that had no place for another gang isn't planned again. A
promised gang is tried first with the members that it lacks, and then by itself with those beyond its size.

Invariant: a step tries gangs for a bounded time, however many wait. So gangs that can't be placed delay neither the
placed ones nor other work. Half of the time is for the first gangs in order. Unless the last of these gets its places,
the rest is for further gangs, for which the namespaces take turns. At least one further gang is tried. So each gang
gets its attempt, even if the ledger changes before a pass is through. While reservations are searched for, only some
steps try further gangs, and those that the queue has stopped are tried again after all reservations are found.

Gangs that a rule keeps waiting aren't tried: `rules` says why when they are looked at. A limit or a quota may be
reached during a step, so it is looked at again here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import structlog

from fluence_extender.gangs.lifecycle.failures import FailureRecord, Failures
from fluence_extender.gangs.lifecycle.large_gangs import LargeGangs
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.rounds import Round
from fluence_extender.gangs.lifecycle.rules import invalid, need, planning_failed, size_of, together
from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preemptions import may_preempt, preempting_priority
from fluence_extender.gangs.queue.beside import Beside
from fluence_extender.gangs.queue.book import BLOCKED, QueueBook
from fluence_extender.gangs.queue.future import Request
from fluence_extender.gangs.queue.turns import InLine
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.lacks import Lack, Lacks
from fluence_extender.queueing.order import Rank
from fluence_extender.room.ledger import Ledger

log = structlog.get_logger(__name__)

PLACED_AT_ONCE = 512
"""The number of placed pods after which a step ends, so that they are steered before more gangs are tried.

After a start or a change of leader thousands of gangs may wait, and the first needn't wait for the plans of all others.
"""

TRIED_WITHIN = 0.003
"""Seconds for which a step tries the first gangs in order. It ends after twice as long with the further ones."""

WITHOUT_FURTHER = 4
"""While reservations are searched for, each of so many steps tries the first gangs, and one of them further ones."""

PASSED_AT_ONCE = 64
"""For so many gangs that can't fit the time isn't looked at."""

MOST_LOOKED_AT = 20_000
"""So many members are looked at in one attempt to place members beyond a gang's size, each of them by itself.

Each plan looks at all members that have places. The next attempt goes on.
"""

MOST_HOPELESS = 64
"""The most kinds of members beyond a gang's size that may fail in one attempt; after them no more are tried."""


LIMITED = (ReasonCode.QUEUED, ReasonCode.OVER_USER_LIMIT, ReasonCode.OVER_QUOTA)
"""The reasons of gangs that a limit or a quota keeps waiting; what may let them start has them looked at again."""


class Attempts:
    """Tries to place gangs, and records in each gang why it has no place."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        preemption: PreemptionManager,
        queue: QueueBook,
        quotas: NamespaceQuotas,
        eligibility: EligibilityIndex,
        clock: Callable[[], float],
        large: LargeGangs,
    ) -> None:
        self._large = large
        self._queue = queue
        self._quotas = quotas
        self._clock = clock
        self._preemption = preemption
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._lacks = Lacks(ledger, eligibility)
        self._failures = Failures(ledger, self._lacks)
        self._round = Round(queue.turns)
        self._behind_since = 0.0
        self._searched = 0
        self._idle: dict[float, bool] = {}
        self.explained: list[Gang] = []
        """The gangs for which the last step has only found another reason, by the records of others' failures."""
        self._tried_version = (-1, -1)
        self._placed = 0

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return self._round.unfinished or self._queue.restless or self._queue.version != self._tried_version[1]

    @property
    def unfinished(self) -> bool:
        """Whether gangs weren't tried last time, because the step had placed enough pods or taken long enough."""
        return self._round.unfinished

    def untried_for(self, now: float) -> float:
        """Return the longest time, in seconds, for which a gang has waited for an attempt."""
        oldest = min((place.gang.attempt.since for place in self._round.left()), default=now)
        return max(0.0, now - max(oldest, self._behind_since))

    def make(self, looked_at: Set[GangKey], now: float) -> set[GangKey]:
        """Try gangs that might fit: those just looked at, or all waiting ones if more capacity may be free.

        Return the gangs that may have changed in more than their reason; ``explained`` has the others.
        """
        self.explained = []
        self._begin(looked_at, now)
        self._preemption.begin_round()
        self._idle.clear()
        # A search for victims goes on only where its gang is tried each time.
        searching = self._preemption.searching_for
        changed: set[GangKey] = set()
        before = self._placed
        until = self._clock()
        turns = self._round.first, self._round.further
        for turn in turns[:1] if self._searched % WITHOUT_FURTHER else turns:
            until += TRIED_WITHIN
            passed, ready, got = 0, self._queue.ready(), self._placed
            while ready and self._placed - before < PLACED_AT_ONCE and (place := turn()) is not None:
                got = self._placed
                if self._attempt(place, now, changed):
                    passed, ready = 0, self._queue.ready()
                else:
                    passed += 1
                if passed % PASSED_AT_ONCE == 0 and self._clock() >= until:
                    break
            if self._placed != got:
                # The last of the first gangs got its places, so the next one in order may fit, too.
                break
        place = None if searching is None else self._queue.turns.find(searching)
        if place is not None and searching not in changed:
            self._attempt(place, now, changed)
        if self._placed != before:
            self._failures.placed()
            # The limits of queues may now keep other gangs from starting. Nothing is reserved for those.
            self._registry.dirty.update(self._queue.limited_gangs())
        return changed

    def postpone(self, looked_at: Set[GangKey], now: float) -> None:
        """Let gangs that were just looked at be tried in a later step."""
        self.explained = []
        self._begin(looked_at, now)

    def _begin(self, looked_at: Set[GangKey], now: float) -> None:
        # Each reservation that is found changes what others may use. One round after all of them is enough.
        searching = self._queue.restless
        self._searched = self._searched + 1 if searching else 0
        self._queue.begin(looked_at)
        version = self._ledger.version, self._tried_version[1] if searching else self._queue.version
        if version != self._tried_version:
            self._tried_version = version
            if not self._round.unfinished:
                self._behind_since = now
            self._round = Round(self._queue.turns)
            return
        for key in looked_at:
            place = self._queue.turns.find(key)
            if place is not None:
                self._round.add(place)

    def _attempt(self, place: InLine, now: float, changed: set[GangKey]) -> bool:
        """Try a gang if it might fit, and add it to ``changed`` unless nothing but its reason has changed.

        Return False if there was nothing to do, because the gang has its reason already or can't fit.
        """
        gang, rank = place.gang, place.rank
        attempt = gang.attempt
        attempt.since = now
        if (
            gang.rest.until > now
            or (
                attempt.version == self._ledger.version
                and attempt.again_at > now
                and not self._queue.reconsiders(gang, rank)
            )
            or gang.key in self._registry.dirty
        ):
            return False
        known = (
            self._recorded_reason(gang, rank, now)
            if attempt.record
            else self._reason_of_others(gang, rank, now)
        )
        lacking = gang.placeless() if known is None else []
        if known is None and not lacking:
            return False
        if known is None and attempt.version >= 0 and not self._large.may_look(gang):
            self._registry.dirty.postpone(gang.key)
            return False
        attempt.version = self._ledger.version
        if known is not None:
            attempt.again_at = NEVER
            self._queue.tried(gang)
            if gang.reason is known:
                return False
            if gang.reason != known:
                gang.explain(known, now)
                self.explained.append(gang)
            gang.reason = known
            return True
        changed.add(gang.key)
        attempt.again_at, attempt.record = NEVER, None
        blocked = False
        self._idle.clear()
        try:
            with self._ledger.claim_rooms.bounded():
                blocked = self._try(gang, rank, now)
        except Exception as error:
            # One gang that can't be planned must not keep the others from being placed.
            log.exception("a gang could not be planned", gang=str(gang.key))
            gang.explain(planning_failed(error), now)
        if not blocked:
            self._queue.unblock(gang)
        self._queue.admission.shares.explained(gang)
        self._queue.tried(gang)
        got = len(lacking) - len(gang.placeless())
        if got > 0:
            self._placed += got
            self._queue.admission.note(gang)
            self._quotas.note(gang)
        return True

    def _recorded_reason(self, gang: Gang, rank: Rank, now: float) -> Reason | None:
        """Return why the gang still has no place, if the record of its demand tells it; None to try the gang."""
        record = gang.attempt.record
        if record is None or gang.asks_since or not self._is_idle(record.preempting, now):
            return None
        if self._queue.blocks(rank):
            # Its reservation stays as long as it lacks room. What can never have room gets none.
            reason = self._failures.reason(record)
            reserves = reason is not None and reason.code in BLOCKED
            return reason if self._queue.heads.has(gang, rank) is reserves else None
        if gang.starts_about is not None:
            return None
        stopped = self._queue.stops(rank)
        if stopped is not None:
            return stopped
        reason = self._failures.reason(record)
        if reason is not None:
            return reason
        token, levels = self._queue.reserved_before(gang, rank)
        if token is None:
            return None
        return self._failures.reason_beside(record, token, levels, self._queue.kept_room(levels))

    def _reason_of_others(self, gang: Gang, rank: Rank, now: float) -> Reason | None:
        """Return why a gang that wasn't tried yet has no place, if others with its demand have none; None to try it."""
        if gang.key in self._queue.heads:
            return None
        size, ready, attempt = size_of(gang), gang.pending(), gang.attempt
        if isinstance(size, Reason) or len(ready) < len(gang.alive()) or len(ready) + gang.ended != size:
            return None
        if any(map(_differs, ready)) or not self._queue.admission.counts_alone(gang):
            return None
        attempt.record = self._record(gang, ready, now)
        reason = self._recorded_reason(gang, rank, now)
        if reason is None:
            attempt.record = None
        else:
            _note_whole(gang, ready, size)
        return reason

    def _is_idle(self, priority: float, now: float) -> bool:
        """Return whether preemption is idle for that priority; within a step only an attempt changes that."""
        found = self._idle.get(priority)
        if found is None:
            found = self._idle[priority] = self._preemption.idle(priority, now)
        return found

    def _try(self, gang: Gang, rank: Rank, now: float) -> bool:
        """Try to place a gang; return whether it is blocked: it is whole and lacks capacity."""
        size = size_of(gang)
        if isinstance(size, Reason):
            return False
        ready, settled, missing = need(gang, size)
        if not gang.begun and len(ready) < missing:
            return False
        self._preemption.order(gang, ready)
        apart = bool(settled or len(ready) != missing)
        ready, later, fewest = together(gang, ready, missing)
        few, (ready, rule) = min(fewest, len(ready)), self._queue.admission.joining(gang, ready)
        if self._is_stopped(gang, ready, few, fewest, rule, now):
            return False
        if not settled:
            _note_whole(gang, ready, size)
        allowed, over = self._queue.admission.within_quota(gang, ready, fewest)
        ready = ready[: max(allowed, fewest)]
        over_now = over if allowed < fewest else None
        reason = self._preemption.known_reason(gang, ready[:fewest], now) or over_now
        record = None
        if reason is None:
            beside = self._queue.beside(gang, rank, ready)
            record = self._record(gang, ready, now)
            reason = (
                beside
                if isinstance(beside, Reason)
                else self._plan_as_many(gang, rank, ready, fewest, record, beside, now)
            )
        needed, why = _needed(gang, size), reason
        if reason is not None:
            gang.attempt.again_at = min((one.refusals.next_bar_ends(now) for one in ready), default=NEVER)
            movable = any(one.assignment is not None for one in gang.pending())
            if missing > 0 and movable and not gang.begun and needed:
                # Some have places that the others can't join: all get new ones together.
                self._places.withdraw(gang)
                self._registry.dirty.add(gang.key)
            else:
                # Nothing is freed for members beyond the gang's size.
                lacking = [member for member in ready if member.assignment is None][:needed]
                reason = self._preemption.consider(gang, lacking, reason, now) if needed else reason
            reason = self._preemption.behind(gang, reason)
        reason = reason or over or rule
        if not needed:
            self._preemption.end(gang.key)
        if later and reason is None:
            self._registry.dirty.add(gang.key)
        gang.explain(reason, now)
        if reason is not None:
            gang.forget_first_change()
        if reason is not None and reason is why and not apart and self._decides_alone(gang):
            gang.attempt.record = record
        lacking = [member for member in ready if member.assignment is None][: _needed(gang, size)]
        return self._blocks(gang, rank, lacking, now)

    def _is_stopped(
        self, gang: Gang, ready: list[Member], few: int, fewest: int, rule: Reason | None, now: float
    ) -> bool:
        """Return whether something but room keeps a gang from being tried, and record what.

        ``few`` members have to be placed together, and ``rule`` says why fewer than that are ``ready``.
        """
        obstacle = (
            self._queue.admission.limit(gang)
            or (rule if len(ready) < few else None)
            or invalid(ready)
            or self._preemption.obstacle(gang, ready)
            or self._over_quota(gang, ready, fewest)
            or self._uncounted(gang, ready, now)
        )
        if obstacle is not None:
            gang.explain(obstacle, now)
            if obstacle.code in LIMITED:
                self._queue.set_aside(gang, obstacle)
        return obstacle is not None

    def _beside_pool(self, gang: Gang, rank: Rank, members: list[Member], beside: Beside) -> Beside:
        """Return how ``members`` may be placed beside what is reserved and what queues keep for themselves."""
        short = self._queue.pool_obstacle(gang, rank, members)
        return beside if short is None else replace(beside, short=short)

    def _uncounted(self, gang: Gang, ready: Sequence[Member], now: float) -> Reason | None:
        """Count what nodes host for the gang's claims, a little at a time; return a reason until that is done."""
        if self._ledger.claim_rooms.prepare(member.pod.claims for member in ready):
            return None
        gang.attempt.again_at = now
        self._registry.dirty.add(gang.key)
        return Reason(
            ReasonCode.SELECTING_DEVICES, "its claims are being compared with the devices of the nodes"
        )

    def _over_quota(self, gang: Gang, ready: Sequence[Member], fewest: int) -> Reason | None:
        """Return which quota of its namespace or its queue has no room for the members that have to be placed now.

        In the namespace these are all whose pods don't exist yet, in the queue the ``fewest``. Return None if there is
        room, or if the queue takes back what the members need.
        """
        reason = self._quotas.obstacle(gang, ready)
        if reason is not None:
            gang.attempt.again_at = self._quotas.refused.until(gang.key.namespace)
        else:
            over = self._queue.admission.over_quota(gang, ready, fewest)
            if over is None or self._preemption.takes_back(gang, ready[:fewest]):
                return None
            reason, gang.limited, gang.shortage = over
        settled = any(one.assignment is not None for one in gang.pending())
        if settled and not gang.begun and _needed(gang, gang.size):
            # Some have places that the others can't join, so all give them back.
            self._places.withdraw(gang)
            self._registry.dirty.add(gang.key)
        return reason

    def _blocks(self, gang: Gang, rank: Rank, lacking: Sequence[Member], now: float) -> bool:
        """Tell the queue that the gang is blocked, if it is and if that counts there; return whether both hold."""
        if not (lacking and gang.reason and gang.reason.code in BLOCKED and self._queue.blocks(rank)):
            return False
        passes = self._preemption.passes(gang)
        demands, settled = self._places.demands(lacking, now), self._places.settled(gang)
        claim = self._queue.pool.claim(gang, lacking)
        request = Request(gang.key, tuple(demands), tuple(settled), passes, claim)
        alike = self._places.demand_key(gang, lacking, now), passes, claim
        self._queue.block(gang, rank, lacking, request, alike)
        return True

    def _decides_alone(self, gang: Gang) -> bool:
        """Return whether nothing but its demand and the order of gangs decides if a gang has a place next time."""
        if gang.attempt.again_at < NEVER:
            return False
        return self._queue.admission.counts_alone(gang)

    def _record(self, gang: Gang, members: Sequence[Member], now: float) -> FailureRecord:
        """Return the record that all gangs with this demand share."""
        # Nodes and devices that are held for a gang are open to it alone, so other gangs may get another result.
        keeper = gang.key if self._ledger.held_nodes.any_for(gang.key) else None
        key = self._places.demand_key(gang, members, now), self._preemption.passes(gang), keeper
        return self._failures.record(key, preempting_priority(members) if may_preempt(members) else -math.inf)

    def _plan(
        self, gang: Gang, members: list[Member], record: FailureRecord, beside: Beside, now: float
    ) -> Reason | None:
        """Place all of ``members`` or return why not. A demand that has failed isn't planned again (`failures`)."""
        failures, short = self._failures, beside.short
        never = short is not None and short.code is ReasonCode.UNSATISFIABLE
        if short is not None and ((short.code not in BLOCKED and not never) or failures.has_fitted(record)):
            return short
        reason = failures.reason(record) or failures.reason_beside(
            record, beside.token, beside.levels, beside.kept
        )
        if reason is None:
            reason = self._places.plan(gang, members, now, beside=beside)
            if reason is not None and reason is short:
                failures.note_fit(record)
            elif reason is not None:
                failures.note(record, reason, beside.token, beside.levels)
                record.lack = self._lack(gang, members, reason, now)
        # What the nodes could never hold is told first. Otherwise the gang is never placed because of its queue.
        is_told = reason is None or reason.code is ReasonCode.UNSATISFIABLE
        return reason if is_told or not never else short

    def _lack(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Lack | None:
        """Return the members' lack of room, None where they may lack something else, or others may lack less."""
        own = self._ledger.held_nodes.any_for(gang.key) or self._preemption.passes(gang)
        settled = any(one.assignment is not None for one in gang.members.values())
        if reason.code not in BLOCKED or own or settled:
            return None
        return self._lacks.of(self._places.demands(members, now))

    def _plan_as_many(
        self,
        gang: Gang,
        rank: Rank,
        ready: list[Member],
        fewest: int,
        record: FailureRecord,
        reserved: Beside,
        now: float,
    ) -> Reason | None:
        """Place all of ``ready``, or else the ``fewest`` needed ones and others that fit; return why not all.

        A gang that runs needs none of them together, so each is placed that fits.
        """
        beside = self._beside_pool(gang, rank, ready, reserved)
        if len(ready) <= fewest or beside.short is None:
            reason = self._plan(gang, ready, record, beside, now)
        else:
            reason = beside.short
        if reason is None or len(ready) <= fewest:
            return reason
        first = 0 if gang.begun and gang.whole else fewest
        if first:
            needed = ready[:first]
            part = self._beside_pool(gang, rank, needed, reserved)
            why = self._plan(gang, needed, self._record(gang, needed, now), part, now)
            if why is not None:
                return why
        why = self._plan_each(gang, rank, ready[first:], reserved, now)
        return reason if beside.short is None else why

    def _plan_each(
        self, gang: Gang, rank: Rank, beyond: list[Member], reserved: Beside, now: float
    ) -> Reason | None:
        """Place those of the members ``beyond`` that fit, each by itself, in turns if there are many.

        Return why the first that was tried and has no place has none, None if each that was tried has one.
        """
        reason: Reason | None = None
        start, gang.attempt.beyond = gang.attempt.beyond, 0
        hopeless: set[object] = set()
        plans = max(MOST_LOOKED_AT // len(gang.members), 1)
        for at, member in enumerate(beyond[start:] + beyond[:start], start + 1):
            kind = self._places.demand_key(gang, [member], now), member.pod.duration
            if kind in hopeless:
                continue
            plans -= 1
            beside = self._beside_pool(gang, rank, [member], reserved)
            why = beside.short or self._places.plan(gang, [member], now, beside=beside)
            if why is not None:
                reason = reason or why
                hopeless.add(kind)
            else:
                # More of them may fit, so the next step goes on.
                self._registry.dirty.add(gang.key)
            if len(hopeless) >= MOST_HOPELESS or not plans:
                # The next attempt begins with the others.
                gang.attempt.beyond = at % len(beyond)
                break
        return reason


def _needed(gang: Gang, size: int) -> int:
    """Return how many places the gang lacks."""
    placed = sum(1 for member in gang.alive() if member.assignment is not None)
    return max(size - placed - gang.ended, 0)


def _note_whole(gang: Gang, ready: Sequence[Member], size: int) -> None:
    """Note that enough members are ready, if that is new."""
    if gang.reason is None or gang.reason.incomplete:
        gang.note(HistoryKind.WHOLE, "", f"{len(ready) + gang.ended} of {size} members are there")


def _differs(member: Member) -> bool:
    """Return whether a member may fare otherwise than one with the same demand that was never placed."""
    placed = member.assignment is not None
    return placed or bool(member.refusals.barred or foreign_gates(member.pod))
