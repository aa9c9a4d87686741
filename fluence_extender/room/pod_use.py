"""The use of single pods, for copies of the ledger from which pods can be removed and restored.

A search for victims plans a gang many times, each time without another set of pods. `RemovablePods` has the use of all
pods as arrays, so that any set of them can be removed or restored at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import Amounts, CapacityTable


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod uses: its place, its requests as its node's account counts them, and its host ports."""

    assignment: Assignment
    requests: Resources
    ports: tuple[HostPort, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.assignment.uid


class RemovablePods:
    """Pods that are counted in ``table`` and can be removed from it and restored.

    ``apart`` are the pods with host ports or devices. They aren't in the arrays; callers count them one by one.
    """

    def __init__(self, table: CapacityTable) -> None:
        self._table = table
        self._at: dict[str, int] = {}
        self._rows: list[int] = []
        self._kinds: list[int] = []
        self._kind_of: dict[Resources, int] = {}
        self._arrays: tuple[Amounts, Amounts] | None = None
        self.apart: dict[str, PodUse] = {}

    def add(self, use: PodUse) -> None:
        """Add a pod; nothing happens when the table doesn't have its node."""
        row = self._table.rows.get(use.assignment.node)
        if use.ports or use.assignment.devices:
            self.apart[use.uid] = use
        elif row is not None:
            self._at[use.uid] = len(self._rows)
            self._rows.append(row)
            self._kinds.append(self._kind_of.setdefault(use.requests, len(self._kind_of)))
            self._arrays = None

    def split(self, uids: Collection[str]) -> tuple[list[str], list[str]]:
        """Return which of ``uids`` are in the arrays, and which aren't."""
        at = self._at
        present = [uid for uid in uids if uid in at]
        return present, [] if len(present) == len(uids) else [uid for uid in uids if uid not in at]

    def add_free(self, uids: Collection[str], sign: int) -> None:
        """Add what these pods use to what is free (``sign`` is 1), or subtract it again (-1)."""
        at = self._at
        places = np.array([at[uid] for uid in uids], dtype=np.intp)
        if not len(places):
            return
        rows, sizes = self._as_arrays()
        np.add.at(self._table.free, rows[places], sign * sizes[places])

    def _as_arrays(self) -> tuple[Amounts, Amounts]:
        if self._arrays is None:
            sizes = np.array([self._table.use_of(requests) for requests in self._kind_of])
            self._arrays = np.array(self._rows), sizes[np.array(self._kinds, dtype=np.intp)]
        return self._arrays
