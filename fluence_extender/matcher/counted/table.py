"""The physical nodes as rows of arrays: which leaves each node has, and which of them are free.

One column per leaf type holds the total and the free units of every row. Which units are free is kept beside it as
`Ranges`. Invariant: ``free[row] == size(free_units(row))``. A row index means the same node until the node is removed;
then the row's ``serial`` changes, which tells a job that its share of the node is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fluence_extender.matcher.counted.ranges import Ranges, difference, size, union, whole

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_Number = TypeVar("_Number", np.int64, np.bool_)

_NODE_FACTOR = 10_000


@dataclass(frozen=True, slots=True)
class Pool:
    """The leaves of one type on one node: ``count`` units, numbered from ``id`` and ``uniq_id`` on."""

    type: str
    basename: str
    id: int
    uniq_id: int
    count: int
    score: int
    """What a unit adds to a slot's score under the ``variation`` policy."""
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The constant fields of a physical node."""

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
    turn: int
    """The place among the children of the same parent."""

    @property
    def node_score(self) -> int:
        """The factor that node-centric policies add to the score of each leaf."""
        return (self.id + 2) * _NODE_FACTOR + abs(self.uniq_id % _NODE_FACTOR - 1)

    def has_unit(self, name: str) -> bool:
        """Whether one of the leaves has that name."""
        for pool in self.pools:
            digits = name[len(pool.basename) :]
            if name.startswith(pool.basename) and digits.isascii() and digits.isdigit():
                return 0 <= int(digits) - pool.id < pool.count and str(int(digits)) == digits
        return False


@dataclass(frozen=True, slots=True)
class Share:
    """The units of one node that a job holds, by leaf type. ``serial`` is the row's serial at the time of the grant."""

    row: int
    serial: int
    node: NodeRow
    taken: tuple[tuple[str, Ranges], ...]


class Column:
    """One leaf type over all rows."""

    __slots__ = ("first_id", "free", "score", "total", "units")

    def __init__(self, length: int) -> None:
        self.total: Ints = np.zeros(length, np.int64)
        self.free: Ints = np.zeros(length, np.int64)
        self.first_id: Ints = np.zeros(length, np.int64)
        self.score: Ints = np.zeros(length, np.int64)
        self.units: list[Ranges | None] = [None] * length
        """The free units; None stands for all of them."""

    def grow(self, length: int) -> None:
        """Make the arrays ``length`` rows long."""
        self.total = _longer(self.total, length)
        self.free = _longer(self.free, length)
        self.first_id = _longer(self.first_id, length)
        self.score = _longer(self.score, length)
        self.units.extend([None] * (length - len(self.units)))

    def free_units(self, row: int) -> Ranges:
        """Return which units of the row's pool are free."""
        units = self.units[row]
        return whole(int(self.total[row])) if units is None else units

    def take(self, row: int, units: Ranges) -> None:
        """Take free units of a row."""
        self.units[row] = difference(self.free_units(row), units)
        self.free[row] -= size(units)

    def give_back(self, row: int, units: Ranges) -> None:
        """Give taken units of a row back."""
        self.units[row] = union(self.free_units(row), units)
        self.free[row] += size(units)


class NodeTable:
    """All rows. ``size`` counts the rows ever used; the arrays are longer, because they grow by doubling."""

    _FLAGS = ("alive", "reachable", "up")
    _NUMBERS = ("jobs", "node_score", "serial")

    def __init__(self) -> None:
        length = 16
        self.size = 0
        self.columns: dict[str, Column] = {}
        self.nodes: list[NodeRow | None] = []
        self._spare: list[int] = []
        self.alive: Bools = np.zeros(length, np.bool_)
        """Whether the row stands for a node."""
        self.up: Bools = np.zeros(length, np.bool_)
        self.reachable: Bools = np.zeros(length, np.bool_)
        """Whether the node and everything above it is up."""
        self.jobs: Ints = np.zeros(length, np.int64)
        """How many jobs hold leaves of the node."""
        self.node_score: Ints = np.zeros(length, np.int64)
        self.serial: Ints = np.zeros(length, np.int64)

    def node(self, row: int) -> NodeRow:
        """Return the node of a live row."""
        node = self.nodes[row]
        if node is None:
            raise LookupError(row)
        return node

    def add(self, node: NodeRow, up: bool, reachable: bool) -> int:
        """Add a node with all leaves free; return its row."""
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
        self.node_score[row] = node.node_score
        for pool in node.pools:
            column = self.columns.get(pool.type)
            if column is None:
                column = self.columns[pool.type] = Column(len(self.up))
            column.total[row] = column.free[row] = pool.count
            column.first_id[row] = pool.id
            column.score[row] = pool.score
        return row

    def remove(self, row: int) -> None:
        """Remove a node, and forget what jobs hold of it."""
        for name in (*self._FLAGS, "jobs"):
            getattr(self, name)[row] = 0
        self.serial[row] += 1
        for column in self.columns.values():
            column.total[row] = column.free[row] = 0
            column.units[row] = None
        self.nodes[row] = None
        self._spare.append(row)

    def has(self, share: Share) -> bool:
        """Whether the node of the share is still there."""
        return bool(self.serial[share.row] == share.serial)

    def _grow(self, length: int) -> None:
        for name in (*self._FLAGS, *self._NUMBERS):
            setattr(self, name, _longer(getattr(self, name), length))
        for column in self.columns.values():
            column.grow(length)


def _longer(array: NDArray[_Number], length: int) -> NDArray[_Number]:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer
