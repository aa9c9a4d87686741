"""The embedded engine behind the matcher port: operations, job ids, and what each failure is called.

Job ids count as libreapi_cli's do: one up for each allocating operation that succeeds or finds no room, not for
satisfiability, not for matches that allocate nothing, not for invalid requests (fluxion reference 4.2). The count
doesn't know ids that callers gave: where it comes upon one that is held, the two jobs are one from then on. The clock
stands at 0.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from errno import EBUSY, EINVAL, ENODEV, ERANGE
from typing import Any

from fluence_extender.matcher.embedded.criteria import read_criteria
from fluence_extender.matcher.embedded.emit import found_jgf, jgf_of, placement_of
from fluence_extender.matcher.embedded.find import Found
from fluence_extender.matcher.embedded.grant import Booking, Grant
from fluence_extender.matcher.embedded.graph import DOWN, UP, Graph, Vertex
from fluence_extender.matcher.embedded.grow import grow
from fluence_extender.matcher.embedded.jgf import read_document
from fluence_extender.matcher.embedded.jobspec import read_jobspec
from fluence_extender.matcher.embedded.last_errno import LAST_ERRNO, leaves_errno
from fluence_extender.matcher.embedded.operations import (
    ALLOCATING,
    CANCELED_REMEMBERED,
    check_jobid,
    operation_named,
)
from fluence_extender.matcher.embedded.partial_cancel import free_part
from fluence_extender.matcher.embedded.planner import whole_seconds
from fluence_extender.matcher.embedded.policy import create_policy
from fluence_extender.matcher.embedded.pruning import PruningFilters
from fluence_extender.matcher.embedded.replay import read_replay
from fluence_extender.matcher.embedded.request import Level, Request, exclusive_types
from fluence_extender.matcher.embedded.scalars import ranks_of, shown
from fluence_extender.matcher.embedded.search import GRAPH_END, Search
from fluence_extender.matcher.embedded.selection import Selection
from fluence_extender.matcher.embedded.span import Span
from fluence_extender.matcher.errors import (
    Busy,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    OnlyRootFound,
    UnknownJob,
    Unsatisfiable,
)
from fluence_extender.matcher.formats import write_found
from fluence_extender.matcher.holds import hold_by_match
from fluence_extender.matcher.port import (
    NO_JOB,
    Hold,
    Jgf,
    JobInfo,
    Match,
    MatcherOptions,
    MatchOp,
    Placement,
)


class EmbeddedMatcher:
    """A `Matcher` over a graph of its own. Not thread-safe; a refused call changes nothing."""

    def __init__(
        self, graph: Jgf | str | bytes, options: MatcherOptions | None = None, types: Iterable[str] = ()
    ) -> None:
        """Load a JGF document; ``types`` were noted before those it names. Raises InvalidGraph, InvalidOptions."""
        options = options or MatcherOptions()
        if options.match_format != "jgf":
            raise InvalidOptions(f"match format {options.match_format!r}: this engine writes jgf")
        self._policy = create_policy(options.policy)
        self._filters = PruningFilters(options.prune_filters)
        self._graph = Graph()
        for name in types:
            self._graph.intern(name)
        grow(self._graph, read_document(graph))
        self._graph.count_nodes()
        self._filters.prime(self._graph)
        self._next_jobid = 1
        self._spans: dict[int, list[Span]] = {}
        self._jobs: dict[int, JobInfo] = {}
        self._canceled: dict[int, JobInfo] = {}
        self._closed = False
        LAST_ERRNO.value = 0

    @leaves_errno
    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises Busy, Unsatisfiable, InvalidJobspec, NothingToAllocate, JobExists."""
        self._check_open()
        operation = operation_named(op)
        request = self._read(jobspec)
        allocating = operation in ALLOCATING
        if jobid is not None:
            self._check_jobid(jobid, allocating)
        search = Search(self._graph, self._policy, request, LAST_ERRNO.value)
        selection = search.run(operation)
        LAST_ERRNO.value = search.errno
        if selection is None:
            raise self._refusal(search.errno, allocating)
        if operation is MatchOp.SATISFIABILITY:
            return Match(self._next_jobid if jobid is None else jobid, False, 0, {}, lambda: None)
        if selection.at >= GRAPH_END:
            raise self._refusal(EBUSY, allocating)
        span = Span(selection.at, min(request.duration, GRAPH_END - selection.at))
        grant = self._grant(span, _booking(operation, selection), request.exclusive_types, selection.seq)
        if not grant.take(selection.needs, selection.exclusive):
            raise self._refusal(search.errno, allocating)
        self._leave(grant.errno)
        if not allocating:
            return _match(NO_JOB, False, span, grant)
        jobid = self._next_jobid if jobid is None else jobid
        self._next_jobid += 1
        reserved = span.at != 0
        self._keep(jobid, span, JobInfo("RESERVED" if reserved else "ALLOCATED", reserved, span.at))
        return _match(jobid, reserved, span, grant)

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes one after the other; for each what was granted, or why nothing was."""
        return [hold_by_match(self, one) for one in holds]

    @leaves_errno
    def cancel(self, jobid: int) -> None:
        """Free all that the job holds. Raises UnknownJob."""
        self._check_open()
        self._check_jobid(jobid, False)
        spans = self._spans.pop(jobid, None)
        if spans is None:
            raise UnknownJob(f"no job {jobid} holds anything")
        for span in spans:
            self._leave(None if span.release() else ERANGE)
        self._forget(jobid)

    @leaves_errno
    def partial_cancel(self, jobid: int, R: Jgf | str | bytes) -> bool:  # noqa: N803
        """Free a part of what the job has allocated. Raises UnknownJob (reservations too), InvalidJobspec."""
        self._check_open()
        self._check_jobid(jobid, False)
        spans = self._spans.get(jobid)
        if spans is None or self._jobs[jobid].reserved:
            raise UnknownJob(f"no job {jobid} has anything allocated")
        if len(spans) > 1:
            raise InvalidJobspec(f"job {jobid} is two jobs of one id, which can only be cancelled")
        gone = free_part(self._graph, jobid, spans[0], R)
        LAST_ERRNO.value = 0
        if not gone:
            return False
        del self._spans[jobid]
        self._forget(jobid)
        return True

    @leaves_errno
    def find(self, criteria: str, format: str | None = None) -> Jgf | None:
        """The vertices that meet the criteria, and all above them. Raises InvalidJobspec, MatcherError."""
        self._check_open()
        found = Found(self._graph, self._spans, read_criteria(criteria), int(time.time()))
        self._leave(found.errno)
        if found.vertices and not found.edges:
            raise OnlyRootFound
        jgf = found_jgf(found.vertices, found.edges, found.used)
        written = write_found(jgf, "jgf" if format is None else format)
        return written if found.vertices else None

    @leaves_errno
    def get_status(self, path: str) -> bool:
        """Whether the first vertex at ``path`` is itself marked up. Raises MatcherError."""
        self._check_path(path)
        return _is_up(self._graph.by_path[path][0])

    @leaves_errno
    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down. Raises MatcherError."""
        self._check_open()
        chosen = ranks_of(ranks)
        if not chosen or not all(rank >= 0 and self._graph.of_rank(rank) for rank in chosen):
            raise InvalidJobspec("ranks: none is given, or one that no vertex has")
        self._graph.set_rank_status(chosen, UP if up else DOWN)

    @leaves_errno
    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` is itself marked up. Raises MatcherError."""
        self._check_open()
        ranks_of([rank])
        for vertex in self._graph.of_rank(rank) if rank >= 0 else ():
            if vertex.type in ("node", "storage_node"):
                return _is_up(vertex)
        raise InvalidJobspec(f"no node has rank {shown(rank)}")

    @leaves_errno
    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job; the latest hundred thousand cancelled ones are remembered. Raises UnknownJob."""
        self._check_open()
        self._check_jobid(jobid, False)
        info = self._jobs.get(jobid) or self._canceled.get(jobid)
        if info is None:
            raise UnknownJob(f"there was no job {jobid}")
        return info

    @leaves_errno
    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertices at ``path`` up or down. Raises MatcherError for an unknown path."""
        self._check_path(path)
        self._graph.set_status(path, UP if up else DOWN)

    @leaves_errno
    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the vertices of the document that are new. Raises InvalidGraph.

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
        """Remove what is at ``path`` and all below it; jobs there live on. Raises MatcherError: unknown path, root."""
        self._check_path(path)
        if self._graph.root in self._graph.by_path[path]:
            raise MatcherError("the root can't be removed", EINVAL)
        self._graph.detach(path)
        self._filters.prime(self._graph)

    @leaves_errno
    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what R lists. Raises JobExists, InvalidJobspec."""
        self._check_open()
        self._check_jobid(jobid, True)
        replay = read_replay(self._graph, R)
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

    def _read(self, jobspec: Mapping[str, Any]) -> Request:
        spec = read_jobspec(jobspec, self._graph.knows_type)
        if not spec.resources:
            raise InvalidJobspec("resources: must not be empty")
        duration = whole_seconds(spec.duration, GRAPH_END)
        if duration is None:
            raise InvalidJobspec(
                f"attributes.system.duration: must be from 0 to {GRAPH_END} seconds, and is {spec.duration}"
            )
        return Request(
            Level(spec.resources, self._filters.types),
            duration,
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
        self._canceled.pop(jobid, None)

    def _forget(self, jobid: int) -> None:
        info = self._jobs.pop(jobid)
        self._canceled[jobid] = JobInfo("CANCELED", False, info.at)
        if len(self._canceled) > CANCELED_REMEMBERED:
            del self._canceled[next(iter(self._canceled))]

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


def _booking(op: MatchOp, selection: Selection) -> Booking:
    if op in (MatchOp.WITHOUT_ALLOCATING, MatchOp.WITHOUT_ALLOCATING_FUTURE):
        return Booking.NOTHING
    return Booking.ALLOCATE if selection.at == 0 else Booking.RESERVE


def _match(jobid: int, reserved: bool, span: Span, grant: Grant) -> Match:
    vertices, edges = grant.vertices, grant.edges
    return Match(jobid, reserved, span.at, placement_of(vertices), lambda: jgf_of(vertices, edges))


def _is_up(vertex: Vertex) -> bool:
    if vertex.status not in (UP, DOWN):
        raise MatcherError(f"{vertex.path!r} is neither up nor down", EINVAL)
    return vertex.status == UP
