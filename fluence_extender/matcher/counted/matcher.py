"""A matcher over a compact graph that allocates by counting, from now on and until cancelled or handed over.

Requests for leaves of physical nodes are answered by arithmetic over arrays, and requests for virtual devices by a walk
over the skeleton. Both share one set of job ids, which counts like the walker's. Invariant: each answer is that of the
walker on the expanded document. If counts can't give it, they raise `Uncountable` and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.counted.document import Uncountable
from fluence_extender.matcher.counted.graph import CompactGraph
from fluence_extender.matcher.counted.handover import paths_of, plain_document, weights_of
from fluence_extender.matcher.counted.request import slot_request
from fluence_extender.matcher.counted.result import (
    compact_placement,
    compact_r,
    jgf_of,
    placement_of,
)
from fluence_extender.matcher.counted.search import CountedSearch
from fluence_extender.matcher.counted.table import Share
from fluence_extender.matcher.errors import Busy, InvalidGraph, JobExists, MatcherError, UnknownJob
from fluence_extender.matcher.jobs import JobHistory, check_jobid, operation_named
from fluence_extender.matcher.port import Hold, JobInfo, Match, MatcherOptions, MatchOp, Placement
from fluence_extender.matcher.walker import Walker
from fluence_extender.matcher.walker.jobspec import duration_of, read_jobspec
from fluence_extender.matcher.walker.planner import GRAPH_END

ALLOCATED = JobInfo("ALLOCATED", False, 0)
"""The mode that `info` returns for every live job."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The holdings of a live job for ``duration`` seconds: shares of nodes, or vertices of the skeleton."""

    duration: int
    shares: tuple[Share, ...] = ()
    virtual: tuple[str, ...] = ()


class CountedMatcher:
    """The part of a `Matcher` that counts can answer. Not thread-safe; a refused call changes nothing."""

    def __init__(self, document: Any, options: MatcherOptions) -> None:
        """Load a compact document (parsed JSON). Raises `Uncountable`, `InvalidGraph`, `InvalidOptions`."""
        self._options = options
        self._graph = CompactGraph(document, options)
        self._jobs: dict[int, _Job] = {}
        self._canceled = JobHistory()
        self._next_jobid = 1

    @property
    def leaf_types(self) -> set[str]:
        """The types of counted leaves, on physical nodes or below virtual ones."""
        return self._graph.leaf_types | self._graph.virtual_types

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises `Uncountable`, `Busy`, `InvalidJobspec`, `JobExists`."""
        operation = operation_named(op)
        parsed = read_jobspec(jobspec, self._graph.state.tracked.knows)
        duration = duration_of(parsed)
        if jobid is not None:
            self._check_new(jobid, allocating=operation is MatchOp.ALLOCATE)
        if operation is not MatchOp.ALLOCATE:
            raise Uncountable(f"{operation.value} isn't answered by counting")
        if jobid is None:
            if self._next_jobid in self._jobs:
                raise Uncountable(f"a caller has used the job id {self._next_jobid}")
            jobid = self._next_jobid
        request = slot_request(parsed, jobspec, self._graph)
        if request is None:
            return self._match_skeleton(jobspec, jobid, duration)
        shares = CountedSearch(self._graph.state, request).run()
        self._next_jobid += 1
        if shares is None:
            raise Busy("no room for the request at this time")
        self._hold(jobid, _Job(duration, shares))
        levels = self._graph.state.tree.levels
        return Match(jobid, False, 0, placement_of(shares, levels), lambda: jgf_of(shares, levels))

    def _match_skeleton(self, jobspec: Mapping[str, Any], jobid: int, duration: int) -> Match:
        try:
            match = self._graph.skeleton.match(MatchOp.ALLOCATE, jobspec, jobid)
        except Busy:
            self._next_jobid += 1
            raise
        self._next_jobid += 1
        listed, types = match.R, self._graph.virtual_types
        assert listed is not None
        held = [entry["metadata"] for entry in listed["graph"]["nodes"]]
        paths = tuple(one["paths"]["containment"] for one in held if one.get("exclusive"))
        self._hold(jobid, _Job(duration, virtual=paths))
        return Match(jobid, False, 0, compact_placement(listed, types), lambda: compact_r(listed, types))

    def hold(self, hold: Hold) -> Placement | None:
        """Hold leaves of one node; None, with nothing changed, where only a match can tell whether that is possible."""
        state = self._graph.state
        row = state.index.by_rank.get(hold.rank)
        if row is None or hold.jobid in self._jobs or not state.tree.types.isdisjoint(hold.counts):
            return None
        share = state.share_of(row, hold.counts)
        if share is None:
            return None
        self._next_jobid += 1
        self._hold(hold.jobid, _Job(GRAPH_END, (share,)))
        return placement_of((share,), state.tree.levels)

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `UnknownJob`."""
        check_jobid(jobid)
        job = self._jobs.pop(jobid, None)
        if job is None:
            raise UnknownJob(f"no job {jobid} holds anything")
        self._graph.state.release(job.shares)
        if job.virtual:
            self._graph.skeleton.cancel(jobid)
        self._canceled.add(jobid, 0)

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job, a cancelled one included. Raises `UnknownJob`."""
        check_jobid(jobid)
        return ALLOCATED if jobid in self._jobs else self._canceled.info(jobid)

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` (unknown path), `Uncountable`."""
        self._graph.set_status(_checked_path(path), up)

    def add_subgraph(self, document: Any) -> None:
        """Add the vertices of a compact document that are new. Raises `Uncountable`, `InvalidGraph`."""
        try:
            self._graph.add(document)
        except InvalidGraph as error:
            error.errno = EINVAL
            raise

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it; jobs lose their share of it.

        Raises `MatcherError` (unknown path, root), `Uncountable`.
        """
        self._graph.remove(_checked_path(path))

    def walker(self) -> Walker:
        """Return a walker over the whole graph that has all jobs. Raises `TooManyVertices`."""
        graph = self._graph
        walker = Walker(plain_document(graph), self._options, graph.state.tracked.types)
        walker.recount_nodes()
        for jobid, job in self._jobs.items():
            shares = [share for share in job.shares if graph.state.table.has(share)]
            virtual = (path for path in job.virtual if walker.has(path))
            walker.hold(jobid, job.duration, (*paths_of(shares), *virtual))
        walker.weigh(weights_of(graph))
        walker.resume(self._next_jobid, self._canceled)
        return walker

    def _hold(self, jobid: int, job: _Job) -> None:
        self._graph.state.hold(job.shares)
        self._jobs[jobid] = job
        self._canceled.forget(jobid)

    def _check_new(self, jobid: int, *, allocating: bool) -> None:
        check_jobid(jobid)
        if allocating and jobid in self._jobs:
            raise JobExists(f"job {jobid} is there already")


def _checked_path(path: str) -> str:
    if not isinstance(path, str):
        raise MatcherError("no vertex is at what isn't a path", EINVAL)
    return path
