"""Matching jobspecs on resource graphs: one port, and the engines behind it.

Whatever is asked of an engine, in whatever order, another gives the same jobid, time, placement and errno.
"""

from __future__ import annotations

from fluence_extender.matcher.errors import (
    Busy,
    EngineUnavailable,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
)
from fluence_extender.matcher.factory import create_matcher
from fluence_extender.matcher.port import (
    NO_JOB,
    Jgf,
    JobInfo,
    Match,
    Matcher,
    MatcherOptions,
    MatchOp,
    Placement,
)

__all__ = [
    "NO_JOB",
    "Busy",
    "EngineUnavailable",
    "InvalidGraph",
    "InvalidJobspec",
    "InvalidOptions",
    "Jgf",
    "JobExists",
    "JobInfo",
    "Match",
    "MatchOp",
    "Matcher",
    "MatcherError",
    "MatcherOptions",
    "NothingToAllocate",
    "Placement",
    "UnknownJob",
    "Unsatisfiable",
    "create_matcher",
]
