"""How many equal members have room, by a count. A count is faster than a plan.

If only amounts restrict equal members, it is enough to count how many of them fit on each node. Gangs whose members
have the same size share one count.

Invariant: a gang that lacks room by this count has no place.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, grouped
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import Part, short_names
from fluence_extender.queueing.entry import Amounts, Rows
from fluence_extender.queueing.timeline import MANY
from fluence_extender.room.capacity import CapacityTable

MERGED = 4
"""Equal rows are counted once if each different row stands for at least this many on average."""


def countable(demands: Sequence[Demand]) -> bool:
    """Return whether only amounts decide how many of ``demands`` have room, if no pods keep others from nodes."""
    pod, barred = demands[0].pod, demands[0].barred
    if pod.ruled or pod.devices or pod.host_ports or pod.confined_to or barred or pod.claims:
        return False
    return not any(demand.constraints for demand in demands) and len(grouped(demands)) == 1


class Counts:
    """How many members of each size fit into a ``table``, which never changes.

    In a large cluster many nodes have equal amounts free. Such rows are counted once.
    """

    def __init__(self, table: CapacityTable) -> None:
        self.table = table
        # The last rows may be unused.
        self._free = table.free[: len(table.names)]
        self._kinds: Rows | None = None
        """For each row of the table the row of `_free` that is equal to it, None if `_free` has the same rows."""
        self._sizes: dict[Resources, tuple[Rows, Rows, Sequence[str]]] = {}
        self._numbers: dict[object, Rows] = {}
        self._parts: dict[object, Part] = {}

    def part(self, shape: Shape, closed: Set[str]) -> Part:
        """Return how many members of a shape have room, and what one more lacks on the node that lacks least.

        The nodes ``closed`` aren't used.
        """
        nodes = id(shape.nodes), frozenset(closed)
        key = shape.requests, nodes
        if key not in self._parts:
            if len(self._parts) == 1:
                # It takes about as long as two counts to find equal rows.
                self._merge_equal_rows()
            if nodes not in self._numbers:
                self._numbers[nodes] = self._number(shape.nodes, closed)
            if shape.requests not in self._sizes:
                self._sizes[shape.requests] = _by_row(shape.requests, self.table, self._free)
            self._parts[key] = _part(*self._sizes[shape.requests], self._numbers[nodes])
        return self._parts[key]

    def _number(self, nodes: tuple[str, ...], closed: Set[str]) -> Rows:
        """Return how many of some nodes each row of `_free` stands for."""
        rows = self.table.at(nodes)
        if closed:
            rows = rows[~np.isin(rows, [self.table.rows[name] for name in closed if name in self.table.rows])]
        return np.bincount(rows if self._kinds is None else self._kinds[rows], minlength=len(self._free))

    def _merge_equal_rows(self) -> None:
        factors = np.random.default_rng(0).integers(1, 2**62, self._free.shape[1])
        _, first, kinds = np.unique(self._free @ factors, return_index=True, return_inverse=True)
        # Different rows may have the same sum, though that is very unlikely.
        if len(first) <= len(kinds) // MERGED and np.array_equal(self._free[first][kinds], self._free):
            self._free, self._kinds = self._free[first], kinds
            self._sizes, self._numbers = {}, {}


def _part(counts: Rows, codes: Rows, names: Sequence[str], number: Rows) -> Part:
    """Return the part that fits on all rows together, each of which stands for a ``number`` of nodes."""
    short = (
        tuple(name for bit, name in enumerate(names) if code >> bit & 1)
        for code in np.unique(codes[number > 0]).tolist()
        if code
    )
    return Part((int(counts @ number),), min(short, key=lambda lacking: (len(lacking), lacking), default=()))


def _by_row(requests: Resources, table: CapacityTable, free: Amounts) -> tuple[Rows, Rows, Sequence[str]]:
    """Return for each row how many members fit in what is ``free``, and which resources one more would lack.

    Bit ``i`` of the second is set if the row lacks the i-th of the resources that are named.
    """
    names, columns = short_names(requests, table)
    size = table.row_of(requests)
    asked = np.flatnonzero(size)
    fitting = free.T[asked] // size[asked, None]
    counts = fitting.min(axis=0, initial=MANY).clip(min=0)
    lacks = fitting[np.searchsorted(asked, columns)] <= counts
    bits = 1 << np.arange(len(names))
    # With few resources, small numbers are much faster to add.
    kind = np.min_scalar_type((1 << len(names)) - 1)
    return counts, (bits.astype(kind)[:, None] * lacks).sum(axis=0, dtype=kind), names
