"""An engine in a process of its own answers as in this process, and its end affects nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import to_jgf
from fluence_extender.graph.jobspecs import compute_jobspec
from fluence_extender.graph.units import COARSE
from fluence_extender.matcher import Busy, InvalidGraph, MatcherOptions, UnknownJob, create_matcher
from fluence_extender.matcher.errors import EngineLost
from fluence_extender.matcher.factory import Engine
from fluence_extender.matcher.port import Jgf, JobInfo, MatchOp
from fluence_extender.matcher.worker import WorkerMatcher
from tests.core.values import node
from tests.engines import FLUXION

OPTIONS = MatcherOptions("lonode", "ALL:core,ALL:memory,ALL:gpu")
ENGINES: list[Engine] = ["embedded"] if FLUXION.library is None else ["embedded", "fluxion"]
TWO = compute_jobspec({"core": 2, "memory": 2}, 1, [0])


def document() -> Jgf:
    return to_jgf(build_containment([node("n0"), node("n1")], units=COARSE))


@pytest.fixture(params=ENGINES)
def worker(request: pytest.FixtureRequest) -> Iterator[WorkerMatcher]:
    made = WorkerMatcher(request.param, document(), OPTIONS)
    yield made
    made.close()


def ended(worker: WorkerMatcher) -> bool:
    return worker._process.poll() is not None


def test_it_answers_as_the_engine_does(worker: WorkerMatcher) -> None:
    here = create_matcher("embedded", document(), OPTIONS)
    for jobid in (11, 12):
        answer, expected = (one.match(MatchOp.ALLOCATE, TWO, jobid) for one in (worker, here))
        assert (answer.jobid, answer.reserved, answer.at) == (jobid, False, 0)
        assert answer.placement == expected.placement
    assert worker.info(11) == JobInfo("ALLOCATED", False, 0)
    worker.cancel(11)
    assert worker.match(MatchOp.ALLOCATE, TWO, 13).jobid == 13


def test_refusals_come_back_with_their_kind_and_errno(worker: WorkerMatcher) -> None:
    for jobid in (1, 2):
        worker.match(MatchOp.ALLOCATE, TWO, jobid)
    with pytest.raises(Busy) as busy:
        worker.match(MatchOp.ALLOCATE, TWO, 3)
    assert busy.value.errno == Busy.errno
    with pytest.raises(UnknownJob):
        worker.cancel(77)
    assert worker.info(1).mode == "ALLOCATED"


def test_subgraphs_leave(worker: WorkerMatcher) -> None:
    worker.remove_subgraph("/cluster/n0")
    with pytest.raises(Busy):
        worker.match(MatchOp.ALLOCATE, compute_jobspec({"core": 1}, 5, None), 1)


def test_graph_that_cannot_be_loaded_leaves_no_process() -> None:
    with pytest.raises(InvalidGraph):
        WorkerMatcher("embedded", {"graph": {"nodes": [], "edges": []}}, OPTIONS)


def test_process_ends_with_close(worker: WorkerMatcher) -> None:
    worker.close()
    assert ended(worker)


def test_process_that_was_killed_is_an_engine_lost(worker: WorkerMatcher) -> None:
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.wait()
    for _ in range(2):
        with pytest.raises(EngineLost, match="has ended"):
            worker.match(MatchOp.ALLOCATE, TWO, 1)


def test_process_that_hangs_is_an_engine_lost() -> None:
    worker = WorkerMatcher("embedded", document(), OPTIONS, patience=0.05)
    os.kill(worker._process.pid, signal.SIGSTOP)
    with pytest.raises(EngineLost, match="more than"):
        worker.match(MatchOp.ALLOCATE, TWO, 1)
    worker.close()
    assert ended(worker)


def test_process_outlives_an_interrupt_of_the_terminal(worker: WorkerMatcher) -> None:
    assert os.getpgid(worker._process.pid) != os.getpgid(0)
