"""The blocked gangs at the head of the line, and what is reserved for each with regard to those before it.

A whole gang that lacks capacity is blocked. The first of them, as many as the policy says, get reservations: the first
moment at which the gang fits, by the ends that pods declare, or nodes to drain if no end helps a gang that has waited
for too long. Nothing is booked for them, so after a restart the same is decided once all gangs have been tried. A gang
for which others are preempted isn't blocked: its nodes are held until its victims are gone, and no reservation uses
them.

Invariants: the timeline has the reservations of the first gangs in order, up to the rank that was given to `settle`.
Each reservation was found with regard to those before it alone. If a promised start moves later, the gang's history
records that. ``version`` grows when others may use something that was kept from them.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.future import FuturePlanner, Request
from fluence_extender.gangs.queue.ledger_timeline import LedgerTimeline
from fluence_extender.model.accounting import MovedStart
from fluence_extender.model.gang import GangKey, HistoryKind
from fluence_extender.queueing.drain import cheapest
from fluence_extender.queueing.earliest import earliest, still_free
from fluence_extender.queueing.entry import NEVER, Entry
from fluence_extender.queueing.order import Rank
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.reservation import OperatorReservation, Reservation

ORDER = attrgetter("rank")

HOPELESS = 16
"""The most gangs that wouldn't fit on empty nodes among the heads that are looked at."""

DECIDED_WITHIN = 0.007
"""Seconds from the begin of a step in which it finds reservations, at least one. Other gangs keep their promises."""


@dataclass(slots=True)
class Head:
    """A blocked gang.

    ``alike`` stands for its demand: while it stays the same, the promise may stay, too. ``possible`` says that the gang
    would fit on empty nodes; a gang that wouldn't blocks nobody. ``promise`` is its reservation. ``basis`` is the state
    in which the promise was found, with the counters ``freed`` and ``built`` of the `LedgerTimeline` at that time.
    ``fitted`` is the last state in which the promise was found or put back because its places were free.
    ``free`` says for the last basis on which that was looked at whether the promised places are free at the start, and
    ``open`` whether the gang may use them.
    """

    gang: Gang
    rank: Rank
    entry: Entry
    alike: object
    possible: bool = True
    promise: Reservation | None = None
    basis: object = None
    fitted: object = None
    freed: int = -1
    built: int = -1
    free: tuple[object, bool] = (None, False)
    open: tuple[object, bool] = (None, False)


class Heads:
    """The blocked gangs in order. ``state`` returns everything but the timeline that reservations depend on."""

    def __init__(
        self,
        followed: LedgerTimeline,
        planner: FuturePlanner,
        state: Callable[[], object],
        policy: Callable[[], QueuePolicy],
        operators: Callable[[], Sequence[OperatorReservation]],
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._until = NEVER
        self._first = True
        self._followed = followed
        self._planner = planner
        self._state = state
        self._policy = policy
        self._operators = operators
        self._heads: list[Head] = []
        self._counted: tuple[Head | None, bool] | None = None
        self._settled: object = None
        self.version = 0
        self.unfinished = False

    @property
    def blocked(self) -> Sequence[Head]:
        """The blocked gangs that count, in order."""
        return self._heads

    def __contains__(self, key: GangKey) -> bool:
        """Return whether that gang is blocked."""
        return self.find(key) is not None

    def find(self, key: GangKey) -> Head | None:
        """Return the head of that gang, if it is one."""
        return next((head for head in self._heads if head.gang.key == key), None)

    def has(self, gang: Gang, rank: Rank) -> bool:
        """Return whether a gang is blocked with that rank."""
        if not self._heads or rank > self._heads[-1].rank:
            return False
        head = self._heads[bisect.bisect_left(self._heads, rank, key=ORDER)]
        return head.gang is gang and head.rank == rank

    def counts(self, rank: Rank) -> bool:
        """Return whether a blocked gang of that rank would be among the first, which get reservations."""
        if self._counted is None:
            self._counted = self._find_last()
        last, more = self._counted
        return more or (last is not None and rank <= last.rank)

    def _find_last(self) -> tuple[Head | None, bool]:
        """Return the last head that counts, and whether gangs behind it count, too."""
        most = left = self._most
        for number, head in enumerate(self._heads, 1):
            left -= head.possible
            if left <= 0 or number == most + HOPELESS:
                return (head if most else None), False
        return None, most > 0

    @property
    def _most(self) -> int:
        policy = self._policy()
        return max(policy.depth, policy.policy is PolicyName.FCFS)

    # Coming and going.

    def block(self, gang: Gang, rank: Rank, entry: Entry, request: Request, alike: object) -> None:
        """Record that a gang is blocked now or is still blocked."""
        old = self._pop(gang.key)
        self._planner.requests[entry.key] = request
        head = Head(gang, rank, entry, alike)
        if old is not None and old.alike == alike and old.gang is gang:
            head.promise, head.possible, head.freed = old.promise, old.possible, old.freed
            head.built = old.built
            same = replace(entry, slots=old.entry.slots) == old.entry
            head.basis = old.basis if same else None
            head.entry = old.entry if same else entry
        elif old is not None:
            self._followed.timeline.cancel(old.entry.key)
            self.version += self._kept_others(old)
        bisect.insort(self._heads, head, key=ORDER)
        self._counted = self._settled = None

    def unblock(self, key: GangKey, outranked: bool = False) -> None:
        """Record that a gang isn't blocked, or that it is ``outranked``: gangs before it have all reservations."""
        head = self._pop(key)
        if head is not None:
            if head.promise is not None:
                head.gang.starts_about = None
                if outranked:
                    self._record_delay(head, head.promise, NEVER)
            self._discard(head)

    def rerank(self, turn: Callable[[Gang], Rank]) -> None:
        """Put the blocked gangs in their order, which has changed."""
        for head in self._heads:
            head.rank = turn(head.gang)
        self._heads.sort(key=ORDER)

    def _pop(self, key: GangKey) -> Head | None:
        for number, head in enumerate(self._heads):
            if head.gang.key == key:
                self._counted = self._settled = None
                return self._heads.pop(number)
        return None

    def _discard(self, head: Head) -> None:
        self._followed.timeline.cancel(head.entry.key)
        self._planner.requests.pop(head.entry.key, None)
        self.version += self._kept_others(head)

    def _kept_others(self, head: Head) -> bool:
        """Return whether others may have been kept from starting, or from a reservation, because of that gang."""
        return head.possible or self._policy().policy is PolicyName.FCFS

    def clear(self) -> None:
        """Forget all gangs."""
        while self._heads:
            self._discard(self._heads.pop())
        self._counted = self._settled = None

    # Reserving.

    def begin(self) -> None:
        """Begin a step, which has time to find reservations again."""
        self._until = self._clock() + DECIDED_WITHIN
        self._first = True
        self.unfinished = False
        self._counted = self._settled = None

    def finish(self, ready: bool = True) -> None:
        """End a step: put all reservations on the timeline, if that is ``ready``."""
        if ready:
            self.settle()
        self.unfinished |= not ready

    def settle(self, before: Rank | None = None) -> None:
        """Put exactly the reservations of gangs ``before`` that rank on the timeline, those of all gangs by default.

        Once all are settled, nothing is done until more has changed than the time.
        """
        if self._heads and before is not None and before <= self._heads[-1].rank:
            self._settle(before)
        elif self._settled != (self._followed.basis, self._state()):
            self._settle(None)
            self._settled = self._followed.basis, self._state()

    def _settle(self, before: Rank | None) -> None:
        if not self._heads or not self._reserves:
            self._lift(self._heads)
            return
        self._followed.follow()
        timeline = self._followed.timeline
        state = (self._followed.built, timeline.revision, self._state())
        # Whoever has waited since then has waited for too long.
        starving = self._followed.now() - self._policy().starvation_after
        left = most = self._most
        prefix: tuple[Reservation | None, ...] = ()
        lifted: Set[str] | None = None
        # The rows on which more is reserved than there was on the timeline before.
        fuller: set[int] = set()
        for number, head in enumerate(self._heads):
            if before is not None and head.rank >= before:
                self._lift(() if lifted is not None else self._heads[number:])
                return
            if not left or number >= most + HOPELESS:
                for gang in [late.gang for late in self._heads[number:]]:
                    self.unblock(gang.key, outranked=True)
                break
            basis = (state, prefix, head.entry.created[0] <= starving)
            there = head.entry.key in timeline.reservations
            stood = there or (lifted is not None and head.entry.key in lifted)
            promise = head.promise
            due = promise is not None and not there and promise.start <= timeline.now
            if head.basis != basis or due:
                decided = self._first or self._clock() <= self._until
                if lifted is None and (decided or due or not there):
                    # The gangs behind are lifted once, and stay lifted until they are reserved again below.
                    lifted = self._lift(self._heads[number:])
                if decided:
                    self._first = False
                    self._decide(head, prefix)
                    head.basis = basis
                    head.fitted = None if head.promise is None or head.promise.draining else state
                else:
                    self.unfinished = True
                    if promise is not None and not there:
                        self._put_back(head, promise, state, fuller if stood else None)
            elif promise is not None and not there:
                timeline.reserve(promise)
            if head.promise is not None and not (stood and head.promise is promise):
                fuller.update(head.promise.places.rows.tolist())
            prefix = (*prefix, head.promise)
            left -= head.possible

    @property
    def _reserves(self) -> bool:
        """Whether any gang has or may get a reservation, or has to be judged for another reason."""
        policy = self._policy()
        return (
            policy.policy is PolicyName.FCFS
            or self._followed.any_ends
            or bool(self._operators())
            or any(head.promise is not None or self._starves(head) for head in self._heads)
        )

    def _decide(self, head: Head, prefix: tuple[Reservation | None, ...]) -> None:
        """Find a new reservation for a gang, or keep its promise."""
        timeline, old = self._followed.timeline, head.promise
        slots = self._planner.slots(self._planner.requests[head.entry.key])
        entry = head.entry = replace(head.entry, slots=slots)
        same_before = isinstance(head.basis, tuple) and head.basis[1] == prefix
        not_before = self._planner.not_before(entry.key, prefix)
        kept = old if old is not None and self._is_still_free(head, old) else None
        if kept is not None and kept.start < not_before:
            kept = None
        if not self._policy().depth or not_before == NEVER:
            found = None
        elif kept is not None and same_before and head.freed == self._followed.freed:
            found = kept
        else:
            found = self._earliest(head, kept, not_before)
        head.possible = found is not None or self._planner.place(entry, timeline.capacity) is not None
        head.freed = self._followed.freed
        self._counted = None
        if found is None and head.possible and self._policy().depth and self._starves(head):
            places = cheapest(timeline, entry, self._planner, self._operators())
            if places is not None:
                found = Reservation(entry.key, places, NEVER, NEVER, draining=True)
                if old is not None and _is_within(found, old):
                    found = old
        if old is not None and found is not old:
            self.version += 1
            start = NEVER if found is None else found.start
            if start > old.start:
                self._record_delay(head, old, start)
        head.promise, head.built = found, self._followed.built
        if found is None:
            timeline.cancel(entry.key)
        else:
            if found is not kept:
                head.free = self._basis_of(found), not found.draining
                head.open = (found, self._state()), True
            timeline.reserve(found)
            if found.start != NEVER:
                head.gang.foretold = head.gang.foretold.promised(found.start)

    def _earliest(self, head: Head, promise: Reservation | None, not_before: float) -> Reservation | None:
        """Return a reservation at the first moment at which the gang fits by the known ends, None if there is none.

        It doesn't start before ``not_before``.

        ``promise`` can be kept, so it is the answer unless the gang fits earlier or elsewhere at that time.
        """
        found = earliest(
            self._followed.timeline, head.entry, self._planner, self._operators(), promise, not_before
        )
        if found is None:
            return promise
        start, places = found
        new = Reservation(head.entry.key, places, start, start + head.entry.duration)
        return promise if promise is not None and _is_within(new, promise) else new

    def _put_back(self, head: Head, promise: Reservation, state: object, fuller: Set[int] | None) -> None:
        """Put a promise on the timeline if its places are still free.

        They are if it was taken off the timeline since it was last found to fit, and no more is reserved there than at
        that time. ``fuller`` are the rows with more, None if the promise wasn't on the timeline.
        """
        same = (
            fuller is not None
            and head.fitted == state
            and promise.start > self._followed.timeline.now
            and fuller.isdisjoint(promise.places.rows.tolist())
        )
        if same or self._is_still_free(head, promise):
            self._followed.timeline.reserve(promise)
            head.fitted = state

    def _is_still_free(self, head: Head, promise: Reservation) -> bool:
        """Return whether the promised places are still free at the promised start for as long as the gang runs."""
        timeline = self._followed.timeline
        if head.built != self._followed.built or promise.start <= timeline.now:
            return False
        if promise.end < promise.start + head.entry.duration:
            return False
        basis = self._basis_of(promise)
        if head.free[0] != basis:
            head.free = basis, still_free(promise, timeline)
        state = promise, self._state()
        if head.free[1] and head.open[0] != state:
            head.open = state, self._is_open(head, promise)
        return head.free[1] and head.open[1]

    def _basis_of(self, promise: Reservation) -> object:
        """Return a value that stays the same while the promised places do, and all that is reserved there."""
        timeline, rows = self._followed.timeline, promise.places.rows
        return promise, timeline.reservations_on(rows), timeline.revision_of(rows)

    def _is_open(self, head: Head, promise: Reservation) -> bool:
        """Return whether the gang may use the promised places while it would run."""
        usable = self._planner.usable(head.entry.where)
        closed = any(
            one.closes(head.entry, promise.start, promise.end)
            and np.isin(promise.places.rows, one.rows).any()
            for one in self._operators()
        )
        return not closed and (usable is None or bool(usable[promise.places.rows].all()))

    def _starves(self, head: Head) -> bool:
        return self._followed.now() - head.entry.created[0] >= self._policy().starvation_after

    def wake_at(self, head: Head) -> float:
        """Return when to try a blocked gang again if nothing happens before."""
        if head.promise is not None:
            return head.promise.start
        starving = head.entry.created[0] + self._policy().starvation_after
        return starving if starving > self._followed.now() else NEVER

    def _lift(self, heads: Sequence[Head]) -> Set[str]:
        """Take the reservations of some gangs off the timeline, and return the keys of those that had one."""
        timeline = self._followed.timeline
        found = timeline.reservations.keys() & {head.entry.key for head in heads}
        for key in found:
            timeline.cancel(key)
        return found

    def _record_delay(self, head: Head, promise: Reservation, start: float) -> None:
        """Record that a gang starts later than it was promised, at ``start``."""
        if promise.start != NEVER:
            later = None if start == NEVER else int(start)
            moved = MovedStart(int(self._followed.now()), int(promise.start), later)
            head.gang.foretold = head.gang.foretold.moved(moved)
        head.gang.note(HistoryKind.DELAYED, "", "it is expected to start later")
        if start == NEVER:
            head.gang.starts_about = None


def _is_within(one: Reservation, other: Reservation) -> bool:
    """Return whether a reservation has the same places and start as another, and doesn't end later."""
    if one.start != other.start or one.end > other.end:
        return False
    if not np.array_equal(one.places.rows, other.places.rows):
        return False
    return np.array_equal(one.places.amounts, other.places.amounts)
