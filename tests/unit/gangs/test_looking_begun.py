"""Only a member that was placed with its gang makes the gang begin: nothing that users write takes them ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.gang import Convention, GangKey, GangState
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    COSCHEDULING_GROUP,
    DIRECT_SCHEDULER_NAME,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    PLACED_ANNOTATION,
)
from fluence_extender.model.pod import Pod
from fluence_extender.room.records import PlaceRecord, unsealed
from tests.core.invariants import check
from tests.core.values import SEAL, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

KEY = GangKey("default", "big", Convention.LABEL)


class GroupFields(TypedDict):
    """What names a pod's group and states its size."""

    labels: dict[str, str]
    annotations: dict[str, str]


def labelled(size: int, **noted: str) -> GroupFields:
    """The fields of a member of the gang ``big``; ``noted`` are annotations without their prefix."""
    notes = {f"fluence.flux-framework.org/{key.replace('_', '-')}": value for key, value in noted.items()}
    return GroupFields(labels={GROUP_LABEL: "big"}, annotations={GROUP_SIZE_ANNOTATION: str(size), **notes})


def important(w: World, cpu: int) -> Pod:
    """A gang of one that comes before all that hasn't begun."""
    (pod,) = gang(w, "important", cpu, priority=1000, preempts=False)
    return pod


def opened(w: World) -> None:
    """Let the node that was closed take pods."""
    w.change(node("n1"), unschedulable=False)
    w.advance(3)


def closed_world(world: MakeWorld) -> World:
    return world(node("n0"), node("n1", unschedulable=True))


def test_pod_that_brings_its_node_takes_its_gang_ahead_of_no_other(world: MakeWorld) -> None:
    w = closed_world(world)
    w.disturb("n0")
    w.pod("intruder", node="n0", requests=asks(4000), **labelled(2))
    (late,) = gang(w, "big", 3000, size=2)
    first = important(w, 3000)
    w.advance(1)
    assert w.gang("big").state is GangState.WAITING
    assert not w.controller.lifecycle.restless
    opened(w)
    assert w.now(first).node == "n1"
    assert not w.now(late).node


def test_bound_pod_of_high_priority_lifts_no_gang_that_it_was_not_placed_with(world: MakeWorld) -> None:
    w = closed_world(world)
    (high,) = gang(w, "high", 3500, priority=2000)
    w.advance(2)
    assert w.now(high).node == "n0"
    (lifted,) = gang(w, "big", 3000, size=2, preempts=False)
    first = important(w, 3000)
    w.change(high, **labelled(2))
    w.advance(1)
    assert w.member(high.uid) in w.gang("big").members.values()
    opened(w)
    assert w.now(first).node == "n1"
    assert not w.now(lifted).node


def test_gang_beside_a_pod_that_brings_its_node_is_placed_in_its_turn(world: MakeWorld) -> None:
    w = closed_world(world)
    w.disturb("n0")
    w.pod("intruder", node="n0", requests=asks(4000), **labelled(2))
    (late,) = gang(w, "big", 3000, size=2)
    w.advance(1)
    opened(w)
    assert w.now(late).node == "n1"
    assert w.gang("big").state is GangState.BOUND
    check(w)


def test_pod_that_brings_its_node_starts_no_gang_that_lacks_members(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.disturb("n0")
    w.pod("intruder", node="n0", requests=asks(500), **labelled(3))
    (waits,) = gang(w, "big", 500, size=3)
    w.advance(5)
    assert not w.now(waits).node
    assert waits.uid not in w.ledger.holdings


def test_gang_of_pods_that_bring_their_nodes_can_be_preempted(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.disturb("n0")
    intruder = w.pod("intruder", node="n0", requests=asks(4000), **labelled(1))
    (first,) = gang(w, "important", 3000, priority=1000)
    w.advance(3)
    assert ("evict", intruder.key) in w.cluster.calls
    w.cluster.reap()
    w.advance(3)
    assert w.now(first).node == "n0"


def test_bound_pod_that_changes_its_group_takes_the_other_gang_ahead_of_no_other(world: MakeWorld) -> None:
    w = closed_world(world)
    (decoy,) = gang(w, "decoy", 4000)
    w.advance(3)
    assert w.now(decoy).node == "n0"
    (late,) = gang(w, "big", 3000, size=2)
    w.change(decoy, **labelled(2))
    first = important(w, 3000)
    w.advance(1)
    opened(w)
    assert w.now(first).node == "n1"
    assert not w.now(late).node
    w.restart()
    w.advance(3)
    assert w.gang("big").state is GangState.WAITING
    assert w.ledger.accounts["n0"].free["cpu"] == 0
    check(w)


def test_bound_pod_that_leaves_its_group_keeps_what_it_uses(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "pair", 1000, 1000)
    w.advance(3)
    w.change(pods[0], labels={})
    w.advance(3)
    assert w.ledger.accounts["n0"].free["cpu"] == 2000
    assert w.gang("pair").state is GangState.BOUND
    check(w)
    w.restart()
    assert w.ledger.accounts["n0"].free["cpu"] == 2000
    check(w)


def test_place_doesnt_go_along_to_another_gang(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (decoy,) = gang(w, "decoy", 1000)
    w.advance(1)
    assert decoy.uid in w.ledger.holdings
    w.change(decoy, **labelled(2))
    w.advance(1)
    assert decoy.uid not in w.ledger.holdings
    assert not w.now(decoy).nominated
    assert w.gang("big").state is GangState.WAITING


def test_gang_that_grows_after_it_began_waits_for_its_turn(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1", unschedulable=True), scheduling=False)
    pods = gang(w, "big", 1000, 1000)
    w.advance(1)
    w.disturb("n0")
    w.change(pods[0], node="n0", nominated="")
    w.advance(1)
    assert w.gang("big").begun
    late = w.pod("late", gates=(GATE,), requests=asks(3000), **labelled(3))
    for pod in pods:
        w.change(pod, **labelled(3))
    first = important(w, 3000)
    w.advance(1)
    w.change(node("n1"), unschedulable=False)
    w.advance(1)
    assert w.now(first).nominated == "n1"
    assert not w.now(late).nominated


def test_members_beyond_the_size_wait_for_their_turn(world: MakeWorld) -> None:
    w = closed_world(world)
    gang(w, "big", 4000, size=1)
    w.advance(3)
    assert w.gang("big").state is GangState.BOUND
    late = w.pod("late", gates=(GATE,), requests=asks(3000), **labelled(1))
    first = important(w, 3000)
    w.advance(1)
    opened(w)
    assert w.now(first).node == "n1"
    assert not w.now(late).node


@pytest.mark.parametrize(
    ("record", "ahead"), [("2 group/big", True), ("1 group/big", False), ("2 group/x", False)]
)
def test_restart_knows_by_the_record_which_gang_began(world: MakeWorld, record: str, ahead: bool) -> None:
    w = closed_world(world)
    w.disturb("n0")
    bound = w.pod("bound", node="n0", requests=asks(4000), **labelled(2))
    w.change(bound, **labelled(2, placed_with=SEAL.on_pod(bound, record)))
    (late,) = gang(w, "big", 3000, size=2)
    first = important(w, 3000)
    w.restart()
    opened(w)
    assert bool(w.now(late).node) is ahead
    assert bool(w.now(first).node) is not ahead


def test_what_is_recorded_when_a_pod_is_placed_outlives_a_restart(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    pods = gang(w, "big", 3000, 3000)
    w.advance(3)
    assert [unsealed(w.now(pod).annotations[PLACED_ANNOTATION]) for pod in pods] == ["2 group/big"] * 2
    w.restart()
    assert w.gang("big").begun


def test_pod_that_brings_its_node_gets_no_device(world: MakeWorld) -> None:
    w = world(node("n0"), ResourcesFile("test", "resources: [{type: qpu, name: a}]"))
    w.disturb("n0")
    w.pod("intruder", node="n0", requests=asks(500), devices={"qpu": 1})
    w.advance(1)
    (pod,) = gang(w, "q", 500, devices={"qpu": 1})
    w.advance(3)
    assert w.ledger.holdings[pod.uid].assignment.backend == "a"
    assert ALLOCATION_ANNOTATION in w.now(pod).annotations


STEERED = Pod(
    "default",
    "p",
    "u",
    labels={GROUP_LABEL: "big"},
    annotations={PLACED_ANNOTATION: "2 group/big"},
    nominated="n0",
)


@pytest.mark.parametrize(
    ("pod", "steered"),
    [
        (STEERED, "n0"),
        (replace(STEERED, gates=(GATE,)), ""),
        (replace(STEERED, scheduler=DIRECT_SCHEDULER_NAME), ""),
        (replace(STEERED, scheduler=DIRECT_SCHEDULER_NAME, expected=True), "n0"),
        (replace(STEERED, labels={GROUP_LABEL: "other"}), ""),
        (replace(STEERED, labels={COSCHEDULING_GROUP: "big"}), ""),
        (replace(STEERED, annotations={}), "n0"),
    ],
)
def test_pod_is_steered_with_the_gang_that_it_was_placed_with_and_no_other(
    world: MakeWorld, pod: Pod, steered: str
) -> None:
    w = world()
    assert w.controller.registry.put_pod(pod).steered_to == steered


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        KEY._replace(part="stage"),
        KEY._replace(uid="6f1c"),
        KEY._replace(name="a b/c", convention=Convention.KUEUE),
    ],
)
def test_promise_is_read_as_it_was_written_and_for_that_gang_alone(key: GangKey) -> None:
    pod = replace(STEERED, annotations={PLACED_ANNOTATION: str(PlaceRecord(key, 4))})
    assert PlaceRecord.recorded(pod, key) == PlaceRecord(key, 4)
    assert PlaceRecord.recorded(pod, key._replace(convention=Convention.COSCHEDULING)) is None
    assert PlaceRecord.recorded(pod, key._replace(uid="another")) is None


@pytest.mark.parametrize(
    "text", ["", "group/big", "x group/big", "-1 group/big", "9999999999 group/big", "² group/big"]
)
def test_record_that_cant_be_read_promises_nothing(text: str) -> None:
    assert PlaceRecord.recorded(replace(STEERED, annotations={PLACED_ANNOTATION: text}), KEY) is None
