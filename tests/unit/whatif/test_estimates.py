"""Estimated starts: each gang after the promises to the gangs before it, kept with the gang, and measured."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.queueing.entry import NEVER
from fluence_extender.whatif import estimates
from fluence_extender.whatif.estimates import Estimates, Queued, estimate
from fluence_extender.whatif.snapshot import snapshot
from tests.core.values import PodFields, asks, node, pod
from tests.core.world import World
from tests.unit.whatif.conftest import NOW, Cluster


def queued(name: str, pods: list[Pod], duration: float = NEVER) -> Queued:
    key = GangKey("default", name, Convention.LABEL)
    return Queued(key, tuple(Demand(one) for one in pods), (), duration)


def starts(there: Cluster, *queue: Queued) -> dict[str, float]:
    """Return the estimates in seconds from now, by gang."""
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


@pytest.mark.parametrize("duration", [NEVER, 9e17])
def test_promise_without_an_end_that_is_a_date_holds_for_ever(
    cluster: type[Cluster], duration: float
) -> None:
    there = cluster([node("n0")])
    there.run([pod("a", 4000)], until=100)
    first, second = queued("first", [pod("x", 4000)], duration), queued("second", [pod("y", 4000)])
    assert starts(there, first, second) == {"first": 100}


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


PAIR: PodFields = {
    "labels": {GROUP_LABEL: "pair"},
    "annotations": {GROUP_SIZE_ANNOTATION: "2"},
    "requests": asks(2000, 1),
}


def test_estimate_is_kept_with_the_gang_and_measured_when_it_is_placed() -> None:
    world = World(node("n0", 4000))
    missed: list[tuple[str, float]] = []
    now = [1000.0]
    kept = Estimates(world.controller, lambda which, by: missed.append((which, by)), lambda: now[0])
    try:
        long = world.foreign("n0", "long", requests=asks(3000, 1), started=900.0, duration=300.0)
        for number in range(2):
            world.pod(f"pair-{number}", **PAIR)
        world.advance(2)
        asyncio.run(kept.refresh())
        assert world.gang("pair").starts_about == 1200.0
        revision = world.controller.registry.revision
        asyncio.run(kept.refresh())
        assert world.controller.registry.revision == revision
        kept.measure()
        assert not missed
        world.cluster.remove(long)
        world.advance(20)
        now[0] = 1100.0
        kept.measure()
        assert missed == [("first", -100.0), ("last", -100.0)]
        assert world.gang("pair").starts_about is None
        kept.measure()
        assert len(missed) == 2
    finally:
        world.close()


def test_without_declared_ends_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(node("n0", 4000))
    monkeypatch.setattr(estimates, "estimate", lambda *_: pytest.fail("nothing can be estimated"))
    try:
        world.foreign("n0", "other", requests=asks(3000, 1))
        for number in range(2):
            world.pod(f"pair-{number}", **PAIR)
        world.advance(2)
        asyncio.run(Estimates(world.controller).refresh())
        assert world.gang("pair").starts_about is None
    finally:
        world.close()
