"""Pods with rules about other pods: bound by the first plan, and tried again when these pods come or change."""

from __future__ import annotations

from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement, SpreadRule
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

HOST, ZONE = "kubernetes.io/hostname", "zone"


def selects(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (app,)),)


def near(app: str) -> tuple[PodTerm, ...]:
    return (PodTerm(ZONE, selects(app), ("default",)),)


def in_zones(*zones: str) -> list[Node]:
    return [node(f"n{at}", labels={HOST: f"n{at}", ZONE: zone}) for at, zone in enumerate(zones)]


def follower(w: World) -> Pod:
    return w.pod("p", requests=asks(1000, 1), labels={"app": "a"}, near=near("db"))


def running(w: World, where: str, name: str, millicores: int = 100, **labels: str) -> Pod:
    """Return a pod of another scheduler in the namespace of ours."""
    w.disturb(where)
    return w.pod(name, scheduler="default-scheduler", node=where, requests=asks(millicores, 1), labels=labels)


def reason(w: World, pod: Pod) -> str:
    found = w.controller.member(pod.uid)
    assert found is not None
    return found[0].reason.text if found[0].reason is not None else ""


def test_pod_that_has_to_be_near_another_waits_until_that_one_runs(world: MakeWorld) -> None:
    w = world(*in_zones("a", "b"))
    one = follower(w)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    assert reason(w, one) == "busy: the required podAffinity by zone lets 0 of 1 members fit now"
    running(w, "n1", "db", app="db")
    w.advance(2)
    assert w.nodes_of(one) == ["n1"]


def test_pod_that_has_to_be_near_another_waits_until_that_one_is_labelled(world: MakeWorld) -> None:
    w = world(*in_zones("a", "b"))
    other = running(w, "n1", "db")
    one = follower(w)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.change(other, labels={"app": "db"})
    w.advance(2)
    assert w.nodes_of(one) == ["n1"]


def test_pod_follows_a_pod_of_ours(world: MakeWorld) -> None:
    w = world(*in_zones("a", "b"))
    one = follower(w)
    w.advance(2)
    leader = w.pod("db", requests=asks(1000, 1), labels={"app": "db"}, node_selector={ZONE: "b"})
    w.advance(3)
    assert w.nodes_of(leader, one) == ["n1", "n1"]


def test_pod_that_is_being_deleted_does_not_count_for_spread(world: MakeWorld) -> None:
    w = world(*in_zones("a", "b"))
    spread = (SpreadRule(ZONE, 1, selects("a")),)
    first = running(w, "n0", "first", app="a")
    running(w, "n1", "full", 4000)
    one = w.pod("p", requests=asks(1000, 1), labels={"app": "a"}, spread=spread)
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.change(first, deleting=True)
    w.advance(2)
    assert w.nodes_of(one) == ["n0"]
