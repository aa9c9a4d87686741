"""The matcher port over libreapi_cli: the library's answers in the port's words.

Nothing is decided here. What the library can't be asked without crashing is refused by `fluxion_ffi`; what it
answers is passed on as it is, its peculiarities included (fluxion reference 5.4), because the embedded engine
answers alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import fluxion_ffi as fluxion
from fluence_extender.graph.jgf import expand
from fluence_extender.matcher.errors import EngineUnavailable, InvalidGraph
from fluence_extender.matcher.fluxion_errors import translated
from fluence_extender.matcher.fluxion_placement import placement_of
from fluence_extender.matcher.port import Jgf, JobInfo, Match, MatcherOptions, MatchOp


def create_fluxion_matcher(graph: Jgf | str | bytes, options: MatcherOptions) -> FluxionMatcher:
    """Load ``graph`` into libreapi_cli.

    A leaf entry with metadata ``count: N`` becomes the N vertices it stands for. Raises `EngineUnavailable`
    where no usable library is found (the message names what to install), `InvalidGraph`.
    """
    try:
        library = fluxion.open_library()
    except fluxion.LibraryUnavailable as error:
        raise EngineUnavailable(str(error)) from error
    return FluxionMatcher(library, graph, options)


class FluxionMatcher:
    """One graph in libreapi_cli behind the `Matcher` port."""

    def __init__(self, library: fluxion.Library, graph: Jgf | str | bytes, options: MatcherOptions) -> None:
        with translated():
            self._graph = fluxion.ResourceGraph(
                library,
                _unit_vertices(graph),
                fluxion.GraphOptions(
                    matcher_policy=options.policy,
                    prune_filters=options.prune_filters,
                    match_format=options.match_format,
                ),
            )

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec`` under ``jobid``, or under the library's own next one."""
        with translated():
            operation = _operation(op)
            if jobid is None:
                return _match(self._graph.match(operation, jobspec))
            return _match(self._graph.match_with_jobid(operation, jobspec, jobid))

    def cancel(self, jobid: int) -> None:
        """Free all that the job holds."""
        with translated():
            self._graph.cancel(jobid)

    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job."""
        with translated():
            info = self._graph.info(jobid)
        return JobInfo(info.mode, info.reserved, info.at)

    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down."""
        with translated():
            self._graph.set_status(path, up)

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``."""
        with translated():
            self._graph.add_subgraph(_unit_vertices(jgf))

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it."""
        with translated():
            self._graph.remove_subgraph(path)

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what ``R`` lists."""
        with translated():
            return _match(self._graph.update_allocate(jobid, _unit_vertices(R)))

    def close(self) -> None:
        """Free the graph."""
        self._graph.close()


def _operation(op: MatchOp | str) -> fluxion.MatchOp:
    try:
        return fluxion.MatchOp[MatchOp(op).name]
    except ValueError:
        raise fluxion.InvalidRequest(f"op: {op!r} isn't a match operation") from None


def _match(result: fluxion.MatchResult) -> Match:
    text = result.R
    if not text:
        return Match(result.jobid, result.reserved, result.at, {})
    return Match(result.jobid, result.reserved, result.at, placement_of(text), lambda: _parsed(text))


def _parsed(text: str) -> Jgf:
    document: Jgf = json.loads(text)
    return document


def _unit_vertices(graph: Jgf | str | bytes) -> Jgf | str | bytes:
    """The document with each counted leaf entry as single vertices; what isn't a graph is left for the checks
    to refuse."""
    try:
        document = graph if isinstance(graph, dict) else json.loads(graph)
        counted = any("count" in node["metadata"] for node in document["graph"]["nodes"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return graph
    if not counted:
        return document
    try:
        return expand(document)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidGraph(f"graph: a counted entry can't be expanded: {error}") from error
