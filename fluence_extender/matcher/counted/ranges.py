"""Which of a node's equal leaves are free, as ranges instead of one entry a leaf.

A leaf entry with ``count: N`` stands for N units, numbered 0..N-1 from its first id on. A set of units is an ascending
tuple of half-open ``(low, high)`` pairs that neither touch nor overlap, so its length follows the number of gaps and
not N.
"""

from __future__ import annotations

Ranges = tuple[tuple[int, int], ...]

EMPTY: Ranges = ()


def whole(total: int) -> Ranges:
    """Return all units of an entry of ``total``."""
    return ((0, total),) if total else EMPTY


def size(ranges: Ranges) -> int:
    """Return how many units are in the set."""
    if len(ranges) == 1:
        return ranges[0][1] - ranges[0][0]
    return sum(high - low for low, high in ranges)


def take_lowest(free: Ranges, amount: int) -> tuple[Ranges, Ranges]:
    """Split ``free`` into its ``amount`` lowest units and the rest."""
    if not amount:
        return EMPTY, free
    if free and free[0][1] - free[0][0] > amount:
        low, high = free[0]
        return ((low, low + amount),), ((low + amount, high), *free[1:])
    for index, (low, high) in enumerate(free):
        if high - low > amount:
            cut = low + amount
            return (*free[:index], (low, cut)), ((cut, high), *free[index + 1 :])
        amount -= high - low
        if not amount:
            return free[: index + 1], free[index + 1 :]
    return free, EMPTY


def take_highest(free: Ranges, amount: int) -> tuple[Ranges, Ranges]:
    """Split ``free`` into its ``amount`` highest units and the rest."""
    if not amount:
        return EMPTY, free
    for index in range(len(free) - 1, -1, -1):
        low, high = free[index]
        if high - low > amount:
            cut = high - amount
            return ((cut, high), *free[index + 1 :]), (*free[:index], (low, cut))
        amount -= high - low
        if not amount:
            return free[index:], free[:index]
    return free, EMPTY


def union(one: Ranges, other: Ranges) -> Ranges:
    """Return all units that are in either set."""
    if not one or not other:
        return one or other
    merged: list[tuple[int, int]] = []
    for low, high in sorted(one + other):
        if merged and low <= merged[-1][1]:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def difference(one: Ranges, other: Ranges) -> Ranges:
    """Return the units of ``one`` that aren't in ``other``."""
    if not other:
        return one
    if len(other) == 1 and one and one[0][0] == other[0][0] and other[0][1] < one[0][1]:
        return ((other[0][1], one[0][1]), *one[1:])
    left: list[tuple[int, int]] = []
    index = 0
    for low, high in one:
        while index < len(other) and other[index][1] <= low:
            index += 1
        start, at = low, index
        while at < len(other) and other[at][0] < high:
            if other[at][0] > start:
                left.append((start, other[at][0]))
            start = max(start, other[at][1])
            at += 1
        if start < high:
            left.append((start, high))
    return tuple(left)
