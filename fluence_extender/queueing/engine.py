"""The queue at work: a pass over the waiting entries starts what may start and reserves for what is blocked.

A pass goes through the entries in their order. An entry starts if it fits into what is free for as long as it runs,
reservations respected. The first that don't fit are blocked, and each gets a reservation: the first moment at which it
fits, or nodes to be drained if no known end helps it and it has waited for too long. So each entry is placed with
regard to those before it alone, and nothing of the last pass is needed but what it promised. An entry that wouldn't fit
on empty nodes blocks nobody.

A pass is a generator, and the caller may pause wherever it yields. What happens to nodes and pods meanwhile is taken
into account after the pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.queueing.bounds import SlotBounds
from fluence_extender.queueing.drain import cheapest
from fluence_extender.queueing.earliest import earliest
from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Rows, Running
from fluence_extender.queueing.fitting import PlannerPort, may_fit, open_rows, place
from fluence_extender.queueing.order import WaitingEntries
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.promises import Incidents, still_free
from fluence_extender.queueing.reservation import Delay, DelayCause, OperatorReservation, Reservation
from fluence_extender.queueing.timeline import Timeline

AT_ONCE = 64
"""So many entries that don't fit are looked at before the caller may pause: less than a millisecond."""


@dataclass(frozen=True, slots=True)
class Start:
    """An entry starts now on ``places``. The timeline holds them under the entry's key until they are released."""

    entry: Entry
    places: Footprint


@dataclass(frozen=True, slots=True)
class _Blocked:
    """An entry that the last pass looked at for a reservation.

    ``possible`` says that it would fit on empty nodes.
    """

    entry: Entry
    possible: bool
    reservation: Reservation | None


Decision = Start | Delay
Pass = Generator[Decision | None, None, None]
"""Yields decisions, which have taken effect on the timeline already, and None where the caller may pause."""


class QueueEngine:
    """The waiting entries of a cluster and the reservations for them."""

    def __init__(
        self,
        timeline: Timeline,
        planner: PlannerPort,
        policy: QueuePolicy | None = None,
        operators: Sequence[OperatorReservation] = (),
    ) -> None:
        self.waiting = WaitingEntries()
        self.timeline = timeline
        self._planner = planner
        self._policy = policy or QueuePolicy()
        self._operators = tuple(operators)
        self._bounds = SlotBounds(timeline, planner)
        self._incidents = Incidents()
        self._promises: dict[str, Reservation] = {}
        self._last_promises: dict[str, Reservation] = {}
        self._blocked: list[_Blocked] = []
        self._valid_for: object = None
        self._pass: Pass | None = None
        self._deciding = False
        self._postponed: list[Callable[[], None]] = []

    @property
    def promises(self) -> Mapping[str, Reservation]:
        """What the last pass reserved, by the key of the entry."""
        return self._promises

    # What happens.

    def submit(self, entry: Entry) -> None:
        """Let an entry wait. One with the same key is replaced, and what was promised to it counts no more."""
        self.withdraw(entry.key)
        self.waiting.put(entry)

    def withdraw(self, key: str) -> None:
        """Let an entry wait no longer."""
        self._promises.pop(key, None)
        self._last_promises.pop(key, None)
        self.waiting.remove(key)

    def hold(self, hold: Running) -> None:
        """Count what runs, or count it again with other places or another end."""
        self._when_quiet(lambda: self._hold(hold))

    def release(self, key: str) -> None:
        """Stop counting what has ended."""
        self._when_quiet(lambda: self._release(key))

    def resize(self, rows: Rows, amounts: Amounts) -> None:
        """Set what nodes have in all; nothing for a node that is gone or cordoned."""
        self._when_quiet(lambda: self._resize(rows, amounts))

    def configure(self, policy: QueuePolicy, operators: Sequence[OperatorReservation]) -> None:
        """Replace the policy and the operators' reservations."""
        self._when_quiet(lambda: self._configure(policy, operators))

    # Decisions.

    def decide(self, now: float) -> Pass:
        """Return a pass over the waiting entries; one that isn't finished yet ends."""
        if self._pass is not None:
            self._pass.close()
        self._pass = self._decide(now)
        return self._pass

    def wake_at(self) -> float:
        """Return the next time at which a pass may decide otherwise though nothing has happened."""
        starving = (
            entry.created[0] + self._policy.starvation_after
            for entry in self.waiting.in_order(self._policy.depth)
            if entry.key not in self._promises
        )
        times = (
            self.timeline.next_end(),
            *self.timeline.starts[:1],
            *(one.end for one in self._operators),
            *starving,
        )
        return min((time for time in times if time > self.timeline.now), default=NEVER)

    def _decide(self, now: float) -> Pass:
        self._deciding = True
        try:
            for hold in self.timeline.advance(now):
                self._incidents.note(hold.places.rows, DelayCause.OVERRUN)
            kept = self._blocked if self._valid_for == self._state() else []
            self._cancel_all_but(kept)
            self._valid_for, self._blocked = self._state(), []
            self._last_promises, self._promises = {**self._last_promises, **self._promises}, {}
            self._bounds = SlotBounds(self.timeline, self._planner)
            yield from self._serve(deque(kept))
            self._cancel_all_but(self._blocked)
            for key, promise in list(self._last_promises.items()):
                if key in self.waiting.entries and key not in self._promises and promise.start < NEVER:
                    yield self._delay(promise, NEVER)
            self._last_promises.clear()
            self._incidents.clear()
        finally:
            self._deciding = False
            self._pass = None
            postponed, self._postponed = self._postponed, []
            for change in postponed:
                change()

    def _state(self) -> object:
        """Return what reservations depend on, apart from the entries and the passing of time."""
        over = sum(1 for one in self._operators if one.end <= self.timeline.now)
        return self.timeline.revision, self._policy, self._operators, over

    def _serve(self, kept: deque[_Blocked]) -> Pass:
        left, counted = self._policy.depth, False
        for number, entry in enumerate(self.waiting.in_order(self._policy.queue_depth)):
            if counted or number % AT_ONCE == 0:
                yield None
            if self.waiting.entries.get(entry.key) is not entry:
                continue
            if kept and self._stays(kept[0], entry):
                left -= kept[0].possible
                self._keep(kept.popleft())
                continue
            if kept:
                kept.clear()
                self._cancel_all_but(self._blocked)
            counted = not self._excluded(entry)
            places = self._places_now(entry) if counted else None
            if places is not None:
                self._start(entry, places)
                yield Start(entry, places)
            elif left:
                blocked = yield from self._reserve(entry)
                left -= blocked.possible
            elif self._policy.policy is PolicyName.FCFS and self._possible(entry):
                return

    def _stays(self, blocked: _Blocked, entry: Entry) -> bool:
        """Return whether an entry is blocked as it was, given that nothing has changed but the time.

        No entry fits earlier than it did: until the next return of room, what is free stays as it is, and a later end
        has to respect more reservations. A return that an entry waits for is a change: either the pod has ended, or it
        overruns.
        """
        if blocked.entry is not entry:
            return False
        return blocked.reservation is not None or not blocked.possible or not self._starves(entry)

    def _keep(self, blocked: _Blocked) -> None:
        self._blocked.append(blocked)
        if blocked.reservation is not None:
            self._promises[blocked.entry.key] = blocked.reservation

    def _cancel_all_but(self, kept: Sequence[_Blocked]) -> None:
        keys = {one.entry.key for one in kept}
        for key in list(self.timeline.reservations):
            if key not in keys:
                self.timeline.cancel(key)

    def _excluded(self, entry: Entry) -> bool:
        """Return whether an entry can't start now, as is known without counting anything."""
        now = self.timeline.now
        closing = self._closing(entry, now, now + entry.duration)
        return self._bounds.exclude(entry, self.timeline.levels_within(entry.duration), closing)

    def _places_now(self, entry: Entry) -> Footprint | None:
        """Return places on which an entry may start now."""
        timeline = self.timeline
        within = timeline.levels_within(entry.duration)
        closing = self._closing(entry, timeline.now, timeline.now + entry.duration)
        if not self._bounds.count(entry, within, closing):
            return None
        usable = open_rows(self._planner, entry, closing, len(timeline.room))
        others = timeline.slack(NEVER) if timeline.starts else None
        places = place(self._planner, entry, timeline.slack(entry.duration), usable, others)
        if places is None:
            self._bounds.refused(entry, within, closing)
        return places

    def _start(self, entry: Entry, places: Footprint) -> None:
        self.waiting.remove(entry.key)
        self.timeline.hold(Running(entry.key, places, self.timeline.now + entry.duration))

    def _reserve(self, entry: Entry) -> Generator[Decision | None, None, _Blocked]:
        """Reserve for a blocked entry, and say so if it starts later than it was promised."""
        promise = self._last_promises.get(entry.key)
        # What got a reservation fitted on empty nodes, so it is asked again only if it gets none any more.
        possible = promise is not None or self._possible(entry)
        reservation = (yield from self._reservation(entry, promise)) if possible else None
        if promise is not None and reservation is None:
            possible = self._possible(entry)
        if self.waiting.entries.get(entry.key) is not entry:
            return _Blocked(entry, possible=False, reservation=None)
        self._keep(_Blocked(entry, possible, reservation))
        if reservation is not None:
            self.timeline.reserve(reservation)
            if promise is not None and reservation.start > promise.start:
                yield self._delay(promise, reservation.start)
        return self._blocked[-1]

    def _reservation(
        self, entry: Entry, promise: Reservation | None
    ) -> Generator[None, None, Reservation | None]:
        timeline = self.timeline
        found = yield from earliest(timeline, entry, self._planner, self._operators)
        if (
            promise is not None
            and (found is None or found[0] > promise.start)
            and self._keeps(entry, promise)
        ):
            return promise
        if found is not None:
            start, places = found
            return Reservation(entry.key, places, start, start + entry.duration)
        if self._starves(entry):
            drained = cheapest(timeline, entry, self._planner, self._operators)
            if drained is not None:
                return Reservation(entry.key, drained, NEVER, NEVER, draining=True)
        return None

    def _keeps(self, entry: Entry, promise: Reservation) -> bool:
        """Return whether an entry keeps what it was promised though the planner found it only later."""
        return still_free(promise, self.timeline) and not self._closing(entry, promise.start, promise.end)

    def _starves(self, entry: Entry) -> bool:
        return self.timeline.now - entry.created[0] >= self._policy.starvation_after

    def _delay(self, promise: Reservation, start: float) -> Delay:
        return Delay(promise.key, promise.start, start, self._incidents.cause(promise, self.timeline))

    def _possible(self, entry: Entry) -> bool:
        """Return whether an entry would fit on empty nodes."""
        capacity = self.timeline.capacity
        return (
            may_fit(entry.slots, capacity, self._planner.usable(entry.where))
            and self._planner.place(entry, capacity) is not None
        )

    def _closing(self, entry: Entry, since: float, until: float) -> list[OperatorReservation]:
        return [one for one in self._operators if one.closes(entry, since, until)]

    # Changes.

    def _when_quiet(self, change: Callable[[], None]) -> None:
        if self._deciding:
            self._postponed.append(change)
        else:
            change()

    def _hold(self, hold: Running) -> None:
        cause = DelayCause.FOREIGN if hold.foreign else DelayCause.OVERRUN
        self._incidents.note(hold.places.rows, cause)
        self.timeline.hold(hold)

    def _release(self, key: str) -> None:
        self.timeline.release(key)

    def _resize(self, rows: Rows, amounts: Amounts) -> None:
        self._incidents.note(rows, DelayCause.NODE_LOST)
        self.timeline.resize(rows, amounts)

    def _configure(self, policy: QueuePolicy, operators: Sequence[OperatorReservation]) -> None:
        self._policy, self._operators = policy, tuple(operators)
        self._incidents.queue_changed = True
