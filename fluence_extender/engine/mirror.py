"""The mirror of the accounts in libreapi_cli: what is in use there is what the accounts say.

What is free on a node is summed exactly and rounded down to whole leaves once. The rest is in use: on a node that is no
longer in the accounts, all of it.
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
from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.resources import Resources


class Mirror:
    """The use of the graph ``containment`` in ``worker``, which has loaded it and has no job yet."""

    def __init__(self, containment: Containment, worker: Worker) -> None:
        self._worker = worker
        self._names = {path: name for name, path in containment.nodes.items()}
        self._ranks = {name: containment.vertex(path).rank for name, path in containment.nodes.items()}
        self._catalogue = device_catalogue(containment)
        offered = [_leaves_below(containment, path) for path in self._names]
        self._types = sorted({kind for leaves in offered for kind in leaves})
        self._offered: Leaves = np.array(
            [[leaves.get(kind, 0) for kind in self._types] for leaves in offered], dtype=np.int64
        ).reshape(len(offered), len(self._types))
        self._jobs = MirroredJobs(worker, tuple(self._ranks.values()), self._types, self._catalogue)

    def follow(self, table: CapacityTable, shares: Iterable[DeviceShare]) -> None:
        """Send what has changed since the last call; what the library refuses is sent again. Raises `EngineLost`."""
        units: dict[int, int] = {}
        for share in shares:
            device = self._catalogue.at(share.path)
            if device is not None:
                units[device.rank] = min(units.get(device.rank, 0) + share.amount, device.count)
        self._jobs.follow(self._in_use(table), units)

    def place(self, requests: Resources, count: int, nodes: Sequence[str]) -> dict[str, int] | None:
        """Return how many of ``count`` equal pods the library puts on each node, None where it finds no place.

        Only those of ``nodes`` that are in the graph are asked for. Raises `EngineError`.
        """
        counts = request_counts(requests)
        asked = [self._ranks[name] for name in nodes if name in self._ranks]
        if not counts or not asked:
            return None
        everywhere = len(asked) == len(self._ranks)
        granted = self._worker.match(compute_jobspec(counts, count, None if everywhere else asked))
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
        self._worker.close()

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


def _leaves_below(containment: Containment, path: str) -> Mapping[str, int]:
    below = [containment.vertex(child) for child in containment.children(path)]
    return {vertex.type: vertex.count for vertex in below if vertex.type != NODE_TYPE}
