"""One run of the sidecar, with vendors that hang, raise and lie, and an API server that fails."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fluence_extender.coordination import sidecar as module
from fluence_extender.coordination.guarded_queue import GuardedQueue
from fluence_extender.coordination.options import Options
from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus
from fluence_extender.coordination.release import recorded_verdict
from fluence_extender.coordination.sidecar import Sidecar
from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    DISCOVERY_TIMEOUT_ANNOTATION,
    PRODUCER_BACKEND_ANNOTATION,
    QUANTUM_JOB_ID_ANNOTATION,
    RELEASED_ANNOTATION,
    TASK_STATUS_ANNOTATION,
)
from tests.unit.coordination.fake_pods import FakePods, consumer, failing, producer

QUEUED, NEXT, RUNNING = (
    TaskStatus(TaskState.QUEUED, 5),
    TaskStatus(TaskState.QUEUED, 1),
    TaskStatus(TaskState.RUNNING),
)
QUICK = Options(
    "uid-lead", "lead", "ns", "g", discovery=60.0, poll=0.001, look=0.001, ungate=5.0, call=5.0, silence=60.0
)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries follow at once."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.002)
    monkeypatch.setattr(module, "LAST_SEARCH", 2.0)


@dataclass
class Vendor:
    """A queue that answers by script; the last answer of each script is repeated. Exceptions are raised."""

    finds: Sequence[Any] = (["task"],)
    says: Sequence[Any] = (QUEUED, RUNNING)
    looked: int = 0
    read: list[str] = field(default_factory=list)
    answered: list[Any] = field(default_factory=list)

    def find_my_tasks(self, pod_uid: str) -> Any:
        assert pod_uid == "uid-lead"
        answer = self.finds[min(self.looked, len(self.finds) - 1)]
        self.looked += 1
        return self._given(answer)

    def status(self, task: str) -> Any:
        answer = self.says[min(len(self.read), len(self.says) - 1)]
        self.read.append(task)
        self.answered.append(answer)
        return self._given(answer)

    @staticmethod
    def _given(answer: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


def cluster(*consumers: str, lead: dict[str, str] | None = None) -> FakePods:
    return FakePods(
        {"lead": producer(annotations=lead or {}), **{name: consumer(name) for name in consumers}}
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@dataclass
class Life:
    """A sidecar that is stopped once ``until`` holds."""

    pods: FakePods
    vendor: Any
    options: Options = QUICK
    code: int | None = None

    async def live(
        self, enough: Callable[[], bool], begin: Callable[[Sidecar], None] = lambda one: None
    ) -> int:
        one = Sidecar(self.options, self.pods, GuardedQueue(lambda: self.vendor, self.options.call))
        begin(one)
        running = asyncio.create_task(one.run())
        await until(lambda: running.done() or enough())
        assert not running.done(), running.result()
        one.stop()
        async with asyncio.timeout(30):
            return await running


def all_released(pods: FakePods) -> Callable[[], bool]:
    return lambda: not pods.gated()


async def test_pod_says_where_its_task_is_in_the_queue() -> None:
    pods = cluster("a")
    shown: list[str] = []

    def seen(verb: str, name: str) -> None:
        status = pods.pods["lead"].annotations.get(TASK_STATUS_ANNOTATION, "")
        if status and status not in shown[-1:]:
            shown.append(status)

    pods.seen = seen
    assert await Life(pods, Vendor(says=(QUEUED, QUEUED, NEXT))).live(all_released(pods)) == 0
    assert shown == ["queued, position 5", "queued, position 1"]
    assert pods.pods["lead"].annotations[QUANTUM_JOB_ID_ANNOTATION] == "task"


async def test_status_that_cannot_be_written_holds_nothing_up() -> None:
    pods = cluster("a")
    pods.fault = failing(1, "note")
    assert await Life(pods, Vendor()).live(all_released(pods)) == 0


async def test_consumers_are_released_when_the_task_is_next_and_not_before() -> None:
    pods = cluster("a", "b", "c")
    vendor = Vendor(
        finds=([], [], ["task"]),
        says=(TaskStatus(TaskState.QUEUED, 3), TaskStatus(TaskState.QUEUED, 2), NEXT),
    )
    at_release: list[Any] = []
    pods.seen = lambda verb, name: at_release.append(vendor.answered[-1]) if verb == "release" else None
    assert await Life(pods, vendor).live(all_released(pods)) == 0
    assert at_release == [NEXT] * 3
    for name in "abc":
        notes = pods.pods[name].annotations
        assert notes[QUANTUM_JOB_ID_ANNOTATION] == "task"
        assert notes[PRODUCER_BACKEND_ANNOTATION] == "ibm_fez"


async def test_decision_is_recorded_before_the_first_release() -> None:
    pods = cluster("a", "b")
    await Life(pods, Vendor()).live(all_released(pods))
    verbs = [verb for verb, _ in pods.calls]
    assert verbs.index("note") < verbs.index("release")
    verdict = recorded_verdict(pods.pods["lead"])
    assert verdict is not None
    assert (verdict.task, verdict.known) == ("task", True)


async def test_consumers_that_come_late_are_released_too() -> None:
    pods = cluster("a")
    added: Iterator[str] = iter(["late-1", "late-2"])

    def add(verb: str, name: str) -> None:
        if verb == "release":
            new = next(added, None)
            if new is not None:
                pods.pods[new] = consumer(new)

    pods.seen = add
    assert await Life(pods, Vendor()).live(lambda: len(pods.released) == 3) == 0
    assert not pods.gated()


async def test_privileged_consumers_are_left_to_the_webhook() -> None:
    pods = cluster("a", "b")
    pods.pods["a"] = replace(pods.pods["a"], priority_class=CONSUMER_PRIORITY_CLASS)
    assert await Life(pods, Vendor()).live(lambda: pods.released == ["b"]) == 0
    assert pods.released == ["b"]


async def test_failed_patch_is_repeated_until_it_succeeds() -> None:
    pods = cluster("a", "b", "c", "d")
    pods.fault = failing(25, "release")
    assert await Life(pods, Vendor()).live(all_released(pods)) == 0
    assert sorted(pods.released) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("verb", ["own", "note", "group"])
async def test_failing_api_server_is_asked_again(verb: str) -> None:
    pods = cluster("a")
    pods.fault = failing(10, verb, status=503)
    assert await Life(pods, Vendor()).live(all_released(pods)) == 0


async def test_consumers_start_without_a_task_and_the_sidecar_returns_1() -> None:
    pods = cluster("a", "b")
    options = replace(QUICK, discovery=0.05)
    assert await Life(pods, Vendor(finds=([],)), options).live(all_released(pods)) == 1
    assert pods.pods["a"].annotations[QUANTUM_JOB_ID_ANNOTATION] == ""
    assert "no task was found within" in pods.pods["lead"].annotations[RELEASED_ANNOTATION]


async def test_producers_annotation_sets_the_limit() -> None:
    pods = cluster("a", lead={DISCOVERY_TIMEOUT_ANNOTATION: "0.05s"})
    assert await Life(pods, Vendor(finds=([],))).live(all_released(pods)) == 1


async def test_limit_counts_from_the_pods_start_also_after_a_restart() -> None:
    pods = cluster("a")
    pods.pods["lead"] = replace(pods.pods["lead"], started=1000.0)
    one = Sidecar(QUICK, pods, GuardedQueue(lambda: Vendor(finds=([],)), 5.0), wall=lambda: 1061.0)
    running = asyncio.create_task(one.run())
    await until(all_released(pods))
    one.stop()
    assert await running == 1


@pytest.mark.parametrize("wall", [0.0, 999.0])
async def test_clock_that_was_set_back_does_not_change_the_limit(wall: float) -> None:
    pods = cluster("a")
    pods.pods["lead"] = replace(pods.pods["lead"], started=1000.0)
    vendor = Vendor(finds=([], [], ["task"]))
    one = Sidecar(QUICK, pods, GuardedQueue(lambda: vendor, 5.0), wall=lambda: wall)
    running = asyncio.create_task(one.run())
    await until(all_released(pods))
    one.stop()
    assert await running == 0


async def test_restarted_sidecar_releases_without_asking_the_vendor() -> None:
    pods = cluster(
        "a",
        "b",
        lead={RELEASED_ANNOTATION: "task t is running (pod uid-lead)", QUANTUM_JOB_ID_ANNOTATION: "t"},
    )
    vendor = Vendor(finds=(AssertionError("searched"),))
    assert await Life(pods, vendor).live(all_released(pods)) == 0
    assert vendor.looked == 0
    assert pods.pods["b"].annotations[QUANTUM_JOB_ID_ANNOTATION] == "t"


async def test_restart_after_giving_up_still_returns_1() -> None:
    pods = cluster(
        "a",
        lead={
            RELEASED_ANNOTATION: "given up: no task was found (pod uid-lead)",
            QUANTUM_JOB_ID_ANNOTATION: "",
        },
    )
    assert await Life(pods, Vendor()).live(all_released(pods)) == 1


@pytest.mark.parametrize("killed_after", range(1, 12))
async def test_sidecar_killed_at_any_step_and_restarted_releases_each_consumer(killed_after: int) -> None:
    pods = cluster("a", "b", "c")
    steps = itertools.count(1)
    reached = asyncio.Event()
    pods.seen = lambda verb, name: reached.set() if next(steps) == killed_after else None
    first = asyncio.create_task(Sidecar(QUICK, pods, GuardedQueue(Vendor, 5.0)).run())
    async with asyncio.timeout(30):
        await reached.wait()
    first.cancel()
    await asyncio.wait([first])
    assert await Life(pods, Vendor()).live(all_released(pods)) == 0
    assert {pods.pods[name].annotations[QUANTUM_JOB_ID_ANNOTATION] for name in "abc"} == {"task"}


async def test_end_of_the_producer_releases_consumers_of_a_queued_task() -> None:
    pods = cluster("a", "b")
    vendor = Vendor(says=(QUEUED,))
    assert await Life(pods, vendor).live(lambda: len(vendor.read) >= 2) == 0
    assert not pods.gated()
    assert pods.pods["a"].annotations[QUANTUM_JOB_ID_ANNOTATION] == "task"


async def test_end_of_a_producer_without_a_task_releases_consumers_and_returns_1() -> None:
    pods = cluster("a")
    vendor = Vendor(finds=([],))
    assert await Life(pods, vendor).live(lambda: vendor.looked >= 2) == 1
    assert not pods.gated()


async def test_deleted_producer_releases_no_consumers() -> None:
    pods = cluster("a", "b")
    vendor = Vendor(says=(QUEUED,))

    def deleted() -> bool:
        if len(vendor.read) < 2:
            return False
        pods.pods["lead"] = replace(pods.pods["lead"], deleting=True)
        return True

    assert await Life(pods, vendor).live(deleted) == 0
    assert pods.gated() == ["a", "b"]
    assert RELEASED_ANNOTATION not in pods.pods["lead"].annotations


async def test_sidecar_stopped_at_once_still_searches_once() -> None:
    pods = cluster("a")
    vendor = Vendor()
    assert await Life(pods, vendor).live(lambda: True, begin=Sidecar.stop) == 0
    assert not pods.gated()


async def test_sidecar_stopped_during_an_outage_ends() -> None:
    pods = cluster("a")
    pods.fault = failing(10**9, "own", "note", "group", "release")
    options = replace(QUICK, ungate=0.05)
    assert await Life(pods, Vendor(), options).live(lambda: len(pods.calls) > 3) == 0
    assert pods.gated() == ["a"]


async def test_sidecar_stopped_during_a_short_outage_still_releases() -> None:
    pods = cluster("a")
    pods.fault = failing(5, "own")
    assert await Life(pods, Vendor()).live(lambda: True, begin=Sidecar.stop) == 0
    assert not pods.gated()


async def test_sidecar_stopped_after_its_pod_is_gone_ends_at_once() -> None:
    pods = cluster("a")
    del pods.pods["lead"]
    assert await Life(pods, Vendor()).live(lambda: True, begin=Sidecar.stop) == 0
    assert pods.calls == [("own", "lead")] * 2
    assert pods.gated() == ["a"]


async def test_sidecar_stopped_while_releasing_tries_for_a_while_and_ends() -> None:
    pods = cluster("a")
    pods.fault = failing(10**9, "release")
    options = replace(QUICK, ungate=0.05)
    assert await Life(pods, Vendor(), options).live(lambda: ("release", "a") in pods.calls) == 0
    assert pods.gated() == ["a"]


async def test_consumers_may_be_named_by_the_environment() -> None:
    pods = FakePods({"lead": producer(), "x": consumer("x", group="h"), "y": consumer("y")})
    options = replace(QUICK, gang_group="", gated=("x",))
    assert await Life(pods, Vendor(), options).live(lambda: pods.released == ["x"]) == 0
    assert pods.gated() == ["y"]


# Observing.


async def test_observer_releases_no_consumers_and_writes_where_its_task_is_alone() -> None:
    pods = cluster("a")
    before = pods.pods["lead"].annotations
    vendor = Vendor(says=(QUEUED, NEXT, RUNNING))
    options = replace(QUICK, observes=True, gang_group="")
    assert (
        await Life(pods, vendor, options).live(lambda: RUNNING in vendor.answered or NEXT in vendor.answered)
        == 0
    )
    assert pods.gated() == ["a"]
    assert {verb for verb, _ in pods.calls} == {"own", "note"}
    written = {QUANTUM_JOB_ID_ANNOTATION: "task", TASK_STATUS_ANNOTATION: str(NEXT)}
    assert pods.pods["lead"].annotations == {**before, **written}


async def test_observer_that_finds_no_task_returns_1() -> None:
    pods = cluster()
    vendor = Vendor(finds=([],))
    options = replace(QUICK, observes=True, gang_group="")
    assert await Life(pods, vendor, options).live(lambda: vendor.looked > 2) == 1


# What the interceptor reports.


async def test_reported_task_needs_no_search() -> None:
    pods = cluster("a")
    vendor = Vendor(finds=(ProviderError("this vendor can't search"),), says=(QUEUED, RUNNING))
    assert (
        await Life(pods, vendor).live(all_released(pods), begin=lambda one: one.reported("from-inside")) == 0
    )
    assert set(vendor.read) == {"from-inside"}
    assert pods.pods["a"].annotations[QUANTUM_JOB_ID_ANNOTATION] == "from-inside"


async def test_report_wakes_a_sidecar_that_waits_for_its_next_search() -> None:
    pods = cluster("a")
    vendor = Vendor(finds=([],), says=(RUNNING,))
    options = replace(QUICK, poll=3600.0, look=3600.0)
    one = Sidecar(options, pods, GuardedQueue(lambda: vendor, 5.0))
    running = asyncio.create_task(one.run())
    await until(lambda: vendor.looked > 0)
    one.reported("task")
    await until(all_released(pods))
    one.stop()
    assert await running == 0


# Vendors that raise, lie and hang.


@pytest.mark.parametrize(
    "nonsense",
    [
        ProviderError("HTTP 500"),
        ValueError("a bug"),
        KeyError("quantumTasks"),
        SystemExit(3),
        None,
        "task",
        b"task",
        5,
        {"task": 1},
        [None, 5, "", "a\nb"],
    ],
    ids=repr,
)
async def test_vendor_that_returns_nonsense_is_asked_again(nonsense: Any) -> None:
    pods = cluster("a")
    vendor = Vendor(finds=(nonsense, nonsense, ["task"]))
    assert await Life(pods, vendor).live(all_released(pods)) == 0
    assert vendor.read[0] == "task"


@pytest.mark.parametrize(
    "nonsense",
    [
        ProviderError("HTTP 500"),
        ValueError("a bug"),
        SystemExit(3),
        None,
        "running",
        True,
        1,
        {"state": "running"},
    ],
    ids=repr,
)
async def test_nonsensical_status_releases_no_consumers(nonsense: Any) -> None:
    pods = cluster("a")
    vendor = Vendor(says=(nonsense, nonsense, NEXT))
    at_release: list[Any] = []
    pods.seen = lambda verb, name: at_release.append(vendor.answered[-1]) if verb == "release" else None
    assert await Life(pods, vendor).live(all_released(pods)) == 0
    assert at_release == [NEXT]


async def test_consumers_start_though_the_vendor_never_makes_sense() -> None:
    pods = cluster("a")
    options = replace(QUICK, silence=0.05)
    assert await Life(pods, Vendor(says=(None,)), options).live(all_released(pods)) == 1
    assert "no news of task task" in pods.pods["lead"].annotations[RELEASED_ANNOTATION]
    assert pods.pods["a"].annotations[QUANTUM_JOB_ID_ANNOTATION] == "task"


async def test_hanging_vendor_does_not_hang_the_sidecar() -> None:
    pods = cluster("a")
    freed = threading.Event()

    def hang() -> list[str]:
        freed.wait(60)
        return []

    options = replace(QUICK, call=0.01, discovery=0.2)
    try:
        assert await Life(pods, Vendor(finds=(hang,)), options).live(all_released(pods)) == 1
    finally:
        freed.set()


async def test_vendor_that_hangs_once_is_asked_again() -> None:
    pods = cluster("a")
    freed = threading.Event()

    def hang() -> TaskStatus:
        freed.wait(60)
        return RUNNING

    options = replace(QUICK, call=0.2)
    try:
        assert await Life(pods, Vendor(says=(hang, RUNNING)), options).live(all_released(pods)) == 0
    finally:
        freed.set()


async def test_late_credentials_are_found() -> None:
    pods = cluster("a")
    tries = itertools.count()

    def connect() -> Vendor:
        if next(tries) < 3:
            raise ProviderError("no credentials yet")
        return Vendor()

    one = Sidecar(QUICK, pods, GuardedQueue(connect, 5.0))
    running = asyncio.create_task(one.run())
    await until(all_released(pods))
    one.stop()
    assert await running == 0


async def test_later_status_changes_nothing_after_the_release() -> None:
    pods = cluster("a")
    vendor = Vendor(says=(RUNNING, QUEUED))
    assert await Life(pods, vendor).live(all_released(pods)) == 0
    assert vendor.read == ["task"]
