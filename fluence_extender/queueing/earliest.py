"""The first moment at which an entry fits beside all reservations, and the nodes to drain if no declared end helps.

Room comes back at certain times only, and these are the candidates. An entry that starts at a candidate may take the
minimum of the free amounts at that time and at each start of a reservation before the entry would end. The slots are
counted for many candidates at once. If they suffice, the exact planner is asked.

Neighboring candidates form a group if the same reservations start before them and the same ones start while the entry
would run. Within a group, room only comes back from one candidate to the next. So if the planner finds no places at the
last candidate, it finds none at any of them; otherwise bisection finds the first one.

If pods run without a declared end, a wide entry might wait forever, because smaller ones take all room that becomes
free. So the nodes that are the cheapest to empty are kept for it, and it starts once they are empty enough. The cost of
a node is the share of it that pods without a declared end hold; among equal nodes, the last declared end counts. While
nodes are drained nothing starts there, so they only become cheaper, and the choice soon stays the same.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fluence_extender.queueing.entry import (
    NEVER,
    Amounts,
    Entry,
    Footprint,
    Mask,
    OperatorReservation,
    Reservation,
    Rows,
)
from fluence_extender.queueing.timeline import LAST, PlannerPort, Timeline, open_rows, place, slots_by_row

FEWEST, MOST = 32, 256
"""How many candidates are counted at once: few at first, because usually an early candidate fits."""

StartAndPlaces = tuple[float, Footprint]


def earliest(
    timeline: Timeline,
    entry: Entry,
    planner: PlannerPort,
    operators: Sequence[OperatorReservation] = (),
    before: Reservation | None = None,
    not_before: float = 0.0,
) -> StartAndPlaces | None:
    """Return the first time after now at which an entry fits, and its places then; None if no known end helps.

    ``before`` is a reservation whose places are free at its start, so no later time is looked at. If the entry doesn't
    fit earlier, it gets these places again, unless other rows are worth less to other entries. The entry doesn't start
    before ``not_before``.
    """
    sweep = _Sweep(timeline, entry, planner, operators, before, not_before)
    done = -1
    for number in sweep.counted():
        if number > done:
            done = sweep.group_end(number)
            start_and_places = sweep.search(number, done)
            if start_and_places is not None:
                return start_and_places
    return None


def still_free(reservation: Reservation, timeline: Timeline) -> bool:
    """Return whether the reserved places can still be had at the reserved start."""
    if reservation.start <= timeline.now or reservation.draining:
        return False
    places = reservation.places
    free = timeline.available(places.rows, reservation.start, reservation.end - reservation.start)
    return bool(np.all(free >= places.amounts))


class _Sweep:
    """Goes through the candidates in the order of time."""

    def __init__(
        self,
        timeline: Timeline,
        entry: Entry,
        planner: PlannerPort,
        operators: Sequence[OperatorReservation],
        before: Reservation | None,
        not_before: float,
    ) -> None:
        self._before = before
        self._timeline = timeline
        self._entry = entry
        self._planner = planner
        self._closing = [
            reservation for reservation in operators if reservation.closes(entry, timeline.now, NEVER)
        ]
        until = LAST if before is None else before.start
        times = timeline.returns(until, [*(reservation.end for reservation in self._closing), not_before])
        self._times = times = times[times >= not_before]
        self._usable = open_rows(planner.usable(entry.where), (), len(timeline.room))
        self._part = timeline.reserved
        if self._closing:
            rows = np.unique(
                np.concatenate([self._part.rows, *(reservation.rows for reservation in self._closing)])
            )
            self._part = timeline.part(rows, self._part.times)
        self._open = self._usable[self._part.rows]
        others = self._usable.copy()
        others[self._part.rows] = False
        freed = timeline.freed_slots
        self._others = _stacked([freed.slots(slots.size, others, times) for slots in entry.slots])
        self._needed = [slots.count for slots in entry.slots]
        self._during = _SlidingMinimum(self._slots(self._part.free[1:]))
        starts, over = np.array(timeline.starts), times + entry.duration
        self._low = np.searchsorted(starts, times, side="right")
        self._high = np.searchsorted(starts, over, side="left")
        differs = (self._low[1:] != self._low[:-1]) | (self._high[1:] != self._high[:-1])
        for reservation in self._closing:
            closed = (times < reservation.end) & (over > reservation.start)
            differs |= closed[1:] != closed[:-1]
        self._lasts = [*np.flatnonzero(differs).tolist(), len(times) - 1]

    def group_end(self, number: int) -> int:
        """Return the last candidate of the group of a candidate."""
        return self._lasts[bisect.bisect_left(self._lasts, number)]

    def counted(self) -> Iterator[int]:
        """Yield the candidates at which there is room for the slots of each size."""
        first, count = 0, FEWEST
        while first < len(self._times):
            last = first + count
            slots = self._slots(self._part.at(self._times[first:last]))
            # Most candidates lack room even if nothing starts while the entry runs.
            most = slots.sum(axis=2) + self._others[first:last]
            for at in np.flatnonzero((most >= self._needed).all(axis=1)).tolist():
                if self._suffice(first + at, slots[at]):
                    yield first + at
            first, count = last, min(2 * count, MOST)

    def search(self, first: int, last: int) -> StartAndPlaces | None:
        """Return the first of the candidates ``first`` to ``last`` of a group at which the planner finds places."""
        timeline, part = self._timeline, self._part
        usable = self._open_rows(first)
        starts = part.free[self._low[first] + 1 : self._high[first] + 1]

        def planned(number: int) -> Footprint | None:
            view = timeline.unreserved(self._times[number])
            view[part.rows] = np.concatenate((part.at(self._times[number : number + 1]), starts)).min(axis=0)
            before = self._before
            kept = before.places if before is not None and before.start == self._times[number] else None
            time = float(self._times[number])
            return place(self._planner, self._entry, view, usable, time, timeline.free, kept)

        # Usually there are places at the first candidate.
        places = planned(first)
        if places is None and first < last and planned(last) is not None:
            first = _first(first + 1, last, lambda number: planned(number) is not None)
            places = planned(first)
        return None if places is None else (float(self._times[first]), places)

    def _slots(self, free: Amounts) -> Amounts:
        """Return how many slots each usable row of the part has at each time of ``free``: times x sizes x rows."""
        flat = free.reshape(-1, free.shape[2])
        by_size = [slots_by_row(one.size, flat).reshape(free.shape[:2]) for one in self._entry.slots]
        slots = _stacked(by_size)
        slots *= self._open
        return slots

    def _suffice(self, number: int, slots: Amounts) -> bool:
        """Return whether there is room for the slots of each size, given those of the part at the candidate."""
        during = self._during.of(int(self._low[number]), int(self._high[number]))
        if during is not None:
            slots = np.minimum(slots, during)
        if self._closing:
            slots = slots * self._open_rows(number)[self._part.rows]
        return bool((slots.sum(axis=1) + self._others[number] >= self._needed).all())

    def _open_rows(self, number: int) -> Mask:
        """Return the rows that the entry may use if it starts at a candidate."""
        start = self._times[number]
        over = start + self._entry.duration
        closing = [
            reservation for reservation in self._closing if reservation.closes(self._entry, start, over)
        ]
        return open_rows(self._usable, closing, len(self._usable))


def _stacked(by_size: Sequence[Amounts]) -> Amounts:
    """Return arrays as one array with a new second axis; usually there is only one."""
    return by_size[0][:, None] if len(by_size) == 1 else np.stack(by_size, axis=1)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number for which ``holds``; it holds for ``high``, and for all numbers after the first."""
    return low + bisect.bisect_left(range(low, high), True, key=holds)


class _SlidingMinimum:
    """The minimum of the arrays ``low`` to ``high`` - 1. Neither bound may ever go back."""

    def __init__(self, arrays: Amounts) -> None:
        self._arrays = arrays
        self._front: list[Amounts] = []  # front[i] is the minimum of arrays middle - 1 - i to middle - 1
        self._middle = 0
        self._back: Amounts | None = None  # the minimum of arrays middle to end - 1
        self._end = 0

    def of(self, low: int, high: int) -> Amounts | None:
        """Return the minimum, None if there are no arrays between the bounds."""
        for number in range(self._end, high):
            array = self._arrays[number]
            self._back = array if self._back is None else np.minimum(self._back, array)
        self._end = max(self._end, high)
        if low >= self._middle:
            self._front = []
            for number in range(self._end - 1, low - 1, -1):
                array = self._arrays[number]
                self._front.append(np.minimum(self._front[-1], array) if self._front else array)
            self._middle, self._back = max(self._end, low), None
            self._end = self._middle
        front = self._front[self._middle - low - 1] if low < self._middle and self._front else None
        if front is None or self._back is None:
            return self._back if front is None else front
        return np.minimum(front, self._back)


def cheapest(
    timeline: Timeline, entry: Entry, planner: PlannerPort, operators: Sequence[OperatorReservation] = ()
) -> Footprint | None:
    """Return the places that are the cheapest to empty for an entry, None if it wouldn't fit even on empty nodes.

    Nodes with reservations aren't used.
    """
    closing = [reservation for reservation in operators if reservation.closes(entry, timeline.now, NEVER)]
    usable = open_rows(planner.usable(entry.where), closing, len(timeline.room)).copy()
    for reservation in timeline.reservations.values():
        usable[reservation.places.rows] = False
    rows = _by_cost(timeline, usable)
    enough = 0
    for slots in entry.slots:
        fitting = np.cumsum(slots_by_row(slots.size, timeline.capacity[rows]))
        enough = max(enough, int(np.searchsorted(fitting, slots.count)) + 1)
    while enough <= len(rows):
        offered = np.zeros_like(timeline.capacity)
        offered[rows[:enough]] = timeline.capacity[rows[:enough]]
        places = planner.place(entry, offered, NEVER)
        if places is not None:
            return places
        enough = len(rows) if enough < len(rows) < 2 * enough else 2 * enough
    return None


def _by_cost(timeline: Timeline, usable: Mask) -> Rows:
    """Return the usable rows, the cheapest first."""
    ends = timeline.ends
    endless = timeline.capacity - timeline.unreserved(LAST)
    last = np.zeros(len(timeline.room))
    np.maximum.at(last, ends.rows, ends.times)
    share = (endless / np.maximum(timeline.room, 1)).max(axis=1, initial=0.0)
    rows = np.flatnonzero(usable)
    return rows[np.lexsort((last[rows], share[rows]))]
