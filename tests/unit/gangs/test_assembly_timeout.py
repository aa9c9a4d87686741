"""A gang that doesn't assemble in time is told so, holds nothing, and is placed when it is whole after all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.kinds.podgroups import CoschedulingGroup
from fluence_extender.model.names import GATE, SCHEDULE_TIMEOUT_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, gang

GROUP = {"scheduling.x-k8s.io/pod-group": "g"}


def reason(w: World, name: str = "g") -> Reason:
    found = w.gang(name).reason
    assert found is not None
    return found


def coscheduled(w: World, number: int) -> Pod:
    return w.pod(f"g-{number}", labels=GROUP, gates=(GATE,), requests=asks(1000, 1))


def test_gang_that_lacks_a_member_times_out_by_the_services_limit(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(LIMITS, assembly=40.0))
    pods = gang(w, "g", 1000, 1000, size=3)
    w.advance(35)
    assert reason(w).code is ReasonCode.WAITING_FOR_MEMBERS
    w.advance(10)
    assert reason(w) == Reason(
        ReasonCode.TIMED_OUT, "timed out after 40 s: waiting for members (2 of 3 exist)"
    )
    assert not w.ledger.holdings
    assert "gang default/g: timed out after 40 s: waiting for members (2 of 3 exist)" in w.told()
    w.advance(500)
    assert [event.count for event in w.cluster.events if event.reason == "TimedOut"] == [1, 1]
    w.pod("g-2", labels=pods[0].labels, annotations=pods[0].annotations, gates=(GATE,), requests=asks(1000))
    w.advance(5)
    assert all(w.nodes_of(*pods))


def test_pod_groups_own_timeout_counts_and_without_one_that_of_the_service(world: MakeWorld) -> None:
    w = world(node("n0"), CoschedulingGroup("default", "g", "u", 3, 8.0), limits=replace(LIMITS, assembly=40))
    coscheduled(w, 0)
    w.advance(10)
    assert reason(w).text == "timed out after 8 s: waiting for members (1 of 3 exist)"
    w.cluster.put(CoschedulingGroup("default", "g", "u", 3))
    w.advance(5)
    assert reason(w).code is ReasonCode.WAITING_FOR_MEMBERS
    w.advance(40)
    assert reason(w).text.startswith("timed out after 40 s: ")


def test_annotated_timeout_counts(world: MakeWorld) -> None:
    w = world(node("n0"))
    (one,) = gang(w, "g", 1000, size=2)
    w.change(one, annotations={**one.annotations, SCHEDULE_TIMEOUT_ANNOTATION: "15"})
    w.advance(20)
    assert reason(w).text == "timed out after 15 s: waiting for members (1 of 2 exist)"


def test_pod_group_that_never_comes_times_out_as_well(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(LIMITS, assembly=20.0))
    coscheduled(w, 0)
    w.advance(25)
    assert reason(w).text == "timed out after 20 s: waiting for PodGroup default/g to exist"


def test_gang_that_is_whole_and_waits_for_room_or_gates_does_not_time_out(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), limits=replace(LIMITS, assembly=10.0))
    gang(w, "wide", 1000, 1000)
    gang(w, "gated", 100, 100, gates=(GATE, "kueue.x-k8s.io/admission"))
    w.advance(60)
    assert reason(w, "wide").code is ReasonCode.UNSATISFIABLE
    assert reason(w, "gated").code is ReasonCode.WAITING_FOR_GATES


def test_time_begins_anew_when_a_whole_gang_loses_a_member(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), limits=replace(LIMITS, assembly=30.0))
    w.foreign("n0", "runs", requests=asks(1000))
    pods = gang(w, "g", 1000, 1000)
    w.advance(100)
    w.cluster.remove(pods[0])
    w.advance(10)
    assert reason(w).code is ReasonCode.WAITING_FOR_MEMBERS
    w.advance(25)
    assert reason(w).code is ReasonCode.TIMED_OUT


def test_gang_that_can_never_fit_keeps_that_reason(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), limits=replace(LIMITS, assembly=30.0))
    gang(w, "g", 1000, size=2)
    w.advance(60)
    assert reason(w).code is ReasonCode.UNSATISFIABLE
    w.cluster.put(node("n1", cpu=1000))
    w.advance(1)
    assert reason(w).code is ReasonCode.TIMED_OUT


def test_without_a_limit_a_gang_waits_for_ever(world: MakeWorld) -> None:
    w = world(node("n0"), limits=replace(LIMITS, assembly=None))
    gang(w, "g", 1000, size=2)
    w.advance(5000)
    assert reason(w).code is ReasonCode.WAITING_FOR_MEMBERS


@pytest.mark.parametrize("patience", [None, 8.0])
def test_begun_gang_is_evicted_within_its_own_limit(world: MakeWorld, patience: float | None) -> None:
    group = CoschedulingGroup("default", "g", "u", 2, patience)
    w = world(node("n0", cpu=1000), group, scheduling=False)
    first = coscheduled(w, 0)
    w.disturb("n0")
    w.change(first, node="n0", gates=())
    coscheduled(w, 1)
    w.advance(12)
    evicted = [call for call in w.cluster.calls if call[0] == "evict"]
    assert bool(evicted) is (patience is not None)
    w.advance(20)
    assert ("evict", "default/g-0") in w.cluster.calls
