"""An engine in a process of its own, so that loading a graph doesn't block anything else.

libreapi_cli serves one call at a time in a whole process, and a load takes seconds on large graphs; so each graph gets
a process. When that process crashes or hangs, only its caller is affected: it gets `EngineLost` and loads the graph
anew in another process. The memory that libreapi_cli never frees ends with the process.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from fluence_extender.matcher.errors import EngineLost, MatcherError
from fluence_extender.matcher.factory import Engine, create_matcher
from fluence_extender.matcher.port import (
    Hold,
    Jgf,
    JobInfo,
    Match,
    Matcher,
    MatcherOptions,
    MatchOp,
    Placement,
)

PATIENCE = 30.0
"""Seconds that a call may take; kube-scheduler doesn't wait longer either."""

HOLDS_A_CALL = 500
"""Holds in one call: libreapi_cli makes so many in a few seconds on a graph of any size."""

LOAD_PATIENCE = 600.0
"""Seconds that a load may take: libreapi_cli takes about one for each 30,000 vertices."""


class WorkerMatcher:
    """The `Allocator` part of an engine in a child process. The R of a match stays there."""

    def __init__(
        self, engine: Engine, graph: Jgf, options: MatcherOptions, patience: float = PATIENCE
    ) -> None:
        """Start a process and load ``graph``; later calls may take ``patience`` seconds each.

        Raises as `create_matcher` does, and `EngineLost`.
        """
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
            self._call(LOAD_PATIENCE, "load", engine, graph, options)
        except BaseException:
            self.close()
            raise

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec``. Raises as the engine does, and `EngineLost`."""
        return Match(*self._call(self._patience, "match", op, jobspec, jobid))

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes one after the other, many in one message. Raises `EngineLost`."""
        granted: list[Placement | MatcherError] = []
        waiting = list(holds)
        for start in range(0, len(waiting), HOLDS_A_CALL):
            granted += self._call(self._patience, "hold_all", waiting[start : start + HOLDS_A_CALL])
        return granted

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `UnknownJob`, `EngineLost`."""
        self._call(self._patience, "cancel", jobid)

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job. Raises `UnknownJob`, `EngineLost`."""
        info: JobInfo = self._call(self._patience, "info", jobid)
        return info

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``. Raises `InvalidGraph`, `EngineLost`."""
        self._call(self._patience, "add_subgraph", jgf)

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it. Raises `MatcherError`, `EngineLost`."""
        self._call(self._patience, "remove_subgraph", path)

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
            raise EngineLost(f"the engine's process has ended during {verb}: {error!r}") from error
        if failed:
            raise answer
        return answer


def serve(pipe: Connection) -> None:
    """Answer calls until the other side closes the pipe."""

    def answer(verb: str, arguments: tuple[Any, ...]) -> object:
        if verb == "load":
            matchers.append(create_matcher(*arguments))
            # What was loaded stays, so the collector need not look at it again and again.
            gc.freeze()
            return None
        (matcher,) = matchers
        if verb == "match":
            match = matcher.match(*arguments)
            return match.jobid, match.reserved, match.at, match.placement
        return getattr(matcher, verb)(*arguments)

    matchers: list[Matcher] = []
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            verb, arguments = pipe.recv()
            try:
                reply: tuple[bool, object] = (False, answer(verb, arguments))
            except MatcherError as error:
                reply = (True, error)
            pipe.send(reply)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
