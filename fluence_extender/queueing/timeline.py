"""What is free on each node, now and later, and whether slots fit into it.

Room comes back when a pod or a reservation ends, and is lost only when a reservation starts. So between two starts of
reservations room only grows. For some duration an entry may take the minimum of the free amounts now and at the starts
within that duration. Few rows have reservations, so the amounts at these starts are added up for those rows alone.

A timeline is made for one moment. After that, reservations are added, and entries start. Amounts may be negative
where more is taken than there is. Arrays have the shape rows x resources unless a docstring says otherwise, and are
read-only for callers.

On a row without reservations room only grows, when pods end. So each end adds some slots of a size. The slots at a time
are those of now and those that all ends until then have added.

A count of slots row by row shows quickly that an entry can't fit. It doesn't show that the entry fits, because slots of
different sizes compete, and an entry may have other constraints. So the exact planner, which is behind a port, chooses
the places. It first gets only the few rows that are worth the least to other entries, so that better rows stay free.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fluence_extender.queueing.entry import (
    NEVER,
    Amounts,
    Entry,
    Footprint,
    Mask,
    OperatorReservation,
    Reservation,
    Rows,
    Times,
)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The changes ``amounts[i]`` on the row ``rows[i]`` at ``times[i]``."""

    times: Times
    rows: Rows
    amounts: Amounts

    @classmethod
    def of(cls, footprints: Sequence[tuple[Footprint, float]], columns: int) -> Steps:
        """Return the steps of ``footprints``, each with its time."""
        if not footprints:
            return cls(np.empty(0), np.empty(0, dtype=np.intp), np.empty((0, columns), dtype=np.int64))
        rows = np.concatenate([places.rows for places, _ in footprints])
        amounts = np.concatenate([places.amounts for places, _ in footprints])
        return cls(
            np.repeat([end for _, end in footprints], [len(places.rows) for places, _ in footprints]),
            rows,
            amounts,
        )

    def with_more(self, footprints: Sequence[tuple[Footprint, float]]) -> Steps:
        """Return these sorted steps with those of ``footprints``, sorted again."""
        more = Steps.of(footprints, self.amounts.shape[1])
        times = np.concatenate((self.times, more.times))
        order = np.argsort(times, kind="stable")
        rows = np.concatenate((self.rows, more.rows))
        return Steps(times[order], rows[order], np.concatenate((self.amounts, more.amounts))[order])

    def part(self, which: slice) -> Steps:
        """Return the changes ``which``."""
        return Steps(self.times[which], self.rows[which], self.amounts[which])

    def add_to(self, amounts: Amounts, which: slice) -> None:
        """Add the changes ``which`` to ``amounts``."""
        for column in range(amounts.shape[1]):
            np.add.at(amounts[:, column], self.rows[which], self.amounts[which, column])


@dataclass(frozen=True, eq=False)
class TimelinePart:
    """What is ``free`` on ``rows`` at each of the sorted ``times``, in the shape times x rows x resources.

    ``steps`` are all changes after the first of the times, in the order of time. Their rows are positions in ``rows``.
    """

    rows: Rows
    times: Times
    free: Amounts
    steps: Steps

    @classmethod
    def of(cls, rows: Rows, times: Times, before: Amounts, *all_steps: Steps) -> TimelinePart:
        """Return the part of these rows, given what is free ``before`` all steps."""
        position = np.full(len(before), -1, dtype=np.intp)
        position[rows] = np.arange(len(rows))
        positions = [position[steps.rows] for steps in all_steps]
        chosen = [np.flatnonzero(at >= 0) for at in positions]
        chosen_rows = np.concatenate([at[which] for at, which in zip(positions, chosen, strict=True)])
        when = np.concatenate([steps.times[which] for steps, which in zip(all_steps, chosen, strict=True)])
        amounts = np.concatenate(
            [steps.amounts[which] for steps, which in zip(all_steps, chosen, strict=True)]
        )
        order = np.argsort(when, kind="stable")
        steps = Steps(when[order], chosen_rows[order], amounts[order])
        within = slice(0, int(np.searchsorted(steps.times, times[-1], side="right")))
        return cls(rows, times, _added(before[rows], steps.part(within), times), steps)

    @cached_property
    def minima(self) -> Amounts:
        """The minimum of what is free up to each time: times x rows x resources."""
        minima: Amounts = np.minimum.accumulate(self.free, axis=0)
        return minima

    def at(self, times: Times) -> Amounts:
        """Return what is free on the rows at these sorted times. None of them may be before the part begins."""
        number = int(np.searchsorted(self.times, times[0], side="right")) - 1
        first, last = np.searchsorted(self.steps.times, (self.times[number], times[-1]), side="right")
        return _added(self.free[number], self.steps.part(slice(first, last)), times)


def _added(before: Amounts, steps: Steps, times: Times) -> Amounts:
    """Return ``before`` with all steps until each of the sorted times; no step comes after the last of these."""
    sums = np.zeros((len(times), *before.shape), dtype=np.int64)
    sums[0] = before
    np.add.at(sums, (np.searchsorted(times, steps.times, side="left"), steps.rows), steps.amounts)
    # This is three times as fast as np.cumsum, which adds up the amounts of each row and resource one by one.
    for number in range(1, len(times)):
        sums[number] += sums[number - 1]
    return sums


MANY = 2**31
"""The number of slots that fit on a row if they ask for nothing."""


def slots_by_row(
    size: Sequence[int] | Amounts, view: Amounts, usable: Mask | None = None, rows: Rows | slice = slice(None)
) -> Amounts:
    """Return how many slots of ``size`` fit on each row of ``view``, or on some, none on rows not ``usable``."""
    counts: Amounts | None = None
    for column, amount in enumerate(size):
        if amount > 0:
            have = view[rows, column]
            fitting = have // amount if amount > 1 else have
            counts = fitting.copy() if counts is None else np.minimum(counts, fitting, out=counts)
    if counts is None:
        counts = np.full(len(view[rows]), MANY, dtype=np.int64)
    np.maximum(counts, 0, out=counts)
    if usable is not None:
        counts *= usable
    return counts


class FreedSlots:
    """What is ``free`` now, and all ``ends`` of pods, sorted by time."""

    def __init__(self, free: Amounts, ends: Steps) -> None:
        self._free = free
        self._times = ends.times
        # The ends are sorted by row, and within a row by time.
        self._order = order = np.argsort(ends.rows, kind="stable")
        self._rows = ends.rows[order]
        self._first = np.ones(len(order), dtype=np.bool_)
        self._first[1:] = self._rows[1:] != self._rows[:-1]
        self._free_after = _sums_by_row(ends.amounts[order], self._first)
        self._free_after += free[self._rows]

    def slots(self, size: Sequence[int], usable: Mask, times: Times) -> Amounts:
        """Return how many slots of a size all ``usable`` rows have together at each of some times from now on."""
        now = slots_by_row(size, self._free, usable)
        until = np.searchsorted(self._times, times, side="right")
        # No end after the last of the times counts.
        counted = int(until[-1]) if len(until) else 0
        ends = np.flatnonzero(self._order < counted)
        rows, first = self._rows[ends], self._first[ends]
        after = slots_by_row(size, self._free_after, usable[rows], ends)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[first] = now[rows[first]]
        added = np.zeros(counted + 1, dtype=np.int64)
        added[self._order[ends] + 1] = after - before
        slots: Amounts = now.sum() + np.cumsum(added)[until]
        return slots


def _sums_by_row(amounts: Amounts, first: Mask) -> Amounts:
    """Return the running sums of amounts, which begin anew wherever ``first`` is true."""
    sums = np.array(np.cumsum(amounts, axis=0), order="F")
    at = np.flatnonzero(first)
    lengths = np.diff(np.append(at, len(first)))
    sums -= np.repeat(sums[at] - amounts[at], lengths, axis=0)
    return sums


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

    def kept(self, starts: int) -> Footprint:
        """Return what has to stay free for reservations from now until after so many of the first `starts`."""
        part = self.reserved
        kept = np.maximum(self._unreserved[part.rows] - part.minima[starts], 0)
        any_kept = kept.any(axis=1)
        return Footprint(part.rows[any_kept], kept[any_kept])

    def starts_within(self, duration: float) -> int:
        """Return how many of the `starts` come before the end of an entry that starts now."""
        return bisect.bisect_left(self._starts, self.now + duration)

    def available(self, rows: Rows, start: float, duration: float) -> Amounts:
        """Return what is free on some rows from ``start`` on for ``duration``."""
        keys = {key for row in rows.tolist() for key in self._on_row.get(row, ())}
        reservations = [self._reservations[key] for key in keys]
        starts = {
            reservation.start for reservation in reservations if start < reservation.start < start + duration
        }
        part = self._part(rows, np.array(sorted({start, *starts})), reservations)
        free: Amounts = part.free.min(axis=0)
        return free

    def unreserved(self, time: float) -> Amounts:
        """Return what would be free at a time if nothing were reserved."""
        free = self._unreserved.copy(order="K")
        if time > self.now:
            self.ends.add_to(free, slice(0, int(np.searchsorted(self.ends.times, time, side="right"))))
        return free

    def returns(self, until: float = LAST, more: Sequence[float] = ()) -> Times:
        """Return the times after now ``until`` another at which something comes back, and those of ``more``.

        They are sorted, without duplicates.
        """
        ends = [reservation.end for reservation in self._reservations.values()]
        ends = [end for end in (*ends, *more) if self.now < end <= until]
        times = self.ends.times
        times = np.append(times[: int(np.searchsorted(times, until, side="right"))], ends)
        times.sort(kind="stable")
        first = np.ones(len(times), dtype=np.bool_)
        first[1:] = times[1:] != times[:-1]
        distinct: Times = times[first]
        return distinct

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
            places = [reservation.places.rows for reservation in self._reservations.values()]
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
            [
                (reservation.places, reservation.start)
                for reservation in reservations
                if not self._counts_now(reservation)
            ],
            columns,
        )
        ending = Steps.of(
            [
                (reservation.places, reservation.end)
                for reservation in reservations
                if reservation.end < NEVER
            ],
            columns,
        )
        starts = Steps(coming.times, coming.rows, -coming.amounts)
        return TimelinePart.of(rows, times, self.free, self.ends, starts, ending)

    # Changes.

    def overruns(self, now: float) -> bool:
        """Return whether some work was expected to end by ``now``."""
        times = self.ends.times
        return bool(len(times)) and bool(times[0] <= now)

    def renewed(self, now: float) -> Timeline | None:
        """Return this timeline at a later time and without reservations; None if work is expected to end by then."""
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
    """Return a copy in which each column is contiguous in memory, because whole columns are divided and compared."""
    return np.array(amounts, dtype=np.int64, order="F")


def subtract(amounts: Amounts, footprints: Sequence[Footprint]) -> None:
    """Subtract footprints, which may share rows."""
    if footprints:
        rows = np.concatenate([places.rows for places in footprints])
        taken = np.concatenate([places.amounts for places in footprints])
        for column in range(amounts.shape[1]):
            np.subtract.at(amounts[:, column], rows, taken[:, column])


class PlannerPort(Protocol):
    """The exact planner. Its answers depend only on its arguments. An entry that fits also fits into more room."""

    def usable(self, where: str) -> Mask | None:
        """Return the rows on which entries with this ``where`` may run, None for all."""
        ...

    def place(self, entry: Entry, view: Amounts, time: float) -> Footprint | None:
        """Choose places for all slots of an entry that starts at a time, within ``view``; None if it doesn't fit.

        ``view`` has the free amounts of each row. They may be negative where more is taken than there is.
        """
        ...


def open_rows(usable: Mask | None, closing: Sequence[OperatorReservation], rows: int) -> Mask:
    """Return which of the ``rows`` rows an entry may use while the reservations ``closing`` are closed to it."""
    open_to_entry = np.ones(rows, dtype=np.bool_) if usable is None else usable
    if closing:
        open_to_entry = open_to_entry.copy()
        open_to_entry[np.concatenate([reservation.rows for reservation in closing])] = False
    return open_to_entry


def place(
    planner: PlannerPort,
    entry: Entry,
    view: Amounts,
    usable: Mask | None,
    time: float,
    others: Amounts | None = None,
    kept: Footprint | None = None,
) -> Footprint | None:
    """Return places for an entry that starts at a time, within ``view`` on ``usable`` rows; None if it doesn't fit.

    ``others`` are the amounts that other entries could use; rows with the least of them are preferred. The entry fits
    at ``kept``, and gets these places again if they offer no more to others than the preferred rows.
    """
    if others is not None:
        preferred, offered = _least_wanted(entry, view, usable, others)
        if (
            kept is not None
            and sum(_offers(slots.size, others[kept.rows]).sum() for slots in entry.slots) <= offered
        ):
            return kept
        places = planner.place(entry, _only(view, preferred), time)
        if places is not None:
            return places
    return planner.place(entry, view if usable is None else _only(view, usable), time)


def _least_wanted(entry: Entry, view: Amounts, usable: Mask | None, others: Amounts) -> tuple[Mask, float]:
    """Return the rows that offer the least to ``others`` and are just enough for each size, and what they offer."""
    chosen, offered = np.zeros(len(view), dtype=np.bool_), 0.0
    for slots in entry.slots:
        counts = slots_by_row(slots.size, view, usable)
        rows = np.flatnonzero(counts)
        offers = _offers(slots.size, others[rows])
        order = np.argsort(offers, kind="stable")
        order = order[: int(np.searchsorted(np.cumsum(counts[rows[order]]), slots.count)) + 1]
        chosen[rows[order]] = True
        offered += float(offers[order].sum())
    return chosen, offered


def _offers(size: Sequence[int], view: Amounts) -> NDArray[np.float64]:
    """Return how many slots each row of ``view`` offers, with the fraction of a slot that is left over."""
    columns = [column for column, amount in enumerate(size) if amount > 0]
    shares = view[:, columns] / np.array(size, dtype=np.float64)[columns]
    offers: NDArray[np.float64] = shares.min(axis=1, initial=MANY).clip(min=0)
    return offers


def _only(view: Amounts, rows: Mask) -> Amounts:
    view_of_rows: Amounts = np.where(rows[:, None], view, 0)
    return view_of_rows
