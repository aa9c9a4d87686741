"""The nodes to drain for an entry that no declared end helps.

If pods run without a declared end, a wide entry might wait forever, because smaller ones take all room that becomes
free. So the nodes that are the cheapest to empty are kept for it, and it starts once they are empty enough. The cost of
a node is the share of it that pods without a declared end hold; among equal nodes, the last declared end counts. While
nodes are drained nothing starts there, so they only become cheaper, and the choice soon stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluence_extender.queueing.entry import NEVER, Entry, Footprint, Mask, Rows
from fluence_extender.queueing.fitting import PlannerPort, open_rows
from fluence_extender.queueing.freed_slots import slots_by_row
from fluence_extender.queueing.reservation import OperatorReservation
from fluence_extender.queueing.timeline import LAST, Timeline


def cheapest(
    timeline: Timeline, entry: Entry, planner: PlannerPort, operators: Sequence[OperatorReservation] = ()
) -> Footprint | None:
    """Return the places that are the cheapest to empty for an entry, None if it wouldn't fit even on empty nodes.

    Nodes with reservations aren't used.
    """
    closing = [one for one in operators if one.closes(entry, timeline.now, NEVER)]
    usable = open_rows(planner.usable(entry.where), closing, len(timeline.room)).copy()
    for reservation in timeline.reservations.values():
        usable[reservation.places.rows] = False
    rows = _by_cost(timeline, usable)
    enough = 0
    for one in entry.slots:
        fitting = np.cumsum(slots_by_row(one.size, timeline.capacity[rows]))
        enough = max(enough, int(np.searchsorted(fitting, one.count)) + 1)
    while enough <= len(rows):
        offered = np.zeros_like(timeline.capacity)
        offered[rows[:enough]] = timeline.capacity[rows[:enough]]
        found = planner.place(entry, offered, NEVER)
        if found is not None:
            return found
        enough = len(rows) if enough < len(rows) < 2 * enough else 2 * enough
    return None


def _by_cost(timeline: Timeline, usable: Mask) -> Rows:
    """Return the usable rows, the cheapest first."""
    ends = timeline.ends
    endless = timeline.capacity - timeline.unreserved(LAST)
    last = np.zeros(len(timeline.room))
    np.maximum.at(last, ends.rows, ends.times)
    share = (endless / np.maximum(timeline.room, 1)).max(axis=1, initial=0.0)
    rows = np.flatnonzero(usable)
    return rows[np.lexsort((last[rows], share[rows]))]
