"""No two calls are ever inside the library at once, whichever threads and graphs they come from."""

from __future__ import annotations

import ctypes
import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from fluxion_ffi import FluxionError, JobExists, Library, MatchOp, ResourceGraph
from tests.ffi.documents import graph, jobspec
from tests.ffi.stub import Stub

THREADS = 4


def test_the_stand_in_notices_calls_that_overlap(stub: Stub) -> None:
    stub.delay(20_000)
    unlocked = ctypes.CDLL(str(stub.path)).reapi_cli_clear_err_msg
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(unlocked, [None] * THREADS))
    assert stub.overlaps > 0


def test_calls_of_several_threads_and_graphs_do_not_overlap(stub: Stub, library: Library) -> None:
    graphs = [ResourceGraph(library, graph()) for _ in range(2)]
    stub.delay(500)

    def hammer(number: int) -> None:
        resources = graphs[number % 2]
        for _ in range(10):
            resources.match(MatchOp.ALLOCATE, jobspec())
            resources.info(1)
            with ResourceGraph(library, graph()) as brief:
                brief.cancel(1)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(hammer, range(THREADS)))
    assert stub.overlaps == 0
    for resources in graphs:
        resources.close()


def test_a_failing_call_lets_the_next_one_in(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EINVAL)
    with pytest.raises(FluxionError):
        resources.cancel(1)
    resources.cancel(1)


def test_a_jobid_goes_to_one_of_the_threads_that_ask_for_it(stub: Stub, resources: ResourceGraph) -> None:
    stub.delay(2_000)

    def ask(_: int) -> bool:
        try:
            resources.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 5)
        except JobExists:
            return False
        return True

    with ThreadPoolExecutor(THREADS) as threads:
        assert sum(threads.map(ask, range(THREADS))) == 1
