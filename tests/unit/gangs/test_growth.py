"""Gangs that make the cluster grow: who asks autoscalers for nodes, who gets those that come, and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.gangs.lifecycle import growth
from fluence_extender.gangs.lifecycle.growth import ASKED, HOLD_LASTS, HOLDS_AGAIN, LET_GO, LONGEST_HOLD
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.room.holds import HoldKind
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, announced, gang

GROWING = replace(LIMITS, grow_after=10.0, grow_within=120.0, grow_again=600.0)


def join(w: World, name: str, **fields: Any) -> Node:
    """Let a node join the cluster now."""
    made = replace(node(name, **fields), created=float(int(w.loop.time())))
    w.cluster.put(made)
    w.advance(2)
    return made


def asking(w: World, *pods: Pod) -> list[bool]:
    """Whether the condition of each pod asks for nodes."""
    return [w.now(one).asks_since > 0 for one in pods]


def events(w: World, what: str) -> list[str]:
    return [one.regarding.name for one in w.cluster.events if one.reason == what]


@pytest.fixture
def growing(world: MakeWorld) -> World:
    return world(node("n0"), limits=GROWING)


def test_gang_asks_once_it_has_lacked_nodes_for_the_set_time(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(8)
    assert not any(asking(w, *pods))
    w.advance(5)
    assert all(asking(w, *pods))
    assert len({w.now(one).asks_since for one in pods}) == 1
    assert events(w, ASKED)
    (told,) = announced(w, "train")
    assert told.startswith("its pods ask autoscalers for nodes: ")


def test_no_gang_asks_unless_that_is_set(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "train", 3000, 3000)
    w.advance(2000)
    assert not any(asking(w, *pods))


def test_every_pod_of_a_large_gang_asks(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(GROWING, announced_members=2))
    pods = gang(w, "train", *[3000] * 6)
    w.advance(15)
    assert all(asking(w, *pods))


def test_gang_that_is_not_whole_asks_for_nothing(growing: World) -> None:
    pods = gang(growing, "train", 3000, 3000, size=3)
    growing.advance(60)
    assert not any(asking(growing, *pods))


def test_gang_with_a_member_larger_than_any_node_asks_for_nothing(growing: World) -> None:
    pods = gang(growing, "train", 3000, 5000)
    growing.advance(60)
    assert not any(asking(growing, *pods))


def test_gang_asks_for_a_larger_node_that_is_stated(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(GROWING, largest_node=Resources({"cpu": 8000})))
    pods = gang(w, "train", 3000, 5000)
    w.advance(15)
    assert all(asking(w, *pods))


def test_nodes_that_come_are_kept_for_the_gang_until_all_are_there(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    join(w, "new-1")
    small = gang(w, "small", 2000)
    w.advance(5)
    assert w.nodes_of(*small) == ["n0"]
    more = gang(w, "more", 3000)
    w.advance(5)
    assert w.nodes_of(*more) == [""]
    join(w, "new-2")
    join(w, "new-3")
    assert sorted(w.nodes_of(*pods)) == ["new-1", "new-2", "new-3"]
    assert not w.ledger.held_nodes.nodes(HoldKind.NEW_NODES, w.gang("train").key)


def test_new_nodes_go_to_the_first_in_line_of_the_gangs_that_ask(growing: World) -> None:
    w = growing
    first = gang(w, "first", 3000, 3000, 3000)
    second = gang(w, "second", 3500, 3500)
    w.advance(15)
    assert all(asking(w, *first, *second))
    join(w, "new-1")
    join(w, "new-2")
    assert all(w.nodes_of(*first))
    assert not any(w.nodes_of(*second))
    join(w, "new-3")
    join(w, "new-4")
    assert sorted(w.nodes_of(*second)) == ["new-3", "new-4"]


def test_gang_ahead_in_line_takes_nodes_that_came_for_another(growing: World) -> None:
    w = growing
    gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    join(w, "new-1")
    (urgent,) = gang(w, "urgent", 4000, priority=10)
    w.advance(5)
    assert w.nodes_of(urgent) != [""]
    other = gang(w, "other", 4000, 4000, priority=10)
    w.advance(5)
    assert w.nodes_of(*other) == ["", ""]


def test_node_on_which_no_member_may_run_is_not_kept(growing: World) -> None:
    w = growing
    gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    join(w, "other", taints=(Taint("team", "NoSchedule", "b"),))
    pods = gang(w, "team", 3000, 3000, tolerations=(Toleration("team", "Exists"),))
    w.advance(5)
    assert sorted(w.nodes_of(*pods)) == ["n0", "other"]


def test_gang_that_gets_too_few_nodes_in_time_lets_go_and_says_so(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    join(w, "new-1")
    more = gang(w, "more", 3000, 3000)
    w.advance(60)
    assert w.nodes_of(*more) == ["", ""]
    w.advance(70)
    assert not any(asking(w, *pods))
    assert events(w, LET_GO)
    assert sorted(w.nodes_of(*more)) == ["n0", "new-1"]
    w.advance(300)
    assert not any(asking(w, *pods))
    w.advance(400)
    assert all(asking(w, *pods))


def test_node_that_comes_and_dies_is_kept_no_more(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000)
    key = w.gang("train").key
    gang(w, "more", 3000)
    w.advance(15)
    made = join(w, "new-1", ready=False)
    assert w.ledger.held_nodes.nodes(HoldKind.NEW_NODES, key) == {"new-1"}
    w.cluster.remove(made)
    w.advance(2)
    assert not w.ledger.held_nodes.nodes(HoldKind.NEW_NODES, key)
    assert all(asking(w, *pods))
    join(w, "new-2")
    join(w, "new-3")
    assert all(w.nodes_of(*pods))


@pytest.mark.parametrize("come", [0, 1])
def test_restart_goes_on_with_what_was_asked_and_with_its_time(growing: World, come: int) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(40)
    since = {w.now(one).asks_since for one in pods}
    for number in range(come):
        join(w, f"early-{number}")
    w.restart()
    w.advance(2)
    more = gang(w, "more", 3000)
    w.advance(2)
    assert {w.now(one).asks_since for one in pods} == since
    assert len(events(w, ASKED)) == len(pods)
    assert w.nodes_of(*more) == ["n0"]
    w.advance(90)
    assert not any(asking(w, *pods))


def test_restart_without_the_setting_takes_the_question_back(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000)
    w.advance(15)
    assert all(asking(w, *pods))
    w.limits = replace(GROWING, grow_after=None)
    w.restart()
    w.advance(200)
    assert not any(asking(w, *pods))


def test_gang_that_is_placed_without_new_nodes_asks_no_more(growing: World) -> None:
    w = growing
    (running,) = gang(w, "running", 4000)
    w.advance(2)
    pods = gang(w, "train", 2000, 2000)
    w.advance(15)
    assert all(asking(w, *pods))
    w.change(w.now(running), phase="Succeeded")
    w.advance(5)
    assert all(w.nodes_of(*pods))
    assert not w.gang("train").asks_since


def test_suspended_job_gets_its_pods_so_that_they_can_ask(growing: World) -> None:
    w = growing
    job = w.jobs.submit("train", 8)
    w.advance(8)
    assert not w.jobs.pods(job)
    w.advance(10)
    pods = w.jobs.pods(job)
    assert len(pods) == 8
    assert all(asking(w, *pods))
    join(w, "new-1")
    assert sorted(w.jobs.nodes(job)) == ["n0"] * 4 + ["new-1"] * 4


def test_failed_write_of_a_condition_is_made_again(growing: World) -> None:
    w = growing
    pods = gang(w, "train", 3000, 3000)
    w.advance(8)
    w.cluster.fail("report_pod", times=2)
    w.advance(12)
    assert all(asking(w, *pods))


def test_pods_with_devices_ask_only_where_nodes_lack_amounts(growing: World) -> None:
    pods = gang(growing, "train", 1000, 1000, devices={"qpu": 1})
    growing.advance(60)
    assert not any(asking(growing, *pods))


@pytest.fixture
def hostile(growing: World) -> World:
    """A cluster whose only node is taken, so that all that comes waits for nodes."""
    gang(growing, "running", 4000)
    growing.advance(2)
    return growing


def others(w: World, cpu: int = 3000) -> Pod:
    """A pod of another namespace."""
    made = w.pod("other", "others", gates=(GATE,), requests=asks(cpu, 1))
    w.advance(5)
    return made


def test_node_is_not_kept_for_a_gang_of_which_a_member_fits_on_no_node(hostile: World) -> None:
    w = hostile
    (one,) = gang(w, "train", 3000, size=2)
    w.pod(
        "never",
        labels=one.labels,
        annotations=one.annotations,
        gates=(GATE,),
        requests=asks(3000, 1),
        node_selector={"kind": "none"},
    )
    w.advance(30)
    assert asking(w, one) == [True]
    join(w, "new-1")
    assert w.nodes_of(others(w)) == ["new-1"]


def test_node_is_not_kept_for_a_gang_that_needs_more_than_its_namespaces_share(hostile: World) -> None:
    w = hostile
    pods = gang(w, "train", *[3000] * 50)
    w.advance(30)
    assert all(asking(w, *pods))
    join(w, "new-1")
    assert w.nodes_of(others(w)) == ["new-1"]


def test_incomplete_gang_keeps_nodes_for_a_while_and_its_namespace_none_for_longer(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(GROWING, grow_within=10_000.0))
    gang(w, "running", 4000)
    pods = gang(w, "train", *[3000] * 4)
    w.advance(20)
    join(w, "new-1")
    waits = others(w)
    assert w.nodes_of(waits) == [""]
    w.advance(HOLD_LASTS)
    assert w.nodes_of(waits) == ["new-1"]
    assert all(asking(w, *pods))
    more = gang(w, "more", *[3000] * 3)
    w.advance(20)
    join(w, "new-2")
    late = w.pod("late", "others", gates=(GATE,), requests=asks(3000, 1))
    w.advance(5)
    assert w.nodes_of(late) == ["new-2"]
    w.advance(HOLDS_AGAIN)
    join(w, "new-3")
    last = w.pod("last", "others", gates=(GATE,), requests=asks(3000, 1))
    w.advance(5)
    assert w.nodes_of(last, *more) == ["", "", "", ""]


def test_nodes_that_go_on_coming_are_kept_no_longer_than_a_limit(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(GROWING, grow_within=10_000.0))
    gang(w, "running", 4000)
    gang(w, "train", *[3000] * 20)
    w.advance(20)
    waits = others(w)
    for number in range(int(LONGEST_HOLD / 60) + 2):
        join(w, f"new-{number}")
        w.advance(58)
    assert all(w.nodes_of(waits))


def test_gangs_of_one_namespace_share_what_is_kept_for_it(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "LEAST_SHARE", 2)
    w = world(node("n0"), limits=GROWING)
    gang(w, "running", 4000)
    w.advance(2)
    for number in range(4):
        gang(w, f"train-{number}", 3000, 3000)
    w.advance(20)
    for number in range(6):
        w.cluster.put(replace(node(f"new-{number}", ready=False), created=float(int(w.loop.time()))))
        w.advance(2)
    kept = [
        w.ledger.held_nodes.nodes(HoldKind.NEW_NODES, w.gang(f"train-{number}").key) for number in range(4)
    ]
    assert len(frozenset().union(*kept)) == 4
