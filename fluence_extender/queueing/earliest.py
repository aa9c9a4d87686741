"""The first moment at which an entry fits, given declared ends and everything that is reserved already.

Room comes back at certain times only, and these are the candidates. An entry that starts at a candidate may take the
minimum of the free amounts at that time and at each start of a reservation before the entry would end. Neighboring
candidates form a group if the same reservations start before them and the same ones start while the entry would run.
Within a group, room only comes back from one candidate to the next. So the last candidate tells whether any of them
will do, and bisection finds the first one.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Mask, Times
from fluence_extender.queueing.fitting import PlannerPort, open_rows, place
from fluence_extender.queueing.freed_slots import slots_by_row
from fluence_extender.queueing.reservation import OperatorReservation
from fluence_extender.queueing.timeline import Timeline

AT_ONCE = 32
"""For how many groups the slots are counted at once."""

Found = tuple[float, Footprint]


@dataclass(frozen=True, slots=True)
class _Group:
    """The candidates ``first`` to ``last``. The starts ``low`` to ``high`` - 1 come while the entry would run."""

    first: int
    last: int
    low: int
    high: int


def earliest(
    timeline: Timeline, entry: Entry, planner: PlannerPort, operators: Sequence[OperatorReservation] = ()
) -> Generator[None, None, Found | None]:
    """Return the first time after now at which an entry fits, and its places then; None if no known end helps.

    It yields where the caller may pause.
    """
    sweep = _Sweep(timeline, entry, planner, operators)
    groups = sweep.groups()
    while block := list(itertools.islice(groups, AT_ONCE)):
        for group in sweep.fitting(block):
            yield
            found = yield from sweep.search(group)
            if found is not None:
                return found
        yield
    return None


class _Sweep:
    """Goes through the groups of candidates in the order of time."""

    def __init__(
        self,
        timeline: Timeline,
        entry: Entry,
        planner: PlannerPort,
        operators: Sequence[OperatorReservation],
    ) -> None:
        self._timeline = timeline
        self._entry = entry
        self._planner = planner
        self._closing = [one for one in operators if one.closes(entry, timeline.now, NEVER)]
        ends = [one.end for one in self._closing if one.end < NEVER]
        self._times: Times = np.union1d(timeline.returns(), np.array(ends, dtype=np.float64))
        self._usable = open_rows(planner, entry, (), len(timeline.room))
        self._part = timeline.reserved
        if self._closing:
            rows = np.unique(np.concatenate([self._part.rows, *(one.rows for one in self._closing)]))
            self._part = timeline.part(rows, self._part.times)
        others = np.ones(len(timeline.room), dtype=np.bool_) if self._usable is None else self._usable.copy()
        others[self._part.rows] = False
        freed = timeline.freed_slots
        self._others = np.stack([freed.slots(one.size, others, self._times) for one in entry.slots], axis=1)
        self._needed = [one.count for one in entry.slots]
        self._during = _SlidingMinimum(self._slots(self._part.levels[1:]))

    def groups(self) -> Iterator[_Group]:
        """Yield the groups."""
        if not len(self._times):
            return
        times, starts = self._times, np.array(self._timeline.starts)
        until = times + self._entry.duration
        within = [
            np.searchsorted(starts, times, side="right"),
            np.searchsorted(starts, until, side="left"),
            *((times < one.end) & (until > one.start) for one in self._closing),
        ]
        differs = np.any([part[1:] != part[:-1] for part in within], axis=0)
        firsts = [0, *(np.flatnonzero(differs) + 1).tolist()]
        for first, following in zip(firsts, [*firsts[1:], len(times)], strict=True):
            yield _Group(first, following - 1, int(within[0][first]), int(within[1][first]))

    def fitting(self, groups: Sequence[_Group]) -> Iterator[_Group]:
        """Yield those of some groups at whose last candidate there is room for the slots of each size."""
        lasts = [group.last for group in groups]
        slots = self._slots(self._part.at(self._times[lasts]))
        # Most groups lack room even if nothing starts while the entry runs.
        most = slots.sum(axis=2) + self._others[lasts]
        for at in np.flatnonzero((most >= self._needed).all(axis=1)).tolist():
            if self._suffice(groups[at], groups[at].last, slots[at]):
                yield groups[at]

    def search(self, group: _Group) -> Generator[None, None, Found | None]:
        """Return the first candidate of a group at which the entry fits, and its places."""
        timeline, part = self._timeline, self._part
        usable = self._open_rows(group.first)
        starts = part.levels[group.low + 1 : group.high + 1]

        def counted(number: int) -> bool:
            (slots,) = self._slots(part.at(self._times[number : number + 1]))
            return self._suffice(group, number, slots)

        def planned(number: int) -> Footprint | None:
            view = timeline.unreserved(self._times[number])
            view[part.rows] = np.concatenate((part.at(self._times[number : number + 1]), starts)).min(axis=0)
            return place(self._planner, self._entry, view, usable, timeline.free)

        return (yield from self._first(_first(group.first, group.last, counted), group.last, planned))

    def _slots(self, levels: Amounts) -> Amounts:
        """Return how many slots each row of the part has at each level: levels x sizes x rows."""
        flat = levels.reshape(-1, levels.shape[2])
        found = [slots_by_row(one.size, flat).reshape(levels.shape[:2]) for one in self._entry.slots]
        return np.stack(found, axis=1)

    def _suffice(self, group: _Group, number: int, slots: Amounts) -> bool:
        """Return whether there is room for the slots of each size, given those of the part at the candidate."""
        during, usable = self._during.of(group.low, group.high), self._open_rows(group.first)
        slots = slots if during is None else np.minimum(slots, during)
        counts = slots.sum(axis=1) if usable is None else slots @ usable[self._part.rows]
        return all(
            others + count >= needed
            for others, count, needed in zip(
                self._others[number].tolist(), counts.tolist(), self._needed, strict=True
            )
        )

    def _first(
        self, low: int, high: int, planned: Callable[[int], Footprint | None]
    ) -> Generator[None, None, Found | None]:
        """Return the first candidate from ``low`` on for which the planner finds places; mostly it is ``low``."""
        places = planned(low)
        if places is None and low < high:
            yield
            places = planned(high)
            if places is not None:
                low = _first(low + 1, high, lambda number: planned(number) is not None)
                places = planned(low)
        return None if places is None else (float(self._times[low]), places)

    def _open_rows(self, number: int) -> Mask | None:
        if not self._closing:
            return self._usable
        start = self._times[number]
        closing = [
            one for one in self._closing if one.closes(self._entry, start, start + self._entry.duration)
        ]
        return open_rows(self._planner, self._entry, closing, len(self._timeline.room))


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
