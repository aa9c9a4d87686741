"""A promised start moves later only for a cause, and the cause is told."""

from __future__ import annotations

import numpy as np

from fluence_extender.queueing.engine import QueueEngine
from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Running
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.reservation import Delay, DelayCause
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.planner import FirstFit
from tests.queueing.values import delays, engine, entry, places, promised, room, run, started


def blocked() -> QueueEngine:
    """Return a queue in which ``a`` is promised the first node at 50, where ``r`` runs."""
    queue = engine(room(4, 4))
    run(queue, "r", {0: 4}, end=50)
    run(queue, "s", {1: 4}, end=500)
    queue.submit(entry("a", 4))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 50}
    return queue


def test_an_overrun_delays_by_growing_steps() -> None:
    queue = blocked()
    assert delays(queue, 49) == []
    assert delays(queue, 50) == [Delay("a", 50, 110, DelayCause.OVERRUN)]
    assert delays(queue, 80) == []
    assert delays(queue, 110) == [Delay("a", 110, 170, DelayCause.OVERRUN)]
    assert delays(queue, 170) == [Delay("a", 170, 290, DelayCause.OVERRUN)]
    queue.release("r")
    assert started(queue, 171) == ["a"]


def test_a_pod_that_turns_out_to_end_later_is_an_overrun() -> None:
    queue = blocked()
    run(queue, "r", {0: 4}, end=70)
    assert delays(queue, 1) == [Delay("a", 50, 70, DelayCause.OVERRUN)]


def test_a_lost_node() -> None:
    queue = blocked()
    queue.release("r")
    queue.resize(np.array([0]), room(0))
    assert delays(queue, 1) == [Delay("a", 50, 500, DelayCause.NODE_LOST)]


def test_a_foreign_pod() -> None:
    queue = blocked()
    queue.hold(Running("f", places({0: 1}), 700, foreign=True))
    assert delays(queue, 1) == [Delay("a", 50, 500, DelayCause.FOREIGN)]


def test_a_more_important_entry() -> None:
    queue = engine(room(4), PolicyName.HYBRID)
    run(queue, "r", {0: 4}, end=50)
    queue.submit(entry("a", 4))
    started(queue, 0)
    queue.submit(entry("b", 4, duration=30, priority=1))
    assert delays(queue, 1) == [Delay("a", 50, 80, DelayCause.OUTRANKED)]


def test_an_entry_that_loses_its_reservation_is_told_so() -> None:
    queue = blocked()
    queue.submit(entry("b", 4, priority=1))
    assert delays(queue, 1) == [Delay("a", 50, NEVER, DelayCause.OUTRANKED)]
    assert delays(queue, 2) == []


def test_a_changed_policy() -> None:
    queue = blocked()
    queue.configure(QueuePolicy(PolicyName.FCFS), ())
    assert delays(queue, 1) == [Delay("a", 50, NEVER, DelayCause.QUEUE_CHANGED)]


def test_an_entry_that_is_submitted_anew_was_promised_nothing() -> None:
    queue = blocked()
    queue.submit(entry("a", 8))
    assert delays(queue, 1) == []
    assert promised(queue) == {"a": 500}


def test_cancelled_passes_forget_nothing() -> None:
    queue = blocked()
    left = queue.decide(50)
    next(left)
    left.close()
    assert delays(queue, 51) == [Delay("a", 50, 110, DelayCause.OVERRUN)]


def test_a_foreign_pod_that_declares_its_end_is_waited_for() -> None:
    queue = engine(room(4))
    queue.hold(Running("f", places({0: 1}), 30, foreign=True))
    queue.submit(entry("a", 4))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 30}


class Forgetful(FirstFit):
    """A planner that finds nothing once it is ``tired``, as one does whose search has a budget."""

    tired = False

    def place(self, entry: Entry, view: Amounts) -> Footprint | None:
        return None if self.tired else super().place(entry, view)


def test_a_promise_that_can_be_kept_is_kept_though_the_planner_finds_it_no_more() -> None:
    planner = Forgetful()
    queue = QueueEngine(Timeline(room(4, 4)), planner)
    run(queue, "r", {0: 4}, end=50)
    run(queue, "s", {1: 4}, end=90)
    queue.submit(entry("a", 4))
    assert started(queue, 0) == []
    planner.tired = True
    run(queue, "s", {1: 4}, end=95)
    assert delays(queue, 1) == []
    assert promised(queue) == {"a": 50}
    queue.resize(np.array([0]), room(0))
    assert [(one.start, one.cause) for one in delays(queue, 2)] == [(NEVER, DelayCause.NODE_LOST)]
