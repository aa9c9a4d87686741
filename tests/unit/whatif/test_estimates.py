"""Estimates of starts: gangs in the order of their priority, each after what the ones before it were promised."""

from __future__ import annotations

from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.whatif.estimates import Queued, estimate
from fluence_extender.whatif.snapshot import snapshot
from tests.core.values import node, pod
from tests.unit.whatif.conftest import NOW, Cluster


def queued(name: str, pods: list[Pod], duration: float | None = None) -> Queued:
    key = GangKey("default", name, Convention.LABEL)
    return Queued(key, tuple(Demand(one) for one in pods), (), duration)


def starts(there: Cluster, *queue: Queued) -> dict[str, float]:
    """Seconds from now."""
    taken = snapshot(there.ledger, there.nodes, there.ends)
    before = there.state()
    found = estimate(taken, there.ends, queue, NOW)
    assert there.state() == before
    return {key.name: at - NOW for key, at in found.items()}


def test_each_gang_starts_after_the_promises_to_the_gangs_before_it(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run([pod("a", 4000)], until=100)
    there.run([pod("b", 4000)], until=300)
    queue = [
        queued("first", [pod("x", 4000)], 50),
        queued("second", [pod("y", 4000)], 1000),
        queued("third", [pod("z", 4000), pod("w", 4000)]),
    ]
    assert starts(there, *queue) == {"first": 100, "second": 150, "third": 1150}


def test_promise_without_a_declared_end_holds_for_ever(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run([pod("a", 4000)], until=100)
    assert starts(there, queued("first", [pod("x", 4000)]), queued("second", [pod("y", 4000)])) == {
        "first": 100
    }


def test_there_is_no_estimate_where_the_known_ends_are_not_enough(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run([pod("a", 4000)], until=100)
    there.run([pod("b", 4000)])
    assert starts(there, queued("wide", [pod("x", 4000), pod("y", 4000)])) == {}


def test_computation_that_takes_too_long_ends(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run([pod("a", 4000)], until=100)
    taken = snapshot(there.ledger, there.nodes, there.ends)
    assert estimate(taken, there.ends, [queued("one", [pod("x", 4000)])], NOW, patience=-1.0) == {}
