"""Promised starts, and why they move.

A reservation promises a start. The next pass makes reservations anew, and the start may become earlier. It becomes
later only if the reserved places won't be free at the promised time. The incidents on these nodes are the cause. If
there are none, entries that are served earlier need the places.
"""

from __future__ import annotations

import numpy as np

from fluence_extender.queueing.entry import Rows
from fluence_extender.queueing.reservation import DelayCause, Reservation
from fluence_extender.queueing.timeline import Timeline


class Incidents:
    """The incidents since the last pass that may move promised starts."""

    def __init__(self) -> None:
        self._rows: dict[int, DelayCause] = {}
        self.queue_changed = False

    def note(self, rows: Rows, cause: DelayCause) -> None:
        """Record a cause for the nodes of some rows. If a node has two causes, the first counts."""
        for row in rows.tolist():
            self._rows.setdefault(row, cause)

    def clear(self) -> None:
        """Forget everything, because a pass has taken it into account."""
        self._rows.clear()
        self.queue_changed = False

    def cause(self, promise: Reservation, timeline: Timeline) -> DelayCause:
        """Return why the promised places can't be had at the promised time."""
        places = promise.places
        free = timeline.unreserved(promise.start)[places.rows]
        for row in places.rows[np.any(free < places.amounts, axis=1)].tolist():
            if row in self._rows:
                return self._rows[row]
        return DelayCause.QUEUE_CHANGED if self.queue_changed else DelayCause.OUTRANKED


def still_free(promise: Reservation, timeline: Timeline) -> bool:
    """Return whether the promised places can still be had at the promised time."""
    if promise.start <= timeline.now or promise.draining:
        return False
    places = promise.places
    free = timeline.available(places.rows, promise.start, promise.end - promise.start)
    return bool(np.all(free >= places.amounts))
