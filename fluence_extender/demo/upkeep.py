"""What is to stay up stays up: a process that has ended is started again, and both are told.

It is what kubelet does in a cluster. Invariant: one that can't be started is tried again at every look, and told of
once, until it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from fluence_extender.localcluster import StartFailed


class Process(Protocol):
    """What is looked after; see `fluence_extender.localcluster.Component`."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def log(self) -> Path:
        """Where its log is."""

    @property
    def running(self) -> bool:
        """Whether it hasn't ended."""

    def start(self) -> None:
        """Start it and wait until it is ready. Raises `StartFailed`."""


class Upkeep:
    """Looks after ``processes``, in the order in which they need each other."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._failing: set[str] = set()

    def look(self) -> Iterator[str]:
        """Start again whatever has ended; yields a line for each thing to tell, as it happens."""
        for one in self._processes:
            if one.running:
                continue
            known = one.name in self._failing
            if not known:
                yield f"{one.name} has ended (log: {one.log}); starting it again"
            try:
                one.start()
            except StartFailed as error:
                self._failing.add(one.name)
                if not known:
                    yield f"{one.name} can't be started, trying on: {error}"
            else:
                self._failing.discard(one.name)
                yield f"{one.name} is up again"
