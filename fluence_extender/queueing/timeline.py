"""What is free on each node, now and later.

Room comes back when a pod or a reservation ends, and is lost only when a reservation starts. So between two starts of
reservations room only grows. An entry may take for some duration the minimum of the free amounts now and at the starts
within that duration. Few rows have reservations, so the amounts at these starts are added up for those rows alone.

Invariant: a timeline tells the same as one that is built anew from the same room, holds and reservations. Amounts may
be negative where more is taken than there is. Arrays have the shape rows x resources unless a docstring says otherwise,
and are read-only for callers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fluence_extender.queueing.ends import expected_end
from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Rows, Running, Times
from fluence_extender.queueing.freed_slots import FreedSlots
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.queueing.steps import Steps, TimelinePart

LAST = math.nextafter(NEVER, 0)
"""The last time before `NEVER`."""

MANY_ENDS = 256
"""The most changes of ends that are taken in one by one. After more of them, all ends are sorted anew."""


class Timeline:
    """Room, holds and reservations over time.

    ``room`` has the total amounts of each row. ``capacity`` is the room less what foreign pods without a declared end
    hold. ``free`` is what is free now. ``loosened`` grows whenever something may have become free, and whenever a
    reservation comes or goes. ``revision`` grows with each change of room or holds.
    """

    def __init__(self, room: Amounts, now: float = 0.0) -> None:
        self.now = now
        self.room = _by_column(room)
        self.capacity = _by_column(room)
        self.free = _by_column(room)
        self.loosened = 0
        self.revision = 0
        self._changed = np.zeros(len(room), dtype=np.int64)
        self._starts: list[float] = []
        self._holds: dict[str, Running] = {}
        self._until: dict[str, float] = {}
        self._ends: list[tuple[float, str]] = []
        self._reservations: dict[str, Reservation] = {}
        self._on_row: dict[int, set[str]] = {}
        self._sorted_holds: Steps | None = None
        self._resorted: list[tuple[Footprint, float, bool]] = []
        self._freed_slots: tuple[int, FreedSlots | None] = (-1, None)
        self._reserved: TimelinePart | None = None

    # Reading.

    @property
    def holds(self) -> Mapping[str, Running]:
        """Running work by key."""
        return self._holds

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """The reservations by the keys of their entries."""
        return self._reservations

    @property
    def starts(self) -> list[float]:
        """The sorted starts of reservations after now."""
        return self._starts

    def until(self, key: str) -> float:
        """Return when the running work with this key is expected to end."""
        return self._until[key]

    def kept(self, levels: int) -> Footprint:
        """Return what has to stay free for reservations from now until after the first ``levels`` starts."""
        part = self.reserved
        kept = np.maximum(self.unreserved(self.now)[part.rows] - part.minima[levels], 0)
        some = kept.any(axis=1)
        return Footprint(part.rows[some], kept[some])

    def levels_within(self, duration: float) -> int:
        """Return how many of the `starts` come before the end of an entry that starts now."""
        return bisect.bisect_left(self._starts, self.now + duration)

    def at(self, time: float) -> Amounts:
        """Return what is free at a time, now or later."""
        found = self.unreserved(time)
        for one in self._reservations.values():
            if one.draining or one.start <= time < one.end:
                found[one.places.rows] -= one.places.amounts
        return found

    def available(self, rows: Rows, start: float, duration: float) -> Amounts:
        """Return what is free on some rows from ``start`` on for ``duration``."""
        some = self.reservations_on(rows)
        starts = {one.start for one in some if start < one.start < start + duration}
        part = self._part(rows, np.array(sorted({start, *starts})), some)
        found: Amounts = part.levels.min(axis=0)
        return found

    def reservations_on(self, rows: Rows) -> frozenset[Reservation]:
        """Return the reservations that use any of some rows."""
        keys = {key for row in rows.tolist() for key in self._on_row.get(row, ())}
        return frozenset(self._reservations[key] for key in keys)

    def revision_of(self, rows: Rows) -> int:
        """Return the last revision with which the room or the holds of some rows have changed."""
        return int(self._changed[rows].max(initial=0))

    def unreserved(self, time: float) -> Amounts:
        """Return what would be free at a time if nothing were reserved."""
        found = self.free.copy(order="K")
        for one in self._reservations.values():
            if self._counts_now(one):
                found[one.places.rows] += one.places.amounts
        if time > self.now:
            ends = self._holds_by_end()
            ends.add_to(found, slice(0, int(np.searchsorted(ends.times, time, side="right"))))
        return found

    def returns(self, until: float = LAST, more: Sequence[float] = ()) -> Times:
        """Return the times after now ``until`` another at which something comes back, and ``more`` of these.

        They are sorted, and each is there once.
        """
        ends = [one.end for one in self._reservations.values()]
        ends = [one for one in (*ends, *more) if self.now < one <= until]
        times = self._holds_by_end().times
        times = np.append(times[: int(np.searchsorted(times, until, side="right"))], ends)
        times.sort(kind="stable")
        first = np.ones(len(times), dtype=np.bool_)
        first[1:] = times[1:] != times[:-1]
        found: Times = times[first]
        return found

    @property
    def freed_slots(self) -> FreedSlots:
        """How room comes back on rows without reservations."""
        revision, found = self._freed_slots
        if found is None or revision != self.revision:
            found = FreedSlots(self.unreserved(self.now), self._holds_by_end())
            self._freed_slots = self.revision, found
        return found

    @property
    def reserved(self) -> TimelinePart:
        """The rows with reservations, now and at the `starts`."""
        if self._reserved is None:
            places = [one.places.rows for one in self._reservations.values()]
            rows = np.unique(np.concatenate(places)) if places else np.empty(0, dtype=np.intp)
            self._reserved = self.part(rows, np.array([self.now, *self._starts]))
        return self._reserved

    def part(self, rows: Rows, times: Times) -> TimelinePart:
        """Return what is free on some rows at some times, which are sorted and not before now."""
        return self._part(rows, times, self._reservations.values())

    def _part(self, rows: Rows, times: Times, reservations: Collection[Reservation]) -> TimelinePart:
        """Return `part`, given the ``reservations`` on the rows."""
        columns = self.room.shape[1]
        coming = Steps.of(
            [(one.places, one.start) for one in reservations if not self._counts_now(one)], columns
        )
        ending = Steps.of([(one.places, one.end) for one in reservations if one.end < NEVER], columns)
        starts = Steps(coming.times, coming.rows, -coming.amounts)
        return TimelinePart.of(rows, times, self.free, self._holds_by_end(), starts, ending)

    # Changes.

    def advance(self, now: float) -> None:
        """Go on to ``now``: expected ends of work that overruns move, and reservations that are over are dropped."""
        while self._ends and self._ends[0][0] <= now:
            before, key = self._ends.pop(0)
            hold = self._holds[key]
            self._until[key] = expected_end(hold.end, now)
            bisect.insort(self._ends, (self._until[key], key))
            self._resort(hold.places, before, comes=False)
            self._resort(hold.places, self._until[key], comes=True)
            self._note(hold.places.rows)
        while self._starts and self._starts[0] <= now:
            del self._starts[0]
            self.loosened += 1
        for due in [one for one in self._reservations.values() if self.now < one.start <= now]:
            self.free[due.places.rows] -= due.places.amounts
        self.now = now
        self._reserved = None
        for over in [one for one in self._reservations.values() if one.end <= now]:
            self.cancel(over.key)

    def resize(self, rows: Rows, amounts: Amounts) -> None:
        """Set the total amounts of rows; those of a node that may not be used are 0."""
        grown = amounts - self.room[rows]
        self.room[rows] = amounts
        self.capacity[rows] += grown
        self.free[rows] += grown
        self._note(rows)
        self.loosened += 1

    def hold(self, hold: Running) -> None:
        """Count running work, or count it again with other places or another end."""
        self.release(hold.key)
        until = expected_end(hold.end, self.now)
        self._holds[hold.key] = hold
        self._until[hold.key] = until
        if until < NEVER:
            bisect.insort(self._ends, (until, hold.key))
            self._resort(hold.places, until, comes=True)
        self._count(hold, -1)

    def hold_all(self, holds: Sequence[Running]) -> None:
        """Count new running work; this is faster than a `hold` for each."""
        for hold in holds:
            until = expected_end(hold.end, self.now)
            self._holds[hold.key] = hold
            self._until[hold.key] = until
            if until < NEVER:
                self._ends.append((until, hold.key))
        self._ends.sort()
        self._sorted_holds = None
        _subtract(self.free, [hold.places for hold in holds])
        lasting = [hold.places for hold in holds if hold.foreign and hold.end == NEVER]
        _subtract(self.capacity, lasting)
        self._note(np.arange(len(self.room)))

    def sort_ends(self) -> None:
        """Sort all ends, as the first search would otherwise do."""
        self._holds_by_end()

    def release(self, key: str) -> Running | None:
        """Stop counting work that has ended and return it, None where it isn't counted."""
        hold = self._holds.pop(key, None)
        if hold is None:
            return None
        until = self._until.pop(key)
        if until < NEVER:
            del self._ends[bisect.bisect_left(self._ends, (until, key))]
            self._resort(hold.places, until, comes=False)
        self._count(hold, 1)
        self.loosened += 1
        return hold

    def reserve(self, reservation: Reservation) -> None:
        """Keep places free for an entry that has no reservation yet."""
        if self._counts_now(reservation):
            self.free[reservation.places.rows] -= reservation.places.amounts
        else:
            bisect.insort(self._starts, reservation.start)
        self._reservations[reservation.key] = reservation
        for row in reservation.places.rows.tolist():
            self._on_row.setdefault(row, set()).add(reservation.key)
        self._reserved = None
        self.loosened += 1

    def cancel(self, key: str) -> None:
        """Drop the reservation of an entry if it has one."""
        gone = self._reservations.pop(key, None)
        if gone is None:
            return
        if self._counts_now(gone):
            self.free[gone.places.rows] += gone.places.amounts
        else:
            del self._starts[bisect.bisect_left(self._starts, gone.start)]
        for row in gone.places.rows.tolist():
            self._on_row[row].discard(key)
        self._reserved = None
        self.loosened += 1

    # How it is kept.

    def _counts_now(self, reservation: Reservation) -> bool:
        return reservation.draining or reservation.start <= self.now

    def _count(self, hold: Running, sign: int) -> None:
        self.free[hold.places.rows] += sign * hold.places.amounts
        if hold.foreign and hold.end == NEVER:
            self.capacity[hold.places.rows] += sign * hold.places.amounts
        self._note(hold.places.rows)

    def _note(self, rows: Rows) -> None:
        """Note that the room or the holds of some rows have changed."""
        self._reserved = None
        self.revision += 1
        self._changed[rows] = self.revision

    def _resort(self, places: Footprint, end: float, comes: bool) -> None:
        """Record that an end comes or goes, so that a pass with many starts doesn't sort all ends each time."""
        if self._sorted_holds is not None:
            self._resorted.append((places, end, comes))
            if len(self._resorted) > MANY_ENDS:
                self._sorted_holds = None

    def _holds_by_end(self) -> Steps:
        """Return what comes back when pods end, sorted by time."""
        if self._sorted_holds is None:
            ends = [(self._holds[key].places, end) for end, key in self._ends]
            self._sorted_holds = Steps.of(ends, self.room.shape[1])
        elif self._resorted:
            self._sorted_holds = _resorted(self._sorted_holds, self._resorted)
        self._resorted = []
        return self._sorted_holds


def _by_column(amounts: Amounts) -> Amounts:
    """Return a copy with each column together in memory, because columns are divided and compared."""
    return np.array(amounts, dtype=np.int64, order="F")


def _subtract(amounts: Amounts, some: Sequence[Footprint]) -> None:
    """Subtract footprints, which may share rows."""
    if some:
        rows = np.concatenate([places.rows for places in some])
        taken = np.concatenate([places.amounts for places in some])
        for column in range(amounts.shape[1]):
            np.subtract.at(amounts[:, column], rows, taken[:, column])


def _resorted(ends: Steps, changes: Sequence[tuple[Footprint, float, bool]]) -> Steps:
    """Return ends by time after some have come and gone; the third part of a change says that the end comes."""
    # An end that both comes and goes is in neither list.
    coming: list[tuple[Footprint, float]] = []
    going: list[tuple[Footprint, float]] = []
    for places, end, comes in changes:
        known = next((at for at, one in enumerate(coming) if one[0] is places and one[1] == end), None)
        if comes:
            coming.append((places, end))
        elif known is None:
            going.append((places, end))
        else:
            del coming[known]
    times, rows, amounts = ends.times, ends.rows, ends.amounts
    left = np.ones(len(times), dtype=np.bool_)
    for places, end in going:
        first, last = np.searchsorted(times, end, "left"), np.searchsorted(times, end, "right")
        for row, amount in zip(places.rows.tolist(), places.amounts, strict=True):
            same = left[first:last] & (rows[first:last] == row) & (amounts[first:last] == amount).all(axis=1)
            left[first + int(same.argmax())] = False
    coming.sort(key=lambda one: one[1])
    more = Steps.of(coming, amounts.shape[1])
    times, rows, amounts = times[left], rows[left], amounts[left]
    at = np.searchsorted(times, more.times)
    return Steps(
        np.insert(times, at, more.times),
        np.insert(rows, at, more.rows),
        np.insert(amounts, at, more.amounts, axis=0),
    )
