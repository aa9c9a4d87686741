"""A graph in libreapi_cli, in this process, and the jobs on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from fluence_extender.engine.errors import EngineError, EngineUnavailable
from fluence_extender.engine.jobspec import Jobspec
from fluence_extender.engine.worker import Placement, WorkerProcess
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

PRUNE_FILTERS = "ALL:core,ALL:memory,ALL:gpu"

QUESTION = 2**62
"""The id of the job of a question, which is cancelled at once; the ids of other jobs are smaller."""

NODE_EXCLUSIVE = {"firstnodex": "first", "lonodex": "lonode", "hinodex": "hinode"}
"""Each node-exclusive policy and the plain policy it is derived from."""


class JobGraph(Protocol):
    """The part of `ResourceGraph` that is used."""

    def match_with_jobid(self, op: MatchOp, jobspec: Jobspec, jobid: int) -> MatchResult:
        """Do as `ResourceGraph.match_with_jobid`."""
        ...

    def cancel(self, jobid: int, noent_ok: bool = False) -> None:
        """Do as `ResourceGraph.cancel`."""
        ...

    def close(self) -> None:
        """Do as `ResourceGraph.close`."""
        ...


class GraphWorker:
    """A `Worker` on a graph in this process."""

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph

    def apply(self, cancel: Sequence[int], hold: Sequence[tuple[int, Jobspec]]) -> list[int]:
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
    """Load a graph into libreapi_cli in this process. Raises `EngineError`."""
    options = GraphOptions(matcher_policy=policy, prune_filters=PRUNE_FILTERS)
    try:
        return GraphWorker(ResourceGraph(open_library(), unit_jgf(containment), options))
    except LibraryUnavailable as error:
        raise EngineUnavailable(str(error)) from error
    except (FluxionError, TooManyVertices) as error:
        raise EngineError(f"the resource graph can't be loaded: {error}") from error


def library_process(containment: Containment, policy: str) -> WorkerProcess:
    """Load a graph into libreapi_cli in a process of its own.

    That process makes a vertex of each leaf, because it takes seconds. Raises `EngineError`.
    """
    sent = replace(containment, levels=dict(containment.levels))
    return WorkerProcess(partial(load_library, sent, shared_policy(policy)))


def shared_policy(policy: str) -> str:
    """Return the policy under which pods of one gang can share a node that the gang has for itself.

    A node-exclusive policy grants whole nodes. So the library runs the plain policy, and the accounts keep other gangs
    away.
    """
    return NODE_EXCLUSIVE.get(policy, policy)


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
