"""Nodes that an operator reserves are closed to others for that time."""

from __future__ import annotations

from fluence_extender.queueing.entry import NEVER
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.reservation import DelayCause, OperatorReservation
from tests.queueing.values import delays, engine, entry, places, promised, room, run, started


def reserved(*rows: int, start: float, end: float, queues: tuple[str, ...] = ()) -> OperatorReservation:
    return OperatorReservation(
        "maintenance", places(dict.fromkeys(rows, 1)).rows, start, end, frozenset(queues)
    )


def test_what_would_run_into_it_keeps_off_its_nodes() -> None:
    queue = engine(room(4, 4), operators=[reserved(0, start=100, end=200)])
    queue.submit(entry("long", 4, duration=101))
    queue.submit(entry("short", 4, duration=100))
    assert started(queue, 0) == ["long", "short"]
    assert queue.timeline.holds["long"].places.rows.tolist() == [1]
    assert queue.timeline.holds["short"].places.rows.tolist() == [0]


def test_an_entry_without_an_end_waits_until_it_is_over() -> None:
    queue = engine(room(4), operators=[reserved(0, start=100, end=200)])
    queue.submit(entry("a", duration=NEVER))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 200}
    assert queue.wake_at() == 200
    assert started(queue, 150) == []
    assert started(queue, 200) == ["a"]


def test_entries_of_its_queues_may_use_the_nodes() -> None:
    queue = engine(room(4), operators=[reserved(0, start=0, end=200, queues=("team",))])
    queue.submit(entry("a", duration=50, queue="other"))
    queue.submit(entry("b", duration=50, queue="team"))
    assert started(queue, 10) == ["b"]
    assert promised(queue) == {"a": 200}


def test_what_runs_already_goes_on() -> None:
    queue = engine(room(4), operators=[reserved(0, start=100, end=200)])
    run(queue, "r", {0: 2}, end=150)
    queue.submit(entry("a", 2, duration=100))
    assert started(queue, 0) == ["a"]


def test_a_new_one_moves_promised_starts_and_is_named_as_the_cause() -> None:
    queue = engine(room(4))
    run(queue, "r", {0: 4}, end=50)
    queue.submit(entry("a", duration=100))
    started(queue, 0)
    queue.configure(QueuePolicy(PolicyName.EASY), [reserved(0, start=100, end=200)])
    (delay,) = delays(queue, 1)
    assert (delay.promised, delay.start, delay.cause) == (50, 200, DelayCause.QUEUE_CHANGED)


def test_a_passed_one_does_not_keep_what_was_reserved_while_it_lasted() -> None:
    queue = engine(room(4, 4), operators=[reserved(1, start=0, end=60)])
    run(queue, "r", {0: 4}, end=500)
    queue.submit(entry("a", 4, duration=100))
    queue.submit(entry("b", 4, duration=100))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 60}
    assert started(queue, 60) == ["a"]
