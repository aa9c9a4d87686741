"""Estimates of a running service: kept with the gang that waits, and measured when it gets its places."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.whatif import estimates
from fluence_extender.whatif.estimates import Estimates
from tests.core.values import PodFields, asks, node
from tests.core.world import World

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
