"""Find where slots fit: which rows, and how many slots on each.

The answer is the one that a walk over the expanded graph gives, found by arithmetic: a mask
of the rows that can hold one slot, the number of slots on each, and the policy's order over the rows.

With coarse units (every leaf id below 10,000) slots are chosen by the library's own scores. Finer units overflow the
distance that those scores keep between nodes. With them, nodes are taken in the order of their scores, each filled
before the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np

from fluence_extender.matcher.counted.policy import Order
from fluence_extender.matcher.counted.ranges import Ranges, take_highest, take_lowest, union
from fluence_extender.matcher.counted.scoring import best, group_sums, interval_numbers
from fluence_extender.matcher.counted.table import Bools, Ints, Share
from fluence_extender.matcher.counted.tree import TreeLevel

if TYPE_CHECKING:
    from fluence_extender.matcher.counted.request import SlotRequest
    from fluence_extender.matcher.counted.state import CountedState

_COARSE = 10_000
_MANY_SLOTS = 200_000


class CountedSearch:
    """One request on the present state."""

    def __init__(self, state: CountedState, request: SlotRequest) -> None:
        self._state = state
        self._table = state.table
        self._request = request
        self._wanted = request.slots
        self._ascending = state.policy.ascending

    def run(self) -> tuple[Share, ...] | None:
        """Return the shares that the policy grants, None if the slots don't fit."""
        if any(name not in self._table.columns for name, _ in self._request.leaves):
            return None
        few = self._few_rows()
        if few is not None:
            counts = self._slots_on(few)
            return self._grant(few, counts.clip(max=self._wanted)) if counts.sum() >= self._wanted else None
        mask = self._mask(slice(0, self._table.size))
        order = self._state.policy.order
        if order is Order.FIRST:
            return self._choose_first(mask)
        if order is Order.NODE:
            return self._choose_by_node(mask)
        return self._choose_by_score(self._in_visiting_order(mask))

    def _few_rows(self) -> Ints | None:
        """Return the rows that can serve if the constraint names few nodes, at most one; otherwise None."""
        holds = self._request.constraint
        rows = None if holds is None else self._state.index.few_rows(self._request.constraint_text)
        if holds is None or rows is None:
            return None
        named = np.array([row for row in rows if holds(self._table.nodes[row])], np.int64)
        able = named[self._mask(named, constrained=False)]
        return able if len(able) <= 1 else None

    def _mask(self, rows: slice | Ints, *, constrained: bool = True) -> Bools:
        """Return which of ``rows`` can hold at least one slot."""
        mask: Bools = self._table.reachable[rows].copy()
        for name, count in self._request.leaves:
            mask &= self._table.columns[name].free[rows] >= count
        if constrained and self._request.constraint is not None:
            mask &= self._state.index.mask(self._request.constraint_text, self._table)[rows]
        return mask

    def _slots_on(self, rows: Ints) -> Ints:
        """Return how many slots fit on each row."""
        slots: Ints | None = None
        for name, count in self._request.leaves:
            fit = self._table.columns[name].free[rows] // count
            slots = fit if slots is None else np.minimum(slots, fit)
        assert slots is not None
        # A walk that stops early collects no more units than all slots can take.
        return np.minimum(slots, self._wanted) if self._state.policy.order is Order.FIRST else slots

    def _in_visiting_order(self, mask: Bools) -> Ints:
        visit = self._state.orders.visit(self._state.tree)
        rows: Ints = visit[mask[visit]]
        return rows

    # --- by node score -------------------------------------------------------------------------------------------

    def _choose_by_node(self, mask: Bools) -> tuple[Share, ...] | None:
        order = self._state.orders.by_score(self._table, self._state.tree)
        rows = order[mask[order]][: self._wanted + 1]
        counts = self._slots_on(rows)
        if counts.sum() < self._wanted:
            return None
        taken = self._fill(rows, counts)
        if taken is None:
            return self._choose_by_score(self._in_visiting_order(mask))
        return self._grant(rows, taken)

    def _fill(self, rows: Ints, counts: Ints) -> Ints | None:
        """Fill rows, given in the order of their scores, one by one; None if the scores of rows mix."""
        sums = np.cumsum(counts)
        last = int(np.searchsorted(sums, self._wanted))
        taken = counts[: last + 1].copy()
        taken[last] -= int(sums[last]) - self._wanted
        if self._mixed(rows, last, partly=int(taken[last]) < int(counts[last])):
            return None
        return taken

    def _mixed(self, rows: Ints, last: int, *, partly: bool) -> bool:
        """Whether slots of the last row taken may rank among those of its neighbours."""
        span = self._state.id_span
        if span >= _COARSE:
            return False
        near = self._table.node_score[rows[max(last - 1, 0) : last + 2]]
        gaps = np.abs(np.diff(near)) <= span
        before = last > 0
        if partly and before and gaps[0]:
            return True
        return last + 1 < len(rows) and bool(gaps[-1])

    # --- by the score of each slot -------------------------------------------------------------------------------

    def _choose_by_score(self, rows: Ints) -> tuple[Share, ...] | None:
        """Grant the best of all slots on ``rows``, which are in the order in which a walk finds them."""
        counts, wanted = self._slots_on(rows), self._wanted
        if counts.sum() < wanted:
            return None
        policy = self._state.policy
        if int(counts.sum()) > _MANY_SLOTS:
            counts = np.minimum(counts, wanted)
            if len(rows) > wanted:
                firsts = self._slot_scores(rows, np.ones(len(rows), np.int64))
                keep = best(firsts, wanted, ascending=self._ascending)
                rows, counts = rows[keep], counts[keep]
        scores = self._slot_scores(rows, counts)
        if policy.by_interval:
            scores = interval_numbers(scores)
        chosen = best(scores, wanted, ascending=self._ascending)
        owners = np.repeat(np.arange(len(rows)), counts)[chosen]
        if not policy.by_interval:
            return self._grant(rows, np.bincount(owners, minlength=len(rows)))
        firsts = np.cumsum(counts) - counts
        picks: dict[int, list[int]] = {}
        for owner, place in zip(owners.tolist(), (chosen - firsts[owners]).tolist(), strict=True):
            picks.setdefault(int(rows[owner]), []).append(place)
        return tuple(self._share(row, places) for row, places in picks.items())

    def _slot_scores(self, rows: Ints, counts: Ints) -> Ints:
        """Return the scores of ``counts`` slots on each row, row by row."""
        table, policy = self._table, self._state.policy
        parts = []
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            total = np.ones(count, np.int64)
            for name, size in self._request.leaves:
                column = table.columns[name]
                if policy.by_class:
                    total = total + size * int(column.score[row])
                    continue
                base = 2 + int(column.first_id[row])
                if policy.order is not Order.LEAF:
                    base += int(table.node_score[row])
                own = size * base
                total = (
                    total
                    + (own if abs(own) < 2**62 else float(own))
                    + group_sums(column.free_units(row), size, count, ascending=self._ascending)
                )
            parts.append(total)
        return np.concatenate(parts)

    # --- by visiting order ---------------------------------------------------------------------------------------

    def _choose_first(self, mask: Bools) -> tuple[Share, ...] | None:
        found = list(self._visit(self._state.tree.root, mask))
        if not found:
            return None
        rows = np.concatenate([rows for rows, _ in found])
        counts = np.concatenate([counts for _, counts in found])
        if counts.sum() < self._wanted:
            return None
        order = np.argsort(-self._table.node_score[rows], kind="stable")
        taken = self._fill(rows[order], counts[order])
        return self._choose_by_score(rows) if taken is None else self._grant(rows[order], taken)

    def _visit(self, level: TreeLevel, mask: Bools) -> Iterator[tuple[Ints, Ints]]:
        """Visit the children of ``level``, heaviest edge first, until it has enough of its own."""
        if level.siblings is None or not level.up:
            return
        found = 0
        for batch in level.siblings.batches():
            for references in _runs(batch):
                if references[0] >= 0:
                    parts = self._visit_rows(references, mask, self._wanted - found)
                else:
                    parts = self._visit(self._state.tree.level(int(references[0])), mask)
                for rows, counts in parts:
                    found += int(counts.sum())
                    yield rows, counts
                if found >= self._wanted:
                    return

    def _visit_rows(self, rows: Ints, mask: Bools, enough: int) -> Iterator[tuple[Ints, Ints]]:
        rows = rows[mask[rows]]
        if len(rows):
            counts = self._slots_on(rows)
            stop = int(np.searchsorted(np.cumsum(counts), enough)) + 1
            yield rows[:stop], counts[:stop]

    # --- from slots to units -------------------------------------------------------------------------------------

    def _grant(self, rows: Ints, taken: Ints) -> tuple[Share, ...]:
        """Return the shares of ``taken`` slots on each row; the rows behind those of ``taken`` have none."""
        return tuple(
            self._share(row, range(slots))
            for row, slots in zip(rows.tolist(), taken.tolist(), strict=False)
            if slots
        )

    def _share(self, row: int, slots: Collection[int]) -> Share:
        """Return the units of the slots numbered ``slots``: free ids are cut into slots from the policy's end."""
        taken = []
        for name, size in self._request.leaves:
            free = self._table.columns[name].free_units(row)
            if isinstance(slots, range):
                taken.append((name, self._take(free, size * len(slots))[0]))
            else:
                taken.append((name, self._pick(free, size, slots)))
        return Share(row, int(self._table.serial[row]), self._table.node(row), tuple(taken))

    def _take(self, free: Ranges, amount: int) -> tuple[Ranges, Ranges]:
        return (take_lowest if self._ascending else take_highest)(free, amount)

    def _pick(self, free: Ranges, size: int, slots: Collection[int]) -> Ranges:
        taken: Ranges = ()
        for place in range(max(slots) + 1):
            units, free = self._take(free, size)
            if place in slots:
                taken = union(taken, units)
        return taken


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
