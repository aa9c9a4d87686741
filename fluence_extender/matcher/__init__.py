"""Matching jobspecs on resource graphs: one port and two engines behind it.

`port` holds the protocol and its values, `errors` the refusals, `factory` makes a matcher. `fluxion` is libreapi_cli
through `fluxion_ffi`; `worker` runs an engine in a process of its own. `engine` is the embedded engine, of which
`walker` follows libreapi_cli vertex by vertex and `counted` answers for compact graphs by arithmetic. Invariant: the
same calls in the same order get the same jobid, time, placement and errno from each engine.
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
