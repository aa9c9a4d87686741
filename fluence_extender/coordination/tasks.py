"""What is known of a quantum task, and whether those who wait for it may start.

A vendor says where a task stands in a few words and perhaps a position in its queue; both are read with suspicion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

FIRST = 1
LONGEST_ID = 2048


class State(StrEnum):
    """Where a task is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Status:
    """Where a task stands; ``position`` in the queue is 1 for who is next, None where nobody says."""

    state: State
    position: int | None = None

    @property
    def ready(self) -> bool:
        """Whether who waits for the task may start: it is the next one, runs, or has ended in whatever way."""
        return self.state is not State.QUEUED or (self.position is not None and self.position <= FIRST)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be said of the task."""
        return self.state in (State.COMPLETED, State.FAILED, State.CANCELLED)

    def __str__(self) -> str:
        where = self.state is State.QUEUED and self.position is not None
        return f"{self.state}, position {self.position}" if where else str(self.state)


def read_position(said: object) -> int | None:
    """A position as vendors write it: ``3``, ``"3"``, ``">2000"`` (2001); None for what is none."""
    if isinstance(said, bool):
        return None
    if isinstance(said, int):
        return said if said >= 0 else None
    if not isinstance(said, str):
        return None
    found = re.fullmatch(r"\s*(>?)\s*(\d{1,9})\s*", said, re.ASCII)
    return int(found[2]) + bool(found[1]) if found else None


def read_id(said: object) -> str | None:
    """A task's id as it may stand in an annotation and an environment; None for what can't."""
    if not isinstance(said, str) or not 0 < len(said) <= LONGEST_ID or not said.isprintable():
        return None
    return said
