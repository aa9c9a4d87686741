"""Attempts to place gangs: which of them might fit now, in which order, and why one doesn't fit.

A gang is tried once for each version of the ledger, and what other gangs have asked in vain isn't planned again. A
promised gang is tried with the members that it lacks, and in a turn of its own with those beyond its size.

Invariant: a step tries gangs for a bounded time, however many wait. So gangs that can't be placed keep neither the
placed ones nor other work waiting. The time is spent on the first gangs in order. If none of them gets a place, as much
is spent on those after the one that the last step came to: each gets its attempt, even if the ledger changes before the
first ones are through.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set

import structlog

from fluence_extender.gangs.lifecycle.displacement import Displacement
from fluence_extender.gangs.lifecycle.failures import Asked, Failures
from fluence_extender.gangs.lifecycle.incomplete import rejection
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.pins import pinned
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.rounds import Round
from fluence_extender.gangs.membership.assembly import foreign_gates, required_size
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preemptions import may_preempt, preempting_priority
from fluence_extender.gangs.queue.beside import Beside
from fluence_extender.gangs.queue.book import BLOCKED, QueueBook
from fluence_extender.gangs.queue.future import Request
from fluence_extender.gangs.queue.turns import InLine
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, named_elsewhere, waiting
from fluence_extender.placement.eligibility import EligibilityIndex, signature
from fluence_extender.placement.lacks import Lack, Lacks
from fluence_extender.placement.topology_constraints import topology_constraints
from fluence_extender.queueing.order import Rank

DemandKey = frozenset[tuple[object, int]]


log = structlog.get_logger(__name__)

PLACED_AT_ONCE = 512
"""Once so many pods have got places in one step, they are steered and observations are taken in before more are tried.

After a start or a change of leader thousands may wait, and the first needn't wait for the plans of them all.
"""

TRIED_WITHIN = 0.003
"""Seconds for which a step tries the first gangs in order, and then those after the one that the last step came to."""

MOST_HOPELESS = 64
"""Of the members beyond a gang's size, after so many kinds without a place no more are tried in the same attempt."""


class Attempts:
    """Tries to place gangs, and records in each gang why it has no place."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        preemption: PreemptionManager,
        displacement: Displacement,
        queue: QueueBook,
        eligibility: EligibilityIndex,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._displacement = displacement
        self._preemption = preemption
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._lacks = Lacks(ledger, eligibility)
        self._failures = Failures(ledger, self._lacks)
        self._reached: Rank | None = None
        self._round = Round()
        self._idle: dict[float, bool] = {}
        self.explained: list[Gang] = []
        """The gangs for which the last step has found nothing but another reason, by what others had asked."""
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

    def make(self, looked_at: Set[GangKey], now: float) -> set[GangKey]:
        """Try gangs that might fit: those just looked at, or all that wait if more capacity may be free.

        Return those of which something may have changed besides their reason; ``explained`` are the others.
        """
        self.explained = []
        self._begin(looked_at)
        self._preemption.begin_round()
        self._idle.clear()
        # A search for victims goes on only where its gang is tried each time.
        searching = self._preemption.searching_for
        changed: set[GangKey] = set()
        before, nothing_yet = self._placed, True
        for turn in (self._round.first, self._further):
            if self._placed != before:
                # The first gangs get places, so the next ones in order may fit, too.
                break
            until = self._clock() + TRIED_WITHIN
            while self._placed - before < PLACED_AT_ONCE and (nothing_yet or self._clock() < until):
                place = turn() if self._queue.ready() else None
                if place is None:
                    break
                nothing_yet = False
                self._attempt(place, now, changed)
        place = None if searching is None else self._queue.turns.find(searching)
        if place is not None and searching not in changed:
            self._attempt(place, now, changed)
        if self._placed != before:
            self._failures.placed()
            # With those that run now, others may not start even if they had room, so nothing is reserved for them.
            self._registry.dirty.update(self._queue.limited())
        return changed

    def postpone(self, looked_at: Set[GangKey]) -> None:
        """Let gangs that were just looked at be tried in a later step."""
        self.explained = []
        self._begin(looked_at)

    def _begin(self, looked_at: Set[GangKey]) -> None:
        self._queue.begin(looked_at)
        version = self._ledger.version, self._queue.version
        if version != self._tried_version:
            self._tried_version = version
            self._round = Round(self._queue.turns.line, self._reached)
            return
        for key in looked_at:
            place = self._queue.turns.find(key)
            if place is not None:
                self._round.add(place)

    def _further(self) -> InLine | None:
        place = self._round.further()
        if place is not None:
            self._reached = place.rank
        return place

    def _attempt(self, place: InLine, now: float, changed: set[GangKey]) -> None:
        """Try a gang if it might fit, and add it to ``changed`` unless all but its reason is as before."""
        gang, rank = place.gang, place.rank
        attempt = gang.attempt
        if (
            gang.rest.until > now
            or (
                attempt.version == self._ledger.version
                and attempt.again_at > now
                and not self._queue.stopped(gang)
            )
            or self._queue.turns.find(gang.key) is not place
        ):
            return
        known = self._known(gang, rank, now) if attempt.asked else self._known_of_others(gang, rank, now)
        lacking = needy(gang) if known is None else []
        if known is None and not lacking:
            return
        attempt.version = self._ledger.version
        if known is not None:
            attempt.again_at = NEVER
            attempt.queue_version = self._queue.version
            if gang.reason is not known and gang.reason != known:
                gang.explain(known, now)
                self.explained.append(gang)
            gang.reason = known
            return
        changed.add(gang.key)
        attempt.again_at, attempt.asked = NEVER, None
        blocked = False
        self._idle.clear()
        try:
            blocked = self._try(gang, rank, now)
        except Exception as error:
            # One gang that can't be planned must not keep the others from being placed.
            log.exception("a gang could not be planned", gang=str(gang.key))
            gang.explain(_failed(self._ledger.graph.fault or repr(error)), now)
        if not blocked:
            self._queue.unblock(gang)
        self._queue.admission.shares.explained(gang)
        attempt.queue_version = self._queue.version
        got = len(lacking) - len(needy(gang))
        if got > 0:
            self._placed += got
            self._queue.admission.note(gang)

    def _known(self, gang: Gang, rank: Rank, now: float) -> Reason | None:
        """Return why the gang still has no place, where the failure of another tells it; None to try it."""
        asked = gang.attempt.asked
        if asked is None or gang.asks_since or not self._is_idle(asked.preempting, now):
            return None
        if self._queue.heads.has(gang, rank):
            # What is reserved for it stays as long as it lacks room.
            return self._failures.why(asked)
        if gang.starts_about is not None or self._queue.blocks(rank):
            return None
        known = self._queue.stops(rank) or self._failures.why(asked)
        if known is not None:
            return known
        token, levels = self._queue.reserved_before(gang, rank)
        if token is None:
            return None
        return self._failures.why_beside(asked, token, levels, self._queue.kept(levels))

    def _known_of_others(self, gang: Gang, rank: Rank, now: float) -> Reason | None:
        """Return `_known` of a gang of which nothing but what it asks may decide, None to try it."""
        if self._queue.blocks(rank) or gang.key in self._queue.heads:
            return None
        size, ready, attempt = size_of(gang), gang.pending(), gang.attempt
        if isinstance(size, Reason) or len(ready) < len(gang.alive()) or len(ready) + gang.ended != size:
            return None
        if _invalid(ready) or any(map(_differs, ready)) or not self._queue.admission.lasts(gang):
            return None
        attempt.asked = self._asked(gang, ready, now)
        known = self._known(gang, rank, now)
        if known is None:
            attempt.asked = None
        else:
            _note_whole(gang, ready, size)
        return known

    def _is_idle(self, priority: float, now: float) -> bool:
        """Return whether preemption is idle for that priority, which only an attempt changes within a step."""
        found = self._idle.get(priority)
        if found is None:
            found = self._idle[priority] = self._preemption.idle(priority, now)
        return found

    def _try(self, gang: Gang, rank: Rank, now: float) -> bool:
        """Try to place a gang; return whether it is blocked: it is whole and lacks capacity."""
        size = size_of(gang)
        if isinstance(size, Reason):
            return False
        ready = [member for member in needy(gang) if not foreign_gates(member.pod)]
        settled = sum(1 for member in gang.alive() if member.assignment is not None)
        missing = size - settled - gang.ended
        if not gang.begun and len(ready) < missing:
            gang.explain(self._not_whole(gang, size, missing), now)
            return False
        if not ready:
            gang.explain(_gates(gang), now)
            return False
        self._preemption.order(gang, ready)
        apart = bool(settled or len(ready) != missing)
        ready, later = (ready[:missing], ready[missing:]) if gang.promised and missing > 0 else (ready, [])
        fewest = max(missing, 1)
        obstacle = (
            _invalid(ready)
            or self._queue.admission.obstacle(gang)
            or self._preemption.obstacle(gang, ready)
            or self._over_quota(gang, ready, fewest)
        )
        if obstacle is not None:
            gang.explain(obstacle, now)
            return False
        if not settled:
            _note_whole(gang, ready, size)
        allowed, over = self._queue.admission.within_quota(gang, ready, fewest)
        ready = ready[: max(allowed, fewest)]
        over_now = over if allowed < fewest else None
        reason = self._preemption.known_reason(gang, ready[:fewest], now) or over_now
        asked = None
        if reason is None:
            asked = self._asked(gang, ready, now)
            beside = self._queue.beside(gang, rank, ready)
            reason = (
                beside
                if isinstance(beside, Reason)
                else self._plan_as_many(gang, ready, fewest, asked, beside, now)
            )
        needs, why = _needs(gang, size), reason
        if reason is not None:
            gang.attempt.again_at = min((one.refusals.next_bar_ends(now) for one in ready), default=NEVER)
            movable = any(one.assignment is not None for one in gang.pending())
            if missing > 0 and movable and not gang.begun and needs:
                # Some have places that the others can't join: all get new ones together.
                self._places.withdraw(gang)
                self._registry.dirty.add(gang.key)
            else:
                reason = self._make_room(gang, ready, missing if needs else 0, reason, now)
            reason = self._preemption.behind(gang, reason)
        reason = reason or over
        if not needs:
            self._preemption.end(gang.key)
        if later and reason is None:
            self._registry.dirty.add(gang.key)
        gang.explain(reason, now)
        if reason is not None and reason is why and not apart and self._decides_alone(gang, ready):
            gang.attempt.asked = asked
        return _needs(gang, size) and self._blocks(gang, rank, ready[: max(missing, 1)], now)

    def _over_quota(self, gang: Gang, ready: Sequence[Member], fewest: int) -> Reason | None:
        """Return why the quota has no room for the ``fewest`` members that have to be placed now.

        None if it is to get room by what the queue takes back.
        """
        allowed, over = self._queue.admission.within_quota(gang, ready, fewest)
        if over is None or allowed >= fewest or self._preemption.takes_back(gang, ready[:fewest]):
            return None
        if _needs(gang, gang.size) and any(one.assignment is not None for one in gang.pending()):
            # Some have places that the others can't join, so all give them back.
            self._places.withdraw(gang)
            self._registry.dirty.add(gang.key)
        return over

    def _blocks(self, gang: Gang, rank: Rank, ready: Sequence[Member], now: float) -> bool:
        """Tell the queue that the members lack capacity, if they do and if that counts; return whether it does."""
        if gang.reason is None or gang.reason.code not in BLOCKED or not self._queue.blocks(rank):
            return False
        lacking = [member for member in ready if member.assignment is None]
        if not lacking:
            return False
        passes = self._preemption.passes(gang)
        demands, settled = self._places.demands(lacking, now), self._places.settled(gang)
        request = Request(gang.key, tuple(demands), tuple(settled), passes)
        alike = _demand_key(gang, lacking, now, self._places.topology), passes
        self._queue.block(gang, rank, lacking, request, alike)
        return True

    def _not_whole(self, gang: Gang, size: int, missing: int) -> Reason:
        """Return why a gang waits of which too few members exist, or are free of gates of others."""
        present = len(gang.alive()) + gang.ended
        if present >= size:
            return _gates(gang) or waiting(present, size)
        elsewhere = self._registry.foreign_members(gang)
        never = self._places.never([member.pod for member in needy(gang)], missing)
        if never is None:
            reason, rejected = waiting(present, size, elsewhere), rejection(gang.members.values())
            return reason.followed_by(rejected) if rejected else reason
        for foreign in named_elsewhere(elsewhere):
            never = never.followed_by(foreign)
        return never

    def _make_room(self, gang: Gang, ready: list[Member], needed: int, reason: Reason, now: float) -> Reason:
        """Try to free capacity for ``needed`` members without a place; return why they wait until then."""
        lacking = [member for member in ready if member.assignment is None]
        parts = [lacking[:needed]] if needed else [[member] for member in lacking]
        reason, soon = self._displacement.look(gang, parts, reason, now)
        if needed and not soon:
            reason = self._preemption.consider(gang, ready[:needed], reason, now)
        return reason

    def _decides_alone(self, gang: Gang, members: Iterable[Member]) -> bool:
        """Return whether nothing but what a gang asks, and the order, decides if it has a place the next time."""
        if gang.attempt.again_at < NEVER or any(pinned(one) for one in members):
            return False
        return self._queue.admission.lasts(gang)

    def _asked(self, gang: Gang, members: Sequence[Member], now: float) -> Asked:
        """Return what stands for all gangs that ask the same."""
        # What is held for a gang is open to it alone, so other gangs may get another result.
        holds = self._ledger.preemptor_holds
        keeper = gang.key if holds.nodes_for(gang.key) or holds.kept_for(gang.key) else None
        key = _demand_key(gang, members, now, self._places.topology), self._preemption.passes(gang), keeper
        return self._failures.asked(key, preempting_priority(members) if may_preempt(members) else -math.inf)

    def _plan(
        self, gang: Gang, members: list[Member], asked: Asked, beside: Beside, now: float
    ) -> Reason | None:
        """Place all of ``members`` or return why not. What has failed isn't planned again (module `failures`)."""
        failed = self._failures
        reason = failed.why(asked) or failed.why_beside(asked, beside.token, beside.levels, beside.kept)
        if reason is None:
            reason = self._places.plan(gang, members, now, beside=beside)
            if reason is not None:
                failed.note(asked, reason, beside.token, beside.levels)
                asked.lack = self._lack(gang, members, reason, now)
        return reason

    def _lack(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Lack | None:
        """Return what the members lack, None where more than room may be missing, or others may not have the same."""
        holds = self._ledger.preemptor_holds
        own = holds.nodes_for(gang.key) or holds.kept_for(gang.key) or self._preemption.passes(gang)
        settled = any(one.assignment is not None for one in gang.members.values())
        if reason.code not in BLOCKED or own or settled:
            return None
        return self._lacks.of(self._places.demands(members, now))

    def _plan_as_many(
        self, gang: Gang, ready: list[Member], fewest: int, asked: Asked, beside: Beside, now: float
    ) -> Reason | None:
        """Place all of ``ready``, or the ``fewest`` needed then any others that fit; return why not all, or None."""
        reason = self._plan(gang, ready, asked, beside, now)
        if reason is None or len(ready) <= fewest:
            return reason
        if self._places.plan(gang, ready[:fewest], now, beside=beside) is not None:
            return reason
        beyond, start = ready[fewest:], gang.attempt.beyond
        gang.attempt.beyond = 0
        hopeless: set[object] = set()
        for at, member in enumerate(beyond[start:] + beyond[:start], start + 1):
            pod = member.pod
            kind = (pod.requests, *(tuple(sorted(kinds.items())) for kinds in (pod.devices, pod.requires)))
            if kind not in hopeless and self._places.plan(gang, [member], now, beside=beside):
                hopeless.add(kind)
                if len(hopeless) >= MOST_HOPELESS:
                    # The next attempt begins with the others.
                    gang.attempt.beyond = at % len(beyond)
                    break
        return reason


def _failed(why: str) -> Reason:
    return Reason(
        ReasonCode.PLANNING_FAILED,
        f"planning failed, which is the service's fault, not yours: {why} (see its log)",
    )


def size_of(gang: Gang) -> int | Reason:
    """Return how many members make the gang whole, or why that isn't known."""
    return required_size(gang.key, gang.alive())


def needy(gang: Gang) -> list[Member]:
    """Return the members that still need a place."""
    return [member for member in gang.pending() if member.assignment is None]


def _needs(gang: Gang, size: int) -> bool:
    """Return whether the gang has fewer places than its size requires."""
    return sum(1 for member in gang.alive() if member.assignment is not None) + gang.ended < size


def _note_whole(gang: Gang, ready: Sequence[Member], size: int) -> None:
    """Note that enough members are ready, if that is new."""
    if gang.reason is None or gang.reason.incomplete:
        gang.note(HistoryKind.WHOLE, "", f"{len(ready) + gang.ended} of {size} members are there")


def _differs(member: Member) -> bool:
    """Return whether a member may have another result than one that asks the same and was never placed."""
    placed = member.assignment is not None
    return placed or bool(member.refusals.barred or foreign_gates(member.pod)) or pinned(member)


def _invalid(ready: Iterable[Member]) -> Reason | None:
    broken = next((member.pod for member in ready if member.pod.problem), None)
    return (
        None if broken is None else Reason(ReasonCode.INVALID_REQUEST, f"pod {broken.name}: {broken.problem}")
    )


def _gates(gang: Gang) -> Reason | None:
    names = sorted({gate for member in gang.alive() for gate in foreign_gates(member.pod)})
    if not names:
        return None
    return Reason(ReasonCode.WAITING_FOR_GATES, f"waiting for scheduling gates of others: {', '.join(names)}")


def _demand_key(
    gang: Gang, members: Iterable[Member], now: float, topology: Callable[[Pod], tuple[tuple[str, ...], int]]
) -> DemandKey:
    """Return what placing ``members`` demands: equal values fit or don't fit alike."""
    # Under a node-exclusive policy a gang may use the nodes that it has already, and no other gang may.
    own = gang.key if any(member.assignment is not None for member in gang.members.values()) else None
    return frozenset(
        Counter(
            (
                member.pod.requests,
                signature(member.pod),
                member.pod.claims,
                tuple(sorted(member.pod.devices.items())),
                tuple(member.pod.requires.items()) if member.pod.devices else (),
                member.pod.host_ports,
                member.refusals.barred_nodes(now),
                topology_constraints(member.pod, *topology(member.pod)),
                own,
            )
            for member in members
        ).items()
    )
