"""MPIJobs and RayClusters of a queue: they wait without pods, are resumed in their turn, and their pods find room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.lifecycle.namespace_quotas import FIRST_PAUSE
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup
from fluence_extender.kinds.ray import RayJob
from fluence_extender.kinds.trainjob import TrainJob
from fluence_extender.model.dependency import Ending
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    QUEUE_LABEL,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.submission import Submission
from fluence_extender.objects.queues import Queue, SchedulingOptions
from tests.core.invariants import check
from tests.core.operated import Operated, Said, Submit, make_pods, mpi, ray
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld


def resumed(w: World, thing: Operated) -> bool:
    return not w.cluster.job(thing).suspended


def nodes(w: World, pods: list[Pod]) -> list[str]:
    return [w.cluster.pod(pod).node for pod in pods]


def finish(w: World, pods: list[Pod]) -> None:
    for pod in pods:
        w.change(pod, phase="Succeeded")


SUBMIT = pytest.mark.parametrize("submit", [ray, mpi])


@SUBMIT
def test_workload_waits_without_pods_and_is_resumed_when_its_gang_fits(
    world: MakeWorld, submit: Submit
) -> None:
    w = world(node("n0"))
    first, second = submit(w, "a", 1000, 1500, 2), submit(w, "b", 1000, 1500, 2)
    w.advance(2)
    assert [resumed(w, first), resumed(w, second)] == [True, False]
    pods = make_pods(w, first)
    w.advance(2)
    assert nodes(w, pods) == ["n0"] * 3
    assert not resumed(w, second)
    finish(w, pods)
    w.advance(2)
    assert resumed(w, second)
    check(w)


@SUBMIT
@pytest.mark.parametrize("backwards", [False, True])
def test_each_pod_takes_the_place_that_was_held_for_its_role(
    world: MakeWorld, submit: Submit, backwards: bool
) -> None:
    # Only the large node has room for the large pod, and only with both small ones on the other.
    w = world(node("large", cpu=3000), node("small", cpu=2000))
    thing = submit(w, "a", 3000, 1000, 2)
    w.advance(2)
    assert resumed(w, thing)
    held = {one.pod.uid: one.assignment for _, one in w.controller.registry.members()}
    assert None not in held.values()
    pods = make_pods(w, thing, backwards)
    w.advance(0.02)
    taken = [w.controller.member(pod.uid) for pod in pods]
    assert all(one is not None and one[1].assignment is not None for one in taken)
    w.advance(2)
    assert sorted(nodes(w, pods)) == ["large", "small", "small"]
    assert [w.cluster.pod(pod).requests for pod in pods if w.cluster.pod(pod).node == "large"] == [
        asks(3000, 1)
    ]
    check(w)


def test_places_are_held_until_the_pods_come(world: MakeWorld) -> None:
    w = world(node("n0"))
    first = ray(w, "a", 1000, 1500, 2)
    w.advance(2)
    small = ray(w, "b", 500, 500, 1)
    w.advance(w.limits.uncreated / 2)
    assert not resumed(w, small)
    pods = make_pods(w, first)
    w.advance(2)
    assert nodes(w, pods) == ["n0"] * 3
    assert not resumed(w, small)
    check(w)


def test_room_of_a_workload_whose_pods_do_not_come_is_given_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(Queue("default", scheduling=SchedulingOptions(admission_timeout=30.0)))
    ray(w, "a", 1000, 1500, 2)
    w.advance(2)
    other = mpi(w, "b", 1000, 1000, 1)
    w.advance(20)
    elsewhere = w.pod("p", "others", gates=(GATE,), requests=asks(1000, 1))
    assert not resumed(w, other)
    w.advance(15)
    assert w.nodes_of(elsewhere) == ["n0"]
    assert not resumed(w, other)
    w.advance(FIRST_PAUSE)
    assert resumed(w, other)
    check(w)


def test_ray_cluster_that_is_no_gang_is_resumed_when_one_of_its_pods_has_a_place(world: MakeWorld) -> None:
    w = world(node("n0"))
    cluster = ray(w, "a", 1000, 1500, 4, gang=False)
    w.advance(2)
    assert resumed(w, cluster)
    pods = make_pods(w, cluster)
    w.advance(3)
    assert sorted(nodes(w, pods)) == ["", "", "n0", "n0", "n0"]
    later = ray(w, "b", 500, 500, 1)
    w.advance(2)
    finish(w, [pod for pod in pods if w.cluster.pod(pod).node])
    w.advance(2)
    assert nodes(w, pods).count("n0") == 5
    check(w)
    assert resumed(w, later)


@SUBMIT
def test_user_who_resumes_a_workload_early_gains_nothing(world: MakeWorld, submit: Submit) -> None:
    w = world(node("n0"))
    full = submit(w, "full", 1000, 1500, 2)
    w.advance(1)
    running = make_pods(w, full)
    first, second = submit(w, "a", 1000, 1500, 2), submit(w, "b", 1000, 1500, 2)
    w.advance(2)
    w.cluster.put(replace(w.cluster.job(second), suspended=False, held_for_placement=False))
    early = make_pods(w, second)
    w.advance(3)
    assert all(w.cluster.pod(pod).withheld for pod in early)
    finish(w, running)
    w.advance(1)
    pods = make_pods(w, first)
    w.advance(3)
    assert nodes(w, pods) == ["n0"] * 3
    assert nodes(w, early) == [""] * 3
    check(w)


@SUBMIT
def test_workload_that_its_user_suspends_is_held_until_he_resumes_it(
    world: MakeWorld, submit: Submit
) -> None:
    w = world(node("n0"))
    thing = submit(w, "a", 1000, 1000, 2)
    w.cluster.put(replace(thing, held_for_placement=False))
    w.advance(10)
    assert not resumed(w, thing)
    w.cluster.put(replace(w.cluster.job(thing), suspended=False))
    pods = make_pods(w, thing)
    w.advance(2)
    assert nodes(w, pods) == ["n0"] * 3


@pytest.mark.parametrize("when", ["while it waits", "while it is resumed", "before its pods come"])
@SUBMIT
def test_workload_that_is_deleted_gives_its_room_back(world: MakeWorld, submit: Submit, when: str) -> None:
    w = world(node("n0"))
    full = submit(w, "full", 1000, 1500, 2) if when == "while it waits" else None
    thing = submit(w, "a", 1000, 1500, 2)
    w.advance(0.06 if when == "while it is resumed" else 2)
    w.cluster.remove(thing)
    if full is not None:
        w.cluster.remove(full)
    other = submit(w, "b", 1000, 1500, 2)
    w.advance(3)
    assert resumed(w, other)
    pods = make_pods(w, other)
    w.advance(2)
    assert nodes(w, pods) == ["n0"] * 3
    check(w)


@SUBMIT
@pytest.mark.parametrize("said", [Said(), Said(created=1.0)], ids=["", "created in one second"])
def test_restart_between_resumption_and_pods_starts_the_workload_all_the_same(
    world: MakeWorld, submit: Submit, said: Said
) -> None:
    w = world(node("n0"))
    thing = submit(w, "a", 1000, 1500, 2, said=said)
    w.advance(2)
    waiting = submit(w, "b", 1000, 1500, 2, said=said)
    w.advance(2)
    assert [resumed(w, thing), resumed(w, waiting)] == [True, False]
    pods = make_pods(w, thing)
    w.restart()
    w.advance(3)
    assert nodes(w, pods) == ["n0"] * 3
    assert not resumed(w, waiting)
    finish(w, pods)
    w.advance(2)
    assert resumed(w, waiting)
    check(w)


@SUBMIT
def test_workload_keeps_its_turn_when_room_comes_back_while_nobody_decides(
    world: MakeWorld, submit: Submit
) -> None:
    w = world(node("n0"))
    full = submit(w, "full", 1000, 1500, 2)
    w.advance(2)
    running = make_pods(w, full)
    w.advance(2)
    first = submit(w, "a", 1000, 1500, 2)
    second = w.jobs.submit("b", 4, created=1000.0)
    w.advance(2)
    w.kill()
    finish(w, running)
    w.start()
    w.advance(3)
    assert resumed(w, first)
    assert w.cluster.job(second).suspended
    check(w)


@SUBMIT
@pytest.mark.parametrize("restarted", [False, True])
def test_met_dependency_of_a_workload_without_pods_stays_met(
    world: MakeWorld, submit: Submit, restarted: bool
) -> None:
    w = world(node("n0", unschedulable=True))
    thing = submit(w, "a", 1000, 1500, 2)
    w.cluster.put(replace(thing, submission=Submission(after="ok:job/prep")))
    w.cluster.fail("note_job", times=2)
    w.advance(3)
    prepared = Job("default", "prep", "uid-prep", 1, outcome=Ending.SUCCEEDED)
    w.cluster.put(prepared)
    w.advance(6)
    w.cluster.remove(prepared)
    w.advance(1)
    assert w.cluster.job(thing).submission.met == {"ok:job/prep"}
    assert not resumed(w, thing)
    if restarted:
        w.restart()
    w.change(node("n0"), unschedulable=False)
    w.advance(3)
    assert resumed(w, thing)
    check(w)


@SUBMIT
def test_workload_whose_pods_cannot_be_expected_is_resumed_at_once(world: MakeWorld, submit: Submit) -> None:
    w = world(node("n0", cpu=500))
    thing = submit(w, "a", 1000, 1500, 2)
    del w.cluster.first_pods[thing.uid]
    w.advance(2)
    assert resumed(w, thing)


def test_what_a_user_changes_while_it_waits_counts(world: MakeWorld) -> None:
    w = world(node("n0"))
    cluster = ray(w, "a", 1000, 1500, 4)
    w.advance(2)
    assert w.gang("a").state is GangState.WAITING
    w.cluster.put(replace(w.cluster.job(cluster), pods=3, groups=(1, 2), generation=2))
    w.advance(2)
    assert resumed(w, cluster)
    pods = make_pods(w, w.cluster.job(cluster))
    w.advance(2)
    assert nodes(w, pods) == ["n0"] * 3
    check(w)


def test_workload_of_no_pods_is_resumed(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = mpi(w, "a", 1000, 1000, 1)
    w.cluster.put(replace(job, workers=0, groups=()))
    w.advance(2)
    assert resumed(w, job)


def test_pod_that_requests_more_than_was_held_waits_where_it_has_no_room(world: MakeWorld) -> None:
    w = world(node("n0"))
    cluster = ray(w, "a", 1000, 1000, 1)
    w.advance(2)
    head, worker = w.cluster.first_pods[cluster.uid]
    w.cluster.first_pods[cluster.uid] = replace(head, requests=asks(3500, 1)), worker
    pods = make_pods(w, cluster)
    w.advance(3)
    assert nodes(w, pods) == ["", ""]
    check(w)


def test_too_large_a_workload_is_not_expected(world: MakeWorld) -> None:
    w = world(node("n0"))
    cluster = ray(w, "a", 1000, 1000, 2)
    w.advance(0.01)
    w.cluster.put(replace(w.cluster.job(cluster), pods=10**12, groups=(1, 10**12), generation=2))
    w.advance(2)
    assert resumed(w, cluster)


HELD, LET_GO = Submission(hold="true"), Submission(hold="false")


def test_what_a_ray_job_says_counts_for_the_cluster_that_is_made_of_it(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(RayJob("default", "a", "u", submission=HELD, cluster="a-x7k2p"))
    cluster = ray(w, "a-x7k2p", 1000, 1000, 1, said=Said(HELD), made_of="a")
    w.advance(3)
    assert not resumed(w, cluster)
    w.cluster.put(RayJob("default", "other", "o", submission=LET_GO))
    w.advance(3)
    assert not resumed(w, cluster)
    w.cluster.put(RayJob("default", "a", "u", submission=LET_GO, cluster="a-x7k2p"))
    w.advance(3)
    assert resumed(w, cluster)


def test_what_a_train_job_says_counts_for_the_job_set_that_is_made_of_it(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(TrainJob("default", "t", "u", submission=HELD))
    (job,) = w.jobs.submit_set("t", 2, made_of="t")
    w.advance(3)
    assert w.cluster.job(job).suspended
    w.cluster.put(TrainJob("default", "t", "u"))
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 2


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({GROUP_LABEL: "g"}, {}),
        ({"scheduling.x-k8s.io/pod-group": "g"}, {GROUP_SIZE_ANNOTATION: "2"}),
        ({}, {GROUP_SIZE_ANNOTATION: "1"}),
    ],
)
def test_what_a_train_job_says_counts_for_pods_that_name_a_gang_of_their_own(
    world: MakeWorld, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    w = world(node("n0"), CoschedulingGroup("default", "g", "p", 2))
    says = Submission(hold="true", user="ada", queues=((QUEUE_LABEL, "default"),))
    w.cluster.put(TrainJob("default", "t", "u", submission=says))
    w.jobs.submit_set("t", 2, made_of="t", labels=labels, annotations={COMPLETION_INDEX: "0", **annotations})
    w.advance(3)
    admission = w.controller.lifecycle.admission
    gangs = w.controller.registry.gangs.values()
    assert [(admission.user_of(one), one.reason and one.reason.code) for one in gangs] == [
        ("ada", ReasonCode.HELD)
    ] * len(gangs)
    assert gangs
    w.cluster.put(TrainJob("default", "t", "u"))
    w.advance(3)
    assert not any(one.reason and one.reason.code is ReasonCode.HELD for one in gangs)
