"""How much of one resource is free over time, and how much of each tracked type is free below a vertex.

A planner holds spans: an amount, taken from a start time for a duration. Its timeline is a list of points, each with
what stays free from that time to the next point. Times are seconds on the matcher's clock. Invariant: the points
ascend, the first is at 0, and every other is the start or the end of a live span.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

TIME_END = 2**63 - 1
"""The end of every planner's timeline."""

GRAPH_END = 3_153_600_000
"""The end of the graph's life in seconds from the matcher's start: no job lasts longer."""


class SpanPlanner:
    """The timeline of ``total`` units of a resource.

    libreapi_cli looks for start times in an index of the points by what is free. A new total doesn't reach the index: a
    point is indexed anew once a span is added or removed over it, or once a search has found it and another one begins.
    ``_stale`` has the points that are indexed under another amount, and ``_found`` those that the last search found.
    """

    __slots__ = ("_found", "_free", "_references", "_stale", "_times", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._times = [0]
        self._free = [total]
        self._references = [1]
        self._stale: dict[int, int] | None = None
        self._found: set[int] | None = None

    def free_during(self, at: int, duration: int) -> int:
        """Return the least that is free at any time of [at, at + duration)."""
        times = self._times
        if len(times) == 1:
            return self._free[0]
        first = bisect_right(times, at) - 1
        last = bisect_left(times, at + duration, first + 1)
        if last - first == 1:
            return self._free[first]
        return min(self._free[first:last])

    def free_at(self, at: int) -> int:
        """Return what is free at the time ``at``."""
        return self._free[bisect_right(self._times, at) - 1]

    def fits(self, at: int, duration: int, amount: int) -> bool:
        """Whether ``amount`` is free for all of [at, at + duration)."""
        return amount <= self.total and amount <= self.free_during(at, duration)

    def add(self, at: int, duration: int, amount: int) -> bool:
        """Take ``amount`` for [at, at + duration). Return False, with nothing taken, where it isn't free."""
        if amount < 0 or not self.fits(at, duration, amount):
            return False
        self.index_found()
        first = self._hold_point(at)
        last = self._hold_point(at + duration)
        self._index(first, last)
        free = self._free
        for index in range(first, last):
            free[index] -= amount
        return True

    def remove(self, at: int, duration: int, amount: int) -> bool:
        """Give back what `add` took with the same arguments. Return False if more is free now than the total.

        That happens after `resize` to less than what was taken.
        """
        self.index_found()
        first = bisect_left(self._times, at)
        last = bisect_left(self._times, at + duration, first)
        self._index(first, last)
        free = self._free
        sound = True
        for index in range(first, last):
            free[index] += amount
            if free[index] > self.total:
                sound = False
        self._drop_point(last)
        self._drop_point(first)
        return sound

    def resize(self, total: int) -> None:
        """Change the total. What is free changes by as much, but never below 0, as in libreapi_cli."""
        grown = total - self.total
        self.total = total
        found = self._found or ()
        before = {at: free for at, free in zip(self._times, self._free, strict=True) if at not in found}
        self._stale = before | (self._stale or {})
        self._free = [max(0, free + grown) for free in self._free]

    def starts(self, on_or_after: int, duration: int, amount: int) -> Iterator[int]:
        """Yield the points from ``on_or_after`` on, ascending, where ``amount`` is free for ``duration``.

        A point that is indexed under less than ``amount`` isn't found.
        """
        self.index_found()
        found = self._found = set()
        stale = self._stale or {}
        for time in list(self._times):
            if stale.get(time, self.free_at(time)) < amount:
                continue
            found.add(time)
            if time >= on_or_after and self.fits(time, duration, amount):
                yield time

    def index_found(self) -> None:
        """Index the points anew that the last search has found."""
        if self._stale and self._found:
            for time in self._found:
                self._stale.pop(time, None)
        self._found = None

    def _index(self, first: int, last: int) -> None:
        """Index the points from ``first`` up to ``last`` anew."""
        if self._stale:
            for time in self._times[first:last]:
                self._stale.pop(time, None)

    def timeline(self) -> list[tuple[int, int]]:
        """Return the points as (time, free) pairs."""
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
            self._index(index, index + 1)
            del self._times[index], self._free[index], self._references[index]


Counted = dict[str, tuple[SpanPlanner, int]]
"""What a job is counted with at a vertex: by type, the planner and the amount booked on it."""


class Aggregates:
    """What is free below a vertex: one planner for each tracked type, in the order of the types' interning.

    The walk asks them whether a subtree can hold a request before it descends. The first planner of the root offers the
    start times of reservations.
    """

    __slots__ = ("live", "planners")

    def __init__(self, totals: Sequence[tuple[str, int]]) -> None:
        self.planners: dict[str, SpanPlanner] = {name: SpanPlanner(total) for name, total in totals}
        self.live = 0
        """How many jobs are counted."""

    def retotal(self, totals: Sequence[tuple[str, int]]) -> None:
        """Track exactly the types of ``totals``, and keep the spans of those tracked before."""
        old = self.planners
        self.planners = {}
        for name, total in totals:
            planner = old.get(name)
            if planner is None:
                planner = SpanPlanner(total)
            elif planner.total != total:
                planner.resize(total)
            self.planners[name] = planner

    def fit(self, at: int, duration: int, counts: Mapping[str, int]) -> bool:
        """Whether every tracked type has its count free for all of [at, at + duration)."""
        return all(planner.fits(at, duration, counts.get(name, 0)) for name, planner in self.planners.items())

    def add(self, at: int, duration: int, counts: Mapping[str, int]) -> Counted | None:
        """Count a job. Return what `remove` needs, or None if a type can't hold its count.

        As in libreapi_cli, types before the one that fails keep their spans.
        """
        counted: Counted = {}
        for name, planner in self.planners.items():
            count = counts.get(name, 0)
            if not planner.add(at, duration, count):
                return None
            counted[name] = (planner, count)
        self.live += 1
        return counted

    def remove(self, at: int, duration: int, counted: Counted) -> bool:
        """Count a job no longer. Return False if a planner has more free than its total now."""
        self.live -= 1
        # Every planner has to be changed, so this is no generator that stops at the first False.
        return all([planner.remove(at, duration, amount) for planner, amount in counted.values()])

    def last(self) -> SpanPlanner:
        """Return the planner of the last tracked type, whose free count weighs the edge to this vertex."""
        return next(reversed(self.planners.values()))


def whole_seconds(duration: float, longest: int) -> int | None:
    """Return a jobspec's duration as whole seconds: 0 means ``longest``, a part of a second counts as one.

    None stands for what isn't a duration: negative, not a number, longer than ``longest``.
    """
    if not 0 <= duration <= longest:
        return None
    return math.ceil(duration) if duration else longest
