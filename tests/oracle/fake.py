"""libreapi_cli's stand-in for tests of the code that asks it: a graph in this process, answered by the oracle.

It takes the documents that the library takes, and refuses with the library's errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fluxion_ffi as fluxion
from tests.oracle.errors import (
    Busy,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
)
from tests.oracle.port import Jgf, MatcherOptions, MatchOp
from tests.oracle.walker import Walker

_MEANING: dict[type[MatcherError], type[fluxion.FluxionError]] = {
    Busy: fluxion.ResourcesBusy,
    Unsatisfiable: fluxion.Unsatisfiable,
    NothingToAllocate: fluxion.NothingToAllocate,
    InvalidJobspec: fluxion.InvalidRequest,
    InvalidGraph: fluxion.InvalidGraph,
    InvalidOptions: fluxion.InvalidOptions,
    UnknownJob: fluxion.NotFound,
    JobExists: fluxion.JobExists,
}


class FakeGraph:
    """One graph and the jobs on it. Every refusal is a `fluxion_ffi.FluxionError` and changes nothing."""

    def __init__(
        self, jgf: Jgf | str | bytes, policy: str = "lonode", prune_filters: str = "ALL:core"
    ) -> None:
        with _as_the_library():
            self._matcher = Walker(jgf, MatcherOptions(policy, prune_filters))

    def match(self, jobspec: Mapping[str, Any], jobid: int) -> Jgf:
        """Allocate ``jobspec`` now, under ``jobid``; return its R.

        Raises `ResourcesBusy`, `Unsatisfiable`, `InvalidRequest`, `NothingToAllocate`, `JobExists`.
        """
        with _as_the_library():
            resources = self._matcher.match(MatchOp.ALLOCATE, jobspec, jobid).R
        assert resources is not None
        return resources

    def cancel(self, jobid: int) -> None:
        """Free everything that the job holds. Raises `NotFound`."""
        with _as_the_library():
            self._matcher.cancel(jobid)

    def close(self) -> None:
        """Free the graph."""
        self._matcher.close()


@contextmanager
def _as_the_library() -> Iterator[None]:
    """Raise the library's error for every `MatcherError` raised inside; errno and message stay."""
    try:
        yield
    except MatcherError as error:
        raise _MEANING.get(type(error), fluxion.FluxionError)(str(error), error.errno) from error
