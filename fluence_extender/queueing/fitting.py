"""Whether slots fit into what is free, and on which rows an entry gets them.

A count of slots row by row shows quickly that an entry can't fit. It doesn't show that the entry fits, because slots of
different sizes compete, and an entry may have other constraints. So the exact planner, which is behind a port, fixes
the places. It first gets only the few rows that are worth the least to other entries, so that better rows stay free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fluence_extender.queueing.entry import Amounts, Entry, Footprint, Mask
from fluence_extender.queueing.freed_slots import MANY, slots_by_row
from fluence_extender.queueing.reservation import OperatorReservation


class PlannerPort(Protocol):
    """The exact planner. Its answers depend only on its arguments. An entry that fits also fits into more room."""

    def usable(self, where: str) -> Mask | None:
        """Return the rows on which entries with this ``where`` may run, None for all."""
        ...

    def place(self, entry: Entry, view: Amounts, time: float) -> Footprint | None:
        """Fix places for all slots of an entry that starts at a time, within ``view``; None when it doesn't fit.

        ``view`` has the free amounts of each row. They may be negative where more is taken than there is.
        """
        ...


def open_rows(usable: Mask | None, closing: Sequence[OperatorReservation], rows: int) -> Mask:
    """Return which of the ``rows`` rows an entry may use while the reservations ``closing`` are closed to it."""
    found = np.ones(rows, dtype=np.bool_) if usable is None else usable
    if closing:
        found = found.copy()
        found[np.concatenate([one.rows for one in closing])] = False
    return found


def place(
    planner: PlannerPort,
    entry: Entry,
    view: Amounts,
    usable: Mask | None,
    time: float,
    others: Amounts | None = None,
    kept: Footprint | None = None,
) -> Footprint | None:
    """Return places for an entry that starts at a time, within ``view`` on ``usable`` rows; None when it doesn't fit.

    ``others`` are the amounts that other entries could use; rows with the least of them are preferred. The entry fits
    at ``kept``, and gets these places again if they offer no more to others than the preferred rows.
    """
    if others is not None:
        preferred, offered = _least_wanted(entry, view, usable, others)
        if (
            kept is not None
            and sum(_offers(one.size, others[kept.rows]).sum() for one in entry.slots) <= offered
        ):
            return kept
        found = planner.place(entry, _only(view, preferred), time)
        if found is not None:
            return found
    return planner.place(entry, view if usable is None else _only(view, usable), time)


def _least_wanted(entry: Entry, view: Amounts, usable: Mask | None, others: Amounts) -> tuple[Mask, float]:
    """Return just enough rows for the slots of each size, those that offer the least, and how much they offer."""
    chosen, offered = np.zeros(len(view), dtype=np.bool_), 0.0
    for one in entry.slots:
        counts = slots_by_row(one.size, view, usable)
        rows = np.flatnonzero(counts)
        offers = _offers(one.size, others[rows])
        order = np.argsort(offers, kind="stable")
        order = order[: int(np.searchsorted(np.cumsum(counts[rows[order]]), one.count)) + 1]
        chosen[rows[order]] = True
        offered += float(offers[order].sum())
    return chosen, offered


def _offers(size: Sequence[int], view: Amounts) -> NDArray[np.float64]:
    """Return how many slots each row of ``view`` offers, with the fraction of a slot that is left over."""
    columns = [column for column, amount in enumerate(size) if amount > 0]
    shares = view[:, columns] / np.array(size, dtype=np.float64)[columns]
    offers: NDArray[np.float64] = shares.min(axis=1, initial=MANY).clip(min=0)
    return offers


def _only(view: Amounts, rows: Mask) -> Amounts:
    found: Amounts = np.where(rows[:, None], view, 0)
    return found
