"""What many pods use, as arrays: any of them can be counted out of rooms, or back in, at once."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fluence_extender.ledger.rooms import Amounts, Rooms
from fluence_extender.ledger.use import Use
from fluence_extender.model.resources import Resources


class Crowd:
    """Uses on the nodes of ``rooms``, in which they are counted.

    ``apart`` are those with host ports or devices, which aren't in the arrays: they are counted one by one.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._at: dict[str, int] = {}
        self._rows: list[int] = []
        self._kinds: list[int] = []
        self._kind_of: dict[Resources, int] = {}
        self._arrays: tuple[Amounts, Amounts] | None = None
        self.apart: dict[str, Use] = {}

    def add(self, use: Use) -> None:
        """Take in what a pod uses; nothing happens where its node isn't there."""
        row = self._rooms.rows.get(use.assignment.node)
        if use.ports or use.assignment.devices:
            self.apart[use.uid] = use
        elif row is not None:
            self._at[use.uid] = len(self._rows)
            self._rows.append(row)
            self._kinds.append(self._kind_of.setdefault(use.requests, len(self._kind_of)))
            self._arrays = None

    def among(self, uids: Collection[str]) -> tuple[list[str], list[str]]:
        """Those of ``uids`` that are in the arrays, and the others."""
        at = self._at
        here = [uid for uid in uids if uid in at]
        return here, [] if len(here) == len(uids) else [uid for uid in uids if uid not in at]

    def count(self, uids: Collection[str], sign: int) -> None:
        """Count these pods out of the rooms (``sign`` is 1: they have more left), or back in (-1)."""
        at = self._at
        places = np.array([at[uid] for uid in uids], dtype=np.intp)
        if not len(places):
            return
        rows, sizes = self._as_arrays()
        # Only now: a resource that no node has had before has made the rooms wider.
        free = self._rooms.free[:, : sizes.shape[1]]
        np.add.at(free, rows[places], sign * sizes[places])

    def _as_arrays(self) -> tuple[Amounts, Amounts]:
        if self._arrays is None:
            for requests in self._kind_of:
                self._rooms.size(requests)
            sizes = np.array([self._rooms.size(requests) for requests in self._kind_of])
            self._arrays = np.array(self._rows), sizes[np.array(self._kinds, dtype=np.intp)]
        return self._arrays
