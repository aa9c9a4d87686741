"""The embedded engine: counts for compact documents, the walker for everything else.

A compact document (equal leaves are one entry with a count) is matched by counting. The first call that counts can't
answer hands the graph over to the walker for good, with all jobs; above `MOST_WALKED` vertices that call is refused
instead. A plain document is the walker's from the start. Invariant: an answer doesn't depend on which half gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.collector import paused_collector
from fluence_extender.matcher.counted import (
    CountedMatcher,
    Uncountable,
    compact_placement,
    compact_r,
    is_compact,
)
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec, MatcherError
from fluence_extender.matcher.expansion import (
    TooManyVertices,
    expanded,
    expanded_resources,
    leaf_types_of,
)
from fluence_extender.matcher.jobs import hold_by_match
from fluence_extender.matcher.port import Hold, Jgf, JobInfo, Match, MatcherOptions, MatchOp, Placement
from fluence_extender.matcher.walker import Walker
from fluence_extender.matcher.walker.reader import parse_json


class EmbeddedEngine:
    """A `Matcher` over a compact or a plain document. Not thread-safe; a refused call changes nothing."""

    def __init__(self, graph: Jgf | str | bytes, options: MatcherOptions | None = None) -> None:
        """Load a document. Raises `InvalidGraph`, `InvalidOptions`."""
        with paused_collector():
            self._half: CountedMatcher | Walker | None = self._load(graph, options or MatcherOptions())

    def _load(self, graph: Jgf | str | bytes, options: MatcherOptions) -> CountedMatcher | Walker:
        document = parse_json(graph)
        self._compact = is_compact(document)
        self._leaf_types: set[str] = set()
        if not self._compact:
            return Walker(document, options)
        try:
            return CountedMatcher(document, options)
        except Uncountable as reason:
            self._leaf_types = leaf_types_of(document)
            walker = Walker(_expanded_graph(document, reason), options)
            walker.recount_nodes()
            return walker

    # --- the port ------------------------------------------------------------------------------------------------

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match a jobspec. Raises `Busy`, `Unsatisfiable`, `InvalidJobspec`, `NothingToAllocate`, `JobExists`."""
        half = self._open()
        if isinstance(half, CountedMatcher):
            try:
                return half.match(op, jobspec, jobid)
            except Uncountable as reason:
                half = self._hand_over(half, reason, InvalidJobspec)
        return self._compacted(half.match(op, jobspec, jobid))

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes one after the other; return for each the grant, or why there is none."""
        return [self._hold(one) for one in holds]

    def _hold(self, hold: Hold) -> Placement | MatcherError:
        half = self._open()
        placement = half.hold(hold) if isinstance(half, CountedMatcher) else None
        return hold_by_match(self, hold) if placement is None else placement

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `UnknownJob`."""
        self._open().cancel(jobid)

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job; the latest hundred thousand cancelled ones are remembered. Raises `UnknownJob`."""
        return self._open().info(jobid)

    def set_status(self, path: str, up: bool) -> None:
        """Mark a vertex up or down. Raises `MatcherError` for an unknown path."""
        half = self._open()
        try:
            half.set_status(path, up)
        except Uncountable as reason:
            self._hand_over(half, reason, MatcherError).set_status(path, up)

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the vertices of a document that are new. Raises `InvalidGraph`.

        If the graph was given as a plain document, the count of nodes that are up stays the same, as in libreapi_cli.
        """
        half = self._open()
        if not self._compact:
            half.add_subgraph(jgf)
            return
        reason = None
        try:
            document = parse_json(jgf)
            if isinstance(half, CountedMatcher):
                half.add_subgraph(document)
                return
        except Uncountable as uncountable:
            reason = uncountable
        except InvalidGraph as error:
            error.errno = EINVAL
            raise
        plain = _expanded_graph(document, reason, EINVAL)
        walker = half if isinstance(half, Walker) else self._hand_over(half, reason, InvalidGraph)
        walker.add_subgraph(plain)
        walker.recount_nodes()
        self._leaf_types |= leaf_types_of(document)

    def remove_subgraph(self, path: str) -> None:
        """Remove what is at ``path`` and all below it. Raises `MatcherError`: unknown path, root."""
        half = self._open()
        try:
            half.remove_subgraph(path)
        except Uncountable as reason:
            half = self._hand_over(half, reason, MatcherError)
            half.remove_subgraph(path)
        if self._compact and isinstance(half, Walker):
            half.recount_nodes()

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what R lists. Raises `JobExists`, `InvalidJobspec`."""
        half = self._open()
        if not self._compact:
            assert isinstance(half, Walker)
            return half.update_allocate(jobid, R)
        try:
            plain = expanded_resources(R)
        except TooManyVertices as error:
            raise InvalidJobspec(f"R: {error}") from None
        if isinstance(half, CountedMatcher):
            half = self._hand_over(half, Uncountable("an R is replayed vertex by vertex"), InvalidJobspec)
        return self._compacted(half.update_allocate(jobid, plain))

    def close(self) -> None:
        """Free the graph; every later call is refused."""
        self._half = None

    # --- from counts to the walker -------------------------------------------------------------------------------

    def _open(self) -> CountedMatcher | Walker:
        if self._half is None:
            raise MatcherError("the matcher is closed", EINVAL)
        return self._half

    def _hand_over(
        self, half: CountedMatcher | Walker, reason: Exception | None, refusal: type[MatcherError]
    ) -> Walker:
        """Hand the graph over to a walker for good. Raises ``refusal`` where the graph is too large for that."""
        assert isinstance(half, CountedMatcher)
        try:
            with paused_collector():
                walker = half.walker()
        except TooManyVertices as error:
            raise refusal(f"{reason}; {error}", EINVAL) from None
        self._leaf_types = half.leaf_types
        self._half = walker
        return walker

    def _compacted(self, match: Match) -> Match:
        """Return a match of the walker in the form in which the graph was given."""
        listed = match.R if self._compact else None
        if listed is None:
            return match
        types = self._leaf_types
        placement = compact_placement(listed, types)
        return Match(match.jobid, match.reserved, match.at, placement, lambda: compact_r(listed, types))


def _expanded_graph(document: Any, reason: Exception | None, errno: int | None = None) -> Any:
    try:
        return expanded(document)
    except TooManyVertices as error:
        raise InvalidGraph(f"{reason}; {error}" if reason is not None else str(error), errno) from None
    except InvalidGraph as error:
        if errno is not None:
            error.errno = errno
        raise
