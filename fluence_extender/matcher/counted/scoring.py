"""Scores of slots within a node, without listing its units.

A slot's score is 1 plus the scores of its members, and a member's grows with its id, so the i-th slot of a node takes
the i-th group of its free units in the policy's direction (fluxion reference 4.4, 4.5). Sums over groups of
consecutive units follow from sums over ranges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.ranges import Ranges

Scores = NDArray[np.int64] | NDArray[np.float64]

_EXACT = 2**62


def group_sums(free: Ranges, group: int, count: int, *, ascending: bool) -> Scores:
    """Sums of the units in the first ``count`` groups of ``group`` free units, from the low or the high end.

    int64 where all sums fit, float64 otherwise (billions of bytes a slot).
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
