"""The jobs that stand for what is in use, and how they follow it.

A job costs the library as much as it has leaves. So a node has several: what is used in addition is one more job, and
what is no longer used is taken from the smallest job that has as much. A virtual device has one job. Ids are used
again, because the library remembers each of them for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluence_extender.engine.jobspec import Jobspec, compute_jobspec, jobspecs_for
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.catalogue import DeviceCatalogue

Leaves = NDArray[np.int64]
"""Numbers of leaves, a row for each node and a column for each type."""


class HeldJob(NamedTuple):
    """A job, and the leaves of each type, or the units of a device, that it holds."""

    jobid: int
    held: tuple[int, ...]

    def has(self, amounts: tuple[int, ...]) -> bool:
        """Return whether it holds at least ``amounts``."""
        return all(held >= amount for held, amount in zip(self.held, amounts, strict=True))


@dataclass(slots=True)
class Changes:
    """The jobs to cancel, and those to make then."""

    cancel: list[int] = field(default_factory=list)
    hold: list[tuple[int, Jobspec]] = field(default_factory=list)


class MirroredJobs:
    """The jobs of ``worker`` on the nodes of ``ranks``, which have leaves of ``types``, and on the devices.

    ``used`` are the leaves that they hold.
    """

    def __init__(
        self, worker: Worker, ranks: Sequence[int], types: Sequence[str], catalogue: DeviceCatalogue
    ) -> None:
        self._worker = worker
        self._ranks = ranks
        self._types = types
        self._devices = {device.rank: device for device in catalogue.devices}
        self.used: Leaves = np.zeros((len(ranks), len(types)), dtype=np.int64)
        self._on_nodes: list[list[HeldJob]] = [[] for _ in ranks]
        self._on_devices: dict[int, HeldJob] = {}
        self._free_ids: list[int] = []
        self._new_ids = count(1)

    def follow(self, used: Leaves, units: Mapping[int, int]) -> None:
        """Hold ``used`` leaves, and the given units of each device by its rank, and nothing else.

        What the worker refuses isn't held, and is sent again the next time. Raises `EngineLost`.
        """
        changes = Changes()
        for row in np.flatnonzero((used != self.used).any(axis=1)).tolist():
            self._follow_node(row, used[row] - self.used[row], changes)
        self.used = used
        self._follow_devices(units, changes)
        if changes.cancel or changes.hold:
            refused = self._worker.apply(changes.cancel, changes.hold)
            if refused:
                self._forget(set(refused))

    def _follow_node(self, row: int, more: Leaves, changes: Changes) -> None:
        jobs = self._on_nodes[row]
        if (more < 0).any():
            less = tuple((-more).tolist())
            enough = [job for job in jobs if job.has(less)]
            cancelled = [min(enough, key=lambda job: sum(job.held))] if enough else list(jobs)
            for job in cancelled:
                jobs.remove(job)
                self._cancel(job, changes)
                more = more + job.held
        held = tuple(more.tolist())
        if any(held):
            counts = dict(zip(self._types, held, strict=True))
            jobs.append(self._hold(held, compute_jobspec(counts, 1, (self._ranks[row],)), changes))

    def _follow_devices(self, units: Mapping[int, int], changes: Changes) -> None:
        for rank, job in list(self._on_devices.items()):
            if job.held != (units.get(rank, 0),):
                self._cancel(self._on_devices.pop(rank), changes)
        for rank in sorted(units.keys() - self._on_devices.keys()):
            (jobspec,) = jobspecs_for((self._devices[rank],), units[rank])
            self._on_devices[rank] = self._hold((units[rank],), jobspec, changes)

    def _hold(self, held: tuple[int, ...], jobspec: Jobspec, changes: Changes) -> HeldJob:
        job = HeldJob(self._free_ids.pop() if self._free_ids else next(self._new_ids), held)
        changes.hold.append((job.jobid, jobspec))
        return job

    def _cancel(self, job: HeldJob, changes: Changes) -> None:
        changes.cancel.append(job.jobid)
        self._free_ids.append(job.jobid)

    def _forget(self, refused: set[int]) -> None:
        for row, jobs in enumerate(self._on_nodes):
            for job in [job for job in jobs if job.jobid in refused]:
                jobs.remove(job)
                self.used[row] -= job.held
        self._on_devices = {rank: job for rank, job in self._on_devices.items() if job.jobid not in refused}
        self._free_ids += refused
