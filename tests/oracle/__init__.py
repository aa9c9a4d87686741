"""The oracle: what libreapi_cli answers, in Python alone. It is the library's twin in the tests.

`walker` is the twin itself, `fluxion` libreapi_cli behind the same `port`, and `engines` makes a matcher on either.
`replay` runs recorded sessions of the library, `conformance` the rules case by case, `fuzz` spoiled documents. `fake`
stands in for the library in tests of the code that asks it. Documents have a vertex for each unit.
"""

from __future__ import annotations

from tests.oracle.engines import create
from tests.oracle.errors import (
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
from tests.oracle.port import NO_JOB, Jgf, JobInfo, Match, Matcher, MatcherOptions, MatchOp, Placement

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
    "create",
]
