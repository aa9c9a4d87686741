"""A promised start moves later only if something has happened, and the gang is told."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.planning.cluster_timeline import ClusterTimeline
from fluence_extender.objects.queues import PolicyName
from tests.queueing.cluster import Cluster, machine, rules


def blocked() -> Cluster:
    """Return a cluster in which ``a`` is promised the first node at 50, where ``r`` runs."""
    w = Cluster(machine(4, 4))
    w.run("r", {"n0": 4}, end=50)
    w.run("s", {"n1": 4}, end=500)
    w.submit("a", 4)
    assert w.decide(0) == []
    assert w.promised() == {"a": 50}
    return w


def test_an_overrun_delays_by_growing_steps() -> None:
    w = blocked()
    for now, promised, times in ((49, 50, 0), (50, 110, 1), (80, 110, 1), (110, 170, 2), (170, 290, 3)):
        assert w.decide(now) == []
        assert (w.promised(), w.delays("a")) == ({"a": promised}, times)
    w.end("r")
    assert w.decide(171) == ["a"]


def test_a_pod_that_turns_out_to_end_later_is_an_overrun() -> None:
    w = blocked()
    w.run("r", {}, end=70)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"a": 70}, 1)


def test_a_lost_node() -> None:
    w = blocked()
    w.drop_node("n0")
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"a": 500}, 1)


def test_a_foreign_pod() -> None:
    w = blocked()
    w.run("f", {"n0": 1}, end=700, foreign=True)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"a": 500}, 1)


def test_a_foreign_pod_that_declares_its_end_is_waited_for() -> None:
    w = Cluster(machine(4))
    w.run("f", {"n0": 1}, end=30, foreign=True)
    w.submit("a", 4)
    assert w.decide(0) == []
    assert w.promised() == {"a": 30}


def test_a_more_important_gang() -> None:
    w = Cluster(machine(4), rules(PolicyName.HYBRID))
    w.run("r", {"n0": 4}, end=50)
    w.submit("a", 4)
    w.decide(0)
    w.submit("b", 4, duration=30, priority=1)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"b": 50, "a": 80}, 1)


def test_a_gang_that_loses_its_reservation_is_told_so() -> None:
    w = blocked()
    w.submit("b", 4, priority=1)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"b": 50}, 1)
    assert w.gang("a").starts_about is None
    w.decide(2)
    assert w.delays("a") == 1


def test_a_changed_policy() -> None:
    w = blocked()
    w.configure(rules(PolicyName.FCFS))
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({}, 1)
    assert w.gang("a").starts_about is None


def test_a_gang_that_is_submitted_anew_was_promised_nothing() -> None:
    w = blocked()
    w.submit("a", 8)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"a": 500}, 0)


def test_a_promise_that_can_be_kept_is_kept_though_the_planner_finds_it_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is with a planner whose search has a budget."""
    w = Cluster(machine(4, 4))
    w.run("r", {"n0": 4}, end=50)
    w.run("s", {"n1": 4}, end=90)
    w.submit("a", 4)
    assert w.decide(0) == []
    monkeypatch.setattr(ClusterTimeline, "place", lambda *_: None)
    w.run("s", {}, end=95)
    w.decide(1)
    assert (w.promised(), w.delays("a")) == ({"a": 50}, 0)
    w.drop_node("n0")
    w.decide(2)
    assert (w.promised(), w.delays("a")) == ({}, 1)
