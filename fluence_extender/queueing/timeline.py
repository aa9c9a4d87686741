"""What is free on each node: now, and at the start of every reservation.

Room comes back when a pod or a reservation ends, and is lost only when a reservation starts. So between two starts of
reservations room only grows. An entry may take for some duration the minimum of the free amounts now and at the starts
within that duration. So one array for each start is enough. It is kept up to date by small changes: the amounts of a
pod are subtracted now and at each start before the pod's end.

Invariant: the arrays equal those of a timeline that is built anew from the same room, holds and reservations. Amounts
may be negative where more is taken than there is. All arrays have the shape rows x resources and are read-only for
callers.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fluence_extender.queueing.ends import expected_end
from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Rows, Running
from fluence_extender.queueing.reservation import Reservation

FEW = 8
"""The number of starts for which there are arrays at first."""

MANY_ENDS = 256
"""The most changes of ends that are taken in one by one. After more of them, all ends are sorted anew."""

MANY_ROWS = 256
"""A change of more rows drops the minima, which are then computed again when they are asked for."""


class Timeline:
    """Room, holds and reservations over time.

    ``room`` has the total amounts of each row. ``capacity`` is the room less what foreign pods without a declared end
    hold. ``loosened`` grows whenever something may have become free, and whenever a reservation comes or goes.
    ``revision`` grows with each change of room or holds. A reservation that is lifted keeps its array, which then has
    the free amounts at its start without it. So it costs little to lift a reservation for a search and put it back.
    """

    def __init__(self, room: Amounts, now: float = 0.0) -> None:
        self.now = now
        self.room = _by_column(room)
        self.capacity = _by_column(room)
        self.loosened = 0
        self.revision = 0
        rows, columns = room.shape
        self._columns = np.arange(columns)
        self._levels = np.empty((FEW, columns, rows), dtype=np.int64)
        self._minima = np.empty((FEW + 1, columns, rows), dtype=np.int64)
        self._minima[0] = room.T
        self._computed = 0
        self._starts: list[float] = []
        self._order: list[int] = []
        self._spare = list(range(FEW))
        self._holds: dict[str, Running] = {}
        self._until: dict[str, float] = {}
        self._ends: list[tuple[float, str]] = []
        self._reservations: dict[str, Reservation] = {}
        self._lifted: dict[str, Reservation] = {}
        self._sorted_holds: tuple[NDArray[np.float64], Rows, Amounts] | None = None
        self._resorted: list[tuple[Footprint, float, bool]] = []

    # Reading.

    @property
    def holds(self) -> Mapping[str, Running]:
        """Running work by key."""
        return self._holds

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """The reservations by the keys of their entries, without lifted ones."""
        return self._reservations

    @property
    def starts(self) -> list[float]:
        """The sorted starts of reservations after now, lifted ones included."""
        return self._starts

    @property
    def free(self) -> Amounts:
        """What is free now."""
        found: Amounts = self._minima[0].T
        return found

    def level(self, number: int) -> Amounts:
        """Return what is free at the start ``starts[number]``."""
        found: Amounts = self._levels[self._order[number]].T
        return found

    def until(self, key: str) -> float:
        """Return when the running work with this key is expected to end."""
        return self._until[key]

    def slack(self, levels: int) -> Amounts:
        """Return what may be taken from now until after the first ``levels`` starts, beside all reservations."""
        while self._computed < levels:
            at = self._computed
            np.minimum(self._minima[at], self._levels[self._order[at]], out=self._minima[at + 1])
            self._computed += 1
        found: Amounts = self._minima[levels].T
        return found

    def levels_within(self, duration: float) -> int:
        """Return how many of the `starts` come before the end of an entry that starts now."""
        return bisect.bisect_left(self._starts, self.now + duration)

    def at(self, time: float) -> Amounts:
        """Return what is free at a time, now or later."""
        number = bisect.bisect_right(self._starts, time)
        if number:
            return self.grown(self.level(number - 1), self._starts[number - 1], time)
        return self.grown(self.free, self.now, time)

    def available(self, rows: Rows, start: float, duration: float) -> Amounts:
        """Return what is free on some rows from ``start`` on for ``duration``."""
        first, last = (bisect.bisect_left(self._starts, time) for time in (start, start + duration))
        found = None
        if first == len(self._starts) or self._starts[first] != start:
            found = self.at(start)[rows]
        if first < last:
            levels = self._levels[np.ix_(np.array(self._order[first:last]), self._columns, rows)]
            least: Amounts = levels.min(axis=0).T
            found = least if found is None else np.minimum(found, least)
        assert found is not None
        return found

    def grown(self, base: Amounts, since: float, until: float) -> Amounts:
        """Return ``base``, the amounts free at ``since``, with all that comes back by ``until``.

        No reservation may start in between.
        """
        found = base.copy(order="K")
        self._end_holds(found, since, until)
        for one in self._reservations.values():
            if since < one.end <= until:
                found[one.places.rows] += one.places.amounts
        return found

    def unreserved(self, time: float) -> Amounts:
        """Return what would be free at a time if nothing were reserved."""
        found = self.free.copy(order="K")
        for one in self._reservations.values():
            if self._counts_now(one):
                found[one.places.rows] += one.places.amounts
        if time > self.now:
            self._end_holds(found, self.now, time)
        return found

    def returns(self) -> NDArray[np.float64]:
        """Return the times after now at which something comes back, sorted and each once."""
        ends = [one.end for one in self._reservations.values() if self.now < one.end < NEVER]
        return np.unique(np.concatenate((self._holds_by_end()[0], np.array(ends, dtype=np.float64))))

    # Changes.

    def advance(self, now: float) -> list[Running]:
        """Go on to ``now``; return the work whose expected end has moved because it overruns.

        Reservations that are over are dropped.
        """
        overrun = []
        while self._ends and self._ends[0][0] <= now:
            before, key = self._ends.pop(0)
            hold = self._holds[key]
            self._until[key] = expected_end(hold.end, now)
            bisect.insort(self._ends, (self._until[key], key))
            self._resort(hold.places, before, comes=False)
            self._resort(hold.places, self._until[key], comes=True)
            self._change(hold.places, -1, before, self._until[key], now_too=False)
            overrun.append(hold)
        self.revision += bool(overrun)
        while self._starts and self._starts[0] <= now:
            self._drop_level(0)
            self.loosened += 1
        for due in [one for one in self._reservations.values() if self.now < one.start <= now]:
            self._change(due.places, -1, NEVER, NEVER, now_too=True)
        self._lifted = {key: one for key, one in self._lifted.items() if one.start > now}
        self.now = now
        for over in [one for one in self._reservations.values() if one.end <= now]:
            self.cancel(over.key)
        return overrun

    def resize(self, rows: Rows, amounts: Amounts) -> None:
        """Set the total amounts of rows; those of a node that may not be used are 0."""
        grown = Footprint(rows, amounts - self.room[rows])
        self.room[rows] = amounts
        self.capacity[rows] += grown.amounts
        self._change(grown, 1, self.now, NEVER, now_too=True)
        self.revision += 1
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
        self._count(hold, -1, until)

    def hold_all(self, holds: Sequence[Running]) -> None:
        """Count new running work; while nothing is reserved, this is faster than a `hold` for each."""
        if self._starts:
            for hold in holds:
                self.hold(hold)
            return
        for hold in holds:
            until = expected_end(hold.end, self.now)
            self._holds[hold.key] = hold
            self._until[hold.key] = until
            if until < NEVER:
                self._ends.append((until, hold.key))
        self._ends.sort()
        self._sorted_holds = None
        _subtract(self._minima[0].T, [hold.places for hold in holds])
        lasting = [hold.places for hold in holds if hold.foreign and hold.end == NEVER]
        _subtract(self.capacity, lasting)
        self.revision += 1

    def release(self, key: str) -> Running | None:
        """Stop counting work that has ended and return it, None where it isn't counted."""
        hold = self._holds.pop(key, None)
        if hold is None:
            return None
        until = self._until.pop(key)
        if until < NEVER:
            del self._ends[bisect.bisect_left(self._ends, (until, key))]
            self._resort(hold.places, until, comes=False)
        self._count(hold, 1, until)
        self.loosened += 1
        return hold

    def reserve(self, reservation: Reservation) -> None:
        """Keep places free, from a time after now on, for an entry that has no reservation yet."""
        key, start = reservation.key, reservation.start
        lifted = self._lifted.get(key)
        if lifted is not None and lifted.start != start:
            self.cancel(key)
            lifted = None
        if reservation.draining:
            self._change(reservation.places, -1, self.now, NEVER, now_too=True)
        else:
            if lifted is None:
                self._add_level(start)
            self._lifted.pop(key, None)
            self._change(reservation.places, -1, start, reservation.end, now_too=False)
        self._reservations[key] = reservation
        self.loosened += 1

    def lift(self, key: str) -> None:
        """Take the reservation of an entry, if it has one, off the timeline, so that it costs little to put back."""
        one = self._reservations.get(key)
        if one is None:
            return
        if self._counts_now(one):
            self.cancel(key)
            return
        del self._reservations[key]
        self._lifted[key] = one
        self._change(one.places, 1, one.start, one.end, now_too=False)
        self.loosened += 1

    def cancel(self, key: str) -> None:
        """Drop the reservation of an entry if it has one, lifted or not."""
        lifted, gone = self._lifted.pop(key, None), self._reservations.pop(key, None)
        if lifted is not None:
            self._drop_level(self._level_of(lifted))
        if gone is None:
            return
        due = self._counts_now(gone)
        if not due:
            self._drop_level(self._level_of(gone))
        until = NEVER if gone.draining else gone.end
        self._change(gone.places, 1, self.now if due else gone.start, until, now_too=due)
        self.loosened += 1

    # Arrays.

    def _counts_now(self, reservation: Reservation) -> bool:
        return reservation.draining or reservation.start <= self.now

    def _count(self, hold: Running, sign: int, until: float) -> None:
        self._change(hold.places, sign, self.now, until, now_too=True)
        if hold.foreign and hold.end == NEVER:
            self.capacity[hold.places.rows] += sign * hold.places.amounts
        self.revision += 1

    def _change(self, places: Footprint, sign: int, since: float, until: float, now_too: bool) -> None:
        """Add ``sign`` times ``places`` to what is free from ``since`` to before ``until``, and now if ``now_too``."""
        rows, amounts = places.rows, (sign * places.amounts).T
        first, last = bisect.bisect_left(self._starts, since), bisect.bisect_left(self._starts, until)
        if now_too:
            self._minima[0][:, rows] += amounts
        if first < last:
            self._levels[np.ix_(np.array(self._order[first:last]), self._columns, rows)] += amounts
        if now_too or first < self._computed:
            self._follow(rows)

    def _follow(self, rows: Rows) -> None:
        """Compute the minima of ``rows`` again."""
        if len(rows) > MANY_ROWS:
            self._computed = 0
        if self._computed:
            levels = self._levels[np.ix_(np.array(self._order[: self._computed]), self._columns, rows)]
            stacked = np.concatenate((self._minima[:1][:, :, rows], levels))
            self._minima[: self._computed + 1, :, rows] = np.minimum.accumulate(stacked)

    def _add_level(self, start: float) -> None:
        level, place = self.at(start), bisect.bisect_right(self._starts, start)
        number = self._take_spare()
        self._levels[number] = level.T
        self._starts.insert(place, start)
        self._order.insert(place, number)
        self._computed = min(self._computed, place)

    def _take_spare(self) -> int:
        if not self._spare:
            have = len(self._levels)
            self._levels = np.concatenate((self._levels, np.empty_like(self._levels)))
            wider = np.empty((2 * have + 1, *self._minima.shape[1:]), dtype=np.int64)
            wider[: self._computed + 1] = self._minima[: self._computed + 1]
            self._minima = wider
            self._spare = list(range(have, 2 * have))
        return self._spare.pop()

    def _drop_level(self, place: int) -> None:
        del self._starts[place]
        self._spare.append(self._order.pop(place))
        self._computed = min(self._computed, place)

    def _level_of(self, reservation: Reservation) -> int:
        """Return the number of a level at the start of a reservation; levels of the same start are equal."""
        return bisect.bisect_left(self._starts, reservation.start)

    def _end_holds(self, found: Amounts, since: float, until: float) -> None:
        times, rows, amounts = self._holds_by_end()
        first, last = np.searchsorted(times, (since, until), side="right")
        if first < last:
            for column in self._columns:
                np.add.at(found[:, column], rows[first:last], amounts[first:last, column])

    def _resort(self, places: Footprint, end: float, comes: bool) -> None:
        """Record that an end comes or goes, so that a pass with many starts doesn't sort all ends each time."""
        if self._sorted_holds is not None:
            self._resorted.append((places, end, comes))
            if len(self._resorted) > MANY_ENDS:
                self._sorted_holds = None

    def _holds_by_end(self) -> tuple[NDArray[np.float64], Rows, Amounts]:
        """Return the amounts that come back when pods end, sorted by time: times, rows, amounts."""
        if self._sorted_holds is None:
            self._sorted_holds = _concatenated(
                [(self._holds[key].places, end) for end, key in self._ends], len(self._columns)
            )
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


def _concatenated(
    some: Sequence[tuple[Footprint, float]], columns: int
) -> tuple[NDArray[np.float64], Rows, Amounts]:
    if not some:
        return np.empty(0), np.empty(0, dtype=np.intp), np.empty((0, columns), dtype=np.int64)
    rows = np.concatenate([places.rows for places, _ in some])
    amounts = np.concatenate([places.amounts for places, _ in some])
    times = np.repeat([end for _, end in some], [len(places.rows) for places, _ in some])
    return times, rows, amounts


def _resorted(
    ends: tuple[NDArray[np.float64], Rows, Amounts], changes: Sequence[tuple[Footprint, float, bool]]
) -> tuple[NDArray[np.float64], Rows, Amounts]:
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
    times, rows, amounts = ends
    left = np.ones(len(times), dtype=np.bool_)
    for places, end in going:
        first, last = np.searchsorted(times, end, "left"), np.searchsorted(times, end, "right")
        for row, amount in zip(places.rows.tolist(), places.amounts, strict=True):
            same = left[first:last] & (rows[first:last] == row) & (amounts[first:last] == amount).all(axis=1)
            left[first + int(same.argmax())] = False
    coming.sort(key=lambda one: one[1])
    more_times, more_rows, more_amounts = _concatenated(coming, amounts.shape[1])
    times, rows, amounts = times[left], rows[left], amounts[left]
    at = np.searchsorted(times, more_times)
    return (
        np.insert(times, at, more_times),
        np.insert(rows, at, more_rows),
        np.insert(amounts, at, more_amounts, axis=0),
    )
