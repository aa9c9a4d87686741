"""Nodes that a Reservation closes are closed to others for that time."""

from __future__ import annotations

from fluence_extender.objects.queues import Queue
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import Cluster, closed, machine


def test_what_would_run_into_it_keeps_off_its_nodes() -> None:
    w = Cluster(machine(4, 4), closed("n0", start=100, end=200))
    w.submit("long", 4, duration=101)
    w.submit("short", 4, duration=100)
    assert w.decide(0) == ["long", "short"]
    assert set(w.nodes_of("long")) == {"n1"}
    assert set(w.nodes_of("short")) == {"n0"}


def test_a_gang_without_an_end_waits_until_it_is_over() -> None:
    w = Cluster(machine(4), closed("n0", start=100, end=200))
    w.submit("a", duration=NEVER)
    assert w.decide(0) == []
    assert w.promised() == {"a": 200}
    assert w.decide(150) == []
    assert w.decide(200) == ["a"]


def test_gangs_of_its_queues_may_use_the_nodes() -> None:
    teams = Queue("team", uid="t"), Queue("other", uid="o")
    w = Cluster(machine(4), *teams, closed("n0", start=0, end=200, queues=["team"]))
    w.submit("a", duration=50, queue="other")
    w.submit("b", duration=50, queue="team")
    assert w.decide(10) == ["b"]
    assert w.promised() == {"a": 200}


def test_what_runs_already_goes_on() -> None:
    w = Cluster(machine(4), closed("n0", start=100, end=200))
    w.run("r", {"n0": 2}, end=150)
    w.submit("a", 2, duration=100)
    assert w.decide(0) == ["a"]
    assert w.decide(120) == []
    assert w.nodes_of("r") == ["n0"]


def test_a_new_one_moves_promised_starts_and_is_named_as_the_cause() -> None:
    w = Cluster(machine(4))
    w.run("r", {"n0": 4}, end=50)
    w.submit("a", duration=100)
    w.decide(0)
    assert w.promised() == {"a": 50}
    w.configure(closed("n0", start=100, end=200))
    w.decide(1)
    assert w.promised() == {"a": 200}
    assert w.delays("a") == 1


def test_a_passed_one_does_not_keep_what_was_reserved_while_it_lasted() -> None:
    w = Cluster(machine(4, 4), closed("n1", start=0, end=60))
    w.run("r", {"n0": 4}, end=500)
    w.submit("a", 4, duration=100)
    w.submit("b", 4, duration=100)
    assert w.decide(0) == []
    assert w.promised() == {"a": 60}
    assert w.decide(60) == ["a"]
