"""Victims are evicted a limited number of pods per step, and only for as long as their capacity is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fluence_extender.cluster.port import EvictionBlock
from fluence_extender.gangs.preemption import preemptions
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.core.invariants import check_at_rest
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_preemption import reason, terminating

A_MOMENT = 0.001


def evicted(world: World) -> list[str]:
    return [key for verb, key in world.cluster.calls if verb == "evict"]


def until_first_eviction(world: World, lows: Sequence[Pod]) -> None:
    """Let time pass until the first pod is evicted."""
    for _ in range(5000):
        world.advance(A_MOMENT)
        if any(terminating(world, *lows)):
            return
    raise AssertionError("no pod is evicted")


def three(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[Pod], list[Pod]]:
    """Return three gangs, each alone on its node, of which the first is being evicted for a gang of three pods."""
    monkeypatch.setattr(preemptions, "AT_ONCE", 1)
    w = world(*(node(f"n{number}") for number in range(3)))
    lows = [gang(w, f"low{number}", 3000)[0] for number in range(3)]
    w.advance(3)
    high = gang(w, "high", 3000, 3000, 3000, priority=10)
    until_first_eviction(w, lows)
    assert terminating(w, *lows).count(True) == 1
    return w, lows, high


def test_evictions_are_spread_over_several_steps(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w, lows, high = three(world, monkeypatch)
    w.advance(0.5)
    assert terminating(w, *lows) == [True, True, True]
    w.cluster.reap()
    w.advance(3)
    assert sorted(w.nodes_of(*high)) == ["n0", "n1", "n2"]
    check_at_rest(w)


def test_large_gang_is_evicted_to_its_last_member_over_several_steps(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preemptions, "AT_ONCE", 1)
    w = world(node("n0"), node("n1"), node("n2"))
    low = gang(w, "low", 3000, 3000, 3000)
    w.advance(3)
    high = gang(w, "high", 3000, priority=10)
    until_first_eviction(w, low)
    w.cluster.remove(w.now(high[0]))
    w.advance(1)
    assert terminating(w, *low) == [True, True, True]


def test_gang_whose_node_has_enough_capacity_by_now_is_not_evicted(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, lows, high = three(world, monkeypatch)
    stays = next(one for one in reversed(lows) if not w.now(one).deleting)
    where = next(one for one in w.cluster.nodes() if one.name == w.now(stays).node)
    w.change(where, allocatable=Resources({"cpu": 8000, "memory": 2**36, "pods": 110}))
    w.advance(0.5)
    assert sorted(terminating(w, *lows)) == [False, True, True]
    assert not w.now(stays).deleting
    assert "2 pods gone" in reason(w, "high")
    w.cluster.reap()
    w.advance(5)
    assert sorted(w.nodes_of(*high)) == ["n0", "n1", "n2"]
    assert not w.now(stays).deleting
    check_at_rest(w)


def test_gang_whose_priority_rises_before_its_eviction_begins_stays(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w, lows, _ = three(world, monkeypatch)
    stays = next(one for one in reversed(lows) if not w.now(one).deleting)
    w.pod("late", labels=stays.labels, annotations=stays.annotations, requests=asks(100), priority=10)
    w.advance(3)
    assert not w.now(stays).deleting


def test_no_pod_is_evicted_if_the_capacity_was_taken_while_budgets_were_read(world: MakeWorld) -> None:
    w = world(node("n0"))
    (low,) = gang(w, "low", 3000)
    w.advance(3)

    async def slowly(pods: Sequence[Pod]) -> EvictionBlock | None:
        w.foreign("n0", "other", requests=asks(1000))
        return None

    w.cluster.eviction_block = slowly  # type: ignore[method-assign]
    gang(w, "high", 3500, priority=10)
    w.advance(6)
    assert evicted(w) == []
    assert not w.now(low).deleting
    assert reason(w, "high").startswith("busy")


def test_victim_whose_eviction_is_refused_for_too_long_is_replaced_by_another(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    guarded, other = (gang(w, name, 3000, priority=number)[0] for number, name in enumerate(("a", "b")))
    w.advance(3)

    async def allows(pods: Sequence[Pod]) -> EvictionBlock | None:
        return None

    w.cluster.eviction_block = allows  # type: ignore[method-assign]
    w.cluster.protected.add(guarded.uid)
    high = gang(w, "high", 3000, priority=10)
    w.advance(4)
    assert terminating(w, guarded, other) == [False, False]
    w.advance(w.limits.excluded_for + 6)
    assert terminating(w, guarded, other) == [False, True]
    w.cluster.reap()
    w.advance(4)
    assert all(w.nodes_of(*high))
    assert not w.now(guarded).deleting


def test_victims_are_found_although_pods_end_and_arrive_all_the_time(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}") for number in range(8)))
    lows = [gang(w, f"low{number}", 3000)[0] for number in range(8)]
    w.advance(3)
    high = gang(w, "high", 3000, 3000, 3000, 3000, priority=10)
    for number in range(8, 108):
        w.advance(0.05)
        found = w.gang("high").reason
        if found is not None and found.code is ReasonCode.PREEMPTING:
            break
        w.cluster.remove(w.now(lows.pop(0)))
        lows.extend(gang(w, f"low{number}", 3000))
    assert reason(w, "high").startswith("preempting")
    for _ in range(5):
        w.advance(1)
        w.cluster.reap()
    assert all(w.nodes_of(*high))


def test_slow_victims_are_replaced_although_pods_end_all_the_time(world: MakeWorld) -> None:
    limits = replace(LIMITS, leaving=3.0, preempt_again=0.02)
    w = world(*(node(f"n{number}") for number in range(8)), limits=limits)
    stuck = [gang(w, f"stuck{number}", 3000)[0] for number in range(4)]
    others = [gang(w, f"other{number}", 3000, priority=5)[0] for number in range(4)]
    w.advance(3)
    high = gang(w, "high", 3000, 3000, priority=10)
    w.advance(2)
    assert terminating(w, *stuck).count(True) == 2
    for one in stuck:
        if not w.now(one).deleting:
            w.cluster.protected.add(one.uid)
    small = gang(w, "small0", 100)
    for number in range(1, 240):
        w.advance(0.05)
        w.cluster.remove(w.now(small[0]))
        small = gang(w, f"small{number}", 100)
        if any(terminating(w, *others)):
            break
    w.advance(0.5)
    assert terminating(w, *others).count(True) == 2, reason(w, "high")
    for one in others:
        if w.now(one).deleting:
            w.cluster.remove(w.now(one))
    w.advance(4)
    assert all(w.nodes_of(*high))
