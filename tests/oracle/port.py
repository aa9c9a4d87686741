"""The port of both engines: match a whole jobspec on a resource graph at once.

The engines are the oracle and libreapi_cli through `fluxion_ffi`. Invariant: the same calls in the same order get the
same jobid, time, placement and errno from both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tests.oracle.errors import InvalidOptions

Jgf = dict[str, Any]
"""A JSON Graph Format document as parsed JSON: ``{"graph": {"nodes": [...], "edges": [...]}}``."""

NO_JOB = 2**64 - 1
"""The jobid of a match that allocates nothing."""


class MatchOp(StrEnum):
    """The match operations of libreapi_cli, by their own names."""

    ALLOCATE = "allocate"
    ALLOCATE_WITH_SATISFIABILITY = "allocate_with_satisfiability"
    ALLOCATE_ORELSE_RESERVE = "allocate_orelse_reserve"
    SATISFIABILITY = "satisfiability"
    WITHOUT_ALLOCATING = "without_allocating"
    WITHOUT_ALLOCATING_FUTURE = "without_allocating_future"


@dataclass(frozen=True, slots=True)
class MatcherOptions:
    """The options of a matcher, with the values of reapi_cli_initialize.

    ``match_format`` is always ``jgf``, the only format with everything that a match holds.
    """

    policy: str = "first"
    prune_filters: str = "ALL:core,ALL:node"
    match_format: str = "jgf"

    def __post_init__(self) -> None:
        """Raise `InvalidOptions` for an option that isn't text, or for another match format."""
        for name in ("policy", "prune_filters", "match_format"):
            if not isinstance(getattr(self, name), str):
                raise InvalidOptions(f"options.{name} must be a string")
        if self.match_format != "jgf":
            raise InvalidOptions(f"options.match_format must be 'jgf', not {self.match_format[:40]!r}")


Placement = Mapping[str, Mapping[str, int]]
"""Holder path -> {leaf type: amount}: what was granted under each vertex of a match."""


class Match:
    """A successful match.

    ``jobid`` is `NO_JOB` where nothing was allocated; ``at`` is the start in seconds on the matcher's clock (0 = now);
    ``placement`` has one entry for each emitted vertex that isn't a ``core``, ``memory`` or ``gpu`` leaf, with the
    amounts of those leaves directly below it (empty for a satisfiability answer). ``R`` is made when it is first read.
    """

    __slots__ = ("_made", "_make", "at", "jobid", "placement", "reserved")

    def __init__(
        self,
        jobid: int,
        reserved: bool,
        at: int,
        placement: Placement,
        make_r: Callable[[], Jgf | None] = lambda: None,
    ) -> None:
        self.jobid = jobid
        self.reserved = reserved
        self.at = at
        self.placement = placement
        self._make: Callable[[], Jgf | None] | None = make_r
        self._made: Jgf | None = None

    @property
    def R(self) -> Jgf | None:  # noqa: N802 - the RFC 20 name
        """The resource set as JGF, or None if the operation emits none (satisfiability)."""
        if self._make is not None:
            self._made = self._make()
            self._make = None
        return self._made

    def __repr__(self) -> str:
        return (
            f"Match(jobid={self.jobid}, reserved={self.reserved}, at={self.at}, placement={self.placement!r})"
        )


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The state of a job: ``mode`` is ALLOCATED, RESERVED or CANCELED, ``at`` its start in seconds."""

    mode: str
    reserved: bool
    at: int


class Matcher(Protocol):
    """One resource graph and the jobs on it. Not thread-safe; every refusal is a `MatcherError` and changes nothing."""

    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match:
        """Match ``jobspec``; without ``jobid`` the engine counts ids as libreapi_cli does.

        Raises `Busy`, `Unsatisfiable`, `InvalidJobspec`, `JobExists` (``jobid`` is held).
        """
        ...

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `UnknownJob`."""
        ...

    def info(self, jobid: int) -> JobInfo:
        """Return the state of a job, a cancelled one included. Raises `UnknownJob`."""
        ...

    def add_subgraph(self, jgf: Jgf | str | bytes) -> None:
        """Add the subtree in ``jgf``, which also has the path from the root down to it. Raises `InvalidGraph`."""
        ...

    def remove_subgraph(self, path: str) -> None:
        """Remove the vertex at ``path`` and all below it. Raises `MatcherError` (unknown path, root)."""
        ...

    def set_status(self, path: str, up: bool) -> None:
        """Mark the vertex at ``path`` up or down; jobs there stay. Raises `MatcherError` (unknown path)."""
        ...

    def update_allocate(self, jobid: int, R: Jgf | str | bytes) -> Match:  # noqa: N803
        """Allocate exactly what ``R`` lists. Raises `JobExists`, `InvalidJobspec`.

        ``R`` is JGF, which holds from time 0 on without an end, or an RFC 20 object that has JGF under ``scheduling``
        and brings the times.
        """
        ...

    def close(self) -> None:
        """Free the graph; the matcher can't be used afterwards."""
        ...
