"""Gangs whose pods claim devices: where they are placed, and what is said of those that have no place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.claims import Choice, Claims, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import Holder, NodeDevice
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.errors import GangRefused
from fluence_extender.room.holdings import Firmness
from tests.core.planning import LedgerPlanner
from tests.core.values import node, pod
from tests.core.verdicts import evaluated_at_once  # noqa: F401
from tests.unit.placement.conftest import MakeBench

pytestmark = pytest.mark.usefixtures("evaluated_at_once")

DRIVER = "gpu.example.com"


def with_gpus(name: str, *models: str) -> Node:
    devices = (
        NodeDevice(DRIVER, name, f"gpu-{number}", {f"{DRIVER}/model": model})
        for number, model in enumerate(models)
    )
    return replace(node(name, 16_000), devices=tuple(devices))


def claim(model: str = "", count: int = 1, shared: str = "", extended: str = "") -> Claims:
    selectors = (f'device.attributes["{DRIVER}"].model == "{model}"',) if model else ()
    requests = (DeviceRequest("gpu", (Choice("gpus", selectors, count),)),)
    return (ClaimSpec(requests, shared=shared, extended=extended),)


def with_held(node: Node, *names: str) -> Node:
    return replace(node, devices=tuple(replace(one, held=one.name in names) for one in node.devices))


def members(name: str, count: int, claims: Claims, group: str = "", gates: tuple[str, ...] = ()) -> list[Pod]:
    return [
        pod(f"{name}-{number}", 100, claims=claims, claim_group=group, gates=gates) for number in range(count)
    ]


def plan(planner: LedgerPlanner, pods: Sequence[Pod], gang: object = "gang") -> tuple[Assignment, ...]:
    return planner.plan([Demand(one) for one in pods], gang)


def nodes_of(placed: Sequence[Assignment]) -> Counter[str]:
    return Counter(one.node for one in placed)


def refusal(planner: LedgerPlanner, pods: Sequence[Pod]) -> str:
    with pytest.raises(GangRefused) as caught:
        plan(planner, pods)
    return caught.value.reason.text


def test_pods_that_share_a_claim_get_one_node(bench: MakeBench) -> None:
    planner, _, _ = bench([with_gpus("n0", "a"), with_gpus("n1", "a", "a"), with_gpus("n2", "a", "a")])
    ours = members("ours", 3, claim(count=2, shared="ns/ours"), "ns/ours")
    theirs = members("theirs", 3, claim(count=2, shared="ns/theirs"), "ns/theirs")
    placed = plan(planner, [*ours, *theirs, *members("free", 1, claim())])
    assert nodes_of(placed[:3]) in (Counter(n1=3), Counter(n2=3))
    assert nodes_of(placed[3:6]) in (Counter(n1=3), Counter(n2=3))
    assert nodes_of(placed) == {"n1": 3, "n2": 3, "n0": 1}


def test_shared_claim_that_no_node_serves_is_told(bench: MakeBench) -> None:
    planner, _, _ = bench([with_gpus("n0", "a", "a"), with_gpus("n1", "a")])
    assert "3 gpus" in refusal(planner, members("ours", 2, claim(count=3, shared="ns/ours"), "ns/ours"))


def test_pod_of_another_gang_joins_those_that_have_its_claim(bench: MakeBench) -> None:
    planner, ledger, _ = bench([with_gpus("n0", "a", "a"), with_gpus("n1", "a", "a")])
    first, second = members("ours", 2, claim(shared="ns/ours"), "ns/ours")
    (placed,) = plan(planner, [first], "one")
    others = plan(planner, members("other", 2, claim()), "two")
    assert plan(planner, [second], "three")[0].node == placed.node
    for uid in (first.uid, second.uid, *(one.uid for one in others)):
        ledger.release(uid)
    filling = members("filling", 2, claim())
    plan(planner, filling, "four")
    assert plan(planner, [second], "five")[0].node not in {
        ledger.holdings[one.uid].assignment.node for one in filling
    }


def test_members_with_different_claims_are_placed_where_one_order_serves_all(bench: MakeBench) -> None:
    planner, ledger, _ = bench([with_gpus("n0", "b", "a"), with_gpus("n1", "a")])
    (any_pod,), (b_pod,) = (
        members("any", 1, claim(), gates=(GATE,)),
        members("b", 1, claim("b"), gates=(GATE,)),
    )
    assert nodes_of(plan(planner, [any_pod, b_pod])) == {"n0": 2}
    rooms = ledger.claim_rooms
    assert not rooms.ungate(any_pod.uid)
    assert rooms.ungate(b_pod.uid)
    assert not rooms.ungate(any_pod.uid)
    assert rooms.gated_beside(b_pod.uid) == [any_pod.uid]
    assert ledger.claims_changed(replace(b_pod, claims=())) == [any_pod.uid]
    ledger.put_node(with_held(with_gpus("n0", "b", "a"), "gpu-0"))
    assert rooms.ungate(any_pod.uid)


def test_gang_is_spread_where_no_order_serves_all_on_one_node(bench: MakeBench) -> None:
    planner, _, _ = bench([with_gpus("n0", "a", "b"), with_gpus("n1", "a", "c")])
    placed = plan(planner, [*members("a", 2, claim("a")), *members("any", 2, claim())])
    assert nodes_of(placed) == {"n0": 2, "n1": 2}
    assert "busy" in refusal(planner, members("more", 1, claim()))


def test_devices_and_plugins_serve_one_extended_resource(bench: MakeBench) -> None:
    gpus = "nvidia.com/gpu"
    two = {gpus: 2}
    devices = with_gpus("n1", "a", "a").devices
    published = replace(node("n1", extra=two), devices=devices, by_devices=frozenset(two))
    planner, ledger, _ = bench([node("n0", extra=two), published])
    requests = Resources({"cpu": 100, "pods": 1, gpus: 1})
    pods = [
        pod(f"p{number}", requests=requests, claims=claim(extended=gpus), gates=(GATE,))
        for number in range(4)
    ]
    placed = plan(planner, pods)
    assert nodes_of(placed) == {"n0": 2, "n1": 2}
    # Only pods that get devices wait for each other.
    ungated = [one.node for one in placed if ledger.claim_rooms.ungate(one.uid)]
    assert Counter(ungated) == {"n0": 2, "n1": 1}


def test_pods_whose_devices_vanish_are_let_go_so_that_the_scheduler_says_what_they_lack(
    bench: MakeBench,
) -> None:
    planner, ledger, _ = bench([with_gpus("n0", "a", "b")])
    pods = [*members("any", 1, claim(), gates=(GATE,)), *members("a", 1, claim("a"), gates=(GATE,))]
    plan(planner, pods)
    assert not ledger.claim_rooms.ungate(pods[0].uid)
    ledger.put_node(with_gpus("n0"))
    assert ledger.claim_rooms.ungate(pods[0].uid)
    assert "no node has 1 gpus" in refusal(planner, members("more", 1, claim()))


def held_by(one: Node, *uids: str) -> Node:
    """The node with its devices in claims of these pods, one for each."""
    devices = (
        replace(device, held=True, holders=(Holder(frozenset({uid})),))
        for device, uid in zip(one.devices, uids, strict=True)
    )
    return replace(one, devices=tuple(devices))


def test_pods_whose_claims_have_the_right_devices_would_make_room(bench: MakeBench) -> None:
    nodes = [held_by(with_gpus("n0", "a", "b"), "u0", "u1"), held_by(with_gpus("n1", "b", "a"), "u2", "u3")]
    planner, ledger, _ = bench(nodes)
    low = [pod(f"low-{at}", 100, uid=f"u{at}", node=f"n{at // 2}") for at in range(4)]
    ledger.adopt_all([(one, one.name) for one in low], Firmness.BOUND)
    demands = [Demand(one) for one in members("wide", 2, claim("b"))]
    room = ledger.room().open_to("wide")

    def fits(*gone: str) -> bool:
        return planner.planner.fits(room.without(frozenset(gone)), demands)

    assert not fits()
    assert not fits("u0", "u3", "u1")
    assert fits("u1", "u2")
    assert not fits("u1")
    places = planner.planner.find(room.without({"u1", "u2"}), demands)
    assert places is not None
    assert nodes_of(places) == {"n0": 1, "n1": 1}
    refusal(planner, [one.pod for one in demands])


def test_answer_about_a_later_time_counts_the_devices_of_pods_that_have_ended_by_then(
    bench: MakeBench,
) -> None:
    planner, ledger, _ = bench([held_by(with_gpus("n0", "a", "b"), "u0", "u1")])
    low = [pod(f"low-{at}", 100, uid=f"u{at}", node="n0") for at in range(2)]
    ledger.adopt_all([(one, one.name) for one in low], Firmness.BOUND)
    demands = [Demand(one) for one in members("ours", 1, claim("b"))]
    room = ledger.snapshot().open_to("ours")
    for gone, fits in (({"u0"}, False), ({"u0", "u1"}, True)):
        found = planner.planner.find(room.without(gone), demands)
        assert (found is not None) is fits
