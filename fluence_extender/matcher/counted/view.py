"""What is free for a request: now, at some time for some duration, or in principle.

A request for [at, at + duration) may take a unit only if no job holds it at any moment of that window. While no job
starts later than now, the table's columns say just that; otherwise the window is worked out from the jobs. A
satisfiability question sees every node empty and up (fluxion reference 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.jobs import Job
from fluence_extender.matcher.counted.ranges import Ranges, difference, size, union, whole
from fluence_extender.matcher.counted.table import NodeTable

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class View:
    """Arrays by row: a row can be entered if it is ``reachable`` and not ``held``; ``on_it`` counts its jobs."""

    table: NodeTable
    reachable: Bools
    held: Bools
    on_it: Ints
    free: dict[str, Ints]
    changed: dict[tuple[str, int], Ranges] | None = None

    def units(self, name: str, row: int) -> Ranges:
        """Which units of the row's pool are free."""
        if self.changed is None:
            return self.table.columns[name].free_units(row)
        units = self.changed.get((name, row))
        return whole(int(self.table.columns[name].total[row])) if units is None else units


def live(table: NodeTable) -> View:
    """What is free now, where nothing is reserved for later. It follows the table; use it at once."""
    free = {name: column.free for name, column in table.columns.items()}
    return View(table, table.reachable, table.held, table.on_it, free)


def empty(table: NodeTable) -> View:
    """All there is."""
    nobody = np.zeros(len(table.alive), np.int64)
    free = {name: column.total for name, column in table.columns.items()}
    return View(table, table.alive, nobody != 0, nobody, free, changed={})


def window(table: NodeTable, jobs: Iterable[Job], at: int, duration: int) -> View:
    """What is free for all of [at, at + duration) beside ``jobs``."""
    held_nodes = np.zeros(len(table.alive), np.bool_)
    on_it = np.zeros(len(table.alive), np.int64)
    held: dict[tuple[str, int], Ranges] = {}
    for job in jobs:
        if job.end <= at or job.start >= at + duration:
            continue
        for share in job.shares:
            row = share.row
            if table.serial[row] != share.serial:
                continue
            on_it[row] += 1
            if share.whole:
                held_nodes[row] = True
            for name, units in share.taken:
                held[name, row] = union(held.get((name, row), ()), units)
    free = {name: column.total.copy() for name, column in table.columns.items()}
    changed: dict[tuple[str, int], Ranges] = {}
    for (name, row), units in held.items():
        free[name][row] -= size(units)
        changed[name, row] = difference(whole(int(table.columns[name].total[row])), units)
    return View(table, table.reachable, held_nodes, on_it, free, changed)
