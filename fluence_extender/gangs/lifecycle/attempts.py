"""Attempts to place gangs: which of them might fit now, in which order, and why one doesn't fit.

A gang is tried once for each version of the ledger, so that gangs that can't fit cost nothing. A promised gang is tried
with the members that it lacks, and in a turn of its own with those beyond its size.

Invariant: a step tries gangs for a bounded time, however many wait. So gangs that can't be placed keep neither the
placed ones nor other work waiting. The time is spent on the first gangs in order, then as much on those after the one
that the last step came to: each gets its attempt, even if the ledger changes before the first ones are through.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from operator import itemgetter

import structlog

from fluence_extender.gangs.lifecycle.displacement import Displacement
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.assembly import foreign_gates, required_size
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.queue.beside import Beside
from fluence_extender.gangs.queue.book import BLOCKED, QueueBook
from fluence_extender.gangs.queue.future import Request
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, named_elsewhere, waiting
from fluence_extender.placement.eligibility import signature
from fluence_extender.placement.topology_constraints import topology_constraints
from fluence_extender.queueing.order import Rank

DemandKey = frozenset[tuple[object, int]]


log = structlog.get_logger(__name__)

PLACED_AT_ONCE = 512
"""Once so many pods have got places in one step, they are steered and observations are taken in before more are tried.

After a start or a change of leader thousands may wait, and the first needn't wait for the plans of them all.
"""

TRIED_WITHIN = 0.1
"""Seconds for which a step tries the first gangs in order, and then those after the one that the last step came to."""

MOST_HOPELESS = 64
"""Of the members beyond a gang's size, after so many kinds without a place no more are tried in the same attempt."""


class Attempts:
    """Tries to place gangs, and records in each gang why it has no place.

    ``left`` are the gangs that weren't tried last time, because the step had placed enough pods or taken long enough.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        preemption: PreemptionManager,
        displacement: Displacement,
        queue: QueueBook,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._displacement = displacement
        self._preemption = preemption
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._failed_demands: dict[tuple[object, ...], Reason] = {}
        self._failed_at = -1
        self._reached: Rank | None = None
        self._tried_version = (-1, -1)
        self.left: frozenset[GangKey] = frozenset()

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return bool(self.left) or self._queue.restless or self._queue.version != self._tried_version[1]

    def begin(self, looked_at: Set[GangKey], waiting: Set[GangKey]) -> Set[GangKey]:
        """Return which gangs might fit: those just looked at, or all that wait if more capacity may be free."""
        self._queue.begin(looked_at, waiting)
        version = self._ledger.version, self._queue.version
        hopeful = looked_at if version == self._tried_version else looked_at | waiting
        self._tried_version = version
        return hopeful | self.left

    def all(self, gangs: Iterable[Gang], now: float) -> set[GangKey]:
        """Try those of ``gangs`` that wait and might fit; return the ones tried, which are all but those ``left``."""
        hopeful = [
            gang
            for gang in gangs
            if gang.rest.until <= now
            and (
                gang.attempt.version != self._ledger.version
                or gang.attempt.again_at <= now
                or self._queue.stopped(gang)
            )
            and needy(gang)
        ]
        self._preemption.begin_round()
        # A search for victims goes on only where its gang is tried each time.
        searching = self._preemption.searching_for
        tried: set[GangKey] = set()
        placed = 0
        for gang, place, in_time in self._in_turn(hopeful):
            if (placed >= PLACED_AT_ONCE or not in_time) and gang.key != searching:
                continue
            tried.add(gang.key)
            before = len(needy(gang))
            gang.attempt.version = self._ledger.version
            gang.attempt.again_at = NEVER
            blocked = False
            try:
                blocked = self._try(gang, place, now)
            except Exception as error:
                # One gang that can't be planned must not keep the others from being placed.
                log.exception("a gang could not be planned", gang=str(gang.key))
                gang.explain(_failed(self._ledger.graph.fault or repr(error)), now)
            if not blocked:
                self._queue.unblock(gang)
            gang.attempt.queue_version = self._queue.version
            if len(needy(gang)) < before:
                placed += before - len(needy(gang))
                self._queue.admission.note(gang)
        if placed:
            # Those demands fail still, but the reason says how much would fit.
            self._failed_demands.clear()
        self._queue.turns.forget(tried)
        self.left = frozenset(gang.key for gang in hopeful if gang.key not in tried)
        return tried

    def _in_turn(self, gangs: Iterable[Gang]) -> Iterator[tuple[Gang, Rank, bool]]:
        """Yield ``gangs`` in the order of their turns, each with its turn and whether there is time to try it."""
        turns = sorted(((self._queue.turns.of(gang), gang) for gang in gangs), key=itemgetter(0))
        until, first = self._clock() + TRIED_WITHIN, 0
        while first < len(turns) and (first == 0 or self._clock() < until):
            yield turns[first][1], turns[first][0], True
            first += 1
        rest, reached = turns[first:], self._reached
        self._reached = None
        after = 0 if reached is None else bisect_right(rest, reached, key=itemgetter(0))
        until, in_time = self._clock() + TRIED_WITHIN, True
        for place, gang in rest[after:] + rest[:after]:
            in_time = in_time and self._clock() < until
            if in_time:
                self._reached = place
            yield gang, place, in_time

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
        ready, later = (ready[:missing], ready[missing:]) if gang.promised and missing > 0 else (ready, [])
        obstacle = (
            _invalid(ready) or self._queue.admission.obstacle(gang) or self._preemption.obstacle(gang, ready)
        )
        if obstacle is not None:
            gang.explain(obstacle, now)
            return False
        if not settled and (gang.reason is None or gang.reason.incomplete):
            gang.note(HistoryKind.WHOLE, "", f"{len(ready) + gang.ended} of {size} members are there")
        fewest = max(missing, 1)
        reason = self._preemption.known_reason(gang, ready[:fewest], now)
        if reason is None:
            beside = self._queue.beside(gang, rank, ready)
            reason = (
                beside if isinstance(beside, Reason) else self._plan_as_many(gang, ready, fewest, beside, now)
            )
        needs = _needs(gang, size)
        if reason is not None:
            gang.attempt.again_at = min((one.refusals.next_bar_ends for one in ready), default=NEVER)
            movable = any(one.assignment is not None for one in gang.pending())
            if missing > 0 and movable and not gang.begun and needs:
                # Some have places that the others can't join: all get new ones together.
                self._places.withdraw(gang)
                self._registry.dirty.add(gang.key)
            else:
                reason = self._make_room(gang, ready, missing if needs else 0, reason, now)
            reason = self._preemption.behind(gang, reason)
        if not needs:
            self._preemption.end(gang.key)
        if later and reason is None:
            self._registry.dirty.add(gang.key)
        gang.explain(reason, now)
        return _needs(gang, size) and self._blocks(gang, rank, ready[: max(missing, 1)], now)

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
            return waiting(present, size, elsewhere)
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

    def _plan(self, gang: Gang, members: list[Member], beside: Beside, now: float) -> Reason | None:
        """Place all of ``members`` or return why not.

        A demand that has failed isn't tried again at the same version of the ledger, unless gangs were placed since.
        """
        if self._failed_at != self._ledger.version:
            self._failed_at = self._ledger.version
            self._failed_demands.clear()
        # What is held for a gang is open to it alone, so other gangs may get another result.
        keeper = gang.key if self._ledger.preemptor_holds.nodes_for(gang.key) else None
        asked = (
            _demand_key(gang, members, now, self._places.topology),
            self._preemption.passes(gang),
            keeper,
            beside.token,
        )
        reason = self._failed_demands.get(asked)
        if reason is None:
            reason = self._places.plan(gang, members, now, beside=beside)
            if reason is not None:
                self._failed_demands[asked] = reason
        return reason

    def _plan_as_many(
        self, gang: Gang, ready: list[Member], fewest: int, beside: Beside, now: float
    ) -> Reason | None:
        """Place all of ``ready``, or the ``fewest`` needed then any others that fit; return why not all, or None."""
        reason = self._plan(gang, ready, beside, now)
        if reason is None or len(ready) <= fewest:
            return reason
        if self._places.plan(gang, ready[:fewest], now, beside=beside) is not None:
            return reason
        beyond, start = ready[fewest:], gang.attempt.beyond
        gang.attempt.beyond = 0
        hopeless: set[object] = set()
        for at, member in enumerate(beyond[start:] + beyond[:start], start + 1):
            pod = member.pod
            asked = (pod.requests, *(tuple(sorted(kinds.items())) for kinds in (pod.devices, pod.requires)))
            if asked not in hopeless and self._places.plan(gang, [member], now, beside=beside):
                hopeless.add(asked)
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
