"""The counted half of the embedded engine behind the matcher port: compact graphs, where counts cost nothing.

Requests for leaves of physical nodes are answered by arithmetic over arrays; those that name virtual vertices are
walked over a small skeleton of the graph. Both halves share one job id space, so that a caller sees one matcher that
answers like the walker on the expanded document. Job ids count as the walker's do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from errno import EBUSY, EINVAL, ENOENT, ERANGE
from types import MappingProxyType
from typing import Any

from fluence_extender.matcher.counted import request as requests
from fluence_extender.matcher.counted.booking import Books
from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.document import parse_json
from fluence_extender.matcher.counted.export import plain_document
from fluence_extender.matcher.counted.feasibility import enough_nodes
from fluence_extender.matcher.counted.holding import Holding, held_paths
from fluence_extender.matcher.counted.jobs import Job, Share
from fluence_extender.matcher.counted.known_node import job_of
from fluence_extender.matcher.counted.matching import Search
from fluence_extender.matcher.counted.plain import counts_of
from fluence_extender.matcher.counted.refusals import refuses
from fluence_extender.matcher.counted.replay import (
    physical_shares,
    plain_shares,
    read_replay,
    walked_r,
    with_all_below,
)
from fluence_extender.matcher.counted.request import GRAPH_END, Request
from fluence_extender.matcher.counted.result import (
    compact_placement,
    compact_r,
    jgf_of,
    joined_r,
    placement_of,
)
from fluence_extender.matcher.counted.routing import Half, half_of
from fluence_extender.matcher.counted.schedule import (
    Start,
    best_case,
    end_of,
    satisfiable,
    start_later,
    start_now,
    view_of,
)
from fluence_extender.matcher.counted.transfer import adopt, weigh, weights_of
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.embedded import Walker
from fluence_extender.matcher.embedded.jobspec import Jobspec
from fluence_extender.matcher.embedded.last_errno import LAST_ERRNO, leaves_errno
from fluence_extender.matcher.embedded.operations import ALLOCATING, check_jobid, operation_named
from fluence_extender.matcher.embedded.scalars import ranks_of, shown
from fluence_extender.matcher.errors import (
    Busy,
    InvalidGraph,
    InvalidJobspec,
    JobExists,
    MatcherError,
    NothingToAllocate,
    Unsatisfiable,
)
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

_SEARCHING = (MatchOp.ALLOCATE_ORELSE_RESERVE, MatchOp.WITHOUT_ALLOCATING_FUTURE)
_TELLING = (*_SEARCHING, MatchOp.ALLOCATE_WITH_SATISFIABILITY)
"""The operations that say whether a request could ever be met."""


class CountedMatcher:
    """A `Matcher` over a compact graph of its own. Not thread-safe; a refused call changes nothing."""

    def __init__(
        self, graph: Jgf | str | bytes, options: MatcherOptions | None = None, *, plain: bool = False
    ) -> None:
        """Load a compact document, or a ``plain`` one, which then is answered for in single vertices.

        Raises `Uncountable`, `InvalidGraph`, `InvalidOptions`.
        """
        options = options or MatcherOptions()
        if options.match_format != "jgf":
            raise Uncountable(f"the match format {options.match_format!r} lists single vertices")
        document = parse_json(graph)
        self._plain = plain
        self._graph = CompactGraph(counts_of(document) if plain else document, options, plain=plain)
        self._books = Books()
        self._next_jobid = 1
        self._closed = False

    def fork(self) -> CountedMatcher:
        """An independent copy for what-if questions; neither sees what is done to the other afterwards."""
        self._check_open()
        copy = CountedMatcher.__new__(CountedMatcher)
        copy._graph = self._graph.fork()
        copy._books = self._books.fork()
        copy._next_jobid = self._next_jobid
        copy._closed = False
        copy._plain = self._plain
        return copy

    @leaves_errno
    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises `Uncountable`, `Busy`, `Unsatisfiable`, `InvalidJobspec`, `JobExists`."""
        self._check_open()
        operation = operation_named(op)
        parsed = requests.read(jobspec, self._graph.state.tracking.knows_type)
        if not parsed.resources:
            raise InvalidJobspec("resources: must not be empty")
        duration = requests.duration_of(parsed)
        allocating = operation in ALLOCATING
        if jobid is not None:
            self._check_jobid(jobid, allocating)
        if half_of(parsed, jobspec, self._graph) is Half.WALKED:
            return self._match_walked(operation, parsed, jobspec, jobid, duration)
        request = requests.as_request(parsed, jobspec)
        labels = requests.labels_in(parsed.resources)
        if self._plain and (request.impossible or labels):
            raise Uncountable("the request is for the walker")
        if operation is MatchOp.SATISFIABILITY:
            if not satisfiable(self._graph.state, request):
                raise Unsatisfiable("the graph can never meet the request")
            self._note_refusals(best_case(self._graph.state, request))
            return Match(self._next_jobid if jobid is None else jobid, False, 0, {})
        if not enough_nodes(self._graph, self._books, parsed, jobspec, operation):
            raise self._refusal(
                never=operation is MatchOp.ALLOCATE_WITH_SATISFIABILITY, allocating=allocating
            )
        start = self._start(operation, request)
        self._leave_errno(start)
        if not allocating:
            self._graph.state.reweigh(start.shares)
            return self._answer(NO_JOB, False, start.at, start.shares, labels)
        jobid = self._next_jobid if jobid is None else jobid
        job = self._job(jobid, start.at, end_of(start.at, request.duration), start.shares)
        if any(share.entire and self._graph.state.is_shared(share) for share in start.shares):
            LAST_ERRNO.value = EINVAL
        self._books.book(self._graph, job)
        self._graph.state.reweigh(start.shares)
        self._next_jobid += 1
        return self._answer(jobid, job.reserved, start.at, start.shares, labels)

    def hold(self, hold: Hold) -> Placement | None:
        """Hold leaves of one node; None, with nothing changed, where a match has to be asked for it."""
        self._check_open()
        job = job_of(self._graph, self._books, hold)
        if job is None:
            return None
        self._books.book(self._graph, job)
        self._graph.state.reweigh(job.shares)
        self._next_jobid += 1
        return placement_of(job.shares, self._graph.state.tree.levels)

    @leaves_errno
    def cancel(self, jobid: int) -> None:
        """Free all that the job holds. Raises `UnknownJob`."""
        self._check_open()
        self._check_jobid(jobid, False)
        self._books.cancel(self._graph, jobid)

    @leaves_errno
    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job; the latest hundred thousand cancelled ones are remembered. Raises `UnknownJob`."""
        self._check_open()
        self._check_jobid(jobid, False)
        return self._books.info(jobid)

    @leaves_errno
    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` (unknown path), `Uncountable`."""
        self._check_path(path)
        self._graph.set_status(path, up)

    @leaves_errno
    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up. Raises `MatcherError` (unknown path), `Uncountable`."""
        self._check_path(path)
        return self._graph.is_up(path)

    def nodes_of_ranks(self, ranks: Iterable[int]) -> list[str]:
        """The paths of the nodes of the ranks. Raises `Uncountable` for a rank that isn't one physical node's."""
        self._check_open()
        return [self._graph.node_of_rank(rank) for rank in ranks_of(ranks)]

    @leaves_errno
    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the vertices of a compact document that are new. Raises `Uncountable`, `InvalidGraph`."""
        self._check_open()
        try:
            document = parse_json(jgf)
            self._graph.add(counts_of(document) if self._plain else document)
        except InvalidGraph as error:
            error.errno = EINVAL
            raise
        LAST_ERRNO.value = 0

    @leaves_errno
    def remove_subgraph(self, path: str) -> None:
        """Remove what is at ``path`` and all below it; jobs lose their share of it.

        Raises `MatcherError` (unknown path, root), `Uncountable`.
        """
        self._check_path(path)
        if self._plain:
            self._check_unused(path)
        self._graph.remove(path)
        self._books.forget_below(path)

    @leaves_errno
    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what R lists, compact or with one vertex a leaf.

        Raises `JobExists`, `InvalidJobspec`, `Uncountable`.
        """
        self._check_open()
        self._check_jobid(jobid, True)
        replay = read_replay(R)
        state = self._graph.state
        view = view_of(state, self._books, replay.at, replay.duration)
        shares = (plain_shares if self._plain else physical_shares)(state, replay, view)
        below = walked_r(self._graph, replay)
        if below is not None and shares:
            shares = with_all_below(shares, below)
            below = None
        if below is not None:
            match = self._graph.walked.update_allocate(self._books.next_walked, below)
            self._note_walked(jobid, match, replay.duration)
            return self._answer_walked(jobid, match)
        if not shares:
            raise NothingToAllocate("R lists nothing that is exclusive", EINVAL)
        job = Job(jobid, replay.at, replay.at + replay.duration, False, shares, state.counting_levels(shares))
        self._books.book(self._graph, job)
        LAST_ERRNO.value = ERANGE if state.reweigh(shares, replayed=True) else 0
        return self._answer(jobid, False, replay.at, shares)

    # --- the walker's side ---------------------------------------------------------------------------------------

    @property
    def next_jobid(self) -> int:
        """The id that the next match without one gets."""
        return self._next_jobid

    @next_jobid.setter
    def next_jobid(self, jobid: int) -> None:
        self._next_jobid = jobid

    @property
    def canceled(self) -> Mapping[int, JobInfo]:
        """The latest cancelled jobs."""
        return self._books.canceled

    @property
    def latest(self) -> Holding:
        """What was granted last."""
        return self._books.latest

    @property
    def leaf_types(self) -> set[str]:
        """The types of what is counted, on physical nodes or below virtual ones."""
        return self._graph.leaf_types | self._graph.walked_types

    def walker(self, options: MatcherOptions) -> Walker:
        """A walker over the whole graph in its present state. Raises `TooManyVertices`."""
        graph = self._graph
        walker = Walker(plain_document(graph), options, graph.state.tracking.types)
        for holding in self._books.holdings(graph.state.table.serial):
            holding.tell(walker)
        return walker

    def tell(self, walker: Walker) -> None:
        """Tell a walker that knows the graph and its jobs what else decides its answers."""
        walker.resume(self._next_jobid, {})
        walker.weigh(weights_of(self._graph))
        walker.nodes_up = self._graph.nodes_up

    def adopt(self, holding: Holding) -> None:
        """Take over what the walker granted. Raises `Uncountable`."""
        adopt(self._graph, self._books, holding)

    def weigh(self, weights: Mapping[str, int | None]) -> None:
        """Take over the weights of the edges that a grant of the walker passed."""
        weigh(self._graph, weights)

    def close(self) -> None:
        """Free the graph; every later call is refused."""
        if self._closed:
            return
        self._closed = True
        self._graph.walked.leave()
        self._books = Books()
        del self._graph

    def _leave_errno(self, start: Start) -> None:
        """Leave the errno that a walk with this outcome leaves."""
        if start.at:
            # It has failed before, and asked for one time more after it had succeeded (fluxion reference 4.2).
            LAST_ERRNO.value = ENOENT if start.last else EBUSY
        else:
            self._note_refusals(start.search)

    @staticmethod
    def _note_refusals(search: Search) -> None:
        if LAST_ERRNO.value != EBUSY and refuses(search):
            LAST_ERRNO.value = EBUSY

    def _job(self, jobid: int, at: int, end: int, shares: tuple[Share, ...]) -> Job:
        return Job(jobid, at, end, at != 0, shares, self._graph.state.counting_levels(shares))

    def _start(self, op: MatchOp, request: Request) -> Start:
        """Where and when the request starts. Raises `Busy`, `Unsatisfiable`."""
        allocating = op in ALLOCATING
        start = start_now(self._graph, self._books, request)
        if start is None and op in _SEARCHING:
            start = start_later(self._graph, self._books, request)
        if start is None:
            never = op in _TELLING and not satisfiable(self._graph.state, request)
            raise self._refusal(never=never, allocating=allocating)
        if start.at >= GRAPH_END:
            raise self._refusal(never=False, allocating=allocating)
        return start

    def _match_walked(
        self, op: MatchOp, parsed: Jobspec, jobspec: Mapping[str, Any], jobid: int | None, duration: int
    ) -> Match:
        allocating = op in ALLOCATING
        number = self._next_jobid if jobid is None else jobid
        walked, nodes_up = self._graph.walked, self._graph.nodes_up
        if op is not MatchOp.SATISFIABILITY and not enough_nodes(
            self._graph, self._books, parsed, jobspec, op
        ):
            raise self._refusal(never=op is MatchOp.ALLOCATE_WITH_SATISFIABILITY, allocating=allocating)
        try:
            match = walked.match(op, jobspec, self._books.next_walked if allocating else None, nodes_up)
        except (Busy, Unsatisfiable):
            # The walker counts the skeleton's nodes only, so it may not have come as far as asking this itself.
            never = op is MatchOp.SATISFIABILITY or (
                op in _TELLING and not walked.satisfiable(jobspec, nodes_up)
            )
            raise self._refusal(never=never, allocating=allocating) from None
        if not allocating:
            return self._answer_walked(number if op is MatchOp.SATISFIABILITY else NO_JOB, match)
        self._next_jobid += 1
        self._note_walked(number, match, min(duration, GRAPH_END - match.at))
        return self._answer_walked(number, match)

    def _note_walked(self, jobid: int, match: Match, duration: int) -> None:
        mode = "RESERVED" if match.reserved else "ALLOCATED"
        info = JobInfo(mode, match.reserved, match.at)
        self._books.book_walked(Holding(jobid, info, duration, held_paths(match), not match.reserved))

    def _answer(
        self,
        jobid: int,
        reserved: bool,
        at: int,
        shares: tuple[Share, ...],
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> Match:
        levels = self._graph.state.tree.levels
        placement = placement_of(shares, levels)
        if not self._graph.nested:
            return Match(
                jobid, reserved, at, placement, lambda: jgf_of(shares, levels, labels, by_unit=self._plain)
            )
        types = self._graph.walked_types
        below = self._graph.listed_below(shares)
        placement |= compact_placement(below, types)
        return Match(
            jobid,
            reserved,
            at,
            placement,
            lambda: joined_r(jgf_of(shares, levels, labels), compact_r(below, types)),
        )

    def _answer_walked(self, jobid: int, match: Match) -> Match:
        types = self._graph.walked_types
        listed = match.R
        if not isinstance(listed, dict):
            return Match(jobid, match.reserved, match.at, {})
        placement = compact_placement(listed, types)
        return Match(
            jobid,
            match.reserved,
            match.at,
            placement,
            lambda: compact_r(listed, types),
        )

    def _refusal(self, *, never: bool, allocating: bool) -> MatcherError:
        self._next_jobid += allocating
        if never:
            return Unsatisfiable("the graph can never meet the request")
        return Busy("no room for the request at this time")

    def _check_unused(self, path: str) -> None:
        """Raises `Uncountable` where a job is at or below ``path``: it keeps what is gone (fluxion reference 5.4)."""
        below = path + "/"
        for job in self._books.jobs():
            for share in job.shares:
                if share.node.path == path or share.node.path.startswith(below):
                    raise Uncountable(f"job {job.id} is at {path}")

    def _check_open(self) -> None:
        if self._closed:
            raise MatcherError("the matcher is closed", EINVAL)

    def _check_path(self, path: str) -> None:
        self._check_open()
        if not isinstance(path, str):
            raise MatcherError(f"no vertex is at {shown(path)}", EINVAL)

    def _check_jobid(self, jobid: int, allocating: bool) -> None:
        check_jobid(jobid)
        if allocating and jobid in self._books:
            raise JobExists(f"job {jobid} is there already")
