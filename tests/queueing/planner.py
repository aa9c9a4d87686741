"""A small planner behind the queue's port: it fills rows in their order, and searches when sizes differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fluence_extender.queueing.entry import Amounts, Entry, Footprint, Mask


class FirstFit:
    """Places slots on the first rows that have room. ``allowed`` are the rows that a ``where`` may use."""

    def __init__(self, allowed: Mapping[str, Mask] | None = None) -> None:
        self._allowed = allowed or {}

    def usable(self, where: str) -> Mask | None:
        """Return the rows for entries with this ``where``."""
        return self._allowed.get(where)

    def place(self, entry: Entry, view: Amounts, time: float = 0.0) -> Footprint | None:
        """Place all slots, or return None; it tries every way if there are several sizes."""
        usable = self.usable(entry.where)
        left = view if usable is None else np.where(usable[:, None], view, 0)
        if len(entry.slots) == 1:
            taken = self._equal(entry, left)
        else:
            slots = tuple(one.size for one in entry.slots for _ in range(one.count))
            taken = np.zeros_like(view) if self._each(slots, left.copy(), 0) else None
            if taken is not None:
                taken = left - self._last
        if taken is None:
            return None
        rows = np.flatnonzero(taken.any(axis=1))
        return Footprint(rows, taken[rows])

    def _equal(self, entry: Entry, view: Amounts) -> Amounts | None:
        (slots,) = entry.slots
        size = np.array(slots.size, dtype=np.int64)
        asked = np.flatnonzero(size)
        fitting = np.maximum(view[:, asked] // size[asked], 0).min(axis=1)
        before = np.cumsum(fitting) - fitting
        given = np.clip(slots.count - before, 0, fitting)
        return np.outer(given, size) if given.sum() == slots.count else None

    def _each(self, slots: tuple[tuple[int, ...], ...], left: Amounts, number: int) -> bool:
        if number == len(slots):
            self._last = left.copy()
            return True
        size = np.array(slots[number], dtype=np.int64)
        for row in np.flatnonzero(np.all((left >= size) | (size == 0), axis=1)):
            left[row] -= size
            if self._each(slots, left, number + 1):
                return True
            left[row] += size
        return False
