"""Nodes are drained for a blocked gang that no declared end helps, once it has waited for too long."""

from __future__ import annotations

from fluence_extender.objects.queues import PolicyName
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import Cluster, closed, machine, rules

LIMITED = rules(starvation_after=100)


def test_smaller_gangs_overtake_for_ever_without_a_limit() -> None:
    w = Cluster(machine(4, 4), rules(starvation_after=1e9))
    for number in range(2):
        w.run(f"r{number}", {f"n{number}": 3})
    w.submit("wide", 1, 4)
    for number in range(2):
        w.submit(f"x{number}", duration=NEVER)
    assert w.decide(1e6) == ["x0", "x1"]
    assert w.promised() == {}


def test_the_node_that_is_the_cheapest_to_empty_is_drained() -> None:
    w = Cluster(machine(8, 8, 8), LIMITED)
    w.run("r", {"n0": 6})
    w.run("s", {"n1": 2})
    w.run("t", {"n2": 6})
    w.submit("wide", 1, 8)
    assert w.decide(99) == []
    assert w.promised() == {}
    assert w.decide(100) == []
    assert w.promised() == {"wide": NEVER}
    assert w.reserved("wide") == ["n1"]
    for number in range(3):
        w.submit(f"x{number}", 1, 2, duration=5)
    assert w.decide(101) == ["x0", "x1"]
    w.end("s")
    assert w.decide(1000) == ["wide"]


def test_a_known_end_is_better_than_a_drain() -> None:
    w = Cluster(machine(8), LIMITED)
    w.run("r", {"n0": 6}, end=1000)
    w.submit("wide", 1, 8)
    w.decide(500)
    assert w.promised() == {"wide": 1000}


def test_nodes_are_not_drained_of_other_schedulers_pods() -> None:
    w = Cluster(machine(8, 8), LIMITED)
    w.run("f", {"n0": 1}, foreign=True)
    w.run("r", {"n1": 7})
    w.submit("wide", 1, 8)
    w.decide(100)
    assert w.reserved("wide") == ["n1"]


def test_what_is_reserved_for_others_is_not_drained() -> None:
    w = Cluster(machine(8, 8), rules(PolicyName.HYBRID, starvation_after=100))
    w.run("r", {"n0": 8}, end=300)
    w.run("s", {"n1": 8})
    w.submit("a", 1, 8, duration=NEVER)
    w.submit("b", 1, 8, duration=NEVER)
    w.decide(200)
    assert w.promised() == {"a": 300, "b": NEVER}
    assert w.reserved("b") == ["n1"]


def test_nodes_that_a_reservation_closes_are_not_drained_for_others() -> None:
    w = Cluster(machine(8, 8), LIMITED, closed("n0", start=5000, end=6000))
    w.run("r", {"n0": 1})
    w.run("s", {"n1": 8})
    w.submit("wide", 1, 8, duration=NEVER)
    w.decide(200)
    # It starts where the Reservation ends if nothing else helps it, so the node mustn't be free then.
    assert w.reserved("wide") == ["n1"]


def test_first_come_first_served_waits_instead() -> None:
    w = Cluster(machine(8), rules(PolicyName.FCFS, starvation_after=100))
    w.run("r", {"n0": 1})
    w.submit("wide", 1, 8)
    w.submit("x")
    assert w.decide(200) == []
    assert w.promised() == {}
