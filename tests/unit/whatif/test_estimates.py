"""Estimated starts: each gang beside the reservations of the gangs before it, kept with the gang, and measured."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fluence_extender.gangs.queue.submissions import ToTry
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.objects.queues import SchedulingOptions
from fluence_extender.queueing.entry import PolicyName
from fluence_extender.whatif import estimates
from fluence_extender.whatif.estimates import Estimates, estimate
from tests.core.values import PodFields, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_queue_reservations import running, use


def starts(w: World) -> dict[str, float]:
    """Return the estimates of all waiting gangs in seconds from the start of the first pod, by gang."""
    before = dict(w.ledger.holdings), w.ledger.version, w.controller.queue.reservations()
    view = w.controller.simulation_view()
    line = [ToTry(place.rank, place.gang.key) for place in w.controller.queue.turns.line]
    found = estimate(replace(view, line=line), w.controller.new_memory())
    assert before == (dict(w.ledger.holdings), w.ledger.version, w.controller.queue.reservations())
    return {key.name: round(at - w.loop.time(), -1) for key, at in found.items()}


@pytest.mark.parametrize("policy", [PolicyName.EASY, PolicyName.FCFS, PolicyName.CONSERVATIVE])
def test_each_gang_starts_after_the_reservations_of_the_gangs_before_it(
    world: MakeWorld, policy: PolicyName
) -> None:
    w = world(node("n0"), node("n1"))
    use(w, SchedulingOptions(policy=policy))
    running(w, "a", 4000, 1000)
    running(w, "b", 4000, 3000)
    gang(w, "first", 4000, duration=500.0)
    gang(w, "second", 4000, duration=10_000.0)
    gang(w, "third", 4000, 4000)
    w.advance(2)
    assert starts(w) == {"first": 1000, "second": 1500, "third": 11_500}


@pytest.mark.parametrize("duration", [None, 9e17])
def test_gang_without_an_end_that_is_a_date_holds_its_places_for_ever(
    world: MakeWorld, duration: float | None
) -> None:
    w = world(node("n0"))
    running(w, "a", 4000, 1000)
    gang(w, "first", 4000, duration=duration)
    gang(w, "second", 4000)
    w.advance(2)
    assert starts(w) == {"first": 1000}


def test_there_is_no_estimate_where_the_known_ends_are_not_enough(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "a", 4000, 1000)
    running(w, "b", 4000, None)
    gang(w, "wide", 4000, 4000)
    w.advance(2)
    assert starts(w) == {}


def test_estimate_changes_nothing_while_a_pass_is_under_way(world: MakeWorld) -> None:
    w = world(node("n0"))
    running(w, "a", 4000, 1000)
    gang(w, "first", 4000, duration=500.0)
    w.advance(2)
    w.beside_takes = 4.0
    (second,) = gang(w, "second", 1000, duration=100.0)
    w.advance(1)
    assert starts(w) == {"first": 1000, "second": 1500}
    w.beside_takes = 0.0
    w.advance(10)
    assert w.gang("second").members.keys() == {second.uid}
    assert starts(w) == {"first": 990, "second": 1490}


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
