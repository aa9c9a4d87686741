"""The best n of many scored candidates, as libreapi_cli's std::sort would leave them in front.

Only the chosen set matters, not its order. Where the n-th best score isn't shared with a candidate that is left out,
the scores alone decide it; where it is, the sort's own moves do, and are repeated (fluxion reference 4.8).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.embedded.std_sort import std_sorted

Ints = NDArray[np.int64]

MOST_SORTED = 200_000
"""Candidates up to which ties are broken as std::sort does; beyond, the first candidate goes first."""


def best(scores: Ints, wanted: int, *, ascending: bool, exact: bool = False) -> Ints:
    """Indices of the ``wanted`` best of ``scores``, ascending.

    ``exact``: ties are broken as std::sort does among however many.
    """
    if wanted >= len(scores):
        return np.arange(len(scores))
    keys = scores if ascending else -scores
    bound = np.partition(keys, wanted - 1)[wanted - 1]
    ties = np.flatnonzero(keys == bound)
    better = np.flatnonzero(keys < bound)
    room = wanted - len(better)
    if len(ties) > room:
        if exact or len(keys) <= MOST_SORTED:
            order = std_sorted(keys.tolist(), list(range(len(keys))))
            return np.sort(np.array(order[:wanted], np.int64))
        ties = ties[:room]
    return np.sort(np.concatenate([better, ties]))


def interval_numbers(scores: Ints) -> Ints:
    """For each score the number of the run of consecutive scores that it is in, ascending (policy ``locality``)."""
    values, places = np.unique(scores, return_inverse=True)
    runs = np.concatenate([[0], np.cumsum(np.diff(values) > 1)])
    return runs[places].astype(np.int64)
