"""Find where a request fits: which rows, and how many units of each leaf type on each.

The answer is the one a walk over the expanded graph gives (fluxion reference 4.3-4.6), found by arithmetic: a mask of
the rows that can hold one slot, the slots on each, and the policy's order over them.

Where units are coarse (every leaf id below 10,000) slots are chosen by the library's own scores. Finer units overflow
the room that those scores leave between nodes; there, nodes are taken in the order of their scores, each filled
before the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted import amounts
from fluence_extender.matcher.counted.policy import Order
from fluence_extender.matcher.counted.request import Request, Shape
from fluence_extender.matcher.counted.scoring import group_sums
from fluence_extender.matcher.counted.selection import best, interval_numbers
from fluence_extender.matcher.counted.tree import Level
from fluence_extender.matcher.counted.view import View
from fluence_extender.matcher.embedded.count import Count
from fluence_extender.matcher.embedded.std_sort import std_sorted

if TYPE_CHECKING:
    from fluence_extender.matcher.counted.state import State

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_COARSE = 10_000
_MANY_SLOTS = 200_000


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen rows in the order found, and for each leaf type of the request the units on each row."""

    rows: list[int]
    units: list[tuple[str, list[int]]]
    picks: list[list[int]] | None = None
    """Which of each row's slots are chosen, by their place in the policy's order, where not the first ones."""


class Search:
    """One request on one view of the state."""

    def __init__(self, state: State, request: Request, view: View, *, ever: bool = False) -> None:
        """``ever``: asked what the graph could hold at best, whatever is down."""
        self.state = self._state = state
        self.request = self._request = request
        self.view = self._view = view
        self.ever = ever
        self._policy = state.policy
        self._early_stop = state.policy.order is Order.FIRST
        self._visited: list[Ints] | None = None
        self._refused_level = False

    @property
    def visits(self) -> bool:
        """Whether a walk stops as soon as it has enough."""
        return self._early_stop

    def visited(self) -> tuple[list[Ints], bool]:
        """The rows that a walk visits until it has enough, and whether it refuses a level on the way."""
        self._visited = []
        for _ in self._visit(self._state.tree.root, self._mask(slice(0, self._state.table.size))):
            pass
        return self._visited, self._refused_level

    def open(self, rows: Ints) -> Bools:
        """Which of ``rows`` a walk may enter, whatever is free there."""
        constraint = self._request.constraint
        entered: Bools = self._view.reachable[rows] & ~self._view.held[rows]
        if constraint is not None:
            entered &= self._state.index.mask(self._request.constraint_text, self._state.table)[rows]
        return entered

    def able(self, rows: Ints) -> Bools:
        """Which of ``rows`` can serve the request."""
        found = np.zeros(self._state.table.size, np.bool_)
        masked = rows[self._mask(rows)]
        if len(masked):
            found[self._counts(masked)[0]] = True
        return found[rows]

    def feasible(self) -> bool:
        """Whether the request fits at all, whatever the policy would choose."""
        if self._request.impossible:
            return False
        rows = np.flatnonzero(self._mask(slice(0, self._state.table.size)))
        rows, counts, _ = self._counts(rows)
        return bool(counts.sum() >= self._wanted.minimum)

    def choose(self) -> Choice | None:
        """What the policy takes, None where it doesn't fit."""
        if self._request.impossible:
            return None
        few = self._few()
        if few is not None:
            return self._choose_only(few)
        mask = self._mask(slice(0, self._state.table.size))
        if self._early_stop:
            return self._choose_first(mask)
        if self._policy.order is Order.NODE and self._slots_alike:
            return self._choose_by_node(mask)
        visit = self._state.orders.visit(self._state.table, self._state.tree)
        return self._choose_by_score(visit[mask[visit]])

    @property
    def _wanted(self) -> Count:
        return self._request.nodes if self._request.shape is Shape.NODES else self._request.slots

    @property
    def _slots_alike(self) -> bool:
        """Whether slots are chosen, and all have equally many members, so that node scores order them."""
        leaves = self._request.leaves
        return self._request.shape is Shape.SLOTS and all(amounts.is_fixed(count) for _, count in leaves)

    def _few(self) -> Ints | None:
        """The only row that can serve, where the constraint names so few that all can be looked at; else None."""
        if self._request.constraint is None:
            return None
        rows = self._state.index.few_rows(self._request.constraint_text)
        if rows is None:
            return None
        holds = self._request.constraint
        named = np.array([row for row in rows if holds(self._state.table.nodes[row])], np.int64)
        able = named[self._mask(named, constrained=False)] if len(named) else named
        return able if len(able) <= 1 else None

    def _mask(self, rows: slice | Ints, *, constrained: bool = True) -> Bools:
        """Which of ``rows`` can hold at least one."""
        request, view, state = self._request, self._view, self._state
        mask: Bools = view.reachable[rows] & ~view.held[rows]
        for name, count in request.leaves:
            free = view.free.get(name)
            if free is None:
                return np.zeros(len(mask), np.bool_)
            mask &= free[rows] >= count.minimum
        if request.shape is Shape.WHOLE:
            mask &= np.array(state.tree.takes_whole_nodes())[state.table.level[rows]]
        if request.shape is Shape.WHOLE or request.exclusive_nodes:
            mask &= view.on_it[rows] == 0
        if constrained and request.constraint is not None:
            mask &= state.index.mask(request.constraint_text, state.table)[rows]
        return mask

    def _counts(self, rows: Ints) -> tuple[Ints, Ints, list[Ints | int]]:
        """The rows that serve, what each counts for, and the units a slot takes of each type."""
        request = self._request
        slots, units = amounts.demand(request, self._view, rows, early_stop=self._early_stop)
        if request.shape is not Shape.NODES:
            return rows, slots, units
        inside = amounts.within(request.slots, slots)
        able = inside > 0
        inside = inside[able]
        per_node = [inside * (each if isinstance(each, int) else each[able]) for each in units]
        return rows[able], np.ones(len(inside), np.int64), list(per_node)

    def _choose_only(self, rows: Ints) -> Choice | None:
        """Take what is wanted of the one row there is, or of none."""
        rows, counts, units = self._counts(rows)
        wanted = self._wanted.within(int(counts.sum()))
        return self._take(rows, units, np.array([wanted])) if wanted else None

    def _take(self, rows: Ints, units: list[Ints | int], taken: Ints) -> Choice:
        """The choice of ``taken`` slots (or nodes) on each row."""
        used = taken > 0
        taken = taken[used]
        grants = []
        for (name, _), each in zip(self._request.leaves, units, strict=True):
            grants.append((name, (taken * (each if isinstance(each, int) else each[used])).tolist()))
        return Choice(rows[used].tolist(), grants)

    # --- by node score -------------------------------------------------------------------------------------------

    def _choose_by_node(self, mask: Bools) -> Choice | None:
        state = self._state
        order = state.orders.by_score(state.table, state.tree)
        able = order[mask[order]]
        wanted = self._wanted
        rows = able[: wanted.minimum + 1] if amounts.is_fixed(wanted) else able
        rows, counts, units = self._counts(rows)
        if not wanted.within(int(counts.sum())):
            return None
        taken = self._fill(rows, counts)
        if taken is not None:
            return self._take(rows, units, taken)
        visit = state.orders.visit(state.table, state.tree)
        return self._choose_by_score(visit[mask[visit]])

    def _fill(self, rows: Ints, counts: Ints) -> Ints | None:
        """Fill rows, given in the order of their scores, one by one; None if the scores of rows mix."""
        sums = np.cumsum(counts)
        wanted = self._wanted.within(int(sums[-1]))
        last = int(np.searchsorted(sums, wanted))
        taken = counts[: last + 1].copy()
        taken[last] -= int(sums[last]) - wanted
        if self._mixed(rows, last, partly=int(taken[last]) < int(counts[last])):
            return None
        return np.concatenate([taken, np.zeros(len(rows) - last - 1, np.int64)])

    def _mixed(self, rows: Ints, last: int, *, partly: bool) -> bool:
        """Whether slots of the last row taken may rank among those of its neighbours."""
        span = self._state.id_span
        if span >= _COARSE:
            return False
        near = self._state.table.node_score[rows[max(last - 1, 0) : last + 2]]
        gaps = np.abs(np.diff(near)) <= span
        before = last > 0
        if partly and before and gaps[0]:
            return True
        return last + 1 < len(rows) and bool(gaps[-1])

    # --- by each candidate's score -------------------------------------------------------------------------------

    def _choose_by_score(self, rows: Ints) -> Choice | None:
        """The best of all candidates on ``rows``, which are in the order a walk finds them."""
        rows, counts, units = self._counts(rows)
        wanted = self._wanted.within(int(counts.sum()))
        if not wanted:
            return None
        if self._request.shape is not Shape.SLOTS:
            chosen = self._best_nodes(rows, wanted)
            taken = np.zeros(len(rows), np.int64)
            taken[chosen] = 1
            return self._take(rows, units, taken)
        if int(counts.sum()) > _MANY_SLOTS and not self._state.exact:
            counts = np.minimum(counts, wanted)
            if len(rows) > wanted:
                firsts = self._slot_scores(rows, np.ones(len(rows), np.int64), units)
                keep = best(firsts, wanted, ascending=self._policy.ascending, exact=False)
                rows, counts = rows[keep], counts[keep]
                units = [each if isinstance(each, int) else each[keep] for each in units]
        scores = self._slot_scores(rows, counts, units)
        chosen = self._best(scores, wanted)
        owners = np.repeat(np.arange(len(rows)), counts)
        choice = self._take(rows, units, np.bincount(owners[chosen], minlength=len(rows)))
        if not self._policy.by_interval:
            return choice
        firsts = np.cumsum(counts) - counts
        places = (chosen - firsts[owners[chosen]]).tolist()
        by_row: dict[int, list[int]] = {}
        for owner, place in zip(owners[chosen].tolist(), places, strict=True):
            by_row.setdefault(owner, []).append(place)
        return Choice(choice.rows, choice.units, [by_row[owner] for owner in sorted(by_row)])

    def _best(self, scores: Ints, wanted: int) -> Ints:
        if self._policy.by_interval:
            scores = interval_numbers(scores)
        return best(scores, wanted, ascending=self._policy.ascending, exact=self._state.exact)

    def _best_nodes(self, rows: Ints, wanted: int) -> Ints:
        """Nodes by their own scores. Whole nodes are sorted twice: where the slot resolves, and all together."""
        scores = self._state.table.score[rows]
        if self._request.shape is Shape.NODES or len(rows) <= wanted:
            return self._best(scores, wanted)
        levels = self._state.table.level[rows]
        ascending = self._policy.ascending and not self._policy.by_class
        places = np.arange(len(rows))
        groups = [places[levels == level] for level in dict.fromkeys(levels.tolist())]
        sorted_places = np.concatenate(
            [group[ordered(scores[group], ascending=ascending)] for group in groups]
        )
        return sorted_places[self._best(scores[sorted_places], wanted)]

    def _slot_scores(self, rows: Ints, counts: Ints, units: list[Ints | int]) -> Ints:
        """The scores of ``counts`` slots on each row, row by row."""
        table, policy = self._state.table, self._policy
        node_centric = policy.order is not Order.LEAF
        parts = []
        for place, (row, count) in enumerate(zip(rows.tolist(), counts.tolist(), strict=True)):
            total = np.ones(count, np.int64)
            for (name, _), each in zip(self._request.leaves, units, strict=True):
                size = each if isinstance(each, int) else int(each[place])
                column = table.columns[name]
                if policy.by_class:
                    total = total + size * int(column.score[row])
                    continue
                base = 2 + int(column.first_id[row]) + (int(table.node_score[row]) if node_centric else 0)
                free = self._view.units(name, row)
                own = size * base
                total = (
                    total
                    + (own if abs(own) < 2**62 else float(own))
                    + group_sums(free, size, count, ascending=policy.ascending)
                )
            parts.append(total)
        return np.concatenate(parts)

    # --- by visiting order ---------------------------------------------------------------------------------------

    def _choose_first(self, mask: Bools) -> Choice | None:
        found = [(rows, counts, units) for rows, counts, units, _ in self._visit(self._state.tree.root, mask)]
        if not found:
            return None
        rows = np.concatenate([part[0] for part in found])
        counts = np.concatenate([part[1] for part in found])
        units = _joined(self._request, found)
        if not self._wanted.within(int(counts.sum())):
            return None
        if self._slots_alike:
            order = np.argsort(-self._state.table.node_score[rows], kind="stable")
            rows_in_order = rows[order]
            units_in_order = [each if isinstance(each, int) else each[order] for each in units]
            taken = self._fill(rows_in_order, counts[order])
            if taken is not None:
                return self._take(rows_in_order, units_in_order, taken)
        return self._choose_by_score(rows)

    def _visit(self, level: Level, mask: Bools) -> Iterator[tuple[Ints, Ints, list[Ints | int], int]]:
        """Visit the children of ``level``, heaviest edge first, until it has enough of its own."""
        if level.siblings is None or not (level.up or self.ever):
            self._refused_level = True
            return
        whole = self._request.shape is Shape.WHOLE
        enough = amounts.most(self._wanted)
        found = 0
        for batch in level.siblings.batches():
            for references in _runs(batch):
                if references[0] >= 0:
                    parts = self._visit_rows(references, mask, enough - found)
                elif whole and level.node_children:
                    self._refused_level = True
                    continue
                else:
                    parts = self._visit(self._state.tree.levels[-1 - int(references[0])], mask)
                for part in parts:
                    found += part[3]
                    yield part
                if found >= enough:
                    return

    def _visit_rows(
        self, rows: Ints, mask: Bools, enough: int
    ) -> Iterator[tuple[Ints, Ints, list[Ints | int], int]]:
        visited = rows
        rows = rows[mask[rows]]
        if len(rows):
            rows, counts, units = self._counts(rows)
        if not len(rows):
            if self._visited is not None:
                self._visited.append(visited)
            return
        sums = np.cumsum(counts)
        stop = int(np.searchsorted(sums, enough)) + 1
        if self._visited is not None:
            last = np.flatnonzero(visited == rows[stop - 1])[0] + 1 if stop <= len(rows) else len(visited)
            self._visited.append(visited[:last])
        units = [each if isinstance(each, int) else each[:stop] for each in units]
        yield rows[:stop], counts[:stop], units, int(sums[min(stop, len(sums)) - 1])


def ordered(scores: Ints, *, ascending: bool) -> Ints:
    """The permutation in which std::sort leaves ``scores``."""
    keys = scores if ascending else -scores
    if len(np.unique(keys)) == len(keys):
        return np.argsort(keys)
    return np.array(std_sorted(keys.tolist(), list(range(len(keys)))), np.int64)


def _runs(references: Ints) -> Iterator[Ints]:
    """Split into runs of rows, and levels one by one."""
    if (references >= 0).all():
        yield references
        return
    start = 0
    for place, reference in enumerate(references.tolist()):
        if reference < 0:
            if place > start:
                yield references[start:place]
            yield references[place : place + 1]
            start = place + 1
    if start < len(references):
        yield references[start:]


def _joined(request: Request, found: list[tuple[Ints, Ints, list[Ints | int]]]) -> list[Ints | int]:
    joined: list[Ints | int] = []
    for place in range(len(request.leaves)):
        parts = [part[2][place] for part in found]
        if isinstance(parts[0], int):
            joined.append(parts[0])
        else:
            joined.append(np.concatenate(parts))
    return joined
