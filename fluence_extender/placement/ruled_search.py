"""Placing members one by one where rules about other pods decide, too, on which nodes they may run.

Each member takes the first node that its rules and its room allow, given the members before it. That is an order in
which kube-scheduler would accept them all. If the last members find no place, an earlier one takes a node of another
domain, as far as the budget allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress, count

import numpy as np
from numpy.typing import NDArray

from fluence_extender.placement.pod_rules import PodRules, Rows
from fluence_extender.placement.search import Counts, PlacementProblem, Shape, weights
from fluence_extender.queueing.timeline import slots_by_row
from fluence_extender.room.capacity import CapacityTable

CELLS = 1_000_000
"""The most work of a search, in nodes times members. It takes about a tenth of a second."""

MOST_RUNS = 64
"""The most ways to place all members that are tried; at least one is."""

EARLIEST = 8
"""Only so many of the first members take nodes of other domains."""


class RuledSearch:
    """Places ``shapes``, whose members ``rules`` judge in the same order, on ``table``.

    ``counts`` is afterwards the most that was placed, ``placed`` members in all.
    """

    def __init__(self, shapes: Sequence[Shape], table: CapacityTable, rules: PodRules) -> None:
        self._problem = PlacementProblem(shapes, table)
        self._rules = rules
        heavy = weights([shape.requests for shape in shapes], table)
        self._order = sorted(range(len(shapes)), key=lambda at: (len(shapes[at].nodes), -heavy[at]))
        self._wanted = sum(shape.count for shape in shapes)
        cells = max(self._wanted * len(table.names), 1)
        self._runs = 1 if rules.simple else min(max(CELLS // cells, 1), MOST_RUNS)
        self.counts: Counts = [{} for _ in shapes]
        self.placed = 0
        self._chose = False

    def run(self) -> Counts | None:
        """Return how many members of each shape each node gets, None if no place was found for some."""
        for run, (step, choice) in enumerate(self._ways()):
            if run >= self._runs:
                break
            counts = self._fill(step, choice)
            placed = sum(sum(one.values()) for one in counts)
            if placed > self.placed:
                self.counts, self.placed = counts, placed
            if placed == self._wanted:
                return counts
        return None

    def _ways(self) -> Iterator[tuple[int, int]]:
        """Yield which member takes which of the domains that it may use; all others take the first."""
        yield 0, 0
        for step in range(min(self._wanted, EARLIEST)):
            for choice in count(1):
                yield step, choice
                if not self._chose:
                    break

    def _fill(self, step: int, choice: int) -> Counts:
        filling = _Placing(self._problem, self._rules)
        for at in range(self._wanted):
            if not filling.put_next(self._order, choice if at == step else 0):
                break
        self._chose = filling.chose
        return filling.counts


def narrowed(shape: Shape, allowed: Rows, table: CapacityTable) -> Shape:
    """Return the shape without the nodes on which its rules allow no member."""
    may = allowed[table.at(shape.nodes)]
    if may.all():
        return shape
    return replace(shape, nodes=tuple(compress(shape.nodes, may.tolist())))


class _Placing:
    """Members placed one after the other. ``chose`` says whether some member took another domain than the first."""

    def __init__(self, problem: PlacementProblem, rules: PodRules) -> None:
        rules.reset()
        self._problem = problem
        self._rules = rules
        self._free = problem.table.free.copy()
        self._taken: dict[int, int] = {}
        self._claiming: dict[int, dict[int, int]] = {}
        self._left = [shape.count for shape in problem.shapes]
        self._fitting = [self._fits_at_first(index) for index in range(len(problem.shapes))]
        self.counts: Counts = [{} for _ in problem.shapes]
        self.chose = False

    def put_next(self, order: Sequence[int], choice: int) -> bool:
        """Place one more member of the first shape that has a place for it; return whether there was one."""
        for index in order:
            if not self._left[index]:
                continue
            rows = self._problem.rows[index]
            usable = rows[(self._fitting[index] & self._rules.allowed(index))[rows]]
            if len(usable) and self._rules.begins(index):
                usable = self._roomiest(index, usable)
            if choice and len(usable):
                usable = self._of_domain(usable, choice)
                self.chose = bool(len(usable))
            if len(usable):
                self._put(index, int(usable[0]))
                return True
        return False

    def _of_domain(self, rows: NDArray[np.intp], choice: int) -> NDArray[np.intp]:
        """Return the first row of one of the domains in which ``rows`` are."""
        domains = self._rules.signatures(rows)
        firsts = np.sort(np.unique(domains, axis=0, return_index=True)[1])
        return rows[firsts[choice : choice + 1]]

    def _roomiest(self, index: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return first the rows in domains that have room for all members of a shape, in the order given."""
        codes = self._rules.domains_near(index)
        all_rows = self._problem.rows[index]
        counts = self._problem.capacity(index, self._free, self._taken)
        room = np.bincount(codes[all_rows], weights=counts, minlength=int(codes.max(initial=0)) + 1)
        enough = room[codes[rows]] >= self._left[index]
        return np.concatenate([rows[enough], rows[~enough]])

    def _put(self, index: int, row: int) -> None:
        problem, name = self._problem, self._problem.table.names[row]
        self._free[row] -= problem.sizes[index]
        if problem.clashes[index]:
            self._taken[row] = self._taken.get(row, 0) | problem.clashes[index]
        if problem.shapes[index].claim_room is not None:
            claiming = self._claiming.setdefault(row, {})
            claiming[index] = claiming.get(index, 0) + 1
        self._rules.put(index, row)
        self._left[index] -= 1
        self.counts[index][name] = self.counts[index].get(name, 0) + 1
        for other, left in enumerate(self._left):
            if left and self._fitting[other][row]:
                self._fitting[other][row] = self._fits(other, row)

    def _fits_at_first(self, index: int) -> Rows:
        found = np.zeros(len(self._problem.table.names), dtype=bool)
        found[self._problem.rows[index]] = self._problem.capacity(index, self._free, self._taken) > 0
        return found

    def _fits(self, index: int, row: int) -> bool:
        """Return whether a row that took a member before it takes one more of a shape."""
        if self._taken.get(row, 0) >> index & 1:
            return False
        if not slots_by_row(self._problem.sizes[index], self._free[row : row + 1])[0] > 0:
            return False
        if self._problem.shapes[index].claim_room is None:
            return True
        here = self._claiming.get(row, {})
        return not here or self._problem.hosted(index, row, {row: here}) > 0
