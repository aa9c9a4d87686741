"""What the sidecar asks a vendor: which tasks belong to the pod, and the status of each.

A third party adds a provider by an entry point of the group ``fluence_extender.quantum_vendors``. Its value is an
object with the attributes of `Provider`: a module, an instance, or a class without constructor arguments. Calls are
made one at a time, in a thread of their own and with a time limit. A call that raises is made again later.

Vendors describe a status in a few words and perhaps a position in a queue. Both are read with suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

__all__ = ["Provider", "ProviderError", "TaskState", "TaskStatus", "VendorQueue"]

FIRST = 1
LONGEST_ID = 2048


class ProviderError(Exception):
    """A vendor couldn't be asked, or its answer makes no sense; the text says why."""


class TaskState(StrEnum):
    """The state of a task."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a task; ``position`` is its place in the queue, 1 for the next task, None if unknown."""

    state: TaskState
    position: int | None = None

    @property
    def ready(self) -> bool:
        """Whether the consumers may start: the task is the next one, runs, or has ended in whatever way."""
        return self.state is not TaskState.QUEUED or (self.position is not None and self.position <= FIRST)

    @property
    def ended(self) -> bool:
        """Whether the status can't change any more."""
        return self.state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED)

    def __str__(self) -> str:
        queued = self.state is TaskState.QUEUED and self.position is not None
        return f"{self.state}, position {self.position}" if queued else str(self.state)


class VendorQueue(Protocol):
    """One backend of a vendor, with the credentials to ask about it."""

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """Return the ids of the tasks tagged with the pod's uid, oldest first. Look once, without waiting."""
        ...

    def status(self, task: str) -> TaskStatus:
        """Return the status of a task."""
        ...


@runtime_checkable
class Provider(Protocol):
    """A vendor."""

    name: str

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether a backend with these attributes is the vendor's.

        Names of attributes are in lower case. The attribute ``backend`` is the backend's own name.
        """
        ...

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> VendorQueue:
        """Return the queue of the backend. ``environ`` holds credentials; without them raise `ProviderError`."""
        ...


def read_position(value: object) -> int | None:
    """Return a position as vendors write it: ``3``, ``"3"``, ``">2000"`` (2001). Return None if it isn't one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if not isinstance(value, str):
        return None
    found = re.fullmatch(r"\s*(>?)\s*(\d{1,9})\s*", value, re.ASCII)
    return int(found[2]) + bool(found[1]) if found else None


def read_id(value: object) -> str | None:
    """Return a task's id that an annotation and an environment can hold, None for any other value."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID or not value.isprintable():
        return None
    return value
