"""The required anti-affinity of pods that have nodes keeps new pods of ours away, as in kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.cluster.errors import Denied
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement
from fluence_extender.objects.queues import Namespace
from tests.core.invariants import check_at_rest
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

DENIED = Denied("admission webhook denied the request", 403)
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
A = (Requirement("app", "In", ("a",)),)
KEEPS_A_AWAY = (PodTerm(HOST, A, ("default",)),)


def host(name: str) -> Node:
    return node(name, labels={HOST: name})


def selected(w: World, name: str = "p", **fields: Any) -> Pod:
    """A pod of ours that the terms select."""
    return w.pod(name, labels={"app": "a"} | fields.pop("labels", {}), requests=asks(1000, 1), **fields)


def reason(w: World, pod: Pod) -> str:
    found = w.controller.member(pod.uid)
    assert found is not None
    return found[0].reason.text if found[0].reason is not None else ""


def test_pod_gets_a_node_that_nobody_keeps_from_it(world: MakeWorld) -> None:
    w = world(host("n0"), host("n1"))
    w.foreign("n0", "keeper", requests=asks(100, 1), apart=KEEPS_A_AWAY)
    one, other = selected(w), w.pod("q", labels={"app": "b"}, requests=asks(1000, 1))
    w.advance(2)
    assert w.nodes_of(one, other) == ["n1", "n0"]


def test_pod_waits_until_the_last_that_keeps_it_away_has_gone(world: MakeWorld) -> None:
    w = world(host("n0"))
    keepers = [w.foreign("n0", f"k{i}", requests=asks(100, 1), apart=KEEPS_A_AWAY) for i in range(2)]
    one = selected(w)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    why = "kept from it by the required podAntiAffinity of pods of other namespaces"
    assert reason(w, one) == f"busy: 0 of 1 fit now (nodes refused: 1 {why})"
    w.cluster.remove(keepers[0])
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.change(keepers[1], phase="Succeeded")
    w.advance(2)
    assert w.nodes_of(one) == ["n0"]


def test_change_of_a_nodes_label_counts(world: MakeWorld) -> None:
    w = world(host("n0"), host("n1"))
    w.change(host("n1"), labels={HOST: "n0"})
    w.foreign("n0", "keeper", requests=asks(100, 1), apart=KEEPS_A_AWAY)
    one = selected(w)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.change(host("n1"), labels={HOST: "n1"})
    w.advance(2)
    assert w.nodes_of(one) == ["n1"]


def test_change_of_a_namespaces_label_counts(world: MakeWorld) -> None:
    w = world(host("n0"))
    w.cluster.put(Namespace("default", {"team": "red"}))
    term = PodTerm(HOST, A, (), (Requirement("team", "In", ("red",)),))
    w.foreign("n0", "keeper", requests=asks(100, 1), apart=(term,))
    one = selected(w)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.cluster.put(Namespace("default", {"team": "blue"}))
    w.advance(2)
    assert w.nodes_of(one) == ["n0"]


def test_member_leaves_its_place_when_a_pod_arrives_that_keeps_it_away(world: MakeWorld) -> None:
    w = world(host("n0"), host("n1"))
    w.scheduler.unclaimed.add("f")
    common: dict[str, Any] = {"labels": {GROUP_LABEL: "g"}, "annotations": {GROUP_SIZE_ANNOTATION: "2"}}
    one = selected(w, "d", **common)
    w.pod("f", requests=asks(1000, 1), interdependent=True, gates=(GATE,), **common)
    w.advance(2)
    assignment = w.member(one.uid).assignment
    assert assignment is not None
    assert w.nodes_of(one) == [""]
    w.foreign(assignment.node, "keeper", requests=asks(100, 1), apart=KEEPS_A_AWAY)
    w.advance(2)
    moved = w.member(one.uid).assignment
    assert moved is not None
    assert {assignment.node, moved.node} == {"n0", "n1"}


def test_planned_pod_that_keeps_others_away_counts_before_it_is_bound(world: MakeWorld) -> None:
    w = world(host("n0"), host("n1"))
    w.scheduler.unclaimed.add("f")
    judged = w.pod("f", requests=asks(1000, 1), interdependent=True, gates=(GATE,), apart=KEEPS_A_AWAY)
    w.advance(1)
    place = w.member(judged.uid).assignment
    assert place is not None
    assert w.nodes_of(judged) == [""]
    one = selected(w)
    w.advance(2)
    assert w.nodes_of(one) == [{"n0": "n1", "n1": "n0"}[place.node]]


def test_binding_that_failed_is_not_tried_again_where_a_pod_keeps_it_away(world: MakeWorld) -> None:
    w = world(host("n0"), host("n1"))
    w.cluster.fail("bind", DENIED, times=10_000)
    one = selected(w)
    w.advance(0.1)
    w.foreign("n0", "keeper", requests=asks(100, 1), apart=KEEPS_A_AWAY)
    w.cluster._failures.clear()
    w.advance(10)
    assert w.nodes_of(one) == ["n1"]


@pytest.mark.parametrize(("key", "nodes"), [(HOST, 1), (ZONE, 2)])
def test_gang_of_lower_priority_that_keeps_a_pod_away_is_preempted(
    world: MakeWorld, key: str, nodes: int
) -> None:
    w = world(*(node(f"n{at}", labels={HOST: f"n{at}", ZONE: "z"}) for at in range(nodes)))
    (low,) = gang(w, "low", 100, apart=(PodTerm(key, A, ("default",)),))
    (bystander,) = gang(w, "bystander", 100)
    w.advance(2)
    assert w.nodes_of(low, bystander) == ["n0", "n0"]
    high = selected(w, "high", priority=10)
    w.advance(3)
    assert reason(w, high).startswith("preempting default/low")
    assert (w.now(low).deleting, w.now(bystander).deleting) == (True, False)
    w.cluster.reap()
    w.advance(5)
    assert w.nodes_of(high) == ["n0"]
    check_at_rest(w)


@pytest.mark.parametrize("of_preemptor", [False, True])
def test_victim_that_comes_back_takes_no_place_that_would_keep_its_preemptor_away(
    world: MakeWorld, of_preemptor: bool
) -> None:
    w = world(*(node(f"n{at}", labels={HOST: f"n{at}", ZONE: "z"}) for at in range(3)))
    low: dict[str, Any] = {"labels": {"app": "b"}, "apart": (PodTerm(ZONE, A, ("default",)),)}
    high: dict[str, Any] = {"priority": 10}
    if of_preemptor:
        of_b = (Requirement("app", "In", ("b",)),)
        high["apart"] = (PodTerm(ZONE, of_b, ("default",)),)
        del low["apart"]
    victim = w.pod("victim", requests=asks(100, 1), **low)
    w.advance(2)
    preemptor = selected(w, "high", **high)
    w.advance(3)
    assert w.now(victim).deleting
    back = w.pod("back", requests=asks(100, 1), **low)
    free = w.pod("free", requests=asks(100, 1), labels={"app": "c"})
    w.advance(10)
    assert w.nodes_of(back) == [""]
    assert w.nodes_of(free) != [""]
    w.cluster.reap()
    w.advance(5)
    assert w.nodes_of(preemptor, back) == ["n0", ""]
    assert not w.now(back).deleting
    check_at_rest(w)
    w.change(preemptor, phase="Succeeded")
    w.advance(5)
    assert w.nodes_of(back) != [""]
    check_at_rest(w)


def test_member_that_is_kept_away_is_told_also_if_it_is_not_the_first(world: MakeWorld) -> None:
    w = world(host("n0"))
    w.foreign("n0", "keeper", requests=asks(3500, 1), apart=KEEPS_A_AWAY)
    note = {GROUP_SIZE_ANNOTATION: "2"}
    for at, name in enumerate("ba"):
        w.pod(f"p{at}", labels={GROUP_LABEL: "g", "app": name}, annotations=note, requests=asks(1000, 1))
    w.advance(2)
    text = "busy: 0 of 2 fit now, short of cpu (nodes refused: 1 kept from it by the required podAntiAffinity of pods"
    found = w.gang("g").reason
    assert found is not None
    assert found.text.startswith(text)
    check_at_rest(w)


def test_foreign_pod_that_keeps_a_pod_away_costs_nobody_his_place(world: MakeWorld) -> None:
    w = world(host("n0"))
    w.foreign("n0", "keeper", requests=asks(100, 1), apart=KEEPS_A_AWAY)
    (low,) = gang(w, "low", 100, apart=KEEPS_A_AWAY)
    w.advance(2)
    high = selected(w, "high", priority=10)
    w.advance(10)
    assert reason(w, high).startswith("busy: 0 of 1 fit now (nodes refused: 1 kept from it")
    assert not w.now(low).deleting


def test_gang_on_a_node_out_of_use_that_keeps_a_pod_away_is_preempted(world: MakeWorld) -> None:
    first, second = (node(name, labels={HOST: name, ZONE: "z"}) for name in ("n0", "n1"))
    w = world(first, second)
    (low,) = gang(w, "low", 100, apart=(PodTerm(ZONE, A, ("default",)),))
    w.advance(2)
    assert w.nodes_of(low) == ["n0"]
    w.change(first, unschedulable=True)
    high = selected(w, "high", priority=10)
    w.advance(3)
    assert reason(w, high).startswith("preempting default/low")
    w.cluster.reap()
    w.advance(5)
    assert w.nodes_of(high) == ["n1"]


def test_amounts_beyond_what_tables_hold_are_refused(world: MakeWorld) -> None:
    w = world(node("n0", extra={"example.com/x": 2**62}))
    pod = w.pod("huge", requests=asks(100, 1, example_com__x=2**62 + 1))
    w.advance(2)
    assert reason(w, pod) == "busy: node n0 has no room left"
