"""Processes of their own for sessions on libreapi_cli.

Up to flux-sched 0.54.0 a process that has loaded one graph can't load another with types that the first didn't have, so
each set of resource types gets a process. A crash of the library ends the session that caused it, and no other.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from tests.oracle.sessions import Session, types_of

Answer = TypeVar("Answer")


class EngineCrashed(Exception):
    """The process that ran a session has ended."""


class Processes:
    """A process for each set of resource types."""

    def __init__(self) -> None:
        self._of_types: dict[frozenset[str], Executor] = {}

    def run(self, work: Callable[[Session], Answer], session: Session) -> Answer:
        """Return what ``work`` returns for the session, in the process of its types. Raises `EngineCrashed`."""
        types = types_of(session)
        if types not in self._of_types:
            self._of_types[types] = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            return self._of_types[types].submit(work, session).result()
        except BrokenProcessPool as error:
            self._of_types.pop(types).shutdown()
            raise EngineCrashed("the process of the library has ended") from error

    def close(self) -> None:
        """End all processes."""
        for executor in self._of_types.values():
            executor.shutdown()
