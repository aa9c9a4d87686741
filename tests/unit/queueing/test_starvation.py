"""Nodes are drained for a blocked entry that no declared end helps, once it has waited for too long."""

from __future__ import annotations

from fluence_extender.queueing.entry import NEVER, Running
from fluence_extender.queueing.policy import PolicyName
from fluence_extender.queueing.reservation import OperatorReservation
from tests.queueing.values import engine, entry, places, promised, room, run, started, taken


def test_smaller_entries_overtake_for_ever_without_a_limit() -> None:
    queue = engine(room(4, 4))
    for number in range(2):
        run(queue, f"r{number}", {number: 3})
    queue.submit(entry("wide", 1, 4))
    for number in range(2):
        queue.submit(entry(f"x{number}", duration=NEVER))
    assert started(queue, 1e6) == ["x0", "x1"]
    assert promised(queue) == {}


def test_the_node_that_is_the_cheapest_to_empty_is_drained() -> None:
    queue = engine(room(8, 8, 8), starvation_after=100)
    run(queue, "r", {0: 6})
    run(queue, "s", {1: 2})
    run(queue, "t", {2: 6})
    queue.submit(entry("wide", 1, 8))
    assert started(queue, 99) == []
    assert promised(queue) == {}
    assert queue.wake_at() == 100
    for number in range(3):
        queue.submit(entry(f"x{number}", 1, 2, duration=5))
    assert started(queue, 100) == ["x0", "x1"]
    assert promised(queue) == {"wide": NEVER}
    assert taken(queue.promises["wide"].places) == {1: [8]}
    queue.release("s")
    assert started(queue, 1000) == ["wide"]


def test_a_known_end_is_better_than_a_drain() -> None:
    queue = engine(room(8), starvation_after=100)
    run(queue, "r", {0: 6}, end=1000)
    queue.submit(entry("wide", 1, 8))
    started(queue, 500)
    assert promised(queue) == {"wide": 1000}


def test_nodes_are_not_drained_of_other_schedulers_pods() -> None:
    queue = engine(room(8, 8), starvation_after=100)
    queue.hold(Running("f", places({0: 1}), foreign=True))
    run(queue, "r", {1: 7})
    queue.submit(entry("wide", 1, 8))
    started(queue, 100)
    assert taken(queue.promises["wide"].places) == {1: [8]}


def test_what_is_reserved_for_others_is_not_drained() -> None:
    queue = engine(room(8, 8), PolicyName.HYBRID, starvation_after=100)
    run(queue, "r", {0: 8}, end=300)
    run(queue, "s", {1: 8})
    queue.submit(entry("a", 1, 8, duration=NEVER))
    queue.submit(entry("b", 1, 8, duration=NEVER))
    started(queue, 200)
    assert promised(queue) == {"a": 300, "b": NEVER}
    assert taken(queue.promises["b"].places) == {1: [8]}


def test_nodes_that_an_operator_reserves_are_not_drained_for_others() -> None:
    closed = OperatorReservation("later", places({0: 1}).rows, 5000, 6000)
    queue = engine(room(8, 8), starvation_after=100, operators=[closed])
    run(queue, "r", {0: 1})
    run(queue, "s", {1: 8})
    queue.submit(entry("wide", 1, 8, duration=NEVER))
    started(queue, 200)
    assert taken(queue.promises["wide"].places) == {1: [8]}


def test_first_come_first_served_waits_instead() -> None:
    queue = engine(room(8), PolicyName.FCFS, starvation_after=100)
    run(queue, "r", {0: 1})
    queue.submit(entry("wide", 1, 8))
    queue.submit(entry("x"))
    assert started(queue, 200) == []
    assert promised(queue) == {}
