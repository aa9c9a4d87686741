"""The walker behind the matcher port: operations, job ids, and what each failure is called.

Job ids count as libreapi_cli's do: one up for each allocating operation that succeeds or finds no room, not for
satisfiability, not for matches that allocate nothing, not for invalid requests. The count
doesn't know the ids that callers gave: where it reaches one that is held, the two jobs are one from then on. The clock
stands at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import EBUSY, EINVAL, ENODEV, ERANGE
from typing import Any

from tests.oracle.errors import (
    Busy,
    InvalidGraph,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
    shown,
)
from tests.oracle.jobs import ALLOCATING, JobHistory, check_jobid, operation_named
from tests.oracle.port import (
    NO_JOB,
    Jgf,
    JobInfo,
    Match,
    MatcherOptions,
    MatchOp,
)
from tests.oracle.walker.grant import Booking, Grant, Span
from tests.oracle.walker.graph import DOWN, UP, Graph
from tests.oracle.walker.growth import grow
from tests.oracle.walker.jobspec import duration_of, read_jobspec
from tests.oracle.walker.last_errno import LAST_ERRNO, leaves_errno
from tests.oracle.walker.planner import GRAPH_END
from tests.oracle.walker.policy import create_policy
from tests.oracle.walker.pruning import PruningFilters
from tests.oracle.walker.reader import read_document
from tests.oracle.walker.request import RequestLevel, WalkerRequest, exclusive_types
from tests.oracle.walker.resource_set import replay_of
from tests.oracle.walker.search import Search
from tests.oracle.walker.traverser import Traversal
from tests.oracle.walker.writer import jgf_of, placement_of


class Walker:
    """A `Matcher` over a graph of its own. Not thread-safe; a refused call changes nothing."""

    def __init__(self, graph: Jgf | str | bytes, options: MatcherOptions | None = None) -> None:
        """Load a JGF document. Raises `InvalidGraph`, `InvalidOptions`."""
        options = options or MatcherOptions()
        self._policy = create_policy(options.policy)
        self._filters = PruningFilters(options.prune_filters)
        self._graph = Graph()
        grow(self._graph, read_document(graph))
        self._graph.count_nodes()
        self._filters.prime(self._graph)
        self._next_jobid = 1
        self._spans: dict[int, list[Span]] = {}
        self._jobs: dict[int, JobInfo] = {}
        self._canceled = JobHistory()
        self._closed = False
        LAST_ERRNO.value = 0

    # --- the port ------------------------------------------------------------------------------------------------

    @leaves_errno
    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises `Busy`, `Unsatisfiable`, `InvalidJobspec`, `NothingToAllocate`, `JobExists`."""
        self._check_open()
        operation = operation_named(op)
        request = self._read(jobspec)
        allocating = operation in ALLOCATING
        if jobid is not None:
            self._check_jobid(jobid, allocating)
        search = Search(self._graph, self._policy, request, LAST_ERRNO.value)
        found = search.run(operation)
        LAST_ERRNO.value = search.errno
        if found is None:
            raise self._refusal(search.errno, allocating)
        if operation is MatchOp.SATISFIABILITY:
            return Match(self._next_jobid if jobid is None else jobid, False, 0, {}, lambda: None)
        if found.at >= GRAPH_END:
            raise self._refusal(EBUSY, allocating)
        span = Span(found.at, min(request.duration, GRAPH_END - found.at))
        grant = self._grant(span, _booking(operation, found), request.exclusive_types, found.seq)
        if not grant.take(found.needs, found.exclusive):
            raise self._refusal(search.errno, allocating)
        self._leave(grant.errno)
        if not allocating:
            return _match(NO_JOB, False, span, grant)
        jobid = self._next_jobid if jobid is None else jobid
        self._next_jobid += 1
        reserved = span.at != 0
        self._keep(jobid, span, JobInfo("RESERVED" if reserved else "ALLOCATED", reserved, span.at))
        return _match(jobid, reserved, span, grant)

    @leaves_errno
    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `UnknownJob`."""
        self._check_open()
        self._check_jobid(jobid, False)
        spans = self._spans.pop(jobid, None)
        if spans is None:
            raise UnknownJob(f"no job {jobid} holds anything")
        for span in spans:
            self._leave(None if span.release() else ERANGE)
        self._canceled.add(jobid, self._jobs.pop(jobid).at)

    @leaves_errno
    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job, a cancelled one included. Raises `UnknownJob`."""
        self._check_open()
        self._check_jobid(jobid, False)
        return self._jobs.get(jobid) or self._canceled.info(jobid)

    @leaves_errno
    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertices at ``path`` up or down. Raises `MatcherError` for an unknown path."""
        self._check_path(path)
        self._graph.set_status(path, UP if up else DOWN)

    @leaves_errno
    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the vertices of the document that are new. Raises `InvalidGraph`.

        As in libreapi_cli the count of nodes that are up, which bounds what a job may ask for, stays as it was.
        """
        self._check_open()
        try:
            grow(self._graph, read_document(jgf))
        except InvalidGraph as error:
            error.errno = EINVAL
            raise
        LAST_ERRNO.value = 0
        self._filters.prime(self._graph)

    @leaves_errno
    def remove_subgraph(self, path: str) -> None:
        """Remove what is at ``path`` and all below it; jobs there live on.

        Raises `MatcherError` (unknown path, root).
        """
        self._check_path(path)
        if self._graph.root in self._graph.by_path[path]:
            raise MatcherError("the root can't be removed", EINVAL)
        self._graph.detach(path)
        self._filters.prime(self._graph)

    @leaves_errno
    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what R lists. Raises `JobExists`, `InvalidJobspec`, `NothingToAllocate`."""
        self._check_open()
        self._check_jobid(jobid, True)
        replay = replay_of(self._graph, R)
        LAST_ERRNO.value = 0
        span = Span(replay.at, replay.duration)
        grant = self._grant(span, Booking.PLANNED, frozenset(), replay.seq)
        if not grant.take(replay.needs, replay.exclusive):
            raise NothingToAllocate("R lists nothing that is exclusive", EINVAL)
        for vertex in replay.held:
            span.hold(vertex, vertex.size, allocate=True)
        self._leave(grant.errno)
        self._keep(jobid, span, JobInfo("ALLOCATED", False, span.at))
        return _match(jobid, False, span, grant)

    def close(self) -> None:
        """Free the graph; every later call is refused."""
        self._closed = True
        self._graph = Graph()
        self._spans.clear()

    # --- helpers -------------------------------------------------------------------------------------------------

    def _read(self, jobspec: Mapping[str, Any]) -> WalkerRequest:
        spec = read_jobspec(jobspec, self._graph.knows_type)
        return WalkerRequest(
            RequestLevel(spec.resources, self._filters.types),
            duration_of(spec),
            spec.constraint,
            frozenset(exclusive_types(spec.resources)),
        )

    def _grant(self, span: Span, booking: Booking, whole_types: frozenset[str], seq: int) -> Grant:
        return Grant(
            self._graph,
            self._filters,
            span,
            booking,
            seq=seq,
            whole_types=self._policy.whole_types | whole_types,
            weighs=self._policy.stops_early,
        )

    @staticmethod
    def _leave(errno: int | None) -> None:
        if errno is not None:
            LAST_ERRNO.value = errno

    def _refusal(self, errno: int, allocating: bool) -> MatcherError:
        if allocating and errno in (EBUSY, ENODEV):
            self._next_jobid += 1
        if errno == EBUSY:
            return Busy("no room for the request at this time")
        if errno == ENODEV:
            return Unsatisfiable("the graph can never meet the request")
        return NothingToAllocate("the request matches, but asks for nothing exclusively", errno)

    def _keep(self, jobid: int, span: Span, info: JobInfo) -> None:
        self._spans.setdefault(jobid, []).append(span)
        self._jobs[jobid] = info
        self._canceled.forget(jobid)

    def _check_open(self) -> None:
        if self._closed:
            raise MatcherError("the matcher is closed", EINVAL)

    def _check_jobid(self, jobid: int, allocating: bool) -> None:
        check_jobid(jobid)
        if allocating and jobid in self._spans:
            raise JobExists(f"job {jobid} is there already")

    def _check_path(self, path: str) -> None:
        self._check_open()
        if not isinstance(path, str) or path not in self._graph.by_path:
            raise MatcherError(f"no vertex is at {shown(path)}", EINVAL)


def _booking(op: MatchOp, found: Traversal) -> Booking:
    if op in (MatchOp.WITHOUT_ALLOCATING, MatchOp.WITHOUT_ALLOCATING_FUTURE):
        return Booking.NOTHING
    return Booking.ALLOCATE if found.at == 0 else Booking.RESERVE


def _match(jobid: int, reserved: bool, span: Span, grant: Grant) -> Match:
    vertices, edges = grant.vertices, grant.edges
    return Match(jobid, reserved, span.at, placement_of(vertices), lambda: jgf_of(vertices, edges))
