"""Gangs whose pods claim devices that several nodes can use."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fluence_extender.model.claims import Claims
from fluence_extender.model.devices import NodeDevice, Reach
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.resources import Resources
from tests.core.values import node
from tests.unit.placement.conftest import MakeBench
from tests.unit.placement.test_claimed_devices import (
    DRIVER,
    claim,
    members,
    nodes_of,
    plan,
    refusal,
    with_gpus,
)

EVERYWHERE: Reach = ()


def rack(name: str) -> Reach:
    return (NodeTerm((Requirement("rack", "In", (name,)),)),)


def reaching(one: Node, *reaches: Reach) -> Node:
    return replace(one, reach=frozenset(reaches))


def network(**links: Reach) -> Node:
    devices = (
        NodeDevice("far.example.com", "pool", name, {f"{DRIVER}/model": "link"}, reach=reach)
        for name, reach in links.items()
    )
    return Node("", devices=tuple(devices))


def both(first: Claims, second: Claims) -> Claims:
    return (*first, *second)


def test_pods_on_all_nodes_together_get_no_more_than_the_network_has(bench: MakeBench) -> None:
    planner, ledger, _ = bench([reaching(node(f"n{number}"), EVERYWHERE) for number in range(8)])
    ledger.put_network(network(a=EVERYWHERE, b=EVERYWHERE, c=EVERYWHERE))
    assert "unsatisfiable" in refusal(planner, members("many", 4, claim("link")))
    two = members("two", 2, claim("link"))
    plan(planner, two)
    assert "busy: 1 of 2 fit now" in refusal(planner, members("more", 2, claim("link")))
    plan(planner, members("one", 1, claim("link")), "other")
    ledger.release(two[0].uid)
    plan(planner, members("again", 1, claim("link")), "third")


def test_devices_are_given_where_they_are_reached(bench: MakeBench) -> None:
    planner, ledger, _ = bench(
        [reaching(node("n0"), rack("x")), reaching(node("n1"), rack("y")), reaching(node("n2"), rack("x"))]
    )
    ledger.put_network(network(a=rack("x"), b=rack("y"), c=rack("y")))
    placed = plan(planner, members("links", 3, claim("link")))
    assert nodes_of(placed)["n1"] == 2
    ledger.put_network(network(a=rack("x")))
    assert "unsatisfiable" in refusal(planner, members("more", 2, claim("link")))


def test_pod_may_have_devices_of_its_node_and_of_the_network(bench: MakeBench) -> None:
    gpus = [reaching(with_gpus(f"n{number}", "a", "a"), EVERYWHERE) for number in range(2)]
    planner, ledger, _ = bench([*gpus, reaching(node("n2"), EVERYWHERE)])
    ledger.put_network(network(a=EVERYWHERE, b=EVERYWHERE, c=EVERYWHERE))
    placed = plan(planner, members("ours", 3, both(claim("a"), claim("link"))))
    assert nodes_of(placed).keys() == {"n0", "n1"}
    assert "busy" in refusal(planner, members("more", 1, claim("link")))
    plan(planner, members("local", 1, claim("a")), "other")


def test_claim_for_any_device_is_served_by_the_node_or_by_the_network(bench: MakeBench) -> None:
    planner, ledger, _ = bench([reaching(with_gpus("n0", "a"), EVERYWHERE), reaching(node("n1"), EVERYWHERE)])
    ledger.put_network(network(a=EVERYWHERE, b=EVERYWHERE))
    assert Counter(plan(planner, members("any", 3, claim()))).total() == 3
    assert "busy" in refusal(planner, members("more", 1, claim()))


def test_pods_that_others_depend_on_go_first_wherever_they_run(bench: MakeBench) -> None:
    """The network's first device is one of a model that only one of them wants."""
    some = network(a=EVERYWHERE, b=EVERYWHERE)
    first, second = some.devices
    rare = replace(first, attributes={f"{DRIVER}/model": "rare"})
    planner, ledger, _ = bench([reaching(node(f"n{number}", 1000), EVERYWHERE) for number in range(2)])
    ledger.put_network(replace(some, devices=(rare, second)))
    pods = [*members("any", 1, claim(), gates=(GATE,)), *members("rare", 1, claim("rare"), gates=(GATE,))]
    any_pod, rare_pod = (replace(one, requests=Resources({"cpu": 1000, "pods": 1})) for one in pods)
    assert len(nodes_of(plan(planner, [any_pod, rare_pod]))) == 2
    rooms = ledger.device_rooms
    assert not rooms.ungate(any_pod.uid)
    assert rooms.ungate(rare_pod.uid)
    assert rooms.gated_beside(rare_pod.uid) == [any_pod.uid]
    ledger.claims_changed(replace(rare_pod, claims=()))
    ledger.put_network(replace(some, devices=(replace(rare, held=True), second)))
    assert rooms.ungate(any_pod.uid)
