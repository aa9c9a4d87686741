"""The embedded engine: arithmetic over counts where it answers, a walk over single vertices where it doesn't.

Both halves work on one state. The counts hold it; a request that they can't answer builds the walker from it, whose
grant is then booked in the counts, so that the next request is cheap again. The walker is kept for the next such
request and told what it missed. What counts can't even hold (a leaf that is down, a rack taken whole) hands the graph
over to the walker for good. Invariant: whoever answers, the answer is the walker's on the expanded document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from errno import EINVAL
from typing import Any, NoReturn, TypeVar

from fluence_extender.matcher.collector import paused_collector
from fluence_extender.matcher.counted import CountedMatcher, Holding, Uncountable, held_paths, listed_paths
from fluence_extender.matcher.counted.document import is_compact, parse_json
from fluence_extender.matcher.counted.expansion import TooManyVertices, expanded, expanded_r, leaf_types_of
from fluence_extender.matcher.counted.result import compact_placement, compact_r
from fluence_extender.matcher.embedded import Walker
from fluence_extender.matcher.embedded.jgf import parse_json as parse_any_json
from fluence_extender.matcher.embedded.last_errno import LAST_ERRNO
from fluence_extender.matcher.embedded.replay import lists_vertices
from fluence_extender.matcher.embedded.scalars import ranks_of
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec, MatcherError
from fluence_extender.matcher.holds import hold_by_match
from fluence_extender.matcher.port import Hold, Jgf, JobInfo, Match, MatcherOptions, MatchOp, Placement

FEWEST_COUNTED = 3_000
"""The vertices from which on a plain document is counted; below that a walk is cheap."""

_MOST_MISSED = 1_000
"""Calls that a walker may miss before it is dropped."""
_GRANTING = (
    MatchOp.ALLOCATE,
    MatchOp.ALLOCATE_WITH_SATISFIABILITY,
    MatchOp.ALLOCATE_ORELSE_RESERVE,
)

_T = TypeVar("_T")


class EmbeddedEngine:
    """A `Matcher` over compact or plain documents. Not thread-safe; a refused call changes nothing."""

    def __init__(
        self,
        graph: Jgf | str | bytes,
        options: MatcherOptions | None = None,
        *,
        fewest_counted: int = FEWEST_COUNTED,
    ) -> None:
        """Load a document; a plain one is counted if it has that many vertices.

        Raises `InvalidGraph`, `InvalidOptions`.
        """
        with paused_collector():
            self._load(graph, options, fewest_counted)

    def _load(self, graph: Jgf | str | bytes, options: MatcherOptions | None, fewest_counted: int) -> None:
        self._options = options or MatcherOptions()
        self._counted: CountedMatcher | None = None
        self._walker: Walker | None = None
        self._missed: list[Callable[[Walker], object]] = []
        self._leaf_types: frozenset[str] = frozenset()
        try:
            document = parse_json(graph)
        except InvalidGraph:
            # The walker's reader knows more encodings, and says what is wrong as it does of any document.
            document = parse_any_json(graph)
        self._compact = is_compact(document)
        LAST_ERRNO.value = 0
        if not self._compact and _vertices_in(document) < fewest_counted:
            self._walker = Walker(graph, self._options)
            return
        try:
            self._counted = CountedMatcher(document, self._options, plain=not self._compact)
        except Uncountable as reason:
            if not self._compact:
                self._walker = Walker(graph, self._options)
                return
            self._leaf_types = leaf_types_of(document)
            self._walker = Walker(_expanded(document, reason, InvalidGraph), self._options)
            self._walker.recount_nodes()

    def fork(self) -> EmbeddedEngine:
        """An independent copy for what-if questions; neither sees what is done to the other afterwards."""
        copy = EmbeddedEngine.__new__(EmbeddedEngine)
        copy._options = self._options
        copy._compact = self._compact
        copy._leaf_types = self._leaf_types
        copy._missed = []
        copy._counted = None if self._counted is None else self._counted.fork()
        copy._walker = self._alone.fork() if self._counted is None else None
        return copy

    # --- the port ------------------------------------------------------------------------------------------------

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises `Busy`, `Unsatisfiable`, `InvalidJobspec`, `NothingToAllocate`, `JobExists`."""
        counted = self._counted
        if counted is None:
            return self._presented(self._alone.match(op, jobspec, jobid))
        before = LAST_ERRNO.value
        try:
            match = counted.match(op, jobspec, jobid)
        except Uncountable as reason:
            LAST_ERRNO.value = before
            walker = self._in_step(counted, reason, InvalidJobspec)
            return self._match_walked(counted, walker, op, jobspec, jobid)
        if op in _GRANTING:
            self._miss_grant(counted)
        return match

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes one after the other; for each what was granted, or why nothing was."""
        return [self._hold(one) for one in holds]

    def _hold(self, hold: Hold) -> Placement | MatcherError:
        counted = self._counted
        placement = None if counted is None else counted.hold(hold)
        if counted is None or placement is None:
            return hold_by_match(self, hold)
        self._miss_grant(counted)
        return placement

    def cancel(self, jobid: int) -> None:
        """Free all that the job holds. Raises `UnknownJob`."""
        if self._counted is None:
            self._alone.cancel(jobid)
            return
        self._counted.cancel(jobid)
        self._miss(lambda walker: walker.cancel(jobid))

    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job; the latest hundred thousand cancelled ones are remembered. Raises `UnknownJob`."""
        return (self._counted or self._alone).info(jobid)

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` for an unknown path."""

        def count(counted: CountedMatcher) -> None:
            counted.set_status(path, up)
            self._miss(lambda walker: walker.set_status(path, up))

        self._change(count, lambda walker, _: walker.set_status(path, up), MatcherError)

    def partial_cancel(self, jobid: int, R: Jgf | str | bytes) -> bool:  # noqa: N803
        """Free a part of what the job has allocated. Raises `UnknownJob`, `InvalidJobspec`."""

        def walk(walker: Walker, _: Exception | None) -> bool:
            return walker.partial_cancel(jobid, expanded_r(R) if self._compact else R)

        return self._change(_uncounted, walk, InvalidJobspec)

    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up. Raises `MatcherError`."""
        return self._look(lambda counted: counted.get_status(path), lambda walker: walker.get_status(path))

    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down. Raises `MatcherError`."""
        chosen = ranks_of(ranks)

        def count(counted: CountedMatcher) -> None:
            if not chosen:
                raise Uncountable("no rank is given")
            for path in counted.nodes_of_ranks(chosen):
                counted.set_status(path, up)
            self._miss(lambda walker: walker.set_rank_status(chosen, up))

        self._change(count, lambda walker, _: walker.set_rank_status(chosen, up), MatcherError)

    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` is itself marked up. Raises `MatcherError`."""
        return self._look(
            lambda counted: counted.get_status(*counted.nodes_of_ranks([rank])),
            lambda walker: walker.get_rank_status(rank),
        )

    def find(self, criteria: str, format: str | None = None) -> Jgf | None:
        """The vertices that meet the criteria, and all above them. Raises `InvalidJobspec`, `MatcherError`."""
        return self._look(_uncounted, lambda walker: walker.find(criteria, format))

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the vertices of a document that are new. Raises `InvalidGraph`.

        Where the graph came as a plain document the count of nodes that are up stays as it was, as in libreapi_cli.
        """
        document = _parsed(jgf) if self._compact else jgf

        def count(counted: CountedMatcher) -> None:
            counted.add_subgraph(document)
            self._forget_walker()

        def walk(walker: Walker, reason: Exception | None) -> None:
            walker.add_subgraph(_expanded(document, reason, InvalidGraph) if self._compact else document)
            self._recount(walker)

        self._change(count, walk, InvalidGraph)
        if self._counted is None and self._compact:
            self._leaf_types |= leaf_types_of(document)

    def remove_subgraph(self, path: str) -> None:
        """Remove what is at ``path`` and all below it. Raises `MatcherError`: unknown path, root."""

        def count(counted: CountedMatcher) -> None:
            counted.remove_subgraph(path)
            self._forget_walker()

        def walk(walker: Walker, reason: Exception | None) -> None:
            walker.remove_subgraph(path)
            self._recount(walker)

        self._change(count, walk, MatcherError)

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what R lists. Raises `JobExists`, `InvalidJobspec`."""

        def count(counted: CountedMatcher) -> Match:
            if not lists_vertices(R):
                raise Uncountable("R doesn't list all its vertices")
            match = counted.update_allocate(jobid, R)
            self._miss_grant(counted)
            return match

        def walk(walker: Walker, reason: Exception | None) -> Match:
            return self._presented(walker.update_allocate(jobid, expanded_r(R) if self._compact else R))

        return self._change(count, walk, InvalidJobspec)

    def close(self) -> None:
        """Free the graph; every later call is refused."""
        (self._counted or self._alone).close()
        if self._counted is not None:
            self._forget_walker()

    # --- one state -----------------------------------------------------------------------------------------------

    @property
    def _alone(self) -> Walker:
        """The walker that has the graph for good."""
        assert self._walker is not None
        return self._walker

    def _look(self, count: Callable[[CountedMatcher], _T], walk: Callable[[Walker], _T]) -> _T:
        """Ask the counts, or else the walker, something that changes nothing."""
        if self._counted is None:
            return walk(self._alone)
        before = LAST_ERRNO.value
        try:
            return count(self._counted)
        except Uncountable as reason:
            LAST_ERRNO.value = before
            return walk(self._in_step(self._counted, reason, MatcherError))

    def _change(
        self,
        count: Callable[[CountedMatcher], _T],
        walk: Callable[[Walker, Exception | None], _T],
        refusal: type[MatcherError],
    ) -> _T:
        """Change the counts, or else change the graph in the walker and leave it there."""
        counted = self._counted
        if counted is None:
            return walk(self._alone, None)
        before = LAST_ERRNO.value
        try:
            return count(counted)
        except Uncountable as reason:
            LAST_ERRNO.value = before
            walker = self._in_step(counted, reason, refusal)
            answer = walk(walker, reason)
            self._leave_to(walker, counted)
            return answer

    def _match_walked(
        self,
        counted: CountedMatcher,
        walker: Walker,
        op: MatchOp | str,
        jobspec: Mapping[str, Any],
        jobid: int | None,
    ) -> Match:
        """Match in the walker, and book the grant in the counts if they can hold it."""
        try:
            match = walker.match(op, jobspec, jobid)
        finally:
            counted.next_jobid = walker.next_jobid
        if op in _GRANTING:
            info, duration = walker.info(match.jobid), walker.duration_of(match.jobid)
            holding = Holding(match.jobid, info, duration, held_paths(match), not match.reserved)
            try:
                counted.adopt(holding)
            except Uncountable:
                self._leave_to(walker, counted)
                return self._presented(match)
        if op != MatchOp.SATISFIABILITY:
            counted.weigh(walker.weights(listed_paths(match)))
        return self._presented(match)

    def _in_step(self, counted: CountedMatcher, reason: Uncountable, refusal: type[MatcherError]) -> Walker:
        """The walker, with the state of the counts. Raises ``refusal`` where the graph is too large for it."""
        errno = LAST_ERRNO.value
        try:
            if self._walker is None:
                with paused_collector():
                    self._walker = counted.walker(self._options)
            for call in self._missed:
                call(self._walker)
            counted.tell(self._walker)
        except TooManyVertices as error:
            raise refusal(f"{reason}; {error}", EINVAL) from None
        finally:
            self._missed.clear()
            LAST_ERRNO.value = errno
        return self._walker

    def _leave_to(self, walker: Walker, counted: CountedMatcher) -> None:
        """Leave the graph to the walker, for good."""
        self._leaf_types = frozenset(counted.leaf_types)
        walker.resume(walker.next_jobid, counted.canceled)
        self._counted = None
        counted.close()

    def _miss(self, call: Callable[[Walker], object]) -> None:
        """Note what a walker that is kept has to be told."""
        if self._walker is None:
            return
        self._missed.append(call)
        if len(self._missed) > _MOST_MISSED:
            self._forget_walker()

    def _forget_walker(self) -> None:
        self._walker = None
        self._missed.clear()

    def _miss_grant(self, counted: CountedMatcher) -> None:
        if self._walker is not None:
            holding = counted.latest
            self._miss(holding.tell)

    def _recount(self, walker: Walker) -> None:
        if self._compact:
            walker.recount_nodes()

    def _presented(self, match: Match) -> Match:
        """A match of the walker in the form in which the graph was given."""
        if not self._compact or self._options.match_format != "jgf":
            return match
        listed = match.R
        if not isinstance(listed, dict):
            return match
        types = self._counted.leaf_types if self._counted is not None else self._leaf_types
        return Match(
            match.jobid,
            match.reserved,
            match.at,
            compact_placement(listed, types),
            lambda: compact_r(listed, types),
        )


def _uncounted(_: CountedMatcher) -> NoReturn:
    raise Uncountable("this is done vertex by vertex")


def _vertices_in(document: Any) -> int:
    try:
        return len(document["graph"]["nodes"])
    except (KeyError, TypeError):
        return 0


def _parsed(jgf: Jgf | str | bytes) -> Any:
    try:
        return parse_json(jgf)
    except InvalidGraph as error:
        error.errno = EINVAL
        raise


def _expanded(document: Any, reason: Exception | None, refusal: type[MatcherError]) -> Any:
    try:
        return expanded(document)
    except TooManyVertices as error:
        raise refusal(f"{reason}; {error}" if reason is not None else str(error)) from None
