"""Whether a gang of equal members still lacks room, without a new plan.

If only amounts restrict equal members, a count decides: the nodes have to take enough of them. How many members each
node takes is counted once for all nodes, and again only for nodes that have changed. So when a pod ends, only the
waiting gangs that may have a place now are planned again. Invariant: a gang that lacks room by this count has no place,
and the reason is the one that a plan would give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, Group, grouped
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.reasons import Reasons
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import Part, short_names
from fluence_extender.queueing.freed_slots import slots_by_row
from fluence_extender.room.capacity import Amounts, CapacityTable
from fluence_extender.room.ledger import Ledger

MOST_COUNTED = 256
"""The most sizes of members for which the counts of all nodes are kept."""


@dataclass(slots=True)
class Lack:
    """Equal members that had no place.

    ``table`` had the free amounts at that time, and ``basis`` is everything else on which the count depends.
    ``reasons`` has the reasons given so far, by the number of members with room and what the next one lacked.
    """

    group: Group
    table: CapacityTable
    basis: tuple[object, ...]
    reasons: dict[tuple[int, tuple[str, ...]], Reason] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        """The members' request, their number, and the nodes that they may use."""
        return self.group[0]


class Lacks:
    """Finds out which gangs still have no room on ``ledger``."""

    def __init__(self, ledger: Ledger, eligibility: EligibilityIndex) -> None:
        self._ledger = ledger
        self._eligibility = eligibility
        self._reasons = Reasons(eligibility)
        self._slots: dict[tuple[Resources, int], _Slots] = {}
        self._nodes: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, demands: Sequence[Demand]) -> Lack | None:
        """Return the lack of members without a place, None if more than amounts may be missing."""
        groups = grouped(demands)
        pod, barred = demands[0].pod, demands[0].barred
        if len(groups) > 1 or pod.ruled or pod.devices or pod.host_ports or pod.confined_to or barred:
            return None
        room = self._ledger.room()
        kept = room.keeps_any(demand.pod for demand in demands)
        if any(demand.constraints for demand in demands) or pod.claims or kept:
            return None
        nodes = room.in_order(self._eligibility.eligible(pod))
        # Equal tuples are stored once, so that lacks of the same amounts share counts.
        if len(self._nodes) >= MOST_COUNTED:
            self._nodes.clear()
        nodes = self._nodes.setdefault(nodes, nodes)
        shape = Shape(pod.requests, len(demands), nodes)
        return Lack((shape, [demand.pod for demand in demands]), room.free, self._basis(room.free))

    def reason(self, lack: Lack) -> Reason | None:
        """Return why the members still have no room, None if they have room or if that isn't known."""
        table = self._ledger.free.now()
        if lack.table is not table or lack.basis != self._basis(table):
            return None
        slots, wanted = self._slots_of(lack.shape, table), lack.shape.count
        closed = self._closed(slots, table)
        fitting = slots.fitting(closed)
        if fitting >= wanted:
            return None
        state = fitting, slots.short_of(closed)
        if state not in lack.reasons:
            lack.reasons[state] = self._reasons.lacking(
                self._ledger.room(), lack.group, Part((fitting,), state[1])
            )
        return lack.reasons[state]

    def has_room_beside(self, lack: Lack, rows: NDArray[np.intp], kept: Amounts) -> bool:
        """Return whether nodes take the members while ``kept`` stays free on the ``rows`` of the ledger's table."""
        table = self._ledger.free.now()
        if lack.table is not table or lack.basis != self._basis(table):
            return True
        slots = self._slots_of(lack.shape, table)
        closed = self._closed(slots, table)
        less = rows[slots.usable[rows]]
        left = table.free[less] - kept[slots.usable[rows]]
        still = int(slots_by_row(slots.size, left)[~np.isin(less, closed)].sum())
        return slots.fitting(np.union1d(closed, less)) + still >= lack.shape.count

    def _basis(self, table: CapacityTable) -> tuple[object, ...]:
        eligibility, ledger = self._eligibility, self._ledger
        # The comparison is fast, because the tuple is the same object as long as the order of nodes stays the same.
        everywhere = ledger.room().in_order(eligibility.nodes.keys())
        return len(table.columns), eligibility.journal.now, ledger.whole.revision, everywhere

    def _closed(self, slots: _Slots, table: CapacityTable) -> NDArray[np.intp]:
        """Return the rows of ``slots`` whose nodes no gang may use now."""
        closed = self._ledger.room().closed
        if not closed:
            return NO_ROWS
        rows = np.array([table.rows[name] for name in closed if name in table.rows], dtype=np.intp)
        return rows[slots.usable[rows]]

    def _slots_of(self, shape: Shape, table: CapacityTable) -> _Slots:
        """Return the count for members of this shape on the present nodes."""
        key = shape.requests, id(shape.nodes)
        slots = self._slots.pop(key, None)
        journal = self._ledger.journal
        changed = journal.since(slots.mark) if slots is not None and slots.table is table else None
        if slots is None or changed is None or (len(slots.usable), len(slots.size)) != table.free.shape:
            if len(self._slots) >= MOST_COUNTED:
                del self._slots[next(iter(self._slots))]
            slots = _Slots(shape, table)
        elif changed:
            slots.follow([table.rows[name] for name in changed if name in table.rows])
        slots.mark = journal.now
        self._slots[key] = slots
        return slots


NO_ROWS = np.array([], dtype=np.intp)


class _Slots:
    """How many members of a shape each row of ``table`` takes, and what the row lacks for one more."""

    def __init__(self, shape: Shape, table: CapacityTable) -> None:
        self.table = table
        self.nodes = shape.nodes
        self.mark = -1
        self.size = table.row_of(shape.requests)
        self._names, self._columns = short_names(shape.requests, table)
        rows = table.at(shape.nodes)
        self.usable = np.zeros(len(table.free), dtype=np.bool_)
        self.usable[rows] = True
        self._counts = np.zeros(len(table.free), dtype=np.int64)
        self._codes = np.zeros(len(table.free), dtype=np.int64)
        self._total = 0
        self._kinds: Counter[int] = Counter()
        self.follow(rows.tolist())

    def follow(self, changed: Collection[int]) -> None:
        """Count again on the rows ``changed``."""
        rows = np.array(list(changed), dtype=np.intp)
        rows = rows[self.usable[rows]]
        free = self.table.free[rows]
        counts = slots_by_row(self.size, free)
        left = free - counts[:, None] * self.size
        # The resources that a row lacks are the bits of a number.
        codes = np.zeros(len(rows), dtype=np.int64)
        for bit, column in enumerate(self._columns):
            codes[left[:, column] < self.size[column]] |= 1 << bit
        self._total += int(counts.sum() - self._counts[rows].sum())
        self._kinds.subtract(self._codes[rows].tolist())
        self._kinds.update(codes.tolist())
        self._counts[rows], self._codes[rows] = counts, codes

    def fitting(self, closed: NDArray[np.intp]) -> int:
        """Return how many members have room outside the ``closed`` rows."""
        return self._total - int(self._counts[closed].sum()) if len(closed) else self._total

    def short_of(self, closed: NDArray[np.intp]) -> tuple[str, ...]:
        """Return the resources that one more member lacks on the best of the rows that aren't ``closed``."""
        kinds = self._kinds
        if len(closed):
            kinds = kinds.copy()
            kinds.subtract(self._codes[closed].tolist())
        lacking = (
            tuple(name for bit, name in enumerate(self._names) if code >> bit & 1)
            for code, number in kinds.items()
            if number > 0 and code
        )
        return min(lacking, key=lambda names: (len(names), names), default=())
