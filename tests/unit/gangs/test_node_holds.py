"""Nodes that autoscalers may not remove: which they are, from when and until when, and whose annotations stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.cluster.errors import Denied
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.model.names import GATE, KEEPING
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import NodeReservation, Queue
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_growth import GROWING, join

DISABLED, DO_NOT_DISRUPT = KEEPING
LONG = replace(GROWING, completion=None, unasked=10_000.0)


def guards(w: World, name: str) -> tuple[str, ...]:
    """The annotations of a node by which autoscalers leave it."""
    return there(w, name).guards


def there(w: World, name: str) -> Node:
    return next(one for one in w.cluster.nodes() if one.name == name)


def planned(w: World, name: str = "slow") -> Pod:
    """A pod that has its place and stays unbound, because nobody schedules it."""
    return w.pod(name, gates=(GATE,), requests=asks(1000, 1))


@pytest.fixture
def slow(world: MakeWorld) -> World:
    """A cluster without a kube-scheduler, so that plans stay plans."""
    return world(node("n0"), node("n1"), limits=LONG, scheduling=False)


def test_node_of_a_plan_that_lasts_is_kept_until_a_while_after_it_has_ended(slow: World) -> None:
    w = slow
    pod = planned(w)
    w.advance(3)
    assert guards(w, "n0") == ()
    w.advance(10)
    assert guards(w, "n0") == KEEPING
    assert guards(w, "n1") == ()
    w.cluster.delete(w.now(pod))
    w.advance(50)
    assert guards(w, "n0") == KEEPING
    w.advance(30)
    assert guards(w, "n0") == ()
    assert there(w, "n0").kept == ()


def test_plan_of_a_moment_is_not_worth_a_write(world: MakeWorld) -> None:
    w = world(node("n0"), limits=LONG)
    for number in range(10):
        gang(w, f"g{number}", 300)
        w.advance(3)
    assert "keep_node" not in {verb for verb, _ in w.cluster.calls}


def test_nothing_is_kept_unless_gangs_grow(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(LONG, grow_after=None), scheduling=False)
    planned(w)
    w.advance(100)
    assert "keep_node" not in {verb for verb, _ in w.cluster.calls}


def test_new_node_is_kept_for_the_gang_that_asked_and_let_go_with_it(world: MakeWorld) -> None:
    w = world(node("n0"), limits=GROWING)
    gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    join(w, "new-1")
    w.advance(15)
    assert guards(w, "new-1") == KEEPING
    assert guards(w, "n0") == ()
    w.advance(200)
    assert guards(w, "new-1") == ()


def test_annotations_of_others_stay_as_they_are(world: MakeWorld) -> None:
    w = world(replace(node("n0"), guards=(DISABLED,)), limits=LONG, scheduling=False)
    pod = planned(w)
    w.advance(15)
    assert guards(w, "n0") == KEEPING
    assert there(w, "n0").kept == (DO_NOT_DISRUPT,)
    w.cluster.delete(w.now(pod))
    w.advance(90)
    assert guards(w, "n0") == (DISABLED,)


def test_node_with_both_annotations_of_others_is_not_written(world: MakeWorld) -> None:
    w = world(replace(node("n0"), guards=KEEPING), limits=LONG, scheduling=False)
    planned(w)
    w.advance(60)
    assert "keep_node" not in {verb for verb, _ in w.cluster.calls}


@pytest.mark.parametrize("limits", [LONG, replace(LONG, grow_after=None)])
def test_restart_finds_what_was_set_and_takes_it_back(slow: World, limits: Limits) -> None:
    w = slow
    pod = planned(w)
    w.advance(15)
    w.kill()
    w.limits = limits
    w.cluster.delete(w.now(pod))
    w.start()
    w.advance(40)
    assert guards(w, "n0") == KEEPING
    w.advance(40)
    assert guards(w, "n0") == ()


def test_write_that_is_refused_is_made_again_now_and_then(slow: World) -> None:
    w = slow
    w.cluster.fail("keep_node", Denied("nodes is forbidden", 403), times=2)
    planned(w)
    w.advance(15)
    assert guards(w, "n0") == ()
    w.advance(75)
    assert guards(w, "n0") == KEEPING
    assert [verb for verb, _ in w.cluster.calls].count("keep_node") == 3


def test_nodes_of_a_reservation_of_the_queue_are_kept_and_others_are_not(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"), limits=replace(LONG, grow_after=10_000.0))
    long = w.pod("long", gates=(GATE,), requests=asks(3000, 1), duration=500.0)
    w.advance(2)
    assert w.nodes_of(long) == ["n0"]
    gang(w, "wide", 4000, 4000, 4000)
    w.advance(20)
    assert [guards(w, name) for name in ("n0", "n1", "n2")] == [KEEPING] * 3


@pytest.mark.parametrize(
    ("start", "queues", "kept"), [(3000, {"team"}, True), (9000, {"team"}, False), (0, set(), False)]
)
def test_nodes_of_an_operators_reservation_are_kept_for_its_queues_from_an_hour_before(
    world: MakeWorld, start: int, queues: set[str], kept: bool
) -> None:
    reserved = NodeReservation("r", start, 5000.0, frozenset({"n1"}), queues=frozenset(queues), uid="r")
    w = world(node("n0"), node("n1"), Queue("team", uid="t"), reserved, limits=LONG)
    w.advance(15)
    assert (guards(w, "n1") == KEEPING) is kept
    assert guards(w, "n0") == ()
    w.advance(8200)
    assert guards(w, "n1") == (KEEPING if start == 9000 else ())
