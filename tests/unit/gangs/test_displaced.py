"""Pinned members are replaced only if their pins alone keep their gang out, once each, and if no Job counts it."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.model.names import GATE, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.workload import Job, PodGroup
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, gang

JOB = Owner("Job", "j", "uid-j")
REPLICAS = Owner("ReplicaSet", "r", "uid-r")


def native(w: World, *cpu: int, **fields: Any) -> list[Pod]:
    """Members of a native PodGroup, which are pinned and gather at the barrier; those of no claim aren't pinned."""
    w.cluster.put(PodGroup("default", "g", "uid-g", len(cpu)))
    fields = {"owner": REPLICAS, **fields}
    return [member(w, number, millicores, **fields) for number, millicores in enumerate(cpu)]


def member(w: World, number: int, millicores: int, **fields: Any) -> Pod:
    fields = {"owner": REPLICAS, **fields}
    return w.pod(f"g-{number}", group="g", gates=(GATE,), requests=asks(millicores, 1), **fields)


def evicted(w: World) -> list[str]:
    return [key.split("/")[1] for verb, key in w.cluster.calls if verb == "evict"]


def pins(w: World, pods: list[Pod]) -> list[str]:
    return [w.now(one).pinned_to for one in pods]


def taken(w: World, name: str, where: str, millicores: int = 1000) -> Pod:
    return w.foreign(where, name, requests=asks(millicores, 1))


def held_up(w: World, *cpu: int, **fields: Any) -> list[Pod]:
    """A gang whose members are pinned, and one that kube-scheduler keeps from them at first."""
    w.scheduler.unclaimed.add(f"g-{len(cpu)}")
    w.cluster.put(PodGroup("default", "g", "uid-g", len(cpu) + 1))
    pods = [member(w, number, millicores, **fields) for number, millicores in enumerate(cpu)]
    pods.append(member(w, len(cpu), 100, interdependent=True))
    w.advance(1)
    assert all(pins(w, pods[:-1]))
    return pods


def test_members_of_a_gang_that_rests_for_another_ones_sake_stay_and_come_to_the_same_nodes(
    world: MakeWorld,
) -> None:
    w = world(*(node(f"n{number}", cpu=1000) for number in range(4)))
    pods = held_up(w, 1000, 1000)
    before = pins(w, pods[:-1])
    w.advance(20 * LIMITS.unasked)
    assert w.gang("g").rest.stalled >= 3
    assert evicted(w) == []
    w.scheduler.claim_appears("g-2")
    w.advance(20)
    assert w.nodes_of(*pods[:-1]) == before
    assert w.nodes_of(pods[-1]) != [""]


def test_gang_at_rest_holds_nothing_for_its_pinned_members(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2500))
    held_up(w, 1000, 1000)
    w.advance(LIMITS.unasked + 2)
    (rival,) = gang(w, "rival", 2500)
    w.advance(2)
    assert w.nodes_of(rival) == ["n0"]


def test_pinned_member_that_is_at_fault_is_replaced_alone(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.scheduler.unclaimed.add("g-1")
    native(w, 500, 500, 500)
    w.advance(10 * LIMITS.unasked)
    assert evicted(w) == ["g-1"]


def test_no_member_is_replaced_without_capacity_elsewhere(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2500), node("n1", cpu=1000))
    pods = held_up(w, 1000, 1000)
    w.advance(0.1)
    rival = [taken(w, "f0", "n0", 2500), taken(w, "f1", "n1")]
    w.scheduler.claim_appears("g-2")
    w.advance(20 * LIMITS.unasked)
    assert evicted(w) == []
    w.cluster.remove(rival[0])
    w.cluster.remove(rival[1])
    w.advance(20)
    assert all(w.nodes_of(*pods))


def test_only_the_member_that_lost_its_node_is_replaced_once_there_is_capacity_elsewhere(
    world: MakeWorld,
) -> None:
    w = world(node("n0", cpu=1100), node("n1", cpu=1100), node("full", cpu=100))
    pods = held_up(w, 1000, 1000)
    lost = pins(w, pods[:1])[0]
    taken(w, "f", lost)
    w.advance(3 * LIMITS.unasked)
    w.cluster.put(node("n2", cpu=1000))
    w.scheduler.claim_appears("g-2")
    w.advance(4 * LIMITS.unasked)
    assert evicted(w) == ["g-0"]
    successor = member(w, 0, 1000)
    w.advance(20)
    assert w.nodes_of(successor, pods[1]) == ["n2", pins(w, pods[1:2])[0]]


def test_one_of_two_members_with_capacity_for_one_is_replaced(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2100))
    held_up(w, 1000, 1000)
    taken(w, "f", "n0")
    w.cluster.put(node("n1", cpu=3000))
    w.scheduler.claim_appears("g-2")
    w.advance(4 * LIMITS.unasked)
    assert len(evicted(w)) == 1


def test_members_are_replaced_where_another_one_of_the_gang_needs_their_node(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1100))
    pods = held_up(w, 1000)
    w.cluster.remove(w.now(pods[1]))
    w.cluster.put(node("n1", cpu=1000))
    w.pod(
        "g-big", group="g", gates=(GATE,), requests=asks(1050, 1), owner=REPLICAS,
        node_selector={"metadata": "n0"},
    )  # fmt: skip
    w.change(node("n0"), labels={"metadata": "n0"})
    w.advance(4 * LIMITS.unasked)
    assert evicted(w) == ["g-0"]


def test_members_are_not_pinned_any_more_once_one_of_their_gang_was_replaced(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500))
    w.scheduler.refusing["n0"] = 10_000
    (one,) = native(w, 500)
    w.advance(1)
    assert pins(w, [one]) == ["n0"]
    w.advance(6 * LIMITS.unasked)
    assert evicted(w) == ["g-0"]
    successor = member(w, 0, 500)
    w.advance(1)
    assert pins(w, [successor]) == [""]
    w.advance(30 * LIMITS.unasked)
    assert evicted(w) == ["g-0"]
    w.scheduler.refusing.clear()
    w.advance(10 * LIMITS.rest)
    assert w.nodes_of(successor) == ["n0"]


def test_reason_names_the_members_to_replace(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1100))
    held_up(w, 1000)
    taken(w, "f", "n0")
    w.cluster.put(node("n1", cpu=3000))
    w.advance(1)
    reason = w.gang("g").reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        ReasonCode.BUSY,
        "busy: g-0 was confined to n0 when it was ungated, without room there now; it is replaced unless that changes",
    )


@pytest.mark.parametrize("counts", [True, False])
def test_members_stay_whose_job_would_count_them_as_failed(world: MakeWorld, counts: bool) -> None:
    w = world(node("n0", cpu=2100), Job("default", "j", "uid-j", 2))
    held_up(w, 1000, 1000, owner=JOB)
    w.cluster.put(Job("default", "j", "uid-j", 2, counts_evictions=counts))
    taken(w, "f", "n0", 2000)
    w.cluster.put(node("n1", cpu=3000))
    w.scheduler.claim_appears("g-2")
    w.advance(5 * LIMITS.unasked)
    assert evicted(w) == ([] if counts else ["g-0", "g-1"])
    reason = w.gang("g").reason
    assert reason is not None
    assert not counts or reason.text.endswith(
        "; g-0, g-1 could be placed elsewhere, but Job j counts evicted pods as failed: they wait for n0"
    )


def test_pods_of_a_job_that_counts_evictions_are_not_pinned(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "j", "uid-j", 1, counts_evictions=True))
    (one,) = gang(w, "g", 500, owner=JOB)
    w.advance(3)
    assert (pins(w, [one]), w.nodes_of(one)) == ([""], ["n0"])
    assert ("nominate", one.key) in w.cluster.calls


def test_another_job_of_the_same_name_says_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "j", "uid-other", 1, counts_evictions=True))
    (one,) = gang(w, "g", 500, owner=JOB)
    w.advance(3)
    assert pins(w, [one]) == ["n0"]


def test_no_victims_for_members_that_fit_elsewhere(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    (one,) = native(w, 1000, priority=10)
    w.scheduler.unclaimed.add("g-0")
    w.advance(1)
    assert pins(w, [one]) == ["n0"]
    w.scheduler.unclaimed.clear()
    w.change(node("n0"), allocatable=node("n0", cpu=500).allocatable)
    (low,) = gang(w, "low", 500)
    w.advance(0.1)
    w.cluster.put(node("n1"))
    w.advance(4 * LIMITS.unasked)
    assert evicted(w) == ["g-0"]
    assert all(w.nodes_of(low))


def test_pinned_members_of_one_rack_are_replaced_where_their_rack_has_no_room_for_all(
    world: MakeWorld,
) -> None:
    racks = [node(f"n{number}", cpu=1000, labels={"rack": f"r{number // 3}"}) for number in range(3)]
    w = world(*racks)
    pods = held_up(w, 1000, 1000, annotations={TOPOLOGY_REQUIRED_ANNOTATION: "rack"})
    for number in range(3, 6):
        w.cluster.put(node(f"n{number}", cpu=1000, labels={"rack": "r1"}))
    lost = pins(w, pods[:1])[0]
    taken(w, "f", lost)
    spare = next(one.name for one in racks if one.name not in pins(w, pods[:2]))
    taken(w, "f2", spare)
    w.scheduler.claim_appears("g-2")
    w.advance(4 * LIMITS.unasked)
    assert evicted(w) == ["g-0", "g-1"]
    successors = [
        member(w, number, 1000, annotations={TOPOLOGY_REQUIRED_ANNOTATION: "rack"}) for number in range(2)
    ]
    w.advance(20)
    assert set(w.nodes_of(*successors)) < {"n3", "n4", "n5"}
