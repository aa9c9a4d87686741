"""Jobs whose pods are created with their nodes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied, NoAnswer, PodsUnknown
from fluence_extender.cluster.port import BINDS_FOR, ResourcesFile
from fluence_extender.gangs.lifecycle import expected_pods, namespace_quotas
from fluence_extender.gangs.membership.job_pods import JobPods, shape
from fluence_extender.kinds.job import Job
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import (
    BACKEND_ANNOTATION,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
    QUEUE_LABEL,
    REPLICATED_JOB,
)
from fluence_extender.model.pod import HostPort, Owner, Pod, PodTerm
from fluence_extender.model.submission import Submission
from fluence_extender.objects.queues import PriorityClass, Queue, SchedulingOptions
from tests.core.invariants import check
from tests.core.job_controller import index_of
from tests.core.values import PodFields, asks, node
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, gang


def test_pods_of_a_placed_job_are_created_with_their_nodes(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 6)
    w.advance(2)
    assert sorted(w.jobs.nodes(job)) == ["n0"] * 4 + ["n1"] * 2
    assert len(w.jobs.with_node) == 6
    assert not w.jobs.late
    assert w.gang("a").state is GangState.BOUND
    check(w)


def test_pods_are_bound_by_their_creation(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False, direct=True)
    job = w.jobs.submit("a", 4)
    w.advance(2)
    assert [(pod.node, pod.affinity) for pod in w.jobs.pods(job)] == [("n0", None)] * 4
    assert w.gang("a").state is GangState.BOUND
    check(w)
    w.restart()
    w.advance(1)
    assert w.gang("a").state is GangState.BOUND
    check(w)


def test_pod_that_comes_long_after_the_plan_is_bound_to_the_place_of_its_index(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 4)
    w.advance(2 + BINDS_FOR)
    w.jobs.quota = 0
    w.change(w.jobs.pods(job)[2], phase="Failed")
    other = w.jobs.submit("b", 1)
    w.advance(3)
    w.jobs.quota = None
    w.advance(3)
    (late,) = [pod for pod in w.jobs.pods(job) if pod.name in w.jobs.late]
    assert (late.node, index_of(late)) == ("n0", 2)
    assert ("bind", late.key) in w.cluster.calls
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert w.jobs.nodes(other) == [""]
    check(w)


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 2, "completions": 2},
        {"parallelism": 2},
        {"parallelism": 0},
    ],
    ids=["fewer indexes", "fewer at once", "none at once"],
)
def test_job_that_becomes_smaller_gives_back_what_no_pod_will_take(
    spec: dict[str, int], world: MakeWorld
) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 4)
    w.advance(2)
    w.change_job(job, **spec)
    # The Job controller deletes the pods with the highest indexes.
    for pod in w.jobs.pods(job)[spec["parallelism"] :]:
        w.cluster.remove(pod)
    w.advance(2)
    assert len(w.controller.ledger.holdings) == spec["parallelism"]
    w.restart()
    w.advance(2)
    assert len(w.controller.ledger.holdings) == spec["parallelism"]
    other = w.jobs.submit("b", 4 - spec["parallelism"])
    w.advance(5)
    assert w.jobs.nodes(other) == ["n0"] * (4 - spec["parallelism"])
    check(w)


def test_no_pod_is_planned_where_another_pod_keeps_it_away(world: MakeWorld) -> None:
    host = "kubernetes.io/hostname"
    w = world(*(node(name, cpu=8000, labels={host: name}) for name in ("n0", "n1")))
    w.foreign("n0", "f", requests=asks(100, 1), apart=(PodTerm(host, (), ("default",)),))
    first = w.jobs.submit("a", 2)
    w.advance(2)
    assert w.jobs.nodes(first) == ["n1"] * 2
    w.cluster.remove(next(pod for pod in w.cluster.pods() if pod.name == "f"))
    second = w.jobs.submit("b", 2)
    w.advance(2)
    assert w.jobs.nodes(second) == ["n0"] * 2
    check(w)


def test_one_write_places_a_whole_job(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.submit("a", 4)
    w.advance(2)
    assert [verb for verb, _ in w.cluster.calls if verb != "bind"] == ["dry_run", "resume"]


def test_job_that_does_not_fit_stays_suspended_without_pods(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 5)
    w.advance(10)
    assert not w.jobs.pods(job)
    assert w.cluster.job(job).held_for_placement
    told = [event for event in w.cluster.events if event.regarding.kind == "Job"]
    assert [(event.regarding.name, event.count) for event in told] == [("a", 1)]
    check(w)


def test_waiting_job_is_placed_once_there_is_room(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, second = w.jobs.submit("a", 4), w.jobs.submit("b", 3)
    w.advance(3)
    assert not w.jobs.pods(second)
    for pod in w.jobs.pods(first):
        w.change(pod, phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(second) == ["n0"] * 3
    assert w.cluster.job(first).finished
    check(w)


def test_share_is_held_from_the_plan_to_the_creation(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit("a", 4)
    w.advance(1)
    other = w.jobs.submit("b", 2)
    w.advance(3)
    assert not w.jobs.pods(other)
    w.jobs.quota = None
    w.advance(2)
    assert w.jobs.nodes(job) == ["n0"] * 4


def test_restart_between_plan_and_creation_keeps_the_places(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.jobs.quota = 0
    job = w.jobs.submit("a", 6)
    w.advance(1)
    plan = w.cluster.job(job).nodes
    w.restart()
    other = w.jobs.submit("b", 4)
    w.advance(3)
    assert not w.jobs.pods(other)
    w.jobs.quota = 3
    w.advance(1)
    w.restart()
    w.jobs.quota = None
    w.advance(3)
    assert tuple(w.jobs.nodes(job)) == plan
    assert w.gang("a").state is GangState.BOUND
    check(w)


def test_replacement_of_a_failed_pod_goes_back_to_its_node(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 8)
    w.advance(2)
    before = w.jobs.nodes(job)
    w.jobs.quota = 0
    w.change(w.jobs.pods(job)[3], phase="Failed")
    other = w.jobs.submit("b", 2)
    w.advance(5)
    assert not w.jobs.pods(other)
    check(w)
    w.jobs.quota = None
    w.advance(2)
    assert w.jobs.nodes(job) == before
    check(w)


def test_replacement_is_placed_anew_where_its_node_is_gone(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    job = w.jobs.submit("a", 8)
    w.advance(2)
    lost = w.jobs.pods(job)[0].node
    w.advance(BINDS_FOR)
    w.cluster.remove(next(one for one in w.cluster.nodes() if one.name == lost))
    for pod in w.jobs.pods(job):
        if pod.node == lost:
            w.cluster.remove(pod)
    w.advance(20)
    assert sorted(w.jobs.nodes(job)) == sorted(
        name for name in ("n0", "n1", "n2") if name != lost for _ in range(4)
    )
    check(w)


def test_job_of_which_a_pod_was_placed_anew_leaves_nothing_behind_when_it_ends(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    job = w.jobs.submit("a", 8)
    w.advance(2 + BINDS_FOR)
    lost = w.jobs.pods(job)[0].node
    w.change(next(one for one in w.cluster.nodes() if one.name == lost), unschedulable=True)
    w.change(w.jobs.pods(job)[0], phase="Failed")
    w.advance(20)
    (late,) = [pod for pod in w.jobs.pods(job) if pod.name in w.jobs.late]
    assert late.node not in ("", lost)
    w.restart()
    for pod in w.jobs.pods(job):
        if not pod.finished:
            w.change(pod, phase="Succeeded")
    w.advance(2)
    assert not w.ledger.holdings
    check(w)


@pytest.mark.parametrize("in_time", [True, False])
def test_job_whose_pods_and_node_are_all_gone_is_placed_anew(world: MakeWorld, in_time: bool) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 2)
    w.advance(2 if in_time else 2 + BINDS_FOR)
    lost = w.jobs.pods(job)[0].node
    w.cluster.remove(next(one for one in w.cluster.nodes() if one.name == lost))
    while any(pod.node == lost for pod in w.jobs.pods(job)):
        # The pod garbage collector deletes pods on nodes that don't exist.
        for pod in w.jobs.pods(job):
            w.cluster.remove(pod)
        w.advance(5)
    assert w.jobs.nodes(job) == sorted({"n0", "n1"} - {lost}) * 2
    check(w)


def test_pods_of_a_job_whose_user_resumes_it_wait_like_any_others(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 5)
    w.advance(1)
    w.change_job(job, suspended=False, held_for_placement=False)
    w.advance(2)
    pods = w.jobs.pods(job)
    assert len(pods) == 5
    assert all(pod.withheld for pod in pods)
    check(w)


def test_job_that_its_user_suspends_gives_its_share_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 4)
    w.advance(2)
    w.change_job(job, suspended=True)
    w.advance(1)
    w.cluster.reap()
    other = w.jobs.submit("b", 4)
    w.advance(2)
    assert w.jobs.nodes(other) == ["n0"] * 4
    check(w)


def test_deleted_job_gives_its_share_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit("a", 4)
    w.advance(1)
    w.cluster.remove(job)
    w.jobs.quota = None
    other = w.jobs.submit("b", 4)
    w.advance(2)
    assert w.jobs.nodes(other) == ["n0"] * 4
    check(w)


@pytest.mark.parametrize(
    "error", [Denied("exceeded quota", 403), PodsUnknown("a webhook allows no trial", 400)]
)
def test_job_whose_pods_cannot_be_expected_is_resumed_without_a_plan(
    world: MakeWorld, error: Exception
) -> None:
    w = world(node("n0"))
    w.cluster.fail("dry_run", error)
    job = w.jobs.submit("a", 3)
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 3
    assert len(w.jobs.late) == 3


@pytest.mark.parametrize(
    "error", [NoAnswer("no answer"), Conflict("it has changed", 409), ClusterError("", 500)]
)
@pytest.mark.parametrize("verb", ["dry_run", "resume"])
def test_failed_call_is_made_again(world: MakeWorld, verb: str, error: ClusterError) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.fail(verb, error, times=2)
    job = w.jobs.submit("a", 4)
    w.advance(6)
    assert len(w.jobs.nodes(job)) == len(w.jobs.with_node) == 4


def test_pod_whose_binding_fails_is_not_bound_to_a_node_that_others_have_filled_meanwhile(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.fail("bind", times=1)
    job = w.jobs.submit_array("a", 4, None)
    while not any(verb == "bind" for verb, _ in w.cluster.calls):
        w.advance(0.02)
    taken = next(place.assignment.node for place in w.ledger.holdings.values())
    w.foreign(taken, "f", requests=asks(1000, 1))
    w.scheduler.disturbed.clear()
    w.advance(3)
    (other,) = {"n0", "n1"} - {taken}
    assert sorted(w.jobs.nodes(job)) == sorted([taken] * 3 + [other])
    check(w)


PATIENT = replace(LIMITS, uncreated=BINDS_FOR + 10, completion=2 * BINDS_FOR)
"""Limits by which a gang keeps its places for a while after its plan has ceased to bind pods."""


def test_places_of_pods_that_are_not_created_in_time_are_given_back(world: MakeWorld) -> None:
    w = world(node("n0"), limits=PATIENT)
    w.jobs.quota = 2
    job = w.jobs.submit("a", 4)
    w.advance(1)
    assert len(w.jobs.pods(job)) == 2
    w.advance(w.limits.uncreated - 1)
    assert len(w.ledger.holdings) == 4
    w.advance(3)
    assert len(w.ledger.holdings) == 2
    assert not w.cluster.job(job).suspended
    w.jobs.quota = None
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert len(w.jobs.late) == 2
    assert w.gang("a").state is GangState.BOUND
    check(w)


def test_pods_that_only_name_a_job_as_their_owner_give_its_expected_pods_no_more_time(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), limits=PATIENT)
    w.jobs.quota = 0
    size = {GROUP_SIZE_ANNOTATION: "4"}
    job = w.jobs.submit_array("a", 4, 4, labels={GROUP_LABEL: "a"}, annotations=size)
    w.advance(1)
    assert len(w.ledger.holdings) == 4
    for number in range(10):
        w.pod(
            f"tick-{number}",
            gates=(GATE,),
            labels={GROUP_LABEL: f"tick-{number}", REPLICATED_JOB: "another role"},
            annotations={HOLD_ANNOTATION: "true"},
            owner=Owner("Job", job.name, job.uid, "batch/v1"),
        )
        w.advance((w.limits.uncreated + 3) / 10)
    assert len(w.ledger.holdings) == 0
    check(w)


def test_queue_says_how_long_a_job_keeps_its_room_without_pods(world: MakeWorld) -> None:
    queue = Queue("default", scheduling=SchedulingOptions(admission_timeout=60.0))
    w = world(node("n0"), queue, limits=replace(LIMITS, completion=100.0))
    w.jobs.quota = 2
    w.jobs.submit("a", 4)
    w.advance(BINDS_FOR + w.limits.uncreated)
    assert len(w.ledger.holdings) == 4
    w.advance(60)
    assert len(w.ledger.holdings) == 2
    check(w)


@pytest.mark.parametrize("ends", ["lost", "restart"])
def test_no_place_is_moved_while_the_api_server_may_bind_a_pod_there(world: MakeWorld, ends: str) -> None:
    w = world(node("n0"), node("n1"), limits=PATIENT)
    w.jobs.quota = 0
    job = w.jobs.submit("a", 2)
    w.advance(1)
    (planned,) = set(w.cluster.job(job).nodes)
    (other,) = {"n0", "n1"} - {planned}
    cordoned = next(one for one in w.cluster.nodes() if one.name == planned)
    w.change(cordoned, unschedulable=True)
    if ends == "restart":
        w.advance(BINDS_FOR - 5)
        w.restart()
    w.advance(BINDS_FOR - 2)
    assert {held.assignment.node for held in w.ledger.holdings.values()} == {planned}
    w.advance(3)
    assert {held.assignment.node for held in w.ledger.holdings.values()} == {other}
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(job) == [other] * 2
    check(w)


def test_place_of_a_pod_that_is_not_created_yet_is_not_given_to_others(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 2
    job = w.jobs.submit("a", 4)
    w.advance(1)
    low = w.pod("low", requests=asks(1000, 1))
    high = w.pod("high", priority=10, requests=asks(1000, 1))
    w.advance(3)
    assert w.nodes_of(low, high) == ["", ""]
    w.jobs.quota = None
    w.advance(1)
    assert w.jobs.nodes(job) == ["n0"] * 4
    check(w)


def test_higher_priority_goes_first_among_suspended_jobs(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000))
    blocker = w.jobs.submit("z", 2)
    w.advance(2)
    low, high = w.jobs.submit("low", 2), w.jobs.submit("high", 2, priority=5)
    w.advance(2)
    for pod in w.jobs.pods(blocker):
        w.change(pod, phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(high) == ["n0", "n0"]
    assert not w.jobs.pods(low)
    check(w)


def test_member_that_loses_its_place_before_its_pod_exists_is_placed_beside_the_others(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"), limits=PATIENT)
    w.jobs.quota = 2
    job = w.jobs.submit("a", 4)
    w.advance(1)
    (lost,) = set(w.cluster.job(job).nodes)
    (other,) = {"n0", "n1"} - {lost}
    w.change(next(one for one in w.cluster.nodes() if one.name == lost), unschedulable=True)
    w.advance(BINDS_FOR + 2)
    assert not w.cluster.job(job).suspended
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(job) == [lost] * 2 + [other] * 2
    assert w.gang("a").state is GangState.BOUND
    check(w)


def test_job_that_loses_its_places_twice_is_placed_anew_each_time(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}") for number in range(3)), limits=PATIENT)
    w.jobs.quota = 0
    job = w.jobs.submit("a", 4)
    w.advance(BINDS_FOR + 2)
    for _ in range(2):
        (lost,) = {held.assignment.node for held in w.ledger.holdings.values()}
        w.change(next(one for one in w.cluster.nodes() if one.name == lost), unschedulable=True)
        w.advance(2)
    (left,) = (one.name for one in w.cluster.nodes() if not one.unschedulable)
    w.jobs.quota = None
    w.advance(5)
    assert w.jobs.nodes(job) == [left] * 4
    assert len(w.jobs.late) == 4
    check(w)


@pytest.mark.parametrize("in_time", [True, False])
def test_pod_that_its_kubelet_rejects_is_replaced_elsewhere_once_the_plan_is_old(
    world: MakeWorld, in_time: bool
) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 2)
    w.advance(2 if in_time else 2 + BINDS_FOR)
    first = w.jobs.pods(job)[0]
    w.change(first, phase="Failed", rejection="TopologyAffinityError")
    w.advance(3)
    (planned,) = set(w.cluster.job(job).nodes)
    replaced = w.jobs.nodes(job)[0]
    assert (replaced == planned) is in_time
    assert replaced
    check(w)


def test_suspended_job_of_higher_priority_preempts(world: MakeWorld) -> None:
    w = world(node("n0"))
    victims = gang(w, "low", 2000, 2000)
    w.advance(2)
    job = w.jobs.submit("high", 4, priority=10)
    w.advance(3)
    w.cluster.reap()
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert len(w.jobs.with_node) == 4
    assert not [pod for pod in w.cluster.pods() if pod.uid in {one.uid for one in victims}]
    check(w)


def test_filter_call_waits_until_the_watch_shows_the_pod(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    w.cluster.held = True
    pod = w.pod("p", requests=asks(1000, 1))

    async def ask() -> None:
        await asyncio.gather(w.placements.wait_for_pod(w.asked(pod)), show())

    async def show() -> None:
        await asyncio.sleep(0.2)
        w.cluster.held = False
        w.cluster.deliver()

    began = w.loop.time()
    w.run(ask())
    assert 0.15 < w.loop.time() - began < 0.5
    assert w.member(pod.uid)


DEVICES = "resources: [{type: simulator, name: sv1, count: 4, attributes: {vendor: aws}}]"


def test_pods_with_devices_are_bound_together_with_what_was_held_for_them(world: MakeWorld) -> None:
    w = world(node("n0"), ResourcesFile("test", DEVICES))
    w.jobs.quota = 1
    job = w.jobs.submit("q", 3, devices={"simulator": 1})
    w.advance(2)
    other = w.jobs.submit("late", 2, devices={"simulator": 1})
    check(w)
    w.jobs.quota = None
    w.advance(12)
    assert w.jobs.nodes(job) == ["n0"] * 3
    assert [one.annotations[BACKEND_ANNOTATION] for one in w.jobs.pods(job)] == ["sv1"] * 3
    assert not w.jobs.pods(other)
    check(w)
    for pod in w.jobs.pods(job):
        w.change(pod, phase="Succeeded")
    w.advance(12)
    assert w.jobs.nodes(other) == ["n0"] * 2
    check(w)


@pytest.mark.parametrize(
    "fields",
    [
        {"interdependent": True},
        {"gates": (GATE, "example.com/quota")},
    ],
)
def test_job_whose_pods_can_not_be_expected_on_nodes_is_resumed_without_a_plan(
    world: MakeWorld, fields: PodFields
) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 2, **fields)
    w.advance(3)
    assert len(w.jobs.late) == len(w.jobs.pods(job)) == 2


def test_pods_with_host_ports_are_bound_by_their_creation(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    job = w.jobs.submit("a", 2, host_ports=(HostPort(80),))
    w.advance(2)
    assert sorted(w.jobs.nodes(job)) == ["n0", "n1"]
    assert len(w.jobs.with_node) == 2
    check(w)


def test_expected_pods_go_when_another_replica_leads(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.submit("a", 5)
    w.advance(1)
    assert [pod for pod in w.controller.pods.values() if pod.expected]
    w.controller.stand_down("another one leads")
    assert not [pod for pod in w.controller.pods.values() if pod.expected]
    assert not w.ledger.holdings


def test_pods_of_too_many_jobs_of_a_namespace_are_not_expected(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_quotas, "MOST_OF_NAMESPACE", 10)
    w = world(node("n0", cpu=1000))
    w.jobs.quota = 0
    jobs = [w.jobs.submit(f"j{number}", 4) for number in range(5)]
    w.advance(3)
    assert sum(pod.expected for pod in w.controller.pods.values()) == 8
    assert [w.cluster.job(job).suspended for job in jobs] == [True, True, False, False, False]
    w.cluster.remove(jobs[0])
    w.jobs.submit("next", 4)
    w.advance(3)
    assert sum(pod.expected for pod in w.controller.pods.values()) == 8


def expected_in(w: World, namespace: str) -> int:
    return sum(pod.expected and pod.namespace == namespace for pod in w.controller.pods.values())


def test_namespace_that_announces_thousands_of_pods_gets_its_own_rate(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    w.jobs.quota = 0
    w.advance(1)
    began, churned = w.loop.time(), 0
    for number in range(12):
        job = w.jobs.submit(f"many{number}", 15_000, namespace="hostile")
        w.advance(0.25)
        churned += expected_in(w, "hostile")
        other = w.jobs.submit(f"other{number}", 2)
        w.advance(0.25)
        assert w.gang(f"other{number}").state is not GangState.WAITING
        w.cluster.remove(job)
        w.cluster.remove(other)
    most = namespace_quotas.AT_FIRST + namespace_quotas.A_SECOND * (w.loop.time() - began)
    assert 0 < churned <= most
    w.advance(30)
    assert not expected_in(w, "hostile")


def test_job_of_thousands_of_pods_is_expected_whole_in_time(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}", cpu=10_000_000, gib=10_000, pods=3000) for number in range(3)))
    w.jobs.quota = 0
    job = w.jobs.submit("large", 8000)
    w.advance(1)
    assert w.cluster.job(job).suspended
    w.advance(9)
    assert not w.cluster.job(job).suspended
    assert len(w.cluster.job(job).nodes) == 8000


def test_namespaces_share_the_bound_on_expected_pods(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_quotas, "MOST_EXPECTED", 100)
    monkeypatch.setattr(namespace_quotas, "MOST_OF_NAMESPACE", 40)
    w = world(node("n0", cpu=100))
    for namespace in ("a", "b", "c", "d", "e"):
        for number in range(10):
            w.jobs.submit(f"j{number}", 4, namespace=namespace)
        w.advance(1)
    counts = [expected_in(w, namespace) for namespace in ("a", "b", "c", "d", "e")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 40
    assert counts[-1] >= 4
    assert sum(counts) <= 100


def test_job_of_a_million_pods_costs_nothing(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit("huge", 1_000_000)
    w.advance(3)
    assert not w.cluster.job(job).suspended
    assert not [pod for pod in w.controller.pods.values() if pod.expected]


def test_user_who_resumes_a_job_a_moment_after_its_plan_is_refused(world: MakeWorld) -> None:
    """Its places belong to others by then."""
    w = world(node("n0"))
    job = w.jobs.submit("a", 4)
    w.advance(1)
    w.change_job(job, suspended=True)
    w.advance(1)
    w.cluster.reap()
    other = w.jobs.submit("b", 4)
    w.advance(2)
    with pytest.raises(Denied):
        w.change_job(job, suspended=False)
    w.advance(BINDS_FOR)
    w.change_job(job, suspended=False)
    w.advance(5)
    assert w.jobs.nodes(other) == ["n0"] * 4
    assert "n0" not in w.jobs.nodes(job)
    check(w)


def test_jobs_that_are_expected_after_a_restart_start_in_order(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected_pods, "MOST_UNKNOWN", 3)
    w = world(node("n0", cpu=8000))
    full = w.jobs.submit("full", 8)
    w.advance(2)
    # Neither their names nor their uids have the order in which they were created.
    waiting = [w.jobs.submit(f"{20 - number:02}", 2) for number in range(20)]
    w.advance(2)
    w.kill()
    for pod in w.jobs.pods(full):
        w.change(pod, phase="Succeeded")
    w.start()
    w.advance(3)
    started = [number for number, job in enumerate(waiting) if not w.cluster.job(job).suspended]
    assert started == list(range(4))
    check(w)


@pytest.mark.parametrize("said", ["class", "usual", "default"])
def test_first_in_line_are_expected_first_after_a_restart_although_others_are_older(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(expected_pods, "MOST_UNKNOWN", 3)
    w = world(node("n0", cpu=8000), PriorityClass("high", 10), PriorityClass("low", -10))
    w.cluster.put(PriorityClass("given", 0, is_default=said == "default"))
    usual = "high" if said == "usual" else ""
    w.cluster.put(Queue("urgent", default_priority_class=usual, uid="u"))
    full = w.jobs.submit("full", 8)
    w.advance(2)
    waiting = [w.jobs.submit(f"{number:02}", 2, priority=-10) for number in range(20)]
    for job in waiting:
        w.change_job(job, priority_classes=("low",))
    first = w.jobs.submit(
        "first",
        8,
        priority=10 if said == "class" else 0,
        priority_class="high" if said == "class" else "given" if said == "default" else "",
    )
    labels = ((QUEUE_LABEL, "urgent"),)
    w.change_job(
        first,
        priority_classes=("high",) if said == "class" else (),
        submission=Submission(queues=labels if said == "usual" else ()),
    )
    w.advance(2)
    w.kill()
    for pod in w.jobs.pods(full):
        w.change(pod, phase="Succeeded")
    w.start()
    w.advance(3)
    assert w.jobs.nodes(first) == ["n0"] * 8
    assert all(w.cluster.job(job).suspended for job in waiting)
    check(w)


def test_job_that_waits_for_room_is_looked_at_only_if_something_of_it_changes(world: MakeWorld) -> None:
    w = world(node("n0"))
    waits = w.jobs.submit("a", 2)
    workloads = w.controller.registry.workloads
    common = shape(w.cluster.first_pods[waits.uid][0])

    def needs_looks(job: Job = waits, shapes: tuple[Pod, ...] = (common,), **fields: Any) -> bool:
        return JobPods(job, workloads, shapes, **fields).needs_looks(())

    assert not needs_looks()
    assert needs_looks(shapes=())
    assert needs_looks(refused="its pods have host ports")
    assert not needs_looks(replace(waits, held_for_placement=False))
    running = replace(waits, suspended=False, held_for_placement=False, nodes=("n0", "n0"))
    assert needs_looks(running)
    assert not needs_looks(replace(running, done=((0, 1),)))
