"""Pods that a node alone decides: the service binds them itself, with their gang and by one write each."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied, NoAnswer
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.model.gang import GangState
from fluence_extender.model.pod import Owner, Pod, Requirement
from fluence_extender.model.reason import ReasonCode
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang, give_up

JOB = Owner("Job", "j", "uid-j", "batch/v1")
DENIED = Denied("admission webhook denied the request", 403)


def reason(w: World, name: str) -> str:
    """Why the gang waits, "" if it doesn't."""
    found = w.gang(name).reason
    return "" if found is None else found.text


def writes(w: World) -> list[str]:
    """The verbs of all writes so far."""
    return [verb for verb, _ in w.cluster.calls]


def test_gang_of_direct_pods_is_bound_by_one_write_each(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    pods = gang(w, "g", 3000, 3000)
    w.advance(1)
    assert sorted(w.nodes_of(*pods)) == ["n0", "n1"]
    assert writes(w) == ["bind", "bind"]
    assert w.scheduler.attempts == 0


def test_no_direct_pod_is_bound_before_its_gang_is_whole_and_has_room(world: MakeWorld) -> None:
    w = world(node("n0"))
    first = gang(w, "g", 3000, size=2)
    w.advance(5)
    assert w.nodes_of(*first) == [""]
    second = w.pod("g-1", labels=first[0].labels, annotations=first[0].annotations, requests=asks(3000, 1))
    w.advance(5)
    assert w.nodes_of(*first, second) == ["", ""]
    assert "bind" not in writes(w)
    w.cluster.put(node("n1"))
    w.advance(2)
    assert sorted(w.nodes_of(*first, second)) == ["n0", "n1"]


def test_direct_members_are_bound_once_the_filtered_ones_are_at_the_barrier(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.scheduler.refusing = {"n0": 3, "n1": 3}
    labels, annotations = (
        {"fluence.flux-framework.org/group": "g"},
        {"fluence.flux-framework.org/group-size": "3"},
    )
    common: dict[str, Any] = {"labels": labels, "annotations": annotations, "requests": asks(1000, 1)}
    direct = [w.pod(f"d-{number}", **common) for number in range(2)]
    judged = w.pod("f", gates=("fluence.flux-framework.org/gang",), interdependent=True, **common)
    seen = []
    for _ in range(400):
        w.advance(0.05)
        seen.append((bool(w.now(judged).node), [bool(one) for one in w.nodes_of(*direct)]))
        if all(w.nodes_of(*direct, judged)):
            break
        assert not any(w.nodes_of(*direct)) or w.gang("g").barrier.open
    assert all(w.nodes_of(*direct, judged))
    assert not w.scheduler.premature


def test_direct_members_go_first_where_a_filtered_one_has_to_be_near_them(world: MakeWorld) -> None:
    w = world(node("n0"))
    near = ((Requirement("role", "In", ("server",)),),)
    w.scheduler.rules.append(lambda pod, at, placed: pod.name != "f" or placed.get("d") == at)
    annotations = {"fluence.flux-framework.org/group-size": "2"}
    group = "fluence.flux-framework.org/group"
    direct = w.pod("d", labels={group: "g", "role": "server"}, annotations=annotations, requests=asks(500, 1))
    judged = w.pod(
        "f",
        labels={group: "g"},
        annotations=annotations,
        requests=asks(500, 1),
        interdependent=True,
        pod_affinity=near,
        gates=("fluence.flux-framework.org/gang",),
    )
    w.scheduler.begun_elsewhere.add("g")
    w.advance(10)
    assert w.nodes_of(direct, judged) == ["n0", "n0"]


def test_no_direct_member_runs_in_vain_beside_one_that_is_refused(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.scheduler.unclaimed.add("f")
    labels, annotations = (
        {"fluence.flux-framework.org/group": "g"},
        {"fluence.flux-framework.org/group-size": "2"},
    )
    common: dict[str, Any] = {"labels": labels, "annotations": annotations, "requests": asks(1000, 1)}
    direct = w.pod("d", **common)
    w.pod("f", interdependent=True, gates=("fluence.flux-framework.org/gang",), **common)
    for _ in range(40):
        w.advance(1)
        assert w.nodes_of(direct) == [""]


def test_gang_whose_member_can_not_be_bound_is_evicted_after_its_limit(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, second = gang(w, "g", 1000, 1000)
    bind = w.cluster.bind

    async def refuse_one(pod: Pod, to: str, annotations: Any) -> None:
        if pod.uid == second.uid:
            raise DENIED
        await bind(pod, to, annotations)

    w.cluster.bind = refuse_one  # type: ignore[assignment,method-assign]
    w.advance(5)
    assert w.nodes_of(first, second) == ["n0", ""]
    found = w.gang("g").reason
    assert found is not None
    assert found.code is ReasonCode.CANNOT_BIND
    assert "g-1 can't be bound to n0: admission webhook denied the request" in found.text
    give_up(w)
    assert w.now(first).deleting


@pytest.mark.parametrize(
    "error",
    [
        Conflict("the pod is being changed", 409),
        ClusterError("etcd: leader changed", 500),
        ClusterError("too many requests", 429),
        NoAnswer("connection reset", 0),
        DENIED,
    ],
    ids=["409", "500", "429", "no answer", "403"],
)
@pytest.mark.parametrize("times", [1, 7, 60])
def test_gang_is_completed_however_often_the_api_server_fails(
    world: MakeWorld, error: ClusterError, times: int
) -> None:
    w = world(node("n0"), limits=Limits(completion=None))
    w.cluster.fail("bind", error, times=times)
    pods = gang(w, "g", 500, 500, 500)
    w.advance(200)
    assert w.nodes_of(*pods) == ["n0"] * 3
    assert (w.gang("g").state, reason(w, "g")) == (GangState.BOUND, "")


@pytest.mark.parametrize("written", range(7))
def test_gang_is_whole_after_the_service_was_killed_between_any_two_bindings(
    world: MakeWorld, written: int
) -> None:
    w = world(node("n0"), node("n1"))
    bind, done = w.cluster.bind, list[str]()

    async def bind_some(pod: Pod, to: str, annotations: Any) -> None:
        if len(done) >= written:
            raise NoAnswer("killed", 0)
        done.append(pod.name)
        await bind(pod, to, annotations)

    w.cluster.bind = bind_some  # type: ignore[assignment,method-assign]
    pods = gang(w, "g", *[1000] * 6)
    w.advance(1)
    rival = gang(w, "rival", *[1000] * 3, priority=5)
    w.kill()
    w.cluster.bind = bind  # type: ignore[method-assign]
    assert sum(bool(one) for one in w.nodes_of(*pods)) == min(written, 6)
    w.start()
    w.advance(30)
    whole = [sum(bool(one) for one in w.nodes_of(*some)) for some in (pods, rival)]
    # Before the first Binding nothing was promised, so the gang of higher priority may come first.
    assert whole == ([6, 0] if written else [0, 3])


def test_member_that_another_hand_binds_elsewhere_is_completed_beside(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.delays["bind"] = 0.5
    pods = gang(w, "g", 1000, 1000)
    w.advance(0.1)
    w.disturb("n1")
    w.change(pods[0], node="n1")
    w.advance(5)
    assert w.nodes_of(*pods)[0] == "n1"
    assert all(w.nodes_of(*pods))
    assert w.gang("g").state is GangState.BOUND


def test_pod_whose_node_is_cordoned_while_its_binding_fails_goes_elsewhere(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.fail("bind", DENIED, times=10_000)
    (pod,) = gang(w, "g", 1000)
    w.advance(4)
    member = w.member(pod.uid)
    assert member.assignment is not None
    where = member.assignment.node
    w.change(next(one for one in w.cluster.nodes() if one.name == where), unschedulable=True)
    w.cluster._failures.clear()
    w.advance(8)
    assert w.nodes_of(pod)[0] not in ("", where)


def test_edit_of_a_pod_between_its_plan_and_its_binding_counts(world: MakeWorld) -> None:
    w = world(
        node("n0", labels={"pool": "a"}), node("n1", labels={"pool": "b"}), scheduling=False, direct=True
    )
    w.cluster.fail("bind", DENIED, times=10_000)
    (pod,) = gang(w, "g", 1000, node_selector={})
    w.advance(4)
    w.change(pod, node_selector={"pool": "b"})
    w.cluster._failures.clear()
    w.advance(8)
    assert w.nodes_of(pod) == ["n1"]


def test_direct_pod_that_more_than_its_node_decides_is_never_bound_and_says_why(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (pod,) = gang(w, "g", 1000, scheduler="fluence-direct", gates=(), interdependent=True)
    w.advance(3)
    assert w.nodes_of(pod) == [""]
    assert reason(w, "g").startswith(
        "pod g-0: it names scheduler fluence-direct, whose pods kube-scheduler's filters"
    )
    assert reason(w, "g").endswith("create it anew with schedulerName: fluence")


def test_service_that_leaves_binding_to_kube_scheduler_says_what_to_do_with_direct_pods(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), limits=Limits(binds_direct=False))
    (pod,) = gang(w, "g", 1000)
    w.advance(3)
    assert w.nodes_of(pod) == [""]
    assert "this service binds no pods by itself (--bind-by=kube-scheduler)" in reason(w, "g")


def test_one_event_on_the_owner_says_where_a_gang_runs(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    gang(w, "g", 3000, 3000, owner=JOB)
    gang(w, "alone", 100)
    w.advance(3)
    told = [one for one in w.cluster.events if one.reason == "Scheduled"]
    assert [(one.regarding.kind, one.regarding.name, one.message) for one in told] == [
        ("Job", "j", "gang default/g: 2 pods run on n0, n1")
    ]
    w.restart()
    w.advance(3)
    assert len([one for one in w.cluster.events if one.reason == "Scheduled"]) == 1


def test_every_direct_pod_that_waits_has_a_condition_that_says_so(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), limits=Limits(announced_members=2))
    pods = gang(w, "g", *[1000] * 4)
    w.advance(5)
    texts = [w.cluster.waiting.get(pod.uid, "") for pod in pods]
    assert texts[:2] == [f"gang default/g: {reason(w, 'g')}"] * 2
    assert (
        texts[2:]
        == [
            "gang default/g waits for its places: `kubectl fluence why` and the first of its pods say for what"
        ]
        * 2
    )
    w.cluster.put(node("n1", cpu=500))
    written = len(w.cluster.calls)
    w.advance(30)
    assert len(w.cluster.calls) == written


def test_binding_that_had_no_answer_keeps_its_place_while_later_tries_are_refused(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    w.cluster.fail("bind", NoAnswer("connection reset", 0))
    w.cluster.fail("bind", ClusterError("etcd: leader changed", 500), times=1000)
    (pod,) = gang(w, "g", 1000)
    w.advance(20)
    (other,) = gang(w, "other", 1000, priority=10)
    w.change(next(iter(w.cluster.nodes())), unschedulable=True)
    w.advance(10)
    assert w.member(pod.uid).assignment
    assert w.nodes_of(pod, other) == ["", ""]
    w.cluster._failures.clear()
    w.advance(60)
    assert not w.member(pod.uid).assignment
    w.change(next(iter(w.cluster.nodes())), unschedulable=False)
    w.advance(10)
    assert w.nodes_of(pod, other) == ["", "n0"]


def test_pod_that_waits_for_its_turn_to_be_bound_is_not_bound_to_a_node_that_was_cordoned(
    world: MakeWorld,
) -> None:
    w = world(node("n0", 1_000_000, 1000, pods=1000), node("n1", 1_000_000, 1000, pods=1000))
    w.cluster.delays["bind"] = 2.0
    crowd = [w.pod(f"c-{number}", requests=asks(1)) for number in range(300)]
    w.advance(0.5)
    for one in w.cluster.nodes():
        if one.name == "n0":
            w.change(one, unschedulable=True)
    at_once = len([call for call, _ in w.cluster.calls if call == "bind"])
    w.advance(60)
    nodes = w.nodes_of(*crowd)
    assert "" not in nodes
    assert nodes.count("n0") <= at_once


def test_gang_is_a_victim_once_its_bindings_are_done(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.delays["bind"] = 2.0
    (low,) = gang(w, "low", 3000)
    w.advance(0.5)
    (high,) = gang(w, "high", 3000, priority=10)
    w.advance(8)
    w.cluster.reap()
    w.advance(5)
    assert w.nodes_of(high) == ["n0"]
    assert not [one for one in w.cluster.pods() if one.uid == low.uid]
