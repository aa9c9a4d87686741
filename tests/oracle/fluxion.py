"""The matcher port over libreapi_cli: the library's answers as the port's values and errors.

`fluxion_ffi` refuses input that would crash the library, and this module refuses input that it would misread. Its
answers are passed on unchanged, even with their peculiarities, because the oracle gives the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

import fluxion_ffi as fluxion
from tests.oracle.errors import (
    Busy,
    EngineUnavailable,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
)
from tests.oracle.jobs import operation_named
from tests.oracle.port import Jgf, JobInfo, Match, MatcherOptions, MatchOp, Placement
from tests.oracle.walker.graph import STATIC_TYPES
from tests.oracle.walker.jobspec import read_jobspec
from tests.oracle.walker.resource_set import read_resources

MEANING: dict[type[fluxion.FluxionError], type[MatcherError]] = {
    fluxion.ResourcesBusy: Busy,
    fluxion.Unsatisfiable: Unsatisfiable,
    fluxion.NothingToAllocate: NothingToAllocate,
    fluxion.InvalidRequest: InvalidJobspec,
    fluxion.InvalidGraph: InvalidGraph,
    fluxion.InvalidOptions: InvalidOptions,
    fluxion.NotFound: UnknownJob,
    fluxion.JobExists: JobExists,
    fluxion.FeatureMissing: EngineUnavailable,
}
"""The library's errors as the port's."""

_COUNTED = frozenset({"core", "memory", "gpu"})


def create_fluxion_matcher(graph: Jgf | str | bytes, options: MatcherOptions) -> FluxionMatcher:
    """Load ``graph`` into libreapi_cli.

    Raises `InvalidGraph`, and `EngineUnavailable` where no usable library is found; its message names what to install.
    """
    try:
        library = fluxion.open_library()
    except fluxion.LibraryUnavailable as error:
        raise EngineUnavailable(str(error)) from error
    return FluxionMatcher(library, graph, options)


class FluxionMatcher:
    """One graph in libreapi_cli behind the `Matcher` port."""

    def __init__(self, library: fluxion.Library, graph: Jgf | str | bytes, options: MatcherOptions) -> None:
        with _translated():
            self._graph = fluxion.ResourceGraph(
                library,
                graph,
                fluxion.GraphOptions(matcher_policy=options.policy, prune_filters=options.prune_filters),
            )

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec`` under ``jobid``, or under the library's own next id."""
        operation = fluxion.MatchOp[operation_named(op).name]
        try:
            with _translated():
                if jobid is None:
                    result = self._graph.match(operation, jobspec)
                else:
                    result = self._graph.match_with_jobid(operation, jobspec, jobid)
        except NothingToAllocate:
            raise
        except InvalidJobspec:
            # The library seldom reports the place of a mistake; this reader does.
            if isinstance(jobspec, Mapping):
                known = self._graph.types.union(STATIC_TYPES)
                read_jobspec(jobspec, known.__contains__)
            raise
        return _match(result)

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds."""
        with _translated():
            self._graph.cancel(jobid)

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job."""
        with _translated():
            info = self._graph.info(jobid)
        return JobInfo(info.mode, info.reserved, info.at)

    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down."""
        with _translated():
            self._graph.set_status(path, up)

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``."""
        with _translated():
            self._graph.add_subgraph(jgf)

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it."""
        with _translated():
            self._graph.remove_subgraph(path)

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what ``R`` lists."""
        read_resources(R)
        try:
            result = self._graph.update_allocate(jobid, R)
        except (fluxion.JobExists, fluxion.FeatureMissing, fluxion.GraphClosed) as error:
            raise _translation(error) from error
        except fluxion.FluxionError as error:
            # For a vertex that isn't there the library sets ENOENT or no errno at all.
            raise InvalidJobspec(str(error)) from error
        return _match(result)

    def close(self) -> None:
        """Free the graph."""
        self._graph.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the port's error for every `FluxionError` raised inside; errno and message stay."""
    try:
        yield
    except fluxion.FluxionError as error:
        raise _translation(error) from error


def _translation(error: fluxion.FluxionError) -> MatcherError:
    return MEANING.get(type(error), MatcherError)(str(error), error.errno)


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


def _match(result: fluxion.MatchResult) -> Match:
    text = result.R
    if not text:
        return Match(result.jobid, result.reserved, result.at, {})
    return Match(result.jobid, result.reserved, result.at, _placement_of(text), lambda: json.loads(text))


def _placement_of(text: str) -> Placement:
    """Sum the leaves of an R under the vertices that hold them (the rule of `Match.placement`)."""
    placement: dict[str, dict[str, int]] = {}
    for node in _decode(text).graph.nodes:
        vertex = node.metadata
        path = vertex.paths["containment"]
        if vertex.type in _COUNTED:
            amounts = placement.setdefault(path.rpartition("/")[0], {})
            amounts[vertex.type] = amounts.get(vertex.type, 0) + vertex.size
        else:
            placement.setdefault(path, {})
    return placement
