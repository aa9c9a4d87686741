"""Whether equal members that had no place still lack room. A count tells that faster than a plan.

Ten thousand waiting gangs have only some hundred different demands. When a pod ends, most of them lack as much as
before. If only amounts restrict equal members, it is enough to count how many of them fit on each node. Members of one
size are counted once for all gangs that ask for it, and counted again only on nodes whose amounts have changed.
Invariant: a gang that lacks room by this count has no place, and the reason is the one that a plan would give.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, Group, grouped
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.reasons import Reasons
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import Part, short_names
from fluence_extender.queueing.entry import Rows
from fluence_extender.queueing.freed_slots import slots_by_row
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.room import Room

MOST = 20_000
"""The most demands that are remembered."""

MOST_SIZES = 256
"""The most sizes of members whose counts are kept; members of other sizes are counted on all nodes each time.

The rows of as many sets of nodes are kept.
"""

MOST_BITS = 12
"""The most kinds of resources for which it is faster to count all combinations than to sort those that occur."""

State = tuple[int, tuple[str, ...]]
"""How many members have room, and what the next one is short of."""


@dataclass(slots=True)
class _Counted:
    """A demand of equal members for which only amounts decide how many have room, with the reasons given so far.

    ``lacked`` says that a plan has found no place for them. ``never`` is why they have no place even on empty nodes,
    None if they have.
    """

    group: Group
    lacked: bool = False
    never: Reason | None = None
    reasons: dict[State, Reason] = field(default_factory=dict)


@dataclass(slots=True)
class _OfSize:
    """How many members of one size fit on each row (``counts``), and which resources one more would lack there.

    Bit ``i`` of ``codes`` is set if the row lacks the resource ``names[i]``. ``seen`` is the number of the last change
    of the table that these counts include. ``states`` caches the answers. ``used`` says whether this pass has asked.
    """

    counts: Rows
    codes: Rows
    names: list[str]
    seen: int
    states: dict[Hashable, State] = field(default_factory=dict)
    used: bool = True


class _Counts:
    """How many members of each size fit on each row of a table, counted anew only where the table has changed."""

    def __init__(self) -> None:
        self._at: object = None
        self._names: Sequence[str] = ()
        self._free = np.zeros((0, 1), dtype=np.int64)
        self._changed = np.zeros(0, dtype=np.int64)
        """For each row, the number of the last change that touched it."""
        self._number = 0
        self._sizes: dict[Resources, _OfSize] = {}
        self._rows: dict[tuple[int, Set[str]], Rows] = {}
        """The rows of nodes that aren't closed, by the identity of the tuple of nodes and by the closed nodes."""
        self.full = 0
        """How often all rows were counted."""

    def begin_pass(self) -> None:
        """Begin a pass: the table may have changed. Sizes for which the last pass didn't ask are forgotten."""
        self._at = None
        self._sizes = {size: counted for size, counted in self._sizes.items() if counted.used}
        for counted in self._sizes.values():
            counted.used = False

    def follow(self, table: CapacityTable, at: object) -> None:
        """Note which rows of the table have changed. An equal ``at`` promises that the table hasn't changed."""
        if self._at == at:
            return
        self._at = at
        if table.free.shape != self._free.shape or table.names != self._names:
            self._sizes, self._rows, self._number = {}, {}, 0
            self._changed = np.zeros(len(table.free), dtype=np.int64)
        else:
            self._number += 1
            self._changed[(table.free != self._free).any(axis=1)] = self._number
        # Rooms share their tables, and change none.
        self._free, self._names = table.free, table.names

    def knows(self, requests: Resources) -> bool:
        """Return whether members of a size were counted, so that counting them again takes little time."""
        return requests in self._sizes

    def state(self, shape: Shape, table: CapacityTable, closed: Set[str]) -> State:
        """Return how many members of a shape have room, and what one more lacks on the node that lacks least."""
        counted = self._counted(shape.requests, table)
        key = id(shape.nodes), frozenset(closed)
        if key not in counted.states:
            if key not in self._rows:
                if len(self._rows) >= MOST_SIZES:
                    self._rows.clear()
                self._rows[key] = _rows_of(shape.nodes, table, closed)
            counted.states[key] = _state(counted, self._rows[key])
        return counted.states[key]

    def _counted(self, requests: Resources, table: CapacityTable) -> _OfSize:
        counted = self._sizes.get(requests)
        if counted is None:
            names, columns = short_names(requests, table)
            self.full += 1
            empty = np.zeros(len(table.free), dtype=np.int64)
            counted = _OfSize(empty, empty.copy(), names, self._number)
            self._count(counted, requests, table, slice(None), columns)
            if len(self._sizes) < MOST_SIZES:
                self._sizes[requests] = counted
        elif counted.seen < self._number:
            rows = np.flatnonzero(self._changed > counted.seen)
            counted.seen = self._number
            if len(rows):
                self._count(counted, requests, table, rows, short_names(requests, table)[1])
        counted.used = True
        return counted

    @staticmethod
    def _count(
        counted: _OfSize,
        requests: Resources,
        table: CapacityTable,
        rows: Rows | slice,
        columns: Sequence[int],
    ) -> None:
        size, free = table.row_of(requests), table.free
        counts = slots_by_row(size, free, rows=rows)
        codes = np.zeros(len(counts), dtype=np.int64)
        for bit, column in enumerate(columns):
            codes |= (free[rows, column] < (counts + 1) * size[column]).astype(np.int64) << bit
        counted.counts[rows], counted.codes[rows] = counts, codes
        counted.states.clear()


class Shortfalls:
    """Remembers which demands had no place, and counts how many of their members have room now.

    ``eligibility`` says which nodes a pod may use.
    """

    def __init__(self, eligibility: EligibilityIndex) -> None:
        self._eligibility = eligibility
        self._reasons = Reasons(eligibility)
        self._known: dict[Hashable, _Counted | None] = {}
        self._basis: object = None
        self._counts, self._beside = _Counts(), _Counts()

    def begin_pass(self) -> None:
        """Begin a pass: what nodes have free may have changed."""
        self._counts.begin_pass()
        self._beside.begin_pass()

    def note(self, key: Hashable, demands: Sequence[Demand], room: Room, reason: Reason) -> None:
        """Note for which reason a demand has no place, if nothing but amounts decides about it."""
        counted = self._counted(key, demands, room)
        if counted is not None:
            counted.lacked = True
            counted.never = reason if reason.code is ReasonCode.UNSATISFIABLE else None

    def reason(self, key: Hashable, room: Room, placements: int, in_full: bool = True) -> Reason | None:
        """Return why a demand still has no place, None if it may have one or if that isn't known.

        ``placements`` has to differ if the room has changed since the last call in this pass. Unless ``in_full``, the
        answer is None if all nodes would have to be counted.
        """
        self._follow(room)
        counted = self._known.get(key)
        if counted is None or not counted.lacked or room.keeps_apart:
            return None
        if counted.never is not None:
            return counted.never
        if not in_full and not self._counts.knows(counted.group[0].requests):
            return None
        state = self._state(counted, room, placements)
        if state[0] >= counted.group[0].count:
            return None
        if state not in counted.reasons:
            counted.reasons[state] = self._reasons.lacking(room, counted.group, Part((state[0],), state[1]))
        return counted.reasons[state]

    def fits(
        self,
        key: Hashable,
        demands: Sequence[Demand],
        room: Room,
        placements: int,
        left: object = None,
        in_full: bool = True,
    ) -> bool | None:
        """Return whether the room has places for all of ``demands``, None if amounts alone don't decide that.

        ``left`` identifies what was subtracted from the room, None if nothing was. ``in_full`` is as in `reason`.
        """
        counted = self._counted(key, demands, room)
        if counted is None or room.keeps_apart:
            return None
        if not in_full and not (self._counts if left is None else self._beside).knows(
            counted.group[0].requests
        ):
            return None
        return self._state(counted, room, placements, left)[0] >= counted.group[0].count

    @property
    def full_counts(self) -> int:
        """How often all nodes were counted for some members."""
        return self._counts.full + self._beside.full

    def _counted(self, key: Hashable, demands: Sequence[Demand], room: Room) -> _Counted | None:
        """Return what is remembered of a demand, None if more than amounts decides whether it has room."""
        self._follow(room)
        if key not in self._known:
            self._known[key] = self._judged(demands, room)
        return self._known[key]

    def _judged(self, demands: Sequence[Demand], room: Room) -> _Counted | None:
        """Return the demand for counting, None if more than amounts decides whether it has room."""
        pod, barred = demands[0].pod, demands[0].barred
        if pod.ruled or pod.devices or pod.host_ports or pod.confined_to or barred or pod.claims:
            return None
        if any(demand.constraints for demand in demands) or len(grouped(demands)) > 1:
            return None
        if room.keeps_any(demand.pod for demand in demands):
            return None
        nodes = room.in_order(self._eligibility.eligible(pod))
        return _Counted((Shape(pod.requests, len(demands), nodes), [demand.pod for demand in demands]))

    def _state(self, counted: _Counted, room: Room, placements: int, left: object = None) -> State:
        counts = self._counts if left is None else self._beside
        counts.follow(room.free, (placements, left))
        return counts.state(counted.group[0], room.free, room.closed)

    def _follow(self, room: Room) -> None:
        """Forget everything if a node has changed, or if too many demands are remembered."""
        table = room.free
        basis = self._eligibility.journal.now, room.whole.revision, len(table.columns), len(table.names)
        if self._basis != basis or len(self._known) >= MOST:
            self._basis, self._known = basis, {}
            self._counts, self._beside = _Counts(), _Counts()


def _rows_of(nodes: Sequence[str], table: CapacityTable, closed: Set[str]) -> Rows:
    rows = table.at(tuple(nodes))
    if closed:
        rows = rows[~np.isin(rows, [table.rows[name] for name in closed if name in table.rows])]
    return rows


def _state(counted: _OfSize, rows: Rows) -> State:
    codes, names = counted.codes[rows], counted.names
    present = (
        np.unique(codes).tolist() if len(names) > MOST_BITS else np.flatnonzero(np.bincount(codes)).tolist()
    )
    short = (tuple(name for bit, name in enumerate(names) if code >> bit & 1) for code in present if code)
    return int(counted.counts[rows].sum()), min(
        short, key=lambda lacking: (len(lacking), lacking), default=()
    )
