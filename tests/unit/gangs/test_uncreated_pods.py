"""Who makes Jobs whose pods aren't created holds places for an ever smaller part of the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.namespace_quotas import (
    FIRST_PAUSE,
    FORGIVEN_AFTER,
    LEAST_PATIENCE,
    LONGEST_PAUSE,
    UncreatedPods,
)
from fluence_extender.model.names import GATE, QUEUE_LABEL
from fluence_extender.objects.queues import Queue
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld

USUAL = replace(LIMITS, uncreated=120.0)


def held(w: World) -> int:
    """How many places are held for pods that don't exist."""
    found = (w.controller.registry.member(uid) for uid in w.ledger.holdings)
    return sum(1 for one in found if one is not None and one[1].pod.expected)


@pytest.mark.parametrize("queued", [False, True])
def test_jobs_without_pods_hold_places_for_a_small_part_of_an_hour(world: MakeWorld, queued: bool) -> None:
    """``queued``: the pods of each Job are gangs by themselves, which wait suspended in a queue."""
    w = world(node("n0", cpu=64_000), limits=USUAL)
    if queued:
        w.cluster.put(Queue("q", uid="q"))
    w.jobs.quota = 0
    busy = 0
    for number in range(360):
        if number % 6 == 0:
            labels = {QUEUE_LABEL: "q"} if queued else {}
            w.jobs.submit(f"j{number}", 4, labels=labels)
        w.advance(10)
        busy += bool(held(w))
    assert 0 < busy < 90


def test_pods_of_others_and_pods_that_exist_get_places_meanwhile(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000), limits=USUAL)
    w.jobs.quota = 0
    w.jobs.submit("refused", 4)
    w.advance(125)
    later = w.jobs.submit("later", 2)
    pod = w.pod("p", gates=(GATE,), requests=asks(1000, 1))
    other = w.pod("p", "others", gates=(GATE,), requests=asks(1000, 1))
    w.advance(5)
    assert w.nodes_of(pod, other) == ["n0", "n0"]
    assert w.cluster.job(later).suspended
    assert "weren't created after they had got places" in str(w.gang("later").reason)
    w.jobs.quota = None
    w.advance(FIRST_PAUSE + 5)
    assert w.jobs.nodes(later) == ["n0", "n0"]


def test_pause_doubles_and_what_is_held_halves_until_an_hour_is_over() -> None:
    now = 0.0
    refused = UncreatedPods(lambda: now)
    pauses, patience = [], []
    for _ in range(10):
        refused.failed("a")
        refused.failed("a")
        assert refused.until("b") is NEVER
        assert refused.obstacle("a") is not None
        pauses.append(refused.until("a") - now)
        patience.append(refused.patience("a", 120.0))
        now = refused.until("a")
        assert refused.obstacle("a") is None
    assert pauses[:4] == [FIRST_PAUSE * 2**number for number in range(4)]
    assert pauses[-1] == LONGEST_PAUSE
    assert patience[:3] == [60.0, 30.0, 15.0]
    assert patience[-1] == LEAST_PATIENCE
    assert refused.patience("b", 120.0) == 120.0
    assert refused.patience("a", 5.0) == 5.0
    now += FORGIVEN_AFTER * 10
    assert refused.patience("a", 120.0) == 120.0
    refused.failed("c")
    assert list(refused._back_offs) == ["c"]
