"""libreapi_cli's stand-in for tests of the code that asks it: a graph in this process, answered by the oracle.

It takes the documents that the library takes, and refuses with the library's errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fluxion_ffi as fluxion
from tests.oracle.errors import MatcherError
from tests.oracle.fluxion import MEANING
from tests.oracle.port import Jgf, MatcherOptions, MatchOp
from tests.oracle.walker import Walker

_ORIGINAL = {ours: librarys for librarys, ours in MEANING.items()}


class FakeGraph:
    """The part of `fluxion_ffi.ResourceGraph` that gangs need, in this process.

    Every refusal is a `fluxion_ffi.FluxionError` and changes nothing.
    """

    def __init__(self, jgf: Jgf | str | bytes, options: fluxion.GraphOptions | None = None) -> None:
        """Load a graph. Raises `InvalidGraph`, `InvalidOptions`."""
        options = options or fluxion.GraphOptions()
        with _as_the_library():
            self._matcher = Walker(jgf, MatcherOptions(options.matcher_policy, options.prune_filters))

    def match_with_jobid(
        self, op: fluxion.MatchOp, jobspec: Mapping[str, Any], jobid: int
    ) -> fluxion.MatchResult:
        """Match under ``jobid``.

        Raises `ResourcesBusy`, `Unsatisfiable`, `InvalidRequest`, `NothingToAllocate`, `JobExists`.
        """
        with _as_the_library():
            match = self._matcher.match(MatchOp[op.name], jobspec, jobid)
        resources = "" if match.R is None else json.dumps(match.R)
        return fluxion.MatchResult(match.jobid, match.reserved, match.at, 0.0, resources)

    def cancel(self, jobid: int, noent_ok: bool = False) -> None:
        """Free everything that the job holds. Raises `NotFound`, unless ``noent_ok``."""
        try:
            with _as_the_library():
                self._matcher.cancel(jobid)
        except fluxion.NotFound:
            if not noent_ok:
                raise

    def close(self) -> None:
        """Free the graph."""
        self._matcher.close()


@contextmanager
def _as_the_library() -> Iterator[None]:
    """Raise the library's error for every `MatcherError` raised inside; errno and message stay."""
    try:
        yield
    except MatcherError as error:
        raise _ORIGINAL.get(type(error), fluxion.FluxionError)(str(error), error.errno) from error
