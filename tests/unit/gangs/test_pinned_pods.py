"""A pod that its controller replaces is confined to its node, and to a few spare ones, by the write that ungates it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.gangs.lifecycle.pins import SPARES, may_be_pinned, pinning, spare_nodes, unpinned
from fluence_extender.ledger.accounts import NodeAccount
from fluence_extender.model.names import GATE, NODE_NAME, PINNED_ANNOTATION
from fluence_extender.model.pod import HostPort, NodeTerm, Owner, Pod, Requirement
from tests.core.values import asks, node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

JOB = Owner("Job", "j", "uid-j")
ZONE = Requirement("zone", "In", ("a", "b"))


def named(name: str) -> Requirement:
    return Requirement(NODE_NAME, "In", (name,))


def owned(w: World, name: str = "g", *cpu: int, **fields: Any) -> list[Pod]:
    return gang(w, name, *(cpu or (1000, 1000)), owner=JOB, **fields)


def writes(w: World, one: Pod) -> list[str]:
    return [verb for verb, key in w.cluster.calls if key == one.key]


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": None},
        {"owner": Owner("DaemonSet", "d", "uid-d")},
        {"interdependent": True},
        {"host_ports": (HostPort(80),)},
        {"devices": {"qpu": 1}},
        {"nominated": "n0"},
        {"gates": ()},
        {"affinity": (NodeTerm(fields=(named("n0"),)),)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_pod_that_can_not_be_replaced_or_may_be_refused_is_not_pinned(fields: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"owner": JOB, "gates": (GATE,)}
    assert may_be_pinned(pod(**usual))
    assert not may_be_pinned(pod(**(usual | fields)))


def test_pin_names_the_planned_node_first_and_the_spare_ones_as_alternatives() -> None:
    terms = pinning(pod(), "n1", ("n2", "n3"))
    assert terms == tuple(NodeTerm(fields=(named(name),)) for name in ("n1", "n2", "n3"))
    assert pod(affinity=terms).confined_to == ("n1", "n2", "n3")


def test_terms_of_the_user_are_each_confined_and_none_is_added() -> None:
    empty, zoned = NodeTerm(), NodeTerm((ZONE,), (named("n1"),))
    terms = pinning(pod(affinity=(empty, NodeTerm((ZONE,)), zoned)), "n1", ("n2",))
    assert terms == (empty, NodeTerm((ZONE,), (named("n1"),)), NodeTerm((ZONE,), (named("n1"), named("n1"))))


@pytest.mark.parametrize(
    "written",
    [
        None,
        (NodeTerm((ZONE,)),),
        (NodeTerm((ZONE,)), NodeTerm((ZONE,), (named("n1"),))),
    ],
)
def test_pin_can_be_thought_away(written: tuple[NodeTerm, ...] | None) -> None:
    before = pod(affinity=written, annotations={PINNED_ANNOTATION: "n1"})
    terms = pinning(before, "n1", ("n2",))
    after = replace(before, affinity=terms)
    assert unpinned(after).affinity == written


def test_pod_with_an_alternative_that_names_no_node_is_confined_to_none() -> None:
    assert pod(affinity=(NodeTerm(fields=(named("n1"),)), NodeTerm((ZONE,)))).confined_to == ()
    assert pod(affinity=()).confined_to == ()
    assert pod(affinity=None).confined_to == ()


def test_only_what_we_wrote_when_we_ungated_counts_as_our_pin() -> None:
    ours: dict[str, Any] = {
        "affinity": (NodeTerm(fields=(named("n1"),)),),
        "annotations": {PINNED_ANNOTATION: "n1"},
    }
    assert pod(**ours).pinned_to == pod(**ours).steered_to == "n1"
    assert pod(**ours, nominated="n2").steered_to == "n2"
    assert pod(**ours, gates=(GATE,)).pinned_to == ""
    assert pod(**(ours | {"annotations": {}})).pinned_to == ""
    assert pod(**(ours | {"annotations": {PINNED_ANNOTATION: "n9"}})).pinned_to == ""


def test_spare_nodes_have_room_and_suit_the_pod_and_differ_from_pod_to_pod() -> None:
    nodes = {f"n{number}": node(f"n{number}", unschedulable=number % 3 == 0) for number in range(60)}
    accounts = {name: NodeAccount(name) for name in nodes}
    for name, account in accounts.items():
        account.resize(nodes[name].allocatable)
    accounts["n1"].add("other", asks(4000, 1), foreign=True)
    found = [
        spare_nodes(pod(f"p{number}"), "n2", list(nodes), nodes, accounts, asks(1000, 1))
        for number in range(40)
    ]
    assert all(len(one) == len(set(one)) == SPARES for one in found)
    chosen = {name for one in found for name in one}
    assert not chosen & {"n1", "n2"}
    assert not any(nodes[name].unschedulable for name in chosen)
    assert len(chosen) > 2 * SPARES


def test_full_cluster_has_no_spare_nodes() -> None:
    account, nodes = NodeAccount("n1"), {"n0": node("n0"), "n1": node("n1")}
    assert spare_nodes(pod(), "n0", ["n0", "n1"], nodes, {"n1": account}, asks(1)) == ()
    assert spare_nodes(pod(), "n0", [], {}, {}, asks(1)) == ()


def test_member_of_a_controller_costs_two_writes_and_a_loose_one_three(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    pods, loose = owned(w), gang(w, "loose", 1000)
    w.advance(3)
    assert all(w.nodes_of(*pods, *loose))
    assert [writes(w, one) for one in pods] == [["ungate", "bind"]] * 2
    assert writes(w, loose[0]) == ["nominate", "ungate", "bind"]


def test_pinned_pod_whose_node_is_cordoned_goes_to_a_spare_one(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    (one,) = owned(w, "g", 1000)
    w.advance(1)
    planned = w.now(one).pinned_to
    w.change(node(planned), unschedulable=True)
    w.advance(1)
    (spare,) = {"n0", "n1"} - {planned}
    assert w.now(one).nominated == spare
    assert "evict" not in writes(w, one)


def test_pinned_pod_that_fits_nowhere_any_more_is_evicted_and_its_successor_placed(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.scheduler.refusing["n0"] = 1000
    (one,) = owned(w, "g", 1000)
    w.advance(1)
    assert w.now(one).pinned_to == "n0"
    w.cluster.put(node("n1"))
    w.advance(2 * w.limits.unasked)
    assert one.uid not in {pod.uid for pod in w.cluster.pods()}
    assert any("its successor is placed anew" in text for text in w.told())
    (successor,) = owned(w, "g", 1000)
    w.advance(2 * w.limits.rest)
    assert w.nodes_of(successor) == ["n1"]


def test_pinned_members_are_left_alone_while_their_gang_gathers(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = owned(w)
    w.advance(1)
    w.cluster.remove(pods[0])
    w.advance(10 * w.limits.unasked)
    assert "evict" not in writes(w, pods[1])


def test_restart_knows_the_pin_as_the_promised_node(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}") for number in range(8)), scheduling=False)
    pods = owned(w)
    w.advance(1)
    pins = [w.now(one).pinned_to for one in pods]
    assert all(pins)
    w.restart()
    w.advance(1)
    assert [w.ledger.allocations[one.uid].assignment.node for one in pods] == pins
    assert not any("nominate" in writes(w, one) for one in pods)


def test_pod_that_was_refused_the_pin_is_steered_all_the_same(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.held = True
    (one,) = owned(w, "g", 1000)
    w.cluster.deliver()
    w.change(one, affinity=(NodeTerm((Requirement("zone", "DoesNotExist"),)),))
    w.advance(2)
    w.cluster.held = False
    w.cluster.deliver()
    w.advance(5)
    assert w.nodes_of(one) == ["n0"]


@pytest.mark.parametrize("status", [403, 422])
def test_pod_that_a_policy_keeps_from_being_pinned_is_nominated(world: MakeWorld, status: int) -> None:
    w = world(node("n0"))
    w.cluster.fail("ungate", ClusterError("its affinity stays as it is", status))
    (one,) = owned(w, "g", 1000)
    w.advance(3)
    assert w.nodes_of(one) == ["n0"]
    assert writes(w, one) == ["ungate", "nominate", "ungate", "bind"]


def test_pin_whose_answer_is_lost_is_written_again(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("ungate")
    (one,) = owned(w, "g", 1000)
    w.advance(5)
    assert w.nodes_of(one) == ["n0"]
    assert writes(w, one) == ["ungate", "ungate", "bind"]
