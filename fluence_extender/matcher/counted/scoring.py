"""Scores of slots without listing their units, and the choice of the best among them.

A slot's score is 1 plus the scores of its members, and a member's score grows with its id. So the i-th slot of a node
takes the i-th group of its free units in the policy's direction, and sums over groups of consecutive units follow from
sums over ranges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.ranges import Ranges
from fluence_extender.matcher.walker.std_sort import std_sorted

Ints = NDArray[np.int64]
Scores = NDArray[np.int64] | NDArray[np.float64]

MOST_SORTED = 200_000
"""With up to this many candidates ties are broken as std::sort does; with more, the first candidate comes first."""

_EXACT = 2**62


def group_sums(free: Ranges, group: int, count: int, *, ascending: bool) -> Scores:
    """Return the sums of the units in the first ``count`` groups of ``group`` free units, from the low or high end.

    The sums are int64 where all of them fit and float64 otherwise (slots of billions of units).
    """
    if not ascending:
        top = free[-1][1]
        mirrored = tuple((top - high, top - low) for low, high in reversed(free))
        return group * (top - 1) - group_sums(mirrored, group, count, ascending=True)
    large = free[-1][1] * group * count >= _EXACT
    kind = np.float64 if large else np.int64
    lows = np.array([low for low, _ in free], kind)
    lengths = np.array([high - low for low, high in free], kind)
    starts = np.concatenate([np.zeros(1, kind), np.cumsum(lengths)])
    sums = np.concatenate([np.zeros(1, kind), np.cumsum(lengths * lows + lengths * (lengths - 1) // 2)])
    units = np.arange(count + 1, dtype=kind) * group
    ranges = np.minimum(np.searchsorted(starts, units, side="right") - 1, len(free) - 1)
    inside = units - starts[ranges]
    totals = sums[ranges] + inside * lows[ranges] + inside * (inside - 1) // 2
    sums_of_groups: Scores = np.diff(totals)
    return sums_of_groups


def best(scores: Ints, wanted: int, *, ascending: bool) -> Ints:
    """Return the ascending indices of the ``wanted`` best of ``scores``, as std::sort would leave them in front.

    If no candidate that is left out has the last chosen score, the scores alone decide. Otherwise the moves of the sort
    decide, so they are repeated.
    """
    if wanted >= len(scores):
        return np.arange(len(scores))
    keys = scores if ascending else -scores
    bound = np.partition(keys, wanted - 1)[wanted - 1]
    ties = np.flatnonzero(keys == bound)
    better = np.flatnonzero(keys < bound)
    missing = wanted - len(better)
    if len(ties) > missing:
        if len(keys) <= MOST_SORTED:
            order = std_sorted(keys.tolist(), list(range(len(keys))))
            return np.sort(np.array(order[:wanted], np.int64))
        ties = ties[:missing]
    return np.sort(np.concatenate([better, ties]))


def interval_numbers(scores: Ints) -> Ints:
    """Return for each score the ascending number of its run of consecutive scores (policy ``locality``)."""
    values, places = np.unique(scores, return_inverse=True)
    runs = np.concatenate([[0], np.cumsum(np.diff(values) > 1)])
    return runs[places].astype(np.int64)
