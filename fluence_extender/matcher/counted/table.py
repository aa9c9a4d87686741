"""The physical nodes as rows of arrays: what each has, what is free, who is on it.

One column a leaf type holds the total and the free units of every row; which units those are is kept as `Ranges`
beside it. The columns say what is free *now* (time 0 of the matcher's clock); reservations are the timeline's.
Invariant: ``free[t][r] == size(free_units(t, r))``, and a row index, once given out, means the same node until it is
removed; then its ``serial`` changes, which tells a job that its share of that node is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.borrowing import Borrower
from fluence_extender.matcher.counted.ranges import Ranges, whole

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Number = TypeVar("Number", np.int64, np.bool_)

_NODE_FACTOR = 10_000


@dataclass(frozen=True, slots=True)
class Pool:
    """The leaf entry of one type on one node: ``count`` units from ``id`` and ``uniq_id`` on."""

    type: str
    basename: str
    id: int
    uniq_id: int
    count: int
    score: int
    """What a unit adds to a slot's score under the ``variation`` policy (fluxion reference 4.5)."""
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Node:
    """What never changes of a physical node."""

    path: str
    name: str
    basename: str
    type: str
    id: int
    uniq_id: int
    rank: int
    properties: Mapping[str, str]
    level: int
    pools: tuple[Pool, ...]
    score: int
    has_children: bool
    turn: int
    """Children of one vertex are in the order of their turns."""

    @property
    def node_score(self) -> int:
        """The factor that node-centric policies give each leaf of the node (fluxion reference 4.3)."""
        return (self.id + 2) * _NODE_FACTOR + abs(self.uniq_id % _NODE_FACTOR - 1)

    def unit_named(self, name: str) -> tuple[str, int] | None:
        """The type and the number of the leaf of that name, None where there is none."""
        for pool in self.pools:
            digits = name[len(pool.basename) :]
            if name.startswith(pool.basename) and digits.isascii() and digits.isdigit():
                unit = int(digits) - pool.id
                if 0 <= unit < pool.count and str(int(digits)) == digits:
                    return pool.type, unit
        return None


class Column(Borrower):
    """One leaf type over all rows."""

    __slots__ = ("first_id", "free", "score", "total", "units")
    WRITTEN = __slots__

    def __init__(self, room: int) -> None:
        super().__init__()
        self.total: Ints = np.zeros(room, np.int64)
        self.free: Ints = np.zeros(room, np.int64)
        self.first_id: Ints = np.zeros(room, np.int64)
        self.score: Ints = np.zeros(room, np.int64)
        self.units: list[Ranges | None] = [None] * room
        """The free units; None stands for all of them."""

    def grow(self, room: int) -> None:
        self.own_all()
        self.total = _longer(self.total, room)
        self.free = _longer(self.free, room)
        self.first_id = _longer(self.first_id, room)
        self.score = _longer(self.score, room)
        self.units.extend([None] * (room - len(self.units)))

    def free_units(self, row: int) -> Ranges:
        """Which units of the row's pool are free now."""
        units = self.units[row]
        return whole(int(self.total[row])) if units is None else units


class NodeTable(Borrower):
    """All rows. ``size`` counts the rows ever used and not reused; arrays are longer (amortised growth)."""

    FLAGS = ("alive", "reachable", "up", "held", "held_forever")
    ARRAYS = (*FLAGS, "on_it", "spans", "score", "node_score", "level", "serial")
    WRITTEN = (*ARRAYS, "nodes", "_spare")
    KEPT = ("size",)

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self.columns: dict[str, Column] = {}
        self.nodes: list[Node | None] = []
        self._spare: list[int] = []
        room = 16
        self.alive: Bools = np.zeros(room, np.bool_)
        """Whether the row stands for a node."""
        self.reachable: Bools = np.zeros(room, np.bool_)
        """Up, and so is everything above it."""
        self.up: Bools = np.zeros(room, np.bool_)
        self.held: Bools = np.zeros(room, np.bool_)
        """Held exclusively by a job, as a whole node."""
        self.held_forever: Bools = np.zeros(room, np.bool_)
        """Held exclusively by a job that never ends, at whatever time it starts."""
        self.on_it: Ints = np.zeros(room, np.int64)
        """How many jobs are on the node now."""
        self.spans: Ints = np.zeros(room, np.int64)
        """How many jobs, reservations included, hold leaves of the node."""
        self.score: Ints = np.zeros(room, np.int64)
        """The node's own score."""
        self.node_score: Ints = np.zeros(room, np.int64)
        self.level: Ints = np.zeros(room, np.int64)
        self.serial: Ints = np.zeros(room, np.int64)

    def node(self, row: int) -> Node:
        """The node of a live row."""
        node = self.nodes[row]
        if node is None:
            raise LookupError(row)
        return node

    def column(self, name: str) -> Column:
        """The column of a leaf type, made on first use."""
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column(len(self.up))
        return column

    def add(self, node: Node, up: bool, reachable: bool) -> int:
        """Append a node, all of it free; returns its row."""
        self.own_all()
        if self._spare:
            row = self._spare.pop()
            self.nodes[row] = node
        else:
            row = self.size
            if row == len(self.up):
                self._grow(2 * row)
            self.size += 1
            self.nodes.append(node)
        self.alive[row] = True
        self.up[row] = up
        self.reachable[row] = reachable
        self.score[row] = node.score
        self.node_score[row] = node.node_score
        self.level[row] = node.level
        for pool in node.pools:
            column = self.column(pool.type)
            column.own_all()
            column.total[row] = column.free[row] = pool.count
            column.first_id[row] = pool.id
            column.score[row] = pool.score
        return row

    def remove(self, row: int) -> None:
        """Forget a node and what jobs hold of it."""
        self.own_all()
        for name in (*self.FLAGS, "on_it", "spans"):
            getattr(self, name)[row] = 0
        self.serial[row] += 1
        for column in self.columns.values():
            column.own_all()
            column.total[row] = column.free[row] = 0
            column.units[row] = None
        self.nodes[row] = None
        self._spare.append(row)

    def fork(self) -> NodeTable:
        """An independent copy."""
        copy = super().fork()
        copy.columns = {name: column.fork() for name, column in self.columns.items()}
        return copy

    def _grow(self, room: int) -> None:
        for name in self.ARRAYS:
            setattr(self, name, _longer(getattr(self, name), room))
        for column in self.columns.values():
            column.grow(room)


def _longer(array: NDArray[Number], room: int) -> NDArray[Number]:
    longer = np.zeros(room, array.dtype)
    longer[: len(array)] = array
    return longer
