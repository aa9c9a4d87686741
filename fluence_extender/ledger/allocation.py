"""What one pod holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources


class Strength(IntEnum):
    """How strong a hold is: in a conflict the higher one keeps its place."""

    PLANNED = 1
    COMMITTED = 2
    BOUND = 3


@dataclass(frozen=True, slots=True)
class Allocation:
    """One pod's hold: its place and its exact requests, with the host ports it takes."""

    namespace: str
    name: str
    assignment: Assignment
    requests: Resources
    strength: Strength
    ports: tuple[HostPort, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.assignment.uid
