"""The mirror of the accounts in libreapi_cli: what is in use there is what the accounts say.

What is free on a node is summed exactly and rounded down to whole leaves once. The rest is in use: on a node that is no
longer in the accounts, all of it. A question is about nodes on which at least one pod fits, and only these
have to be up to date for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fluence_extender.engine.errors import EngineError
from fluence_extender.engine.jobspec import compute_jobspec
from fluence_extender.engine.mirrored_jobs import Leaves, MirroredJobs
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.catalogue import device_catalogue
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.units import LEAF_SIZES, MOST_OFFERED, leaf_type, request_counts
from fluence_extender.graph.vertex import NODE_TYPE
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import CapacityTable


class Mirror:
    """The use of the graph ``containment`` in ``worker``, which has loaded it and has no job yet."""

    def __init__(self, containment: Containment, worker: Worker) -> None:
        self._worker = worker
        self._paths = dict(containment.nodes)
        self._rows = {name: row for row, name in enumerate(self._paths)}
        self._ranks = [containment.vertex(path).rank for path in self._paths.values()]
        self._catalogue = device_catalogue(containment)
        offered = [_leaves_below(containment, path) for path in self._paths.values()]
        self._types = sorted({kind for leaves in offered for kind in leaves})
        self._offered: Leaves = np.array(
            [[leaves.get(kind, 0) for kind in self._types] for leaves in offered], dtype=np.int64
        ).reshape(len(offered), len(self._types))
        self._jobs = MirroredJobs(worker, self._ranks, self._types, self._catalogue)

    def follow(self, table: CapacityTable, shares: Iterable[DeviceShare]) -> None:
        """Bring all nodes and devices up to date. Raises `EngineLost`."""
        self._jobs.follow(self._offered - self._free(table), self._units(shares))

    def choose(
        self,
        requests: Resources,
        count: int,
        nodes: Sequence[str],
        table: CapacityTable,
        shares: Iterable[DeviceShare],
    ) -> dict[str, int] | None:
        """Return how many of ``count`` equal pods the library puts on each of ``nodes``, None where it finds no place.

        Nodes that aren't in the graph are left out. Raises `EngineError`.
        """
        counts = request_counts(requests)
        free = self._free(table)
        slots = self._slots(free, counts)
        rows = [row for row in map(self._rows.get, nodes) if row is not None and slots[row]]
        if slots[rows].sum() < count:
            return None
        used = self._jobs.used.copy()
        used[rows] = self._offered[rows] - free[rows]
        self._jobs.follow(used, self._units(shares))
        ranks = None if len(rows) == len(self._ranks) else [self._ranks[row] for row in rows]
        granted = self._worker.match(compute_jobspec(counts, count, ranks))
        if granted is None:
            return None
        leaf, size = next(iter(counts.items()))
        names = {path: name for name, path in self._paths.items() if path in granted}
        placed = {name: granted[path].get(leaf, 0) // size for path, name in names.items()}
        if sum(placed.values()) != count:
            raise EngineError(f"the library grants places for {sum(placed.values())} pods of {count}")
        return placed

    def close(self) -> None:
        """Free the graph."""
        self._worker.close()

    def _free(self, table: CapacityTable) -> Leaves:
        """Return the leaves that are free on each node of the graph."""
        rows = np.array([table.rows.get(name, -1) for name in self._rows], dtype=np.intp)
        present = rows >= 0
        free = np.zeros_like(self._offered)
        for position, kind in enumerate(self._types):
            columns = [column for resource, column in table.columns.items() if leaf_type(resource) == kind]
            leaves = (table.free[:, columns] // LEAF_SIZES.get(kind, 1)).clip(0, MOST_OFFERED).sum(axis=1)
            free[present, position] = leaves[rows[present]]
        return np.minimum(free, self._offered)

    def _slots(self, free: Leaves, counts: Mapping[str, int]) -> Leaves:
        """Return for how many pods with ``counts`` leaves each node has room; 0 where a pod takes no leaf."""
        if not counts or not counts.keys() <= set(self._types):
            return np.zeros(len(free), dtype=np.int64)
        of_each = [free[:, self._types.index(kind)] // size for kind, size in counts.items()]
        slots: Leaves = np.min(of_each, axis=0)
        return slots

    def _units(self, shares: Iterable[DeviceShare]) -> dict[int, int]:
        """Return the units in use of each device of the graph, by its rank."""
        units: dict[int, int] = {}
        for share in shares:
            device = self._catalogue.at(share.path)
            if device is not None:
                units[device.rank] = min(units.get(device.rank, 0) + share.amount, device.count)
        return units


def _leaves_below(containment: Containment, path: str) -> Mapping[str, int]:
    below = [containment.vertex(child) for child in containment.children(path)]
    return {vertex.type: vertex.count for vertex in below if vertex.type != NODE_TYPE}
