"""Fluxion (libreapi_cli of flux-sched >= 0.53) for Python.

    with ResourceGraph(open_library(), jgf, GraphOptions(matcher_policy="lonode")) as graph:
        result = graph.match(MatchOp.ALLOCATE, jobspec)

The library crashes or hangs on some inputs, is not thread-safe, and returns memory that its callers must free. This
package hides all of that: arguments are checked, calls are serialised, strings are freed, and every failure is a
`FluxionError` with the library's errno and text.
"""

from fluxion_ffi.errors import (
    FeatureMissing,
    FluxionError,
    GraphClosed,
    InvalidGraph,
    InvalidOptions,
    InvalidRequest,
    JobExists,
    LibraryBroken,
    LibraryNotFound,
    LibraryTooOld,
    LibraryUnavailable,
    NotFound,
    NothingToAllocate,
    OutOfMemory,
    ResourcesBusy,
    Unsatisfiable,
)
from fluxion_ffi.features import Feature
from fluxion_ffi.graph import ResourceGraph
from fluxion_ffi.library import Library, open_library
from fluxion_ffi.options import GraphOptions
from fluxion_ffi.values import NO_JOB, JobInfo, MatchOp, MatchResult

__all__ = [
    "NO_JOB",
    "Feature",
    "FeatureMissing",
    "FluxionError",
    "GraphClosed",
    "GraphOptions",
    "InvalidGraph",
    "InvalidOptions",
    "InvalidRequest",
    "JobExists",
    "JobInfo",
    "Library",
    "LibraryBroken",
    "LibraryNotFound",
    "LibraryTooOld",
    "LibraryUnavailable",
    "MatchOp",
    "MatchResult",
    "NotFound",
    "NothingToAllocate",
    "OutOfMemory",
    "ResourceGraph",
    "ResourcesBusy",
    "Unsatisfiable",
    "open_library",
]
