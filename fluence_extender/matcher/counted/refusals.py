"""Whether a walk that finds what it looks for refuses a vertex on its way.

libreapi_cli sets errno for every vertex that it refuses and never clears it, and a later request that holds nothing
exclusively reports what it finds there (fluxion reference 3.3). So a success isn't told apart from another by its
answer alone: what was in the way counts too. Invariant: the verdict is that of the walk over single vertices.
"""

from __future__ import annotations

import numpy as np

from fluence_extender.matcher.counted import amounts
from fluence_extender.matcher.counted.matching import Bools, Ints, Search
from fluence_extender.matcher.counted.request import Request, Shape
from fluence_extender.matcher.counted.table import Node
from fluence_extender.matcher.counted.view import View


def refuses(search: Search) -> bool:
    """Whether the walk that ``search`` stands for refuses a vertex. The search has been run, and has found room."""
    if search.visits:
        visited, refused = search.visited()
        return refused or any(_refuses_visited(search, rows) for rows in visited)
    state, request = search.state, search.request
    for level in state.tree.levels:
        if level.alive and not (level.up or search.ever):
            return True
    if request.shape is Shape.WHOLE and any(
        level.alive and level.node_children and any(child < 0 for child in level.children)
        for level in state.tree.levels
    ):
        return True
    alive = state.table.alive[: state.table.size]
    if request.constraint is not None:
        few = state.index.few_rows(request.constraint_text)
        if few is not None and int(np.count_nonzero(alive)) > len(few):
            # The constraint can't hold on some row, which is refused for that.
            return True
    rows = np.flatnonzero(alive)
    if not len(rows):
        return False
    occupied = _total(search, rows) != _free(search.view, rows)
    return bool(
        (_refused(search, rows) | (_has_all(search, rows) & _has_more(search, rows)) | occupied).any()
    )


def _refuses_visited(search: Search, rows: Ints) -> bool:
    """The same for rows whose leaves are visited until there are enough."""
    if not len(rows):
        return False
    if _refused(search, rows).any():
        return True
    every = _has_all(search, rows)
    partly = rows[~every]
    if (_total(search, partly) != _free(search.view, partly)).any():
        return True
    return any(_passes_over(search, row) for row in rows[every].tolist())


def _refused(search: Search, rows: Ints) -> Bools:
    """Which rows are refused themselves, before any of their leaves is looked at."""
    able = search.able(rows)
    if search.request.shape is not Shape.SLOTS:
        return ~able
    refused = ~search.open(rows)
    for name in search.state.tracking.counted_at("node"):
        wanted = next((count.minimum for leaf, count in search.request.leaves if leaf == name), 0)
        if wanted:
            free = search.view.free.get(name)
            refused |= True if free is None else free[rows] < wanted
    return refused


def _has_all(search: Search, rows: Ints) -> Bools:
    """Which rows have leaves of every type that is asked for."""
    found = np.ones(len(rows), np.bool_)
    for name, _ in search.request.leaves:
        column = search.state.table.columns.get(name)
        found &= False if column is None else column.total[rows] > 0
    return found


def _has_more(search: Search, rows: Ints) -> Bools:
    """Which rows have leaves of another type too."""
    asked = {name for name, _ in search.request.leaves}
    found = np.zeros(len(rows), np.bool_)
    for name, column in search.state.table.columns.items():
        if name not in asked:
            found |= column.total[rows] > 0
    return found


def _total(search: Search, rows: Ints) -> Ints:
    total = np.zeros(len(rows), np.int64)
    for column in search.state.table.columns.values():
        total += column.total[rows]
    return total


def _free(view: View, rows: Ints) -> Ints:
    total = np.zeros(len(rows), np.int64)
    for free in view.free.values():
        total += free[rows]
    return total


def _passes_over(search: Search, row: int) -> bool:
    """Whether a visit of the leaves, highest uniq_id first, meets one that it can't take before it has enough."""
    node: Node = search.state.table.node(row)
    missing = _shares(search.request)
    for pool in sorted(node.pools, key=lambda pool: -pool.uniq_id):
        if not missing:
            return False
        wanted = missing.get(pool.type)
        if wanted is None:
            if pool.type in dict(search.request.leaves):
                continue
            return True
        free = search.view.units(pool.type, row)
        low, high = free[-1] if free else (0, 0)
        if high == pool.count and high - low >= wanted:
            del missing[pool.type]
        elif high - low != pool.count:
            return True
    return False


def _shares(request: Request) -> dict[str, int]:
    """How many units of each type a visit of a node collects at most."""
    times = 1 if request.shape is Shape.WHOLE else amounts.most(request.slots)
    return {name: times * amounts.most(count) for name, count in request.leaves}
