"""The mirror of the accounts in libreapi_cli: what is in use there is what the accounts say.

The library has one job for each node, with all leaves that are in use there, and one for each virtual device in use.
The id of a job is the rank of the vertex that it is for. What is free is summed exactly and rounded down to
whole leaves once. A node that is no longer in the accounts is all in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fluence_extender.engine.errors import EngineError
from fluence_extender.engine.jobspec import Jobspec, compute_jobspec, jobspecs_for
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.catalogue import Device, device_catalogue
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.units import LEAF_SIZES, MOST_OFFERED, leaf_type, request_counts
from fluence_extender.graph.vertex import NODE_TYPE
from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.resources import Resources

Leaves = NDArray[np.int64]


class Mirror:
    """The jobs of ``worker``, which has loaded the graph ``containment`` and has no job yet."""

    def __init__(self, containment: Containment, worker: Worker) -> None:
        self.worker = worker
        self._names = {path: name for name, path in containment.nodes.items()}
        self._ranks = {name: containment.vertex(path).rank for name, path in containment.nodes.items()}
        self._catalogue = device_catalogue(containment)
        self._devices = {device.rank: device for device in self._catalogue.devices}
        offered = {path: _leaves_below(containment, path) for path in self._names}
        self._types = sorted({kind for leaves in offered.values() for kind in leaves})
        self._offered: Leaves = np.array(
            [[leaves.get(kind, 0) for kind in self._types] for leaves in offered.values()], dtype=np.int64
        ).reshape(len(offered), len(self._types))
        self._used: Leaves = np.zeros_like(self._offered)
        self._devices_used: dict[int, int] = {}

    def follow(self, table: CapacityTable, shares: Iterable[DeviceShare]) -> None:
        """Send what has changed since the last call; what the library refuses is sent again. Raises `EngineLost`."""
        ranks = list(self._ranks.values())
        used = self._in_use(table)
        changed = np.flatnonzero((used != self._used).any(axis=1)).tolist()
        cancel = [ranks[row] for row in changed if self._used[row].any()]
        hold = [(ranks[row], self._node_job(ranks[row], used[row])) for row in changed if used[row].any()]
        devices = self._devices_in_use(shares)
        cancel += [rank for rank in self._devices_used if self._devices_used[rank] != devices.get(rank)]
        hold += [
            (rank, _device_job(self._devices[rank], amount))
            for rank, amount in devices.items()
            if self._devices_used.get(rank) != amount
        ]
        refused = set(self.worker.apply(cancel, hold)) if cancel or hold else set()
        used[[row for row in changed if ranks[row] in refused]] = 0
        self._used = used
        self._devices_used = {rank: amount for rank, amount in devices.items() if rank not in refused}

    def place(self, requests: Resources, count: int, nodes: Sequence[str]) -> dict[str, int] | None:
        """Return how many of ``count`` equal pods the library puts on each node, None where it finds no place.

        Only those of ``nodes`` that are in the graph are asked for. Raises `EngineError`.
        """
        counts = request_counts(requests)
        asked = [self._ranks[name] for name in nodes if name in self._ranks]
        if not counts or not asked:
            return None
        everywhere = len(asked) == len(self._ranks)
        granted = self.worker.match(compute_jobspec(counts, count, None if everywhere else asked))
        if granted is None:
            return None
        leaf, size = next(iter(counts.items()))
        placed = {
            name: granted[path].get(leaf, 0) // size for path, name in self._names.items() if path in granted
        }
        if sum(placed.values()) != count:
            raise EngineError(f"the library grants places for {sum(placed.values())} pods of {count}")
        return placed

    def close(self) -> None:
        """Free the graph."""
        self.worker.close()

    def _in_use(self, table: CapacityTable) -> Leaves:
        """Return the leaves in use on each node of the graph."""
        rows = np.array([table.rows.get(name, -1) for name in self._ranks], dtype=np.intp)
        present = rows >= 0
        free = np.zeros_like(self._offered)
        for position, kind in enumerate(self._types):
            columns = [column for resource, column in table.columns.items() if leaf_type(resource) == kind]
            leaves = (table.free[:, columns] // LEAF_SIZES.get(kind, 1)).clip(0, MOST_OFFERED).sum(axis=1)
            free[present, position] = leaves[rows[present]]
        return (self._offered - free).clip(min=0)

    def _node_job(self, rank: int, used: Leaves) -> Jobspec:
        counts = dict(zip(self._types, used.tolist(), strict=True))
        return compute_jobspec(counts, 1, (rank,))

    def _devices_in_use(self, shares: Iterable[DeviceShare]) -> dict[int, int]:
        """Return the units in use of each device of the graph, by rank."""
        amounts: dict[int, int] = {}
        for share in shares:
            device = self._catalogue.at(share.path)
            if device is not None:
                amounts[device.rank] = min(amounts.get(device.rank, 0) + share.amount, device.count)
        return amounts


def _leaves_below(containment: Containment, path: str) -> Mapping[str, int]:
    below = [containment.vertex(child) for child in containment.children(path)]
    return {vertex.type: vertex.count for vertex in below if vertex.type != NODE_TYPE}


def _device_job(device: Device, amount: int) -> Jobspec:
    (jobspec,) = jobspecs_for((device,), amount)
    return jobspec
