"""How room comes back where nothing is reserved: the slots of one size on all rows, at any time, by one count.

On a row without reservations room only grows, when pods end. So each end adds some slots of a size, and the slots that
there are at a time are those of now and those that all ends until then have added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluence_extender.queueing.entry import Amounts, Mask, Rows, Times
from fluence_extender.queueing.steps import Steps

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
        # The ends by row, and those of a row by time.
        self._order = order = np.argsort(ends.rows, kind="stable")
        self._rows = ends.rows[order]
        self._first = np.ones(len(order), dtype=np.bool_)
        self._first[1:] = self._rows[1:] != self._rows[:-1]
        self._after = _sums_by_row(ends.amounts[order], self._first)
        self._after += free[self._rows]

    def slots(self, size: Sequence[int], usable: Mask, times: Times) -> Amounts:
        """Return how many slots of a size all ``usable`` rows have at each of some times, none of them before now."""
        now = slots_by_row(size, self._free, usable)
        until = np.searchsorted(self._times, times, side="right")
        # No end after the last of the times counts.
        counted = int(until[-1]) if len(until) else 0
        some = np.flatnonzero(self._order < counted)
        rows, first = self._rows[some], self._first[some]
        after = slots_by_row(size, self._after, usable[rows], some)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[first] = now[rows[first]]
        added = np.zeros(counted + 1, dtype=np.int64)
        added[self._order[some] + 1] = after - before
        found: Amounts = now.sum() + np.cumsum(added)[until]
        return found


def _sums_by_row(amounts: Amounts, first: Mask) -> Amounts:
    """Return the running sums of amounts, which begin anew wherever ``first`` is true."""
    sums = np.array(np.cumsum(amounts, axis=0), order="F")
    at = np.flatnonzero(first)
    lengths = np.diff(np.append(at, len(first)))
    sums -= np.repeat(sums[at] - amounts[at], lengths, axis=0)
    return sums
