"""Start processes again that have ended, as the kubelet does in a cluster, and report it.

Invariant: a process that can't be started is tried again at every check until it runs, and is reported once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from fluence_extender.localcluster import StartFailed


class Process(Protocol):
    """A process to keep running; see `fluence_extender.localcluster.Component`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def log(self) -> Path:
        """The path of its log."""

    @property
    def running(self) -> bool:
        """Whether it runs."""

    def start(self) -> None:
        """Start it and wait until it is ready. Raise `StartFailed`."""


class Upkeep:
    """Keeps ``processes`` running; they are given in the order in which they need each other."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._failing: set[str] = set()

    def check(self) -> Iterator[str]:
        """Start each ended process again; yield a line for each thing that happens, as it happens."""
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
                    yield f"{one.name} can't be started; it is tried again: {error}"
            else:
                self._failing.discard(one.name)
                yield f"{one.name} is up again"
