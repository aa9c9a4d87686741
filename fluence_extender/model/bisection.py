"""Find the largest number that fits. Requests have no upper bound, so ``bisect`` over a range would overflow."""

from __future__ import annotations

from collections.abc import Callable


def largest_fitting(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to ``most`` that fits, given that all smaller ones do; 0 if none fits."""
    few, many = 0, max(most, 0)
    while few < many:
        middle = (few + many + 1) // 2
        if fits(middle):
            few = middle
        else:
            many = middle - 1
    return few
