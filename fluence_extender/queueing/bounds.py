"""How many slots at most an entry could get now, remembered for a whole pass over the entries.

Most waiting entries have one of a few sizes, and most don't fit. What is free only shrinks while a pass starts entries
and reserves for others, so a count stays an upper bound for the rest of the pass. A longer entry has to respect more
starts of reservations, so a count for a short one bounds that for a long one as well. When something may have been
freed, all is counted again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fluence_extender.queueing.entry import Entry
from fluence_extender.queueing.fitting import MANY, PlannerPort, open_rows, slots_by_row
from fluence_extender.queueing.reservation import OperatorReservation
from fluence_extender.queueing.timeline import Timeline


class SlotBounds:
    """Upper bounds on slots by their size and the rows that they may use, for each number of starts to respect."""

    def __init__(self, timeline: Timeline, planner: PlannerPort) -> None:
        self._timeline = timeline
        self._planner = planner
        self._loosened = -1
        self._bounds: dict[Hashable, list[int]] = {}
        self._refused: dict[Hashable, int] = {}

    def exclude(self, entry: Entry, within: int, closing: Sequence[OperatorReservation]) -> bool:
        """Return whether an entry can't start now, as far as it has been counted.

        ``within`` is how many starts it has to respect, ``closing`` are the operators' reservations closed to it.
        """
        if self._loosened != self._timeline.loosened:
            self._loosened = self._timeline.loosened
            self._bounds.clear()
            self._refused.clear()
        closed = tuple(id(one) for one in closing) if closing else ()
        for one in entry.slots:
            bounds = self._bounds.get((one.size, entry.where, closed))
            if bounds is not None and bounds[within] < one.count:
                return True
        return within >= self._refused.get((entry.slots, entry.where, closed), within + 1)

    def count(self, entry: Entry, within: int, closing: Sequence[OperatorReservation]) -> bool:
        """Count the slots for an entry and return whether there may be enough."""
        view = self._timeline.slack(entry.duration)
        usable = open_rows(self._planner, entry, closing, len(view))
        closed = tuple(id(one) for one in closing)
        for one in entry.slots:
            bounds = self._bounds.setdefault(
                (one.size, entry.where, closed), [MANY * len(view)] * (len(self._timeline.starts) + 1)
            )
            found = int(slots_by_row(one.size, view, usable).sum())
            for number in range(within, len(bounds)):
                if bounds[number] <= found:
                    break
                bounds[number] = found
            if found < one.count:
                return False
        return True

    def refused(self, entry: Entry, within: int, closing: Sequence[OperatorReservation]) -> None:
        """Remember that the planner found no places for an entry."""
        self._refused[(entry.slots, entry.where, tuple(id(one) for one in closing))] = within
