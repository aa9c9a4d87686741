"""libreapi_cli in a process of its own, so that loading a graph doesn't block anything else.

The library serves one call at a time in a whole process, and a load takes seconds on large graphs; so each graph gets a
process. When that process crashes or hangs, only its caller is affected: it gets `EngineLost` and loads the graph
anew in another process. The memory that the library never frees ends with the process.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import msgspec

from fluence_extender.engine.errors import EngineError, EngineLost, EngineUnavailable
from fluence_extender.engine.jobspec import Jobspec
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import TooManyVertices, unit_jgf
from fluxion_ffi import (
    FluxionError,
    GraphOptions,
    LibraryUnavailable,
    MatchOp,
    MatchResult,
    ResourceGraph,
    ResourcesBusy,
    Unsatisfiable,
    open_library,
)

PATIENCE = 30.0
"""Seconds that a call may take; kube-scheduler doesn't wait longer either."""

HOLDS_A_CALL = 500
"""Holds in one call: libreapi_cli makes so many in a few seconds on a graph of any size."""

LOAD_PATIENCE = 600.0
"""Seconds that a load may take: libreapi_cli takes about one for each 30,000 vertices."""

PRUNE_FILTERS = "ALL:core,ALL:memory,ALL:gpu"

QUESTION = 2**62
"""The id of the job of a question; it is cancelled at once."""

NODE_EXCLUSIVE = {"firstnodex": "first", "lonodex": "lonode", "hinodex": "hinode"}
"""Each node-exclusive policy and the plain policy it is derived from."""

Placement = Mapping[str, Mapping[str, int]]
"""Path -> {type: amount}: what was granted directly below each vertex."""


class Worker(Protocol):
    """A graph in libreapi_cli and the jobs on it."""

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
        """Cancel jobs, then make jobs for which there is room in the graph; return the ids of those that were refused.

        Raises `EngineLost`.
        """
        ...

    def match(self, jobspec: Jobspec) -> Placement | None:
        """Return where the library would put ``jobspec`` now, None for nowhere; nothing is held afterwards.

        Raises `EngineError` (the library refuses the question), `EngineLost`.
        """
        ...

    def close(self) -> None:
        """Free the graph."""
        ...


class LibraryProcess:
    """A `Worker` in a child process."""

    def __init__(self, containment: Containment, policy: str, patience: float = PATIENCE) -> None:
        """Start a process and load the graph; later calls may take ``patience`` seconds each.

        The process makes a vertex of each leaf itself, because that takes seconds. Raises `EngineError`.
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
            sent = replace(containment, levels=dict(containment.levels))
            self._call(LOAD_PATIENCE, "load", sent, shared_policy(policy))
        except BaseException:
            self.close()
            raise

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
        """Do as `Worker.apply`, in as many calls as patience needs."""
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


def shared_policy(policy: str) -> str:
    """Return the policy under which pods of one gang can share a node that the gang has for itself.

    A node-exclusive policy grants a node to one job. What a gang shares with others is kept apart by the accounts.
    """
    return NODE_EXCLUSIVE.get(policy, policy)


class JobGraph(Protocol):
    """The part of `ResourceGraph` that is used."""

    def match_with_jobid(self, op: MatchOp, jobspec: Jobspec, jobid: int) -> MatchResult:
        """See `ResourceGraph.match_with_jobid`."""
        ...

    def cancel(self, jobid: int, noent_ok: bool = False) -> None:
        """See `ResourceGraph.cancel`."""
        ...

    def close(self) -> None:
        """See `ResourceGraph.close`."""
        ...


class GraphWorker:
    """A `Worker` in this process."""

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph

    def apply(self, cancel: Iterable[int], hold: Iterable[tuple[int, Jobspec]]) -> list[int]:
        """Do as `Worker.apply`."""
        for jobid in cancel:
            self._graph.cancel(jobid, noent_ok=True)
        refused = []
        for jobid, jobspec in hold:
            try:
                self._graph.match_with_jobid(MatchOp.ALLOCATE, jobspec, jobid)
            except FluxionError:
                refused.append(jobid)
        return refused

    def match(self, jobspec: Jobspec) -> Placement | None:
        """Do as `Worker.match`."""
        try:
            granted = self._graph.match_with_jobid(MatchOp.ALLOCATE, jobspec, QUESTION)
        except (ResourcesBusy, Unsatisfiable):
            return None
        except FluxionError as error:
            raise EngineError(str(error)) from error
        self._graph.cancel(QUESTION)
        return placement_of(granted.R)

    def close(self) -> None:
        """Do as `Worker.close`."""
        self._graph.close()


def load_library(containment: Containment, policy: str) -> GraphWorker:
    """Load the graph into libreapi_cli in this process. Raises `EngineError`."""
    try:
        document = unit_jgf(containment)
        options = GraphOptions(matcher_policy=policy, prune_filters=PRUNE_FILTERS)
        return GraphWorker(ResourceGraph(open_library(), document, options))
    except LibraryUnavailable as error:
        raise EngineUnavailable(str(error)) from error
    except (FluxionError, TooManyVertices) as error:
        raise EngineError(f"the resource graph can't be loaded: {error}") from error


class _Metadata(msgspec.Struct):
    type: str
    paths: dict[str, str]
    size: int = 1


class _Node(msgspec.Struct):
    metadata: _Metadata


class _Graph(msgspec.Struct):
    nodes: list[_Node]


class _ResourceSet(msgspec.Struct):
    """The part of an R that a placement needs."""

    graph: _Graph


_decode = msgspec.json.Decoder(_ResourceSet).decode


def placement_of(text: str) -> Placement:
    """Return what an R lists below each vertex."""
    placement: dict[str, dict[str, int]] = {}
    for node in _decode(text).graph.nodes:
        vertex = node.metadata
        amounts = placement.setdefault(vertex.paths["containment"].rpartition("/")[0], {})
        amounts[vertex.type] = amounts.get(vertex.type, 0) + vertex.size
    return placement


def serve(pipe: Connection) -> None:
    """Answer calls until the other side closes the pipe."""
    workers: list[GraphWorker] = []

    def answer(verb: str, arguments: tuple[Any, ...]) -> object:
        if verb == "load":
            workers.append(load_library(*arguments))
            # What was loaded stays, so the collector need not look at it again and again.
            gc.freeze()
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
