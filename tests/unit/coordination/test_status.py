"""A vendor's statements about a task are read with suspicion, and decide whether consumers may start."""

from __future__ import annotations

import pytest

from fluence_extender.coordination.provider import LONGEST_ID, TaskState, TaskStatus, read_id, read_position


@pytest.mark.parametrize(
    ("value", "position"),
    [(1, 1), (0, 0), ("2", 2), (" 7 ", 7), (">2000", 2001), ("> 15", 16), (4000, 4000)],
)
def test_positions_as_vendors_write_them(value: object, position: int) -> None:
    assert read_position(value) == position


@pytest.mark.parametrize(
    "value", [None, "None", "", "first", "-1", -1, True, 1.5, "1.5", [], {}, "9" * 10, "1;2", "<5"]
)
def test_invalid_position_is_none(value: object) -> None:
    assert read_position(value) is None


@pytest.mark.parametrize("position", [None, 2, 3, 2001])
def test_queued_task_is_not_ready_before_its_turn(position: int | None) -> None:
    assert not TaskStatus(TaskState.QUEUED, position).ready


@pytest.mark.parametrize("position", [0, 1])
def test_next_task_in_the_queue_is_ready(position: int) -> None:
    assert TaskStatus(TaskState.QUEUED, position).ready


@pytest.mark.parametrize("state", [one for one in TaskState if one is not TaskState.QUEUED])
@pytest.mark.parametrize("position", [None, 1, 50])
def test_task_that_left_the_queue_is_ready(state: TaskState, position: int | None) -> None:
    assert TaskStatus(state, position).ready


@pytest.mark.parametrize("state", list(TaskState))
def test_only_final_states_are_ended(state: TaskState) -> None:
    assert TaskStatus(state).ended == (state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED))


@pytest.mark.parametrize("value", ["", None, 5, b"x", "a\nb", "\x00", "a" * (LONGEST_ID + 1), ["x"]])
def test_invalid_id_is_none(value: object) -> None:
    assert read_id(value) is None


def test_arns_and_plain_ids_are_ids() -> None:
    for value in ("c5dge2d3rn7breq27i9g", "arn:aws:braket:us-west-1:1:quantum-task/a-b", "a" * LONGEST_ID):
        assert read_id(value) == value
