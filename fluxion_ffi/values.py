"""The arguments and results of graph calls as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Document = Mapping[str, Any] | str | bytes
"""A JSON object, parsed or as text."""


class MatchOp(IntEnum):
    """``match_op_t``; the last two need flux-sched 0.54."""

    ALLOCATE = 1
    ALLOCATE_WITH_SATISFIABILITY = 2
    ALLOCATE_ORELSE_RESERVE = 3
    SATISFIABILITY = 4
    WITHOUT_ALLOCATING = 5
    WITHOUT_ALLOCATING_FUTURE = 6

    @property
    def holds(self) -> bool:
        """Whether success leaves a job behind."""
        return self <= MatchOp.ALLOCATE_ORELSE_RESERVE


@dataclass(frozen=True, slots=True)
class MatchResult:
    """A successful match.

    ``at`` is the start in seconds (0 = now), ``overhead`` the seconds spent matching, ``R`` the resource set in the
    graph's match format, empty for `MatchOp.SATISFIABILITY`.
    """

    jobid: int
    reserved: bool
    at: int
    overhead: float
    R: str


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The state of a job: ``mode`` is ALLOCATED, RESERVED, CANCELED, INIT or ERROR."""

    mode: str
    reserved: bool
    at: int
    overhead: float


NO_JOB = 2**64 - 1
"""The jobid that the library gives to a match that allocates nothing."""

LAST_JOB = 2**63 - 1
"""The greatest jobid that can be cancelled again."""
