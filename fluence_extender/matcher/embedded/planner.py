"""How much of one resource is free over time.

A planner holds spans: an amount, taken from a start time for a duration. Its timeline is a list of points, each with
what remains free from that time to the next point. Times are seconds on the matcher's clock. Invariant: the points
ascend, the first is at 0, and every other is the start or the end of a live span (fluxion reference 4.1).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

TIME_END = 2**63 - 1
"""The end of every planner's time line."""


class Planner:
    """The timeline of ``total`` units of a resource."""

    __slots__ = ("_free", "_references", "_times", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._times = [0]
        self._free = [total]
        self._references = [1]

    def free_during(self, at: int, duration: int) -> int:
        """The least that is free at any time of [at, at + duration)."""
        times = self._times
        if len(times) == 1:
            return self._free[0]
        first = bisect_right(times, at) - 1
        last = bisect_left(times, at + duration, first + 1)
        if last - first == 1:
            return self._free[first]
        return min(self._free[first:last])

    def free_at(self, at: int) -> int:
        """What is free at the time ``at``."""
        return self._free[bisect_right(self._times, at) - 1]

    def fits(self, at: int, duration: int, amount: int) -> bool:
        """Whether ``amount`` is free for all of [at, at + duration)."""
        return amount <= self.total and amount <= self.free_during(at, duration)

    def add(self, at: int, duration: int, amount: int) -> bool:
        """Take ``amount`` for [at, at + duration), or do nothing and say False where it isn't free."""
        if amount < 0 or not self.fits(at, duration, amount):
            return False
        first = self._hold_point(at)
        last = self._hold_point(at + duration)
        free = self._free
        for index in range(first, last):
            free[index] -= amount
        return True

    def remove(self, at: int, duration: int, amount: int) -> bool:
        """Give back what `add` took with the same arguments; False where more is free now than there is.

        That happens after `resize` below what was taken.
        """
        first = bisect_left(self._times, at)
        last = bisect_left(self._times, at + duration, first)
        free = self._free
        sound = True
        for index in range(first, last):
            free[index] += amount
            if free[index] > self.total:
                sound = False
        self._drop_point(last)
        self._drop_point(first)
        return sound

    def give_back(self, at: int, duration: int, amount: int) -> None:
        """Give back a part of what `add` took for this time; the rest stays taken."""
        first = bisect_left(self._times, at)
        last = bisect_left(self._times, at + duration, first)
        for index in range(first, last):
            self._free[index] += amount

    def resize(self, total: int) -> None:
        """Change the total. What remains free follows, but never below 0, as in libreapi_cli."""
        grown = total - self.total
        self.total = total
        self._free = [max(0, free + grown) for free in self._free]

    def starts(self, on_or_after: int, duration: int, amount: int) -> Iterator[int]:
        """The points from ``on_or_after`` on, ascending, where ``amount`` is free for ``duration``."""
        first = bisect_left(self._times, on_or_after)
        for time in self._times[first:]:
            if self.free_at(time) >= amount and self.fits(time, duration, amount):
                yield time

    def timeline(self) -> list[tuple[int, int]]:
        """The points as (time, free) pairs."""
        return list(zip(self._times, self._free, strict=True))

    def _hold_point(self, time: int) -> int:
        index = bisect_left(self._times, time)
        if index < len(self._times) and self._times[index] == time:
            self._references[index] += 1
        else:
            self._times.insert(index, time)
            self._free.insert(index, self._free[index - 1])
            self._references.insert(index, 1)
        return index

    def _drop_point(self, index: int) -> None:
        self._references[index] -= 1
        if self._references[index] == 0:
            del self._times[index], self._free[index], self._references[index]


def whole_seconds(duration: float, longest: int) -> int | None:
    """A jobspec's duration as whole seconds: 0 means ``longest``, a part of a second counts as one.

    None for what isn't a duration: negative, not a number, longer than ``longest`` (fluxion reference 3.3).
    """
    if not 0 <= duration <= longest:
        return None
    return math.ceil(duration) if duration else longest
