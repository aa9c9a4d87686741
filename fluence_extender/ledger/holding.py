"""What one pod holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources


class Claim(IntEnum):
    """How strong a hold is: in a conflict the higher one keeps its place."""

    PLANNED = 1
    COMMITTED = 2
    BOUND = 3


@dataclass(frozen=True, slots=True)
class Holding:
    """One pod's hold: its place, its exact requests, and the matcher's jobs that stand for it.

    ``job`` is the one on its node, None while it takes no leaf or couldn't be booked; ``device_jobs``
    those of its devices.
    """

    namespace: str
    name: str
    assignment: Assignment
    requests: Resources
    claim: Claim
    job: int | None = None
    device_jobs: tuple[int, ...] = ()
    ports: tuple[HostPort, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.assignment.uid

    @property
    def jobs(self) -> tuple[int, ...]:
        """All of its jobs."""
        return self.device_jobs if self.job is None else (self.job, *self.device_jobs)
