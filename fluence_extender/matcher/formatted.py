"""An engine that answers in JGF, made to answer in another match format.

Every engine knows JGF only; what R is to the caller is decided here. Invariant: a match whose R the format can't
express is refused and holds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fluence_extender.matcher.counted.expansion import TooManyVertices, expanded_r
from fluence_extender.matcher.embedded.planner import whole_seconds
from fluence_extender.matcher.embedded.replay import times_of
from fluence_extender.matcher.embedded.scalars import number_of, text_or_null
from fluence_extender.matcher.embedded.search import GRAPH_END
from fluence_extender.matcher.errors import InvalidOptions, MatcherError
from fluence_extender.matcher.formats import FORMATS, NotExpressible, Times, write_granted
from fluence_extender.matcher.holds import hold_by_match
from fluence_extender.matcher.port import NO_JOB, Hold, Jgf, JobInfo, Match, Matcher, MatchOp, Placement


class FormattedMatcher:
    """A `Matcher` over one whose match format is ``jgf``."""

    def __init__(self, inner: Matcher, match_format: str) -> None:
        """Raises `InvalidOptions` for an unknown format."""
        check_format(match_format)
        self._inner = inner
        self._format = match_format

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec``. Raises as the engine does, and `NotExpressible`."""
        match = self._inner.match(op, jobspec, jobid)
        if match.R is None:
            return match
        return self._written(match, _times(jobspec, match.at))

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what ``R`` lists. Raises as the engine does, and `NotExpressible`."""
        match = self._inner.update_allocate(jobid, R)
        at, duration = times_of(json.loads(R) if isinstance(R, (str, bytes)) else R)
        return self._written(match, Times(at, at + duration))

    def _written(self, match: Match, times: Times) -> Match:
        granted = cast(Jgf, match.R)
        try:
            written = write_granted(_single_vertices(granted), self._format, times)
        except NotExpressible:
            if match.jobid != NO_JOB:
                self._inner.cancel(match.jobid)
            raise
        return Match(match.jobid, match.reserved, match.at, match.placement, lambda: written)

    def find(self, criteria: str, format: str | None = None) -> Jgf | None:
        """The vertices that meet ``criteria``. Raises as the engine does, and `NotExpressible`."""
        return self._inner.find(criteria, self._format if format is None else format)

    def partial_cancel(self, jobid: int, R: Jgf | str | bytes) -> bool:  # noqa: N803
        """Free a part of what the job has allocated."""
        return self._inner.partial_cancel(jobid, R)

    def hold_all(self, holds: Iterable[Hold]) -> list[Placement | MatcherError]:
        """Hold leaves of known nodes; what couldn't be written isn't held."""
        return [hold_by_match(self, one) for one in holds]

    def cancel(self, jobid: int) -> None:
        """Free all that the job holds."""
        self._inner.cancel(jobid)

    def info(self, jobid: int) -> JobInfo:
        """Say what became of a job."""
        return self._inner.info(jobid)

    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down."""
        self._inner.set_status(path, up)

    def get_status(self, path: str) -> bool:
        """Whether the vertex at ``path`` is itself marked up."""
        return self._inner.get_status(path)

    def set_rank_status(self, ranks: Iterable[int], up: bool) -> None:
        """Mark the topmost vertex of each rank up or down."""
        self._inner.set_rank_status(ranks, up)

    def get_rank_status(self, rank: int) -> bool:
        """Whether the node of ``rank`` is itself marked up."""
        return self._inner.get_rank_status(rank)

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``."""
        self._inner.add_subgraph(jgf)

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it."""
        self._inner.remove_subgraph(path)

    def close(self) -> None:
        """Free the graph."""
        self._inner.close()


def _single_vertices(granted: Jgf) -> Jgf:
    """The set with each counted entry as the vertices it stands for. Raises `NotExpressible`: too many."""
    if not any("count" in entry["metadata"] for entry in granted["graph"]["nodes"]):
        return granted
    try:
        return cast(Jgf, expanded_r(granted))
    except TooManyVertices as error:
        raise NotExpressible(str(error)) from None


def check_format(match_format: str) -> None:
    """Raise `InvalidOptions` for what isn't a match format."""
    if match_format not in FORMATS:
        raise InvalidOptions(f"options.match_format: {match_format!r} isn't one of {', '.join(FORMATS)}")


def ends_at(jobspec: Mapping[str, Any], at: int) -> int:
    """When a matched jobspec that starts at ``at`` ends: with the graph at the latest."""
    duration = whole_seconds(number_of(_system(jobspec).get("duration", 0), "duration"), GRAPH_END)
    return min(at + (duration or GRAPH_END), GRAPH_END)


def _times(jobspec: Mapping[str, Any], at: int) -> Times:
    system = _system(jobspec)
    queue = text_or_null(system["queue"], "queue") if "queue" in system else ""
    return Times(at, ends_at(jobspec, at), queue)


def _system(jobspec: Mapping[str, Any]) -> Mapping[str, Any]:
    attributes = jobspec["attributes"] or {}
    system: Mapping[str, Any] = attributes.get("system") or {}
    return system
