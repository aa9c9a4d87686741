"""A graph in a process of its own, so that loading it doesn't block anything else.

libreapi_cli serves one call at a time in a whole process, and a load takes seconds on large graphs; so each graph gets
a process. When that process crashes or hangs, only its caller is affected: it gets `EngineLost` and loads the graph
anew in another process. The memory that the library never frees ends with the process.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

from fluence_extender.engine.errors import EngineError, EngineLost
from fluence_extender.engine.jobspec import Jobspec

PATIENCE = 30.0
"""Seconds that a call may take; kube-scheduler doesn't wait longer either."""

HOLDS_A_CALL = 500
"""Holds in one call: libreapi_cli makes so many in a few seconds on a graph of any size."""

LOAD_PATIENCE = 600.0
"""Seconds that a load may take: libreapi_cli takes about one for each 30,000 vertices."""

Placement = Mapping[str, Mapping[str, int]]
"""Path -> {type: amount}: what was granted directly below each vertex."""


class Worker(Protocol):
    """A graph and the jobs on it."""

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
        """Cancel jobs, then make others one after the other; return the ids of those that found no place.

        Raises `EngineLost`.
        """
        ...

    def match(self, jobspec: Jobspec) -> Placement | None:
        """Return what would be granted now, None where there is no place; nothing is held afterwards.

        Raises `EngineError` (the question is refused), `EngineLost`.
        """
        ...

    def close(self) -> None:
        """Free the graph."""
        ...


class WorkerProcess:
    """A `Worker` in a child process, which makes it by ``load``."""

    def __init__(self, load: Callable[[], Worker], patience: float = PATIENCE) -> None:
        """Start the process and load; later calls may take ``patience`` seconds each. Raises `EngineError`."""
        self._patience = patience
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        self._pipe = Connection(ours.detach())
        try:
            self._call(LOAD_PATIENCE, "load", load)
        except BaseException:
            self.close()
            raise

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
        """Do as `Worker.apply`, with a limited number of jobs in each message."""
        refused: list[int] = self._call(self._patience, "apply", cancel, hold[:HOLDS_A_CALL])
        for start in range(HOLDS_A_CALL, len(hold), HOLDS_A_CALL):
            refused += self._call(self._patience, "apply", (), hold[start : start + HOLDS_A_CALL])
        return refused

    def match(self, jobspec: Jobspec) -> Placement | None:
        """Do as `Worker.match`."""
        placement: Placement | None = self._call(self._patience, "match", jobspec)
        return placement

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()

    def _call(self, patience: float, verb: str, *arguments: object) -> Any:
        try:
            self._pipe.send((verb, arguments))
            if not self._pipe.poll(patience):
                raise EngineLost(f"{verb} has taken more than {patience:g} s")
            failed, answer = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise EngineLost(f"the library's process has ended during {verb}: {error!r}") from error
        if failed:
            raise answer
        return answer


def serve(pipe: Connection) -> None:
    """Answer calls until the other side closes the pipe."""
    workers: list[Worker] = []

    def answer(verb: str, arguments: tuple[Any, ...]) -> object:
        if verb == "load":
            (load,) = arguments
            # The documents of a load have no cycles, and what was loaded stays: the collector need not look at either.
            gc.disable()
            workers.append(load())
            gc.freeze()
            gc.enable()
            return None
        (worker,) = workers
        return getattr(worker, verb)(*arguments)

    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            verb, arguments = pipe.recv()
            try:
                reply: tuple[bool, object] = (False, answer(verb, arguments))
            except EngineError as error:
                reply = (True, error)
            pipe.send(reply)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
