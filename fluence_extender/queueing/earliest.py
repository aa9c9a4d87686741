"""The first moment at which an entry fits, given declared ends and everything that is reserved already.

Room comes back at certain times only, and these are the candidates. An entry that starts at a candidate may take the
minimum of the free amounts at that time and at each start of a reservation before the entry would end. The slots are
counted for many candidates at once. Where they suffice, the exact planner is asked.

Neighboring candidates form a group if the same reservations start before them and the same ones start while the entry
would run. Within a group, room only comes back from one candidate to the next. So if the planner finds no places at the
last candidate, it finds none at any of them; otherwise bisection finds the first one.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Mask
from fluence_extender.queueing.fitting import PlannerPort, open_rows, place
from fluence_extender.queueing.freed_slots import slots_by_row
from fluence_extender.queueing.reservation import OperatorReservation, Reservation
from fluence_extender.queueing.timeline import LAST, Timeline

FEWEST, MOST = 32, 256
"""For how many candidates the slots are counted at once: few at first, because mostly an early candidate fits."""

Found = tuple[float, Footprint]


def earliest(
    timeline: Timeline,
    entry: Entry,
    planner: PlannerPort,
    operators: Sequence[OperatorReservation] = (),
    before: Reservation | None = None,
    not_before: float = 0.0,
) -> Found | None:
    """Return the first time after now at which an entry fits, and its places then; None if no known end helps.

    ``before`` is a reservation whose places are free at its start, so no later time is looked at. If the entry fits no
    earlier, it gets these places again unless other entries want them more than some others. The entry doesn't start
    before ``not_before``.
    """
    sweep = _Sweep(timeline, entry, planner, operators, before, not_before)
    done = -1
    for number in sweep.counted():
        if number > done:
            done = sweep.group_end(number)
            found = sweep.search(number, done)
            if found is not None:
                return found
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
        self._closing = [one for one in operators if one.closes(entry, timeline.now, NEVER)]
        until = LAST if before is None else before.start
        times = timeline.returns(until, [*(one.end for one in self._closing), not_before])
        self._times = times = times[times >= not_before]
        self._usable = open_rows(planner.usable(entry.where), (), len(timeline.room))
        self._part = timeline.reserved
        if self._closing:
            rows = np.unique(np.concatenate([self._part.rows, *(one.rows for one in self._closing)]))
            self._part = timeline.part(rows, self._part.times)
        self._open = self._usable[self._part.rows]
        others = self._usable.copy()
        others[self._part.rows] = False
        freed = timeline.freed_slots
        self._others = _together([freed.slots(one.size, others, times) for one in entry.slots])
        self._needed = [one.count for one in entry.slots]
        self._during = _SlidingMinimum(self._slots(self._part.levels[1:]))
        starts, over = np.array(timeline.starts), times + entry.duration
        self._low = np.searchsorted(starts, times, side="right")
        self._high = np.searchsorted(starts, over, side="left")
        differs = (self._low[1:] != self._low[:-1]) | (self._high[1:] != self._high[:-1])
        for one in self._closing:
            closed = (times < one.end) & (over > one.start)
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

    def search(self, first: int, last: int) -> Found | None:
        """Return the first of the candidates ``first`` to ``last`` of a group at which the planner finds places."""
        timeline, part = self._timeline, self._part
        usable = self._open_rows(first)
        starts = part.levels[self._low[first] + 1 : self._high[first] + 1]

        def planned(number: int) -> Footprint | None:
            view = timeline.unreserved(self._times[number])
            view[part.rows] = np.concatenate((part.at(self._times[number : number + 1]), starts)).min(axis=0)
            before = self._before
            kept = before.places if before is not None and before.start == self._times[number] else None
            time = float(self._times[number])
            return place(self._planner, self._entry, view, usable, time, timeline.free, kept)

        # Mostly there are places at the first.
        places = planned(first)
        if places is None and first < last and planned(last) is not None:
            first = _first(first + 1, last, lambda number: planned(number) is not None)
            places = planned(first)
        return None if places is None else (float(self._times[first]), places)

    def _slots(self, levels: Amounts) -> Amounts:
        """Return how many slots each usable row of the part has at each level: levels x sizes x rows."""
        flat = levels.reshape(-1, levels.shape[2])
        found = [slots_by_row(one.size, flat).reshape(levels.shape[:2]) for one in self._entry.slots]
        together = _together(found)
        together *= self._open
        return together

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
        closing = [one for one in self._closing if one.closes(self._entry, start, over)]
        return open_rows(self._usable, closing, len(self._usable))


def _together(by_size: Sequence[Amounts]) -> Amounts:
    """Return arrays as one with another axis after the first; mostly there is only one."""
    return by_size[0][:, None] if len(by_size) == 1 else np.stack(by_size, axis=1)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number for which ``holds``; it holds for ``high``, and for all numbers after the first."""
    return low + bisect.bisect_left(range(low, high), True, key=holds)


class _SlidingMinimum:
    """The minimum of the arrays ``low`` to ``high`` - 1, where neither bound ever goes back."""

    def __init__(self, arrays: Amounts) -> None:
        self._arrays = arrays
        self._front: list[Amounts] = []  # front[i] is the minimum of arrays middle - 1 - i to middle - 1
        self._middle = 0
        self._back: Amounts | None = None  # the minimum of arrays middle to end - 1
        self._end = 0

    def of(self, low: int, high: int) -> Amounts | None:
        """Return the minimum, None where there are no arrays between the bounds."""
        for number in range(self._end, high):
            one = self._arrays[number]
            self._back = one if self._back is None else np.minimum(self._back, one)
        self._end = max(self._end, high)
        if low >= self._middle:
            self._front = []
            for number in range(self._end - 1, low - 1, -1):
                one = self._arrays[number]
                self._front.append(np.minimum(self._front[-1], one) if self._front else one)
            self._middle, self._back = max(self._end, low), None
            self._end = self._middle
        front = self._front[self._middle - low - 1] if low < self._middle and self._front else None
        if front is None or self._back is None:
            return self._back if front is None else front
        return np.minimum(front, self._back)
