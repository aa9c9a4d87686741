"""By whatever a gang is named: what was begun is completed beside what is bound, or undone as a whole."""

from __future__ import annotations

import pytest

from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.named_gangs import NAMED_BY, fields, objects
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, give_up

pytestmark = pytest.mark.parametrize("named_by", NAMED_BY)


def create(w: World, named_by: str, number: int, size: int = 3) -> Pod:
    carried = fields(named_by, "g", size, number)
    carried.update({"gates": (GATE,), "requests": asks(1000, 1)})
    return w.pod(f"g-{number}", **carried)


def bound(w: World, pods: list[Pod]) -> list[bool]:
    present = {pod.uid for pod in w.cluster.pods()}
    return [pod.uid in present and bool(w.now(pod).node) for pod in pods]


def test_incomplete_gang_holds_nothing_and_then_comes_as_a_whole(world: MakeWorld, named_by: str) -> None:
    w = world(node("n0"), *objects(named_by, "g", 3))
    pods = [create(w, named_by, number) for number in range(2)]
    w.advance(10)
    assert not w.ledger.holdings
    assert not any(bound(w, pods))
    pods.append(create(w, named_by, 2))
    w.advance(5)
    assert all(bound(w, pods))


def test_binding_that_fails_is_made_good_beside_the_others(world: MakeWorld, named_by: str) -> None:
    w = world(node("n0"), *objects(named_by, "g", 3))
    w.cluster.fail("bind", times=7)
    pods = [create(w, named_by, number) for number in range(3)]
    w.advance(30)
    assert all(bound(w, pods))


def test_node_lost_between_bindings_is_made_good_on_another(world: MakeWorld, named_by: str) -> None:
    n0, n1 = node("n0", cpu=2000), node("n1", cpu=2000)
    w = world(n0, n1, *objects(named_by, "g", 3), scheduling=False)
    pods = [create(w, named_by, number) for number in range(3)]
    w.advance(2)
    w.run(w.driver.executor.finish())
    places = {pod.uid: w.now(pod).nominated for pod in pods}
    (first, *_), (stranded, *_) = ([pod for pod in pods if places[pod.uid] == name] for name in ("n0", "n1"))
    w.disturb("n0")
    w.change(first, node="n0", nominated="")
    w.cluster.remove(n1)
    w.cluster.put(node("n2", cpu=4000))
    w.advance(3)
    assert w.now(stranded).nominated == "n2"
    assert w.now(first).node == "n0"


def test_gang_that_can_not_be_completed_is_evicted_whole(world: MakeWorld, named_by: str) -> None:
    w = world(node("n0", cpu=2000), *objects(named_by, "g", 3), scheduling=False)
    pods = [create(w, named_by, number) for number in range(3)]
    w.disturb("n0")
    for pod in pods[:2]:
        w.change(pod, node="n0", gates=())
    give_up(w)
    assert {call for call in w.cluster.calls if call[0] == "evict"} == {
        ("evict", "default/g-0"),
        ("evict", "default/g-1"),
    }
    w.cluster.reap()
    w.advance(2)
    assert not w.ledger.holdings
    assert not any(bound(w, pods))


def test_restart_knows_the_gang_again(world: MakeWorld, named_by: str) -> None:
    w = world(node("n0"), *objects(named_by, "g", 3))
    pods = [create(w, named_by, number) for number in range(3)]
    w.advance(5)
    w.restart()
    w.advance(5)
    assert all(bound(w, pods))
    found = w.controller.member(pods[0].uid)
    assert found is not None
    assert found[0].state is GangState.BOUND
    assert len(w.controller.registry.gangs) == 1
