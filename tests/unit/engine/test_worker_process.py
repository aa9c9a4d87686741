"""A worker in a process of its own answers as in this process, and its end affects nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from fluence_extender.engine.errors import EngineError, EngineLost, EngineUnavailable
from fluence_extender.engine.graph_worker import GraphWorker, library_process, load_library
from fluence_extender.engine.jobspec import compute_jobspec
from fluence_extender.engine.worker import HOLDS_A_CALL, WorkerProcess
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.containment import Containment
from tests.core.values import node
from tests.engines import FLUXION
from tests.unit.engine.oracle_worker import load_oracle, refuse

TWO = compute_jobspec({"core": 2, "memory": 2}, 1, [0])
CONTAINMENT = build_containment([node("n0"), node("n1")], levels={})

Load = Callable[[Containment], GraphWorker]
LOADS: dict[str, Load] = {"oracle": load_oracle}
if FLUXION.library is not None:
    LOADS["fluxion"] = partial(load_library, policy="lonode")


@pytest.fixture(params=list(LOADS.values()), ids=list(LOADS))
def worker(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    made = WorkerProcess(partial(request.param, CONTAINMENT))
    yield made
    made.close()


def ended(worker: WorkerProcess) -> bool:
    return worker._process.poll() is not None


def test_it_answers_as_in_this_process(worker: WorkerProcess) -> None:
    here = load_oracle(CONTAINMENT)
    for _ in range(2):
        answer = worker.match(TWO)
        assert answer is not None
        assert answer == here.match(TWO)
        assert answer["/cluster/n0"] == {"core": 2, "memory": 2}
    assert worker.apply((), [(11, TWO), (12, TWO), (13, TWO)]) == [13]
    assert worker.match(TWO) is None
    assert worker.apply([11], [(14, TWO)]) == []
    assert worker.apply([14, 77], []) == []
    assert worker.match(TWO) is not None


def test_a_job_id_is_used_again(worker: WorkerProcess) -> None:
    for _ in range(3):
        assert worker.apply([1], [(1, TWO)]) == []
    assert worker.apply((), [(2, TWO)]) == []
    assert worker.match(TWO) is None


def test_jobs_that_need_several_messages_are_all_made(worker: WorkerProcess) -> None:
    worker.apply((), [(1, TWO)])
    nothing_left = compute_jobspec({"core": 4}, 1, [0])
    ids = list(range(2, 3 + HOLDS_A_CALL))
    assert worker.apply((), [(jobid, nothing_left) for jobid in ids]) == ids
    assert worker.apply([1], [(jobid, nothing_left) for jobid in ids]) == ids[1:]


def test_a_refused_question_is_told(worker: WorkerProcess) -> None:
    with pytest.raises(EngineError, match="version"):
        worker.match({**TWO, "version": "x"})
    assert worker.match(TWO) is not None


def test_graph_that_cannot_be_loaded_leaves_no_process() -> None:
    with pytest.raises(EngineError, match="contains nothing"):
        WorkerProcess(partial(refuse, build_containment([], levels={})))


def test_without_the_library_the_process_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUXION_LIBRARY", "/nowhere/libreapi_cli.so")
    with pytest.raises(EngineUnavailable, match=r"/nowhere/libreapi_cli\.so(.|\n)*flux-sched >= 0\.53"):
        library_process(CONTAINMENT, "lonode")


def test_process_ends_with_close(worker: WorkerProcess) -> None:
    worker.close()
    assert ended(worker)


def test_process_that_was_killed_is_an_engine_lost(worker: WorkerProcess) -> None:
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.wait()
    for _ in range(2):
        with pytest.raises(EngineLost, match="has ended"):
            worker.match(TWO)


def test_process_that_hangs_is_an_engine_lost() -> None:
    worker = WorkerProcess(partial(load_oracle, CONTAINMENT), patience=0.05)
    os.kill(worker._process.pid, signal.SIGSTOP)
    with pytest.raises(EngineLost, match="more than"):
        worker.match(TWO)
    worker.close()
    assert ended(worker)


def test_process_outlives_an_interrupt_of_the_terminal(worker: WorkerProcess) -> None:
    assert os.getpgid(worker._process.pid) != os.getpgid(0)
