"""Changes of what is free at certain times, and the amounts that they add up to on some rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fluence_extender.queueing.entry import Amounts, Footprint, Rows, Times


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The changes ``amounts[i]`` on the row ``rows[i]`` at ``times[i]``."""

    times: Times
    rows: Rows
    amounts: Amounts

    @classmethod
    def of(cls, some: Sequence[tuple[Footprint, float]], columns: int) -> Steps:
        """Return the steps of some footprints, each with its time."""
        if not some:
            return cls(np.empty(0), np.empty(0, dtype=np.intp), np.empty((0, columns), dtype=np.int64))
        rows = np.concatenate([places.rows for places, _ in some])
        amounts = np.concatenate([places.amounts for places, _ in some])
        return cls(
            np.repeat([end for _, end in some], [len(places.rows) for places, _ in some]), rows, amounts
        )

    def with_more(self, some: Sequence[tuple[Footprint, float]]) -> Steps:
        """Return these sorted steps with those of some footprints, sorted again."""
        more = Steps.of(some, self.amounts.shape[1])
        times = np.concatenate((self.times, more.times))
        order = np.argsort(times, kind="stable")
        rows = np.concatenate((self.rows, more.rows))
        return Steps(times[order], rows[order], np.concatenate((self.amounts, more.amounts))[order])

    def part(self, some: slice) -> Steps:
        """Return some of the changes."""
        return Steps(self.times[some], self.rows[some], self.amounts[some])

    def add_to(self, amounts: Amounts, some: slice) -> None:
        """Add some of the changes to ``amounts``."""
        for column in range(amounts.shape[1]):
            np.add.at(amounts[:, column], self.rows[some], self.amounts[some, column])


@dataclass(frozen=True, eq=False)
class TimelinePart:
    """What is free on ``rows`` at each of the sorted ``times``: ``levels`` has the shape times x rows x resources.

    ``steps`` are all changes after the first of the times, sorted, with places in ``rows`` as their rows.
    """

    rows: Rows
    times: Times
    levels: Amounts
    steps: Steps

    @classmethod
    def of(cls, rows: Rows, times: Times, free: Amounts, *all_steps: Steps) -> TimelinePart:
        """Return the part of these rows, given what is ``free`` before all steps."""
        place = np.full(len(free), -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        there = [place[steps.rows] for steps in all_steps]
        chosen = [np.flatnonzero(at >= 0) for at in there]
        at = np.concatenate([at[some] for at, some in zip(there, chosen, strict=True)])
        when = np.concatenate([steps.times[some] for steps, some in zip(all_steps, chosen, strict=True)])
        amounts = np.concatenate([steps.amounts[some] for steps, some in zip(all_steps, chosen, strict=True)])
        order = np.argsort(when, kind="stable")
        steps = Steps(when[order], at[order], amounts[order])
        within = slice(0, int(np.searchsorted(steps.times, times[-1], side="right")))
        return cls(rows, times, _added(free[rows], steps.part(within), times), steps)

    @cached_property
    def minima(self) -> Amounts:
        """The minimum of the levels up to each time: times x rows x resources."""
        found: Amounts = np.minimum.accumulate(self.levels, axis=0)
        return found

    def at(self, times: Times) -> Amounts:
        """Return what is free on the rows at some times, sorted and none before the first of ``times``."""
        number = int(np.searchsorted(self.times, times[0], side="right")) - 1
        first, last = np.searchsorted(self.steps.times, (self.times[number], times[-1]), side="right")
        return _added(self.levels[number], self.steps.part(slice(first, last)), times)


def _added(before: Amounts, steps: Steps, times: Times) -> Amounts:
    """Return the amounts that some steps add up to at each of the times, which are sorted; none comes after them."""
    found = np.zeros((len(times), *before.shape), dtype=np.int64)
    found[0] = before
    np.add.at(found, (np.searchsorted(times, steps.times, side="left"), steps.rows), steps.amounts)
    # This is three times as fast as np.cumsum, which adds along the times one amount after the other.
    for number in range(1, len(times)):
        found[number] += found[number - 1]
    return found
