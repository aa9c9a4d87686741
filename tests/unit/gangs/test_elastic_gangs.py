"""Gangs of more members than make them whole: the minimum first, others as they come and as there is room."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.objects.queues import Queue, Quota
from tests.core.manifests import job_pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, put

KINDS = ["native", "coscheduling", "label"]


def minimum(kind: str, size: int) -> list[Workload]:
    """What says the size of the gang ``g``, where that isn't the pods."""
    if kind == "native":
        return [PodGroup("default", "g", "u", size)]
    return [CoschedulingGroup("default", "g", "u", size)] if kind == "coscheduling" else []


def member(w: World, kind: str, number: int, size: int, cpu: int = 1000, **fields: Any) -> Pod:
    labels = {"coscheduling": {"scheduling.x-k8s.io/pod-group": "g"}, "label": {GROUP_LABEL: "g"}}
    fields.setdefault("gates", (GATE,))
    return w.pod(
        f"g-{number}",
        labels=labels.get(kind, {}),
        annotations={GROUP_SIZE_ANNOTATION: str(size)} if kind == "label" else {},
        group="g" if kind == "native" else "",
        requests=asks(cpu, 1),
        **fields,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_minimum_is_bound_and_the_rest_waits_for_room(world: MakeWorld, kind: str) -> None:
    w = world(node("n0", cpu=3000), *minimum(kind, 2))
    pods = [member(w, kind, number, 2) for number in range(5)]
    w.advance(5)
    assert sum(map(bool, w.nodes_of(*pods))) == 3
    gang = w.gang("g")
    assert gang.was_complete
    assert isinstance(gang.reason, Reason)
    assert gang.reason.text.startswith("busy: ")
    w.cluster.put(node("n1", cpu=8000))
    w.advance(5)
    assert all(w.nodes_of(*pods))
    assert w.gang("g").state is GangState.BOUND


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_wait_for_room_do_not_put_those_at_risk_that_run(world: MakeWorld, kind: str) -> None:
    w = world(node("n0", cpu=2000), *minimum(kind, 2))
    pods = [member(w, kind, number, 2) for number in range(3)]
    w.advance(200)
    assert sum(map(bool, w.nodes_of(*pods))) == 2
    assert not [call for call in w.cluster.calls if call[0] == "evict"]
    w.restart()
    w.advance(200)
    assert sum(map(bool, w.nodes_of(*pods))) == 2
    assert not [call for call in w.cluster.calls if call[0] == "evict"]


@pytest.mark.parametrize("kind", KINDS)
def test_gang_grows_and_shrinks_member_by_member(world: MakeWorld, kind: str) -> None:
    w = world(node("n0", cpu=4000), *minimum(kind, 2))
    pods = [member(w, kind, number, 2) for number in range(2)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    more = member(w, kind, 2, 2)
    w.advance(5)
    assert w.nodes_of(more) == ["n0"]
    w.cluster.delete(pods[1])
    w.cluster.reap()
    w.advance(5)
    assert w.gang("g").state is GangState.BOUND
    assert len(w.ledger.holdings) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_lost_member_is_replaced_beside_the_others(world: MakeWorld, kind: str) -> None:
    w = world(node("n0", cpu=2000), node("n1", cpu=2000), *minimum(kind, 3))
    pods = [member(w, kind, number, 3) for number in range(3)]
    w.advance(5)
    (kept,) = {w.now(one).node for one in pods if w.nodes_of(one) == ["n0"]} or {"n0"}
    lost = next(one for one in pods if w.nodes_of(one) == [kept])
    w.cluster.remove(w.now(lost))
    replacement = member(w, kind, 7, 3)
    w.advance(5)
    assert w.nodes_of(replacement) == [kept]


@pytest.mark.parametrize("kind", KINDS)
def test_replacements_of_a_gang_that_runs_are_placed_one_by_one_as_room_allows(
    world: MakeWorld, kind: str
) -> None:
    w = world(node("n0", cpu=4000), *minimum(kind, 4))
    pods = [member(w, kind, number, 4) for number in range(4)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    for lost in pods[1:]:
        w.cluster.remove(w.now(lost))
    others = [w.foreign("n0", f"other-{number}", requests=asks(1000)) for number in range(2)]
    new = [member(w, kind, number, 4) for number in range(4, 7)]
    w.advance(5)
    assert sum(map(bool, w.nodes_of(*new))) == 1
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.code is ReasonCode.BUSY
    w.cluster.remove(others[0])
    w.advance(5)
    assert sum(map(bool, w.nodes_of(*new))) == 2
    w.cluster.remove(others[1])
    w.advance(5)
    assert all(w.nodes_of(*new))
    assert w.gang("g").state is GangState.BOUND


def test_replacement_over_quota_waits_quietly_beside_one_that_has_its_place(world: MakeWorld) -> None:
    limited = Queue("default", quota=Quota(limit={"cpu": 2000}), uid="q")
    w = world(node("n0", cpu=4000), structs.replace(limited, quota=Quota()))
    pods = [member(w, "label", number, 3) for number in range(3)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    w.cluster.put(limited)
    for lost in pods[1:]:
        w.cluster.remove(w.now(lost))
    w.advance(1)
    w.scheduler.unclaimed.update(("g-7", "g-8"))
    new = [member(w, "label", number, 3) for number in (7, 8)]
    w.advance(1)
    assert [bool(w.member(one.uid).assignment) for one in new] == [True, False]
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.code is ReasonCode.OVER_QUOTA
    assert not w.controller.lifecycle.restless
    w.scheduler.unclaimed.clear()


@pytest.mark.parametrize("kind", ["native", "coscheduling"])
def test_size_that_falls_lets_a_waiting_gang_go(world: MakeWorld, kind: str) -> None:
    w = world(node("n0", cpu=4000), *minimum(kind, 4))
    pods = [member(w, kind, number, 4) for number in range(2)]
    w.advance(5)
    assert not any(w.nodes_of(*pods))
    w.cluster.put(minimum(kind, 2)[0])
    w.advance(5)
    assert all(w.nodes_of(*pods))


@pytest.mark.parametrize("kind", ["native", "coscheduling"])
@pytest.mark.parametrize("size", [1, 9])
def test_size_below_or_above_the_bound_members_moves_none(world: MakeWorld, kind: str, size: int) -> None:
    w = world(node("n0", cpu=4000), *minimum(kind, 3))
    pods = [member(w, kind, number, 3) for number in range(3)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    w.cluster.put(minimum(kind, size)[0])
    w.advance(100)
    assert all(w.nodes_of(*pods))
    assert w.gang("g").state is GangState.BOUND


def of_set(w: World, number: int, size: int, owner: Owner, **fields: Any) -> Pod:
    return w.pod(
        f"db-{number}",
        annotations={GROUP_SIZE_ANNOTATION: str(size)},
        owner=owner,
        gates=(GATE,),
        requests=asks(1000, 1),
        **fields,
    )


def test_size_that_a_template_is_given_anew_counts_from_its_newest_pods(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    owner = Owner("StatefulSet", "db", "u")
    pods = [of_set(w, number, 2, owner) for number in range(2)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    more = of_set(w, 2, 3, owner)
    w.advance(5)
    assert w.nodes_of(more) == ["n0"]
    assert w.gang("db").size == 3
    w.cluster.remove(w.now(more))
    back = of_set(w, 3, 2, owner)
    w.advance(5)
    assert w.nodes_of(back) == ["n0"]
    assert w.gang("db").size == 2


def test_size_that_is_given_anew_within_a_second_counts_from_those_without_a_node(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    owner = Owner("StatefulSet", "db", "u")
    pods = [of_set(w, number, 2, owner, created=7.0) for number in range(2)]
    w.advance(5)
    pods += [of_set(w, number, 4, owner, created=7.0) for number in (2, 3)]
    w.advance(5)
    assert all(w.nodes_of(*pods))
    assert w.gang("db").state is GangState.BOUND
    assert w.gang("db").reason is None


@pytest.mark.parametrize("of_one", [True, False])
def test_new_replica_set_of_a_deployment_says_its_size_and_one_of_another_disagrees(
    world: MakeWorld, of_one: bool
) -> None:
    w = world(node("n0", cpu=8000))
    labels = {GROUP_LABEL: "g", "pod-template-hash": "aa"}
    pods = [of_set(w, number, 2, Owner("ReplicaSet", "d-aa", "u1"), labels=labels) for number in range(2)]
    w.advance(5)
    labels = labels | {"pod-template-hash": "bb"}
    name = "d-bb" if of_one else "other-bb"
    new = of_set(w, 2, 3, Owner("ReplicaSet", name, "u2"), labels=labels)
    w.advance(5)
    assert all(w.nodes_of(*pods))
    assert w.nodes_of(new) == ["n0" if of_one else ""]
    reason = w.gang("g").reason
    assert (reason is None) if of_one else (reason is not None and "disagree on its size" in reason.text)


def test_indexed_job_that_is_scaled_changes_its_gang(world: MakeWorld) -> None:
    w = world(node("n0", cpu=4000), Job("default", "j", "u", 3, 3, indexed=True))
    pods = [put(w, job_pod("j", number), f"j-{number}") for number in range(2)]
    w.advance(5)
    assert not any(w.nodes_of(*pods))
    w.cluster.put(Job("default", "j", "u", 2, 2, indexed=True))
    w.advance(5)
    assert all(w.nodes_of(*pods))
    w.cluster.put(Job("default", "j", "u", 3, 3, indexed=True))
    more = put(w, job_pod("j", 2), "j-2")
    w.advance(5)
    assert w.nodes_of(more) == ["n0"]
    assert w.gang("j").state is GangState.BOUND
