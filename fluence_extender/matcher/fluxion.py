"""The matcher port over libreapi_cli: the library's answers in the port's words.

What the library can't be asked without crashing is refused by `fluxion_ffi`, and what it would read wrongly is put
right or refused before; what it answers is passed on as it is, its peculiarities included (fluxion reference 5.4),
because the embedded engine answers alike.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import fluxion_ffi as fluxion
from fluence_extender.graph.jgf import expand
from fluence_extender.matcher.collector import paused_collector
from fluence_extender.matcher.embedded.criteria import read_criteria
from fluence_extender.matcher.embedded.graph import STATIC_TYPES
from fluence_extender.matcher.embedded.jgf import read_document
from fluence_extender.matcher.embedded.jobspec import read_jobspec
from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import (
    EngineUnavailable,
    InvalidGraph,
    InvalidJobspec,
    MatcherError,
    NothingToAllocate,
    OnlyRootFound,
    UnknownJob,
)
from fluence_extender.matcher.fluxion_errors import translated, translation
from fluence_extender.matcher.fluxion_placement import placement_of
from fluence_extender.matcher.fluxion_resource_sets import (
    Held,
    readable_replay,
    sound_release,
    truly_held,
)
from fluence_extender.matcher.formats import write_found
from fluence_extender.matcher.holds import hold_by_match
from fluence_extender.matcher.port import Hold, Jgf, JobInfo, Match, MatcherOptions, MatchOp, Placement

_NOTHING: Jgf = {"graph": {"nodes": [], "edges": []}}


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
        self._granted: dict[int, bytes] = {}
        self._unclaimed: dict[int, set[str]] = {}
        with translated(), paused_collector():
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
        try:
            with translated():
                operation = _operation(op)
                if jobid is None:
                    result = self._graph.match(operation, jobspec)
                else:
                    result = self._graph.match_with_jobid(operation, jobspec, jobid)
        except NothingToAllocate:
            raise
        except InvalidJobspec:
            # The library seldom says where the fault is; this reader does.
            if isinstance(jobspec, Mapping):
                known = self._graph.types.union(STATIC_TYPES)
                read_jobspec(jobspec, known.__contains__)
            raise
        if operation.holds and not result.reserved:
            self._note(result)
        return _match(result)

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes one after the other."""
        return [hold_by_match(self, one) for one in holds]

    def cancel(self, jobid: int) -> None:
        """Free all that the job holds."""
        with translated():
            self._graph.cancel(jobid)
        self._drop(jobid)

    def partial_cancel(self, jobid: int, R: Jgf | str | bytes) -> bool:  # noqa: N803
        """Free a part of what the job has allocated; the library sees only what it can free soundly."""
        with translated():
            self._graph.info(jobid)
            if jobid not in self._granted:
                raise UnknownJob(f"no job {jobid} has anything allocated")
            unclaimed = self._unclaimed.get(jobid, set())
            sound, above = sound_release(
                R, self._held(jobid), jobid, self._graph.topmost, self._graph.totals, unclaimed
            )
            gone = self._graph.partial_cancel(jobid, sound)
        if gone:
            self._drop(jobid)
        else:
            self._unclaimed[jobid] = unclaimed | above
        return gone

    def find(self, criteria: str, format: str | None = None) -> Jgf | None:
        """The vertices that meet ``criteria``, and all above them."""
        read_criteria(criteria)
        found = self._find(criteria)
        written = write_found(found or _NOTHING, "jgf" if format is None else format)
        return written if found else None

    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up."""
        with translated():
            return self._graph.get_status(path)

    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down."""
        with translated():
            self._graph.set_rank_status(ranks, up)

    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` is itself marked up."""
        with translated():
            return self._graph.get_rank_status(rank)

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
        try:
            R = _unit_vertices(R)  # noqa: N806
        except InvalidGraph as error:
            raise InvalidJobspec(f"R: {error}") from None
        R = readable_replay(R, self._whole_graph)  # noqa: N806
        try:
            result = self._graph.update_allocate(jobid, R)
        except (fluxion.JobExists, fluxion.FeatureMissing, fluxion.GraphClosed) as error:
            raise translation(error) from error
        except fluxion.FluxionError as error:
            # The library calls a vertex that isn't there now "no such entry", now nothing at all.
            raise InvalidJobspec(str(error)) from error
        self._note(result, R)
        return _match(result)

    def close(self) -> None:
        """Free the graph."""
        self._graph.close()
        self._granted.clear()

    def _note(self, result: fluxion.MatchResult, replayed: Any = None) -> None:
        """Keep what a job holds: of a part that is to be freed the library checks too little."""
        text = result.R if replayed is None else truly_held(result.R, replayed, self._graph.vertices_of_rank)
        self._granted[result.jobid] = zlib.compress(text.encode(), 1)

    def _drop(self, jobid: int) -> None:
        self._granted.pop(jobid, None)
        self._unclaimed.pop(jobid, None)

    def _held(self, jobid: int) -> Held:
        """What the job has a tag on now. Where that is the root alone, which `find` can't tell, nothing."""
        try:
            tagged = self._find(f"jobid-tag={jobid}") or _NOTHING
        except OnlyRootFound:
            tagged = _NOTHING
        left = {entry["metadata"]["paths"]["containment"] for entry in tagged["graph"]["nodes"]}
        granted = read_document(zlib.decompress(self._granted[jobid]))
        paths = ((entry.paths["containment"], entry) for entry in granted.vertices)
        return {path: entry for path, entry in paths if path in left}

    def _whole_graph(self) -> Jgf:
        return self._find("status=up or status=down") or _NOTHING

    def _find(self, criteria: str) -> Jgf | None:
        try:
            text = self._graph.find(criteria, "jgf")
        except fluxion.NotFound as error:
            raise OnlyRootFound from error
        except fluxion.FluxionError as error:
            raise translation(error) from error
        return None if text is None else _parsed(text)


def _operation(op: MatchOp | str) -> fluxion.MatchOp:
    if not isinstance(op, str) or op not in MatchOp.__members__.values():
        raise fluxion.InvalidRequest(f"op: {shown(op)} isn't a match operation")
    return fluxion.MatchOp[MatchOp(op).name]


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
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return graph
    if not counted:
        return document
    try:
        return expand(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidGraph(f"graph: a counted entry can't be expanded: {error}") from error
