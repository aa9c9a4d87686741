"""From waiting to bound, and back when something is lost on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, PLACED_ANNOTATION
from fluence_extender.model.pod import HostPort, Owner
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.room.room import Room
from tests.core.invariants import check_at_rest
from tests.core.values import SEAL, PodFields, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def reason(world: World, name: str) -> str:
    found = world.gang(name).reason
    return found.text if found is not None else ""


def test_gang_waits_until_all_members_exist_and_is_bound_together(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    first = gang(w, "g", 3000, size=2)
    w.advance(3)
    assert reason(w, "g") == "waiting for members (1 of 2 exist)"
    assert w.waits(first[0])
    second = w.pod(
        "g-9",
        labels={GROUP_LABEL: "g"},
        annotations={GROUP_SIZE_ANNOTATION: "2"},
        gates=(GATE,),
        requests=asks(3000, 1),
    )
    w.advance(3)
    assert sorted(w.nodes_of(first[0], second)) == ["n0", "n1"]
    assert w.gang("g").state is GangState.BOUND
    assert reason(w, "g") == ""


def test_gang_that_does_not_fit_is_not_begun_and_comes_when_there_is_room(world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "a", 3000)
    w.advance(2)
    late = gang(w, "b", 2000, 2000)
    w.advance(5)
    assert w.nodes_of(*late) == ["", ""]
    assert reason(w, "b") == "busy: 0 of 2 fit now, short of cpu"
    assert all(w.waits(pod) for pod in late)
    w.change(next(pod for pod in w.cluster.pods() if pod.name == "a-0"), phase="Succeeded")
    w.advance(3)
    assert w.nodes_of(*late) == ["n0", "n0"]


def test_small_gang_passes_one_that_is_too_big(world: MakeWorld) -> None:
    w = world(node("n0"))
    big, small = gang(w, "big", 3000, 3000), gang(w, "small", 1000)
    w.advance(3)
    assert w.nodes_of(*big, *small) == ["", "", "n0"]
    assert reason(w, "big").startswith("unsatisfiable: 1 of 2")


def test_important_gangs_come_first_then_older_ones(world: MakeWorld) -> None:
    w = world(node("n0", unschedulable=True))
    gang(w, "young", 3000, created=30.0)
    gang(w, "old", 3000, created=10.0)
    gang(w, "urgent", 3000, created=20.0, priority=5)
    w.advance(1)
    w.change(node("n0"), unschedulable=False)
    w.advance(3)
    assert [w.gang(name).state for name in ("urgent", "old", "young")] == [
        GangState.BOUND,
        GangState.WAITING,
        GangState.WAITING,
    ]
    w.cluster.remove(next(member.pod for member in w.gang("urgent").members.values()))
    w.advance(3)
    assert w.gang("old").state is GangState.BOUND


@pytest.mark.parametrize("nonsense", ["zero", "0", "-3", "2.5", ""])
def test_gang_of_nonsense_size_waits_with_the_reason(world: MakeWorld, nonsense: str) -> None:
    w = world(node("n0"))
    pod = w.pod("p", labels={GROUP_LABEL: "g"}, annotations={GROUP_SIZE_ANNOTATION: nonsense}, gates=(GATE,))
    w.advance(3)
    assert "whole number" in reason(w, "g")
    assert w.waits(pod)
    w.change(pod, annotations={GROUP_SIZE_ANNOTATION: "1"})
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


def test_pod_whose_requests_can_not_be_read_keeps_its_gang_waiting(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = w.pod(
        "p", gates=(GATE,), problem="spec.containers[0].resources.requests.cpu: '1x' isn't a quantity"
    )
    w.advance(3)
    assert reason(w, "p").startswith("pod p: spec.containers[0]")
    assert w.waits(pod)


def test_gates_of_others_are_waited_for(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 1000, 1000, gates=(GATE, "example.com/quota"))
    w.advance(3)
    assert reason(w, "g") == "waiting for scheduling gates of others: example.com/quota"
    for pod in pods:
        w.change(pod, gates=())
    w.advance(3)
    assert w.nodes_of(*pods) == ["n0", "n0"]


def test_planned_gang_is_committed_from_the_first_ungate(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 1000, 1000)
    w.advance(1)
    assert w.gang("g").state is GangState.COMMITTED
    assert [(w.now(pod).nominated, w.now(pod).gates) for pod in pods] == [("n0", ())] * 2
    ungated = gang(w, "h", 1000, gates=())
    w.advance(1)
    assert w.gang("h").state is GangState.PLANNED
    assert w.now(ungated[0]).nominated == "n0"


def test_gang_gives_its_places_back_when_it_stops_being_whole_before_it_began(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 2000, 2000)
    w.advance(1)
    w.cluster.delete(pods[0])
    w.advance(1)
    assert w.now(pods[1]).nominated == ""
    assert not w.ledger.holdings
    assert reason(w, "g") == "waiting for members (1 of 2 exist)"
    other = gang(w, "other", 4000)
    w.advance(1)
    assert w.now(other[0]).nominated == "n0"


def test_deleted_pod_group_takes_the_plan_with_it(world: MakeWorld) -> None:
    group = PodGroup("default", "pg", "uid", 2)
    w = world(node("n0"), group, scheduling=False)
    pods = [w.pod(f"p{number}", group="pg", gates=(GATE,), requests=asks(1000)) for number in range(2)]
    w.advance(1)
    assert [w.now(pod).nominated for pod in pods] == ["n0", "n0"]
    w.cluster.remove(group)
    w.advance(1)
    assert [w.now(pod).nominated for pod in pods] == ["", ""]
    assert reason(w, "pg") == "waiting for PodGroup default/pg to exist"
    w.cluster.put(group)
    w.advance(1)
    assert [w.now(pod).nominated for pod in pods] == ["n0", "n0"]


def test_members_beyond_the_minimum_come_as_far_as_there_is_room(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "pg", "uid", 2))
    pods = [w.pod(f"p{number}", group="pg", gates=(GATE,), requests=asks(1000)) for number in range(6)]
    w.advance(3)
    assert w.nodes_of(*pods) == ["n0"] * 4 + ["", ""]
    w.cluster.put(node("n1", 1000))
    w.advance(3)
    assert w.nodes_of(*pods) == ["n0"] * 4 + ["n1", ""]


def test_succeeded_members_of_a_job_count(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "j", "juid", 2, 2))
    fields: PodFields = {"labels": {GROUP_LABEL: "j"}, "owner": Owner("Job", "j", "juid"), "gates": (GATE,)}
    first, second = (
        w.pod(f"j-{number}", **(fields | {"requests": asks(3000 - 2000 * number)})) for number in range(2)
    )
    w.advance(3)
    assert w.nodes_of(first, second) == ["n0", "n0"]
    w.change(first, phase="Succeeded")
    w.change(second, phase="Failed")
    again = w.pod("j-1b", **(fields | {"requests": asks(1000)}))
    w.advance(3)
    assert w.nodes_of(again) == ["n0"]


def test_members_that_ended_under_another_owner_do_not_count(world: MakeWorld) -> None:
    w = world(node("n0"), Job("default", "j", "one", 2, 2))
    done = w.pod("old", labels={GROUP_LABEL: "g"}, owner=Owner("Job", "i", "zero"), phase="Succeeded")
    pod = w.pod("j-0", labels={GROUP_LABEL: "g"}, owner=Owner("Job", "j", "one"), gates=(GATE,))
    w.advance(3)
    assert done.finished
    assert reason(w, "g") == "waiting for members (1 of 2 exist)"
    assert w.nodes_of(pod) == [""]


def test_lost_member_is_replaced_beside_those_that_run(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    pods = gang(w, "g", 3000, 3000)
    w.advance(3)
    w.change(pods[0], phase="Failed")
    again = w.pod(
        "g-new", labels=pods[0].labels, annotations=pods[0].annotations, gates=(GATE,), requests=asks(3000)
    )
    w.advance(3)
    assert w.nodes_of(again) == w.nodes_of(pods[0])
    assert w.gang("g").state is GangState.BOUND


def test_namesake_with_a_new_uid_is_another_pod(world: MakeWorld) -> None:
    w = world(node("n0"))
    old = w.pod("p", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    w.cluster.remove(old)
    new = w.pod("p", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    assert w.nodes_of(new) == ["n0"]
    assert set(w.ledger.holdings) == {new.uid}


def test_node_that_is_cordoned_or_lost_under_a_plan_is_left(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"), scheduling=False)
    pods = gang(w, "g", 3000, 3000)
    w.advance(1)
    w.change(node("n0"), unschedulable=True)
    w.advance(1)
    assert sorted(w.now(pod).nominated for pod in pods) == ["n1", "n2"]
    w.cluster.remove(node("n1"))
    w.advance(1)
    assert [w.now(pod).nominated for pod in pods] == ["", ""]
    w.change(node("n0"), unschedulable=False)
    w.advance(1)
    assert sorted(w.now(pod).nominated for pod in pods) == ["n0", "n2"]


def test_foreign_pods_on_held_capacity_move_members_that_are_not_bound(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    pod = gang(w, "g", 3000)[0]
    w.advance(1)
    w.foreign("n0", "daemon", requests=asks(2000))
    w.advance(1)
    assert w.now(pod).nominated == "n1"
    assert w.ledger.overcommitted == set()


def test_only_as_many_move_as_must(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    pods = [gang(w, f"g{number}", 2000)[0] for number in range(2)]
    w.advance(1)
    w.foreign("n0", "daemon", requests=asks(1000))
    w.advance(1)
    assert Counter(w.now(pod).nominated for pod in pods) == {"n0": 1, "n1": 1}


def test_begun_gang_is_completed_beside_its_bound_members(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    pods = gang(w, "g", 3000, 3000)
    w.change(pods[0], node="n0")
    w.advance(1)
    assert w.gang("g").state is GangState.COMMITTED
    assert w.now(pods[1]).nominated == "n1"
    w.cluster.remove(node("n1"))
    w.advance(1)
    assert w.ledger.holds(pods[0].uid, "n0")
    assert w.now(pods[1]).nominated == ""
    w.cluster.put(node("n2"))
    w.advance(1)
    assert w.now(pods[1]).nominated == "n2"


def test_begun_gang_comes_before_all_others(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1", unschedulable=True), scheduling=False)
    late = gang(w, "g", 3000, 3000)
    notes = {**late[0].annotations, PLACED_ANNOTATION: SEAL.on_pod(late[0], "2 group/g")}
    w.change(late[0], node="n0", annotations=notes)
    important = gang(w, "a", 3000, priority=1000, preempts=False)
    w.advance(1)
    w.change(node("n1"), unschedulable=False)
    w.advance(1)
    assert w.now(late[1]).nominated == "n1"
    assert w.now(important[0]).nominated == ""


def test_gang_that_can_not_be_completed_is_evicted_with_the_reason(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 3000, 3000)
    w.change(pods[0], node="n0")
    w.advance(20)
    assert not w.now(pods[0]).deleting
    w.advance(10)
    assert w.now(pods[0]).deleting
    assert any("could not be completed within 25 s: " in text for text in w.told())
    w.cluster.reap()
    w.advance(5)
    assert not w.ledger.holdings


def test_gang_begun_again_after_an_eviction_has_its_whole_time(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 3000, 3000)
    w.change(pods[0], node="n0")
    w.advance(27)
    w.cluster.reap()
    w.advance(40)
    w.change(pods[1], node="n0")
    w.advance(5)
    assert not w.now(pods[1]).deleting


def test_eviction_that_is_not_allowed_is_tried_again(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 3000, 3000)
    w.change(pods[0], node="n0")
    w.cluster.protected.add(pods[0].uid)
    w.advance(30)
    assert not w.now(pods[0]).deleting
    w.cluster.protected.clear()
    w.advance(30)
    assert w.now(pods[0]).deleting


def test_gang_that_was_whole_and_lost_a_member_is_not_evicted(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 1000, 1000)
    w.advance(3)
    w.change(pods[0], phase="Failed")
    w.advance(60)
    assert not w.now(pods[1]).deleting


@pytest.mark.parametrize("replaces", [True, False])
def test_restart_tells_a_replacement_from_a_member_that_never_began(world: MakeWorld, replaces: bool) -> None:
    w = world(node("n0", cpu=2000), node("n1", cpu=1000))
    pods = gang(w, "g", 1000, 1000, 1000)
    w.advance(3)
    stay = [one for one in pods if w.nodes_of(one) == ["n0"]]
    (lost,) = (one for one in pods if w.nodes_of(one) == ["n1"])
    w.cluster.remove(next(one for one in w.cluster.nodes() if one.name == "n1"))
    w.kill()
    for one in stay:
        w.change(one, phase="Running", started=one.created + 10)
    w.cluster.remove(w.now(lost))
    again = w.pod(
        "g-again",
        labels=lost.labels,
        annotations=lost.annotations,
        gates=(GATE,),
        requests=asks(1000, 1),
        created=lost.created + (20 if replaces else 0),
    )
    w.restart()
    w.advance((w.limits.completion or 0.0) + 60)
    assert w.nodes_of(again) == [""]
    assert any(w.now(one).deleting for one in stay) is not replaces


def test_pods_end_frees_its_share_and_all_gone_is_finished(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = gang(w, "g", 2000, 2000)
    w.advance(3)
    w.change(pods[0], phase="Succeeded")
    w.advance(1)
    assert w.ledger.accounts["n0"].free["cpu"] == 2000
    w.change(pods[1], phase="Failed")
    w.advance(1)
    assert w.gang("g").state is GangState.FINISHED
    for pod in pods:
        w.cluster.remove(pod)
    w.advance(1)
    assert not w.controller.registry.gangs


def test_pod_being_deleted_keeps_its_share_until_it_is_gone(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = gang(w, "g", 4000)[0]
    w.advance(3)
    w.cluster.delete(pod)
    waiting = gang(w, "h", 4000)[0]
    w.advance(3)
    assert w.nodes_of(waiting) == [""]
    w.cluster.reap()
    w.advance(3)
    assert w.nodes_of(waiting) == ["n0"]


def test_three_pods_share_a_node_and_host_ports_do_not(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    three = gang(w, "three", 1000, 1000, 1000)
    ports = gang(w, "ports", 100, 100, host_ports=(HostPort(80),))
    w.advance(3)
    assert w.nodes_of(*three) == ["n0"] * 3
    assert sorted(w.nodes_of(*ports)) == ["n0", "n1"]


def test_order_of_what_is_seen_does_not_matter(world: MakeWorld) -> None:
    w = world(scheduling=False)
    w.cluster.held = True
    pods = [
        w.pod(
            f"j-{number}",
            labels={GROUP_LABEL: "j"},
            owner=Owner("Job", "j", "u"),
            gates=(GATE,),
            requests=asks(1000),
        )
        for number in range(2)
    ]
    w.cluster.put(node("n0"))
    w.cluster.put(Job("default", "j", "u", 2, 2))
    for _ in range(4):
        w.cluster.deliver(1)
        w.advance(0.1)
    w.cluster.held = False
    w.advance(1)
    assert [w.now(pod).nominated for pod in pods] == ["n0", "n0"]


def test_everything_comes_to_rest(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}", 8000) for number in range(4)))
    for number in range(12):
        gang(w, f"g{number}", *[1000 + 500 * (number % 3)] * (1 + number % 4))
    w.advance(30)
    check_at_rest(w)


def test_gang_whose_planning_breaks_does_not_keep_others_waiting(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Planner.plan

    def breaking(
        self: Planner, room: Room, demands: Sequence[Demand], settled: Sequence[SettledMember]
    ) -> tuple[Assignment, ...]:
        if demands[0].pod.name.startswith("bad"):
            raise RuntimeError("a defect")
        return plan(self, room, demands, settled)

    monkeypatch.setattr(Planner, "plan", breaking)
    w = world(node("n0"))
    bad, good = gang(w, "bad", 1000), gang(w, "good", 1000)
    w.advance(3)
    assert w.nodes_of(*bad, *good) == ["", "n0"]
    assert "a defect" in reason(w, "bad")
    w.cluster.remove(w.now(bad[0]))
