"""What is free on each node, now and later.

Room comes back when a pod or a reservation ends, and is lost only when a reservation starts. So between two starts of
reservations room only grows. An entry may take for some duration the minimum of the free amounts now and at the starts
within that duration. Few rows have reservations, so the amounts at these starts are added up for those rows alone.

A timeline is made for one moment. After that, reservations are added, and entries start. Amounts may be negative
where more is taken than there is. Arrays have the shape rows x resources unless a docstring says otherwise, and are
read-only for callers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Rows, Times
from fluence_extender.queueing.freed_slots import FreedSlots
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.queueing.steps import Steps, TimelinePart

LAST = math.nextafter(NEVER, 0)
"""The last time before `NEVER`."""


class Timeline:
    """Room and reservations over time, as known at ``now``.

    ``room`` has the total amounts of each row. ``capacity`` is the room less what foreign pods without a known end
    hold. ``free`` is what is free now, ``ends`` what comes back later, in the order of time.
    """

    def __init__(self, room: Amounts, capacity: Amounts, free: Amounts, ends: Steps, now: float) -> None:
        self.now = now
        self.room = _by_column(room)
        self.capacity = _by_column(capacity)
        self._unreserved = _by_column(free)
        self.free = _by_column(free)
        self._ends = ends
        self._started: list[tuple[Footprint, float]] = []
        self._freed_slots: FreedSlots | None = None
        self._starts: list[float] = []
        self._reservations: dict[str, Reservation] = {}
        self._on_row: dict[int, set[str]] = {}
        self._reserved: TimelinePart | None = None

    # Reading.

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """The reservations by the keys of their entries."""
        return self._reservations

    @property
    def starts(self) -> list[float]:
        """The sorted starts of reservations after now."""
        return self._starts

    def kept(self, levels: int) -> Footprint:
        """Return what has to stay free for reservations from now until after the first ``levels`` starts."""
        part = self.reserved
        kept = np.maximum(self._unreserved[part.rows] - part.minima[levels], 0)
        some = kept.any(axis=1)
        return Footprint(part.rows[some], kept[some])

    def levels_within(self, duration: float) -> int:
        """Return how many of the `starts` come before the end of an entry that starts now."""
        return bisect.bisect_left(self._starts, self.now + duration)

    def available(self, rows: Rows, start: float, duration: float) -> Amounts:
        """Return what is free on some rows from ``start`` on for ``duration``."""
        keys = {key for row in rows.tolist() for key in self._on_row.get(row, ())}
        some = [self._reservations[key] for key in keys]
        starts = {one.start for one in some if start < one.start < start + duration}
        part = self._part(rows, np.array(sorted({start, *starts})), some)
        found: Amounts = part.levels.min(axis=0)
        return found

    def unreserved(self, time: float) -> Amounts:
        """Return what would be free at a time if nothing were reserved."""
        found = self._unreserved.copy(order="K")
        if time > self.now:
            self.ends.add_to(found, slice(0, int(np.searchsorted(self.ends.times, time, side="right"))))
        return found

    def returns(self, until: float = LAST, more: Sequence[float] = ()) -> Times:
        """Return the times after now ``until`` another at which something comes back, and ``more`` of these.

        They are sorted, and each is there once.
        """
        ends = [one.end for one in self._reservations.values()]
        ends = [one for one in (*ends, *more) if self.now < one <= until]
        times = self.ends.times
        times = np.append(times[: int(np.searchsorted(times, until, side="right"))], ends)
        times.sort(kind="stable")
        first = np.ones(len(times), dtype=np.bool_)
        first[1:] = times[1:] != times[:-1]
        found: Times = times[first]
        return found

    @property
    def ends(self) -> Steps:
        """What comes back when work ends, in the order of time."""
        if self._started:
            self._ends, self._started = self._ends.with_more(self._started), []
        return self._ends

    @property
    def freed_slots(self) -> FreedSlots:
        """How room comes back on rows without reservations."""
        if self._freed_slots is None:
            self._freed_slots = FreedSlots(self._unreserved, self.ends)
        return self._freed_slots

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
        return TimelinePart.of(rows, times, self.free, self.ends, starts, ending)

    # Changes.

    def overruns(self, now: float) -> bool:
        """Return whether something should have ended until ``now`` by what was expected."""
        times = self.ends.times
        return bool(len(times)) and bool(times[0] <= now)

    def renewed(self, now: float) -> Timeline | None:
        """Return this timeline at a later time and without reservations; None if work ends until then."""
        if now < self.now or self.overruns(now):
            return None
        renewed = Timeline(self.room, self.capacity, self._unreserved, self.ends, now)
        renewed._freed_slots = self._freed_slots
        return renewed

    def start(self, places: Footprint, end: float) -> None:
        """Count work that starts now and ends at a time."""
        self.free[places.rows] -= places.amounts
        self._unreserved[places.rows] -= places.amounts
        if end < NEVER:
            self._started.append((places, end))
        self._freed_slots = None
        if any(self._on_row.get(row) for row in places.rows.tolist()):
            self._reserved = None

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

    def _counts_now(self, reservation: Reservation) -> bool:
        return reservation.draining or reservation.start <= self.now


def _by_column(amounts: Amounts) -> Amounts:
    """Return a copy with each column together in memory, because columns are divided and compared."""
    return np.array(amounts, dtype=np.int64, order="F")


def subtract(amounts: Amounts, some: Sequence[Footprint]) -> None:
    """Subtract footprints, which may share rows."""
    if some:
        rows = np.concatenate([places.rows for places in some])
        taken = np.concatenate([places.amounts for places in some])
        for column in range(amounts.shape[1]):
            np.subtract.at(amounts[:, column], rows, taken[:, column])
