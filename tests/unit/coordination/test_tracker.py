"""The tracker decides when consumers may start."""

from __future__ import annotations

import pytest

from fluence_extender.coordination.provider import TaskState, TaskStatus
from fluence_extender.coordination.tracker import TaskTracker, Verdict


def tracker() -> TaskTracker:
    return TaskTracker(discovery=300.0, silence=1000.0, begun=100.0)


@pytest.mark.parametrize("now", [100.0, 250.0, 399.9])
def test_consumers_wait_for_a_task_to_be_found(now: float) -> None:
    assert tracker().judge(now) is None


def test_consumers_start_if_no_task_is_found_in_time() -> None:
    verdict = tracker().judge(400.0)
    assert verdict == Verdict("", "no task was found within 300 s", False)


def test_verdict_says_why_no_task_was_found() -> None:
    one = tracker()
    one.failed("HTTP 403")
    verdict = one.judge(400.0)
    assert verdict is not None
    assert verdict.why == "no task was found within 300 s (HTTP 403)"


def test_consumers_wait_while_the_task_is_in_the_queue() -> None:
    one = tracker()
    one.found(["a"], 150.0)
    for now, position in ((200.0, 9), (900.0, 5), (1800.0, 2)):
        one.update("a", TaskStatus(TaskState.QUEUED, position), now)
        assert one.judge(now + 50) is None


@pytest.mark.parametrize(
    "status",
    [
        TaskStatus(TaskState.QUEUED, 1),
        TaskStatus(TaskState.RUNNING),
        TaskStatus(TaskState.COMPLETED),
        TaskStatus(TaskState.FAILED),
    ],
)
def test_consumers_start_when_the_task_is_ready(status: TaskStatus) -> None:
    one = tracker()
    one.found(["a"], 150.0)
    one.update("a", status, 200.0)
    assert one.judge(200.0) == Verdict("a", f"task a is {status}", True)


def test_first_ready_task_of_several_counts() -> None:
    one = tracker()
    one.found(["a", "b", "c"], 150.0)
    one.update("a", TaskStatus(TaskState.QUEUED, 4), 160.0)
    one.update("b", TaskStatus(TaskState.QUEUED, 1), 160.0)
    one.update("c", TaskStatus(TaskState.RUNNING), 161.0)
    verdict = one.judge(161.0)
    assert verdict is not None
    assert verdict.task == "b"


def test_verdict_is_final() -> None:
    one = tracker()
    one.found(["a"], 150.0)
    one.update("a", TaskStatus(TaskState.RUNNING), 160.0)
    first = one.judge(160.0)
    one.update("a", TaskStatus(TaskState.QUEUED, 100), 170.0)
    one.found(["b"], 180.0)
    assert one.judge(10_000.0) == first == one.end("something else")


def test_consumers_start_after_a_long_silence_of_the_vendor() -> None:
    one = tracker()
    one.found(["a"], 150.0)
    one.update("a", TaskStatus(TaskState.QUEUED, 5), 200.0)
    one.failed("HTTP 500")
    assert one.judge(1199.0) is None
    verdict = one.judge(1200.0)
    assert verdict == Verdict("a", "no news of task a for 1000 s (HTTP 500)", False)


def test_status_of_ended_tasks_is_not_read_again() -> None:
    one = tracker()
    one.found(["a", "b"], 150.0)
    one.update("a", TaskStatus(TaskState.FAILED), 160.0)
    assert one.open == ["b"]
    assert one.newest == "b"


def test_end_of_the_producer_is_a_verdict() -> None:
    assert tracker().end("the producer has ended") == Verdict("", "the producer has ended", False)
    one = tracker()
    one.found(["a"], 1.0)
    assert one.end("the producer has ended") == Verdict("a", "the producer has ended", True)
