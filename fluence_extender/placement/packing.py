"""Filling nodes in order until every member of a mixed gang has a place: an exact search with a budget.

Each node is filled until no member fits any more; nothing is gained by keeping capacity for a member that goes to a
later node. So the later nodes are empty, and the members that are left to place are the whole state. A state that has
failed once always fails. Bounds on the most that the later nodes could take cut off much of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import gt, mul

import numpy as np

from fluence_extender.placement.errors import SearchBudgetSpent
from fluence_extender.room.capacity import Amounts

Left = tuple[int, ...]
Pattern = tuple[tuple[int, int], ...]
"""The members on one node as pairs of shape and count; counts are above 0."""


SHAPES_PER_WAY = 8
"""A way to fill a node with more shapes than this counts as several ways."""

UNBOUNDED = 2**30
"""A number larger than the size of any gang."""

EXACT = 2**44
"""Amounts up to this one are summed over nodes and shapes in 64 bits; larger ones are summed more slowly."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The nodes and the shapes to be placed on them.

    ``free`` is nodes x resources, ``sizes`` is shapes x resources. ``most``, nodes x shapes, is how many members of
    each shape a node takes by themselves, 0 if the shape may not run. ``clashes`` has for each shape the bits of
    the shapes that can't share a node with it; its own bit may be among them. ``claiming`` are the shapes whose members
    claim devices; ``hosted`` says how many members of one of these a node takes beside members of the others.
    """

    free: Amounts
    sizes: Amounts
    most: Amounts
    clashes: tuple[int, ...]
    claiming: Set[int] = frozenset()
    hosted: Callable[[int, int, Mapping[int, int]], int] = lambda shape, node, others: UNBOUNDED


def pack(bins: Bins, counts: Sequence[int], budget: int) -> list[tuple[int, Pattern]] | None:
    """Place ``counts[i]`` members of each shape i: return (node, pattern) for each node used, None if impossible.

    Raises `SearchBudgetSpent` after ``budget`` patterns; with many shapes each pattern counts as several.
    """
    return _Packing(bins, tuple(counts), budget).run()


class _Packing:
    def __init__(self, bins: Bins, counts: Left, budget: int) -> None:
        most = np.minimum(bins.most, np.asarray(counts, dtype=np.int64))
        rows = np.flatnonzero(most.any(axis=1))
        # The nodes that the fewest shapes can use come first, so that dead ends show early.
        rows = rows[np.lexsort((most[rows].sum(axis=1), (most[rows] > 0).sum(axis=1)))]
        self.rows = rows
        self.counts = counts
        self.budget = budget
        self.cost = max(len(counts) // SHAPES_PER_WAY, 1)
        self.clashes = bins.clashes
        self.claiming = bins.claiming if len(bins.claiming) > 1 else frozenset()
        self.hosted = bins.hosted
        self.sizes = [tuple(row) for row in bins.sizes.tolist()]
        self.sizes_along = [tuple(column) for column in bins.sizes.T.tolist()]
        self.free = bins.free[rows].tolist()
        self.most = most[rows].tolist()
        weights = bins.sizes / np.maximum(bins.free[rows].clip(min=0).sum(axis=0), 1)
        hardest = np.lexsort((-weights.max(axis=1), most[rows].sum(axis=0) - np.asarray(counts)))
        self.order = [int(i) for i in hardest]
        # The most that each node and all later nodes could take, by shape and by resource.
        self.takes = _from_each_on(most[rows])
        self.offers = _from_each_on(_usable(bins.free[rows].clip(min=0), most[rows], bins.sizes))
        self.dead: set[tuple[int, Left]] = set()

    def run(self) -> list[tuple[int, Pattern]] | None:
        if self._hopeless(0, self.counts):
            return None
        chosen: list[tuple[int, Pattern]] = []
        stack = [(self.counts, self._patterns(0, self.counts))]
        while stack:
            node = len(stack) - 1
            left, patterns = stack[-1]
            pattern = next(patterns, None)
            if pattern is None:
                if self.budget < 0:
                    raise SearchBudgetSpent
                self.dead.add((node, left))
                stack.pop()
                if chosen:
                    chosen.pop()
                continue
            rest = _less(left, pattern)
            if not any(rest):
                return [one for one in [*chosen, (int(self.rows[node]), pattern)] if one[1]]
            if self._hopeless(node + 1, rest) or (node + 1, rest) in self.dead:
                continue
            chosen.append((int(self.rows[node]), pattern))
            stack.append((rest, self._patterns(node + 1, rest)))
        return None

    def _hopeless(self, node: int, left: Left) -> bool:
        # This runs for each way to fill each node. With plain loops it would take half of the search time.
        if any(map(gt, left, self.takes[node])):
            return True
        wanted = (sum(map(mul, left, sizes)) for sizes in self.sizes_along)
        return any(map(gt, wanted, self.offers[node]))

    def _patterns(self, node: int, left: Left) -> Iterator[Pattern]:
        """Yield the ways to fill the node completely, those with many members of the hardest shapes first."""
        left = tuple(map(min, left, self.most[node]))
        shapes = [i for i in self.order if left[i]]
        free = [self.free[node]] + [[]] * len(shapes)
        taken = [0] * (len(shapes) + 1)
        counts = [0] * len(shapes)
        at = 0
        while True:
            for position in range(at, len(shapes)):
                self._put(node, position, shapes, free, taken, counts, left, None)
            self.budget -= self.cost
            if self.budget < 0:
                return
            if self._full(node, shapes, free[-1], taken[-1], counts, left):
                yield tuple((i, count) for i, count in zip(shapes, counts, strict=True) if count)
            at = len(shapes) - 1
            while at >= 0 and not counts[at]:
                at -= 1
            if at < 0:
                return
            self._put(node, at, shapes, free, taken, counts, left, counts[at] - 1)
            at += 1

    def _put(
        self,
        node: int,
        at: int,
        shapes: Sequence[int],
        free: list[list[int]],
        taken: list[int],
        counts: list[int],
        left: Left,
        count: int | None,
    ) -> None:
        """Place ``count`` members of the shape at position ``at`` on the node, None for as many as fit."""
        shape = shapes[at]
        if count is None:
            count = self._fitting(shape, free[at], taken[at], left[shape])
            if count and shape in self.claiming:
                count = min(count, self._hosted(node, shape, shapes[:at], counts))
        counts[at] = count
        if count:
            free[at + 1] = [have - count * one for have, one in zip(free[at], self.sizes[shape], strict=True)]
            taken[at + 1] = taken[at] | self.clashes[shape]
        else:
            free[at + 1], taken[at + 1] = free[at], taken[at]

    def _fitting(self, shape: int, free: list[int], taken: int, most: int) -> int:
        if taken >> shape & 1:
            return 0
        if self.clashes[shape] >> shape & 1 and most:
            most = 1
        for have, one in zip(free, self.sizes[shape], strict=True):
            if one and have < one * most:
                most = max(have, 0) // one
        return most

    def _hosted(self, node: int, shape: int, others: Sequence[int], counts: Sequence[int]) -> int:
        """Return how many members of a shape with claims the node takes beside those of others with claims."""
        placed = {
            one: count for one, count in zip(others, counts, strict=False) if one in self.claiming and count
        }
        placed.pop(shape, None)
        return self.hosted(shape, int(self.rows[node]), placed) if placed else UNBOUNDED

    def _full(
        self, node: int, shapes: Sequence[int], free: list[int], taken: int, counts: Sequence[int], left: Left
    ) -> bool:
        for shape, count in zip(shapes, counts, strict=True):
            if count >= left[shape] or not self._fitting(shape, free, taken, 1):
                continue
            if shape not in self.claiming or self._hosted(node, shape, shapes, counts) > count:
                return False
        return True


def _usable(free: Amounts, most: Amounts, sizes: Amounts) -> Amounts:
    """Return how much of each row the shapes that may run there could take, each by itself."""
    if sizes.size and free.size and max(free.max(), sizes.max()) > EXACT:
        free, most, sizes = free.astype(object), most.astype(object), sizes.astype(object)
    usable: Amounts = np.minimum(free, most @ sizes)
    return usable


def _less(left: Left, pattern: Pattern) -> Left:
    rest = list(left)
    for shape, count in pattern:
        rest[shape] -= count
    return tuple(rest)


def _from_each_on(amounts: Amounts) -> list[list[int]]:
    """Return for each row the sum of it and all later rows, followed by a row of zeros."""
    sums = np.cumsum(amounts[::-1], axis=0)[::-1]
    return [*sums.tolist(), [0] * amounts.shape[1]]
