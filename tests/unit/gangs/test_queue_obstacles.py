"""Gangs that may not start although there is room: dependencies, limits, and queues that are stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from fluence_extender.gangs.queue.obstacles import Dependee, circle, limit_obstacle, stop_obstacle, unmet
from fluence_extender.gangs.queue.quotas import Place, Usage
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.replicas import ReplicaSet
from fluence_extender.model.dependency import (
    MOST_DEPENDENCIES,
    Dependency,
    EndCondition,
    Ending,
    Target,
    parse_dependencies,
)
from fluence_extender.model.gang import Convention, GangKey, GangState
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    GATE,
    HOLD_ANNOTATION,
    MET_ANNOTATION,
    USER_ANNOTATION,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.submission import Submission, met_record, submission
from fluence_extender.objects.queues import DEFAULT_QUEUE, Queue, QueueLimits, Stop
from fluence_extender.queueing.entry import NEVER
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, announced

PREP = Target("job", "prep")


def key(name: str) -> GangKey:
    return GangKey("default", name, Convention.ALONE, f"uid-{name}")


def why(w: World, name: str) -> tuple[str, str]:
    found = w.gang(name).reason
    return (found.code.value, found.text) if found is not None else ("", "")


def single(w: World, name: str, namespace: str = "default", owner: Owner | None = None, **notes: str) -> Pod:
    """Create a pod of one core with the annotations ``hold``, ``after`` and ``user``."""
    keys = {"hold": HOLD_ANNOTATION, "after": AFTER_ANNOTATION, "user": USER_ANNOTATION}
    annotations = {keys[what]: text for what, text in notes.items()}
    return w.pod(name, namespace, annotations=annotations, gates=(GATE,), requests=asks(1000, 1), owner=owner)


def limited(w: World, **limits: int) -> None:
    """Limit the default queue."""
    w.controller.queue.settings.put(Queue(DEFAULT_QUEUE, limits=QueueLimits(**limits)))
    w.controller.lifecycle.look_at_all()
    w.driver.wake()


def stopped(w: World, stop: Stop, since: float | None = None) -> None:
    w.controller.queue.settings.put(Queue(DEFAULT_QUEUE, stop=stop, stopped_since=since))
    w.controller.lifecycle.look_at_all()
    w.driver.wake()


# Annotations.


def test_dependencies_are_read_once_each() -> None:
    ok = Dependency(EndCondition.OK, PREP)
    gang = Dependency(EndCondition.ANY, Target("gang", "js/workers"))
    assert parse_dependencies("ok:job/prep, any:gang/js/workers,ok:job/prep") == (ok, gang)
    assert parse_dependencies("  ") == ()


@pytest.mark.parametrize("text", ["job/prep", "ok:pod/prep", "ok:job/", "ok:job/Prep", "ok:job/a,,ok:job/b"])
def test_text_that_is_no_dependency_is_named(text: str) -> None:
    found = parse_dependencies(text)
    assert isinstance(found, str)
    assert "it must be ok:, any: or failed:" in found


def test_number_of_dependencies_is_bounded() -> None:
    text = ",".join(f"ok:job/j{number}" for number in range(MOST_DEPENDENCIES + 1))
    assert isinstance(parse_dependencies(text), str)


@pytest.mark.parametrize(
    ("wanted", "outcome", "text"),
    [
        ("ok", None, "Job prep to succeed"),
        ("any", None, "Job prep to end"),
        ("failed", None, "Job prep to fail"),
        ("ok", Ending.SUCCEEDED, None),
        ("ok", Ending.FAILED, "Job prep to succeed, but it has failed: create it anew, or change annotation"),
        ("any", Ending.SUCCEEDED, None),
        ("any", Ending.FAILED, None),
        ("failed", Ending.FAILED, None),
        ("failed", Ending.SUCCEEDED, "Job prep to fail, but it has succeeded: create it anew"),
    ],
)
def test_dependency_is_met_by_the_ending_it_names(
    wanted: str, outcome: Ending | None, text: str | None
) -> None:
    dependency = Dependency(EndCondition(wanted), PREP)
    left = [words for _, words in unmet([dependency], lambda _: Dependee(outcome))]
    assert [words.startswith(text or "") for words in left] == ([] if text is None else [True])


def test_dependency_on_nothing_is_named() -> None:
    ((_, words),) = unmet([Dependency(EndCondition.OK, PREP)], lambda _: None)
    assert words.startswith("Job prep, which doesn't exist: create it, or change annotation")


def test_circle_is_found_and_what_has_ended_is_none() -> None:
    a, b, c, x = (Target("job", name) for name in "abcx")
    links = {b: [c], c: [x, a], x: []}
    own = {a, Target("gang", "a")}
    assert circle(own, [b], links.__getitem__) == (b, c, a)
    links[c] = []
    assert circle(own, [b], links.__getitem__) == ()


def test_search_for_a_circle_is_bounded() -> None:
    asked: list[Target] = []

    def follow(target: Target) -> list[Target]:
        asked.append(target)
        number = int(target.name[1:])
        return [Target("job", f"j{32 * number + one}") for one in range(1, 33)]

    assert circle({PREP}, [Target("job", "j1")], follow) == ()
    assert len(asked) < 400


# Limits.


def test_limits_count_by_queue_and_user_and_the_oldest_are_in_line() -> None:
    usage = Usage()
    for number, (name, user, runs) in enumerate(
        [("a", "ada", True), ("b", "ada", False), ("c", "bob", False), ("d", "ada", False)]
    ):
        usage.put(key(name), Place("q", user, runs, (float(number), 0)))

    def code(name: str, user: str, **limits: int) -> ReasonCode | None:
        found = limit_obstacle(key(name), Queue("q", limits=QueueLimits(**limits)), user, usage)
        return found.code if found is not None else None

    assert code("b", "ada", running=1) is ReasonCode.QUEUED
    assert code("b", "ada", running=2) is None
    assert code("b", "ada", running_per_user=1) is ReasonCode.OVER_USER_LIMIT
    assert code("c", "bob", running_per_user=1) is None
    assert code("c", "bob", queued=2) is None
    assert code("d", "ada", queued=2) is ReasonCode.QUEUED
    assert code("d", "ada", queued_per_user=1) is ReasonCode.OVER_USER_LIMIT
    assert code("new", "bob", queued=3) is ReasonCode.QUEUED
    assert code("new", "bob", queued=4) is None
    usage.put(key("b"), None)
    assert code("d", "ada", queued=2) is None
    assert (usage.running(("q", "ada")), usage.waiting(("q", "ada"))) == (1, 1)
    usage.put(key("a"), Place("q", "ada", False, (0.0, 0)))
    assert usage.running(("q", None)) == 0
    assert code("d", "ada", queued_per_user=1) is ReasonCode.OVER_USER_LIMIT


def test_queue_that_drains_starts_what_was_there_before() -> None:
    draining = Queue("q", stop=Stop.DRAIN, stopped_since=100.0)
    assert stop_obstacle(draining, (100.0, 1)) is None
    late = stop_obstacle(draining, (101.0, 1))
    assert late is not None
    assert late.text == "queue q is stopped: it takes no new work (stop: Drain)"
    assert stop_obstacle(structs.replace(draining, stopped_since=None), (101.0, 1)) is None
    for stop in (Stop.HOLD, Stop.EVICT):
        assert stop_obstacle(Queue("q", stop=stop), (0.0, 0)) is not None


# In the service.


def test_waiting_for_ones_turn_is_told_by_normal_events_and_so_is_its_end(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = single(w, "a", hold="true")
    w.advance(4)
    w.change(pod, annotations={})
    w.advance(4)
    assert [(one.reason, one.warning, one.regarding.name) for one in w.cluster.events] == [
        ("Held", False, "a"),
        ("Admitted", False, "a"),
    ]
    assert w.cluster.events[-1].message == "gang default/a: its turn has come, and it has its places"


def test_room_that_is_kept_is_told_once(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(node("n0", cpu=1000))
    runs = single(w, "runs")
    w.advance(2)
    single(w, "waits")
    w.advance(1)
    kept = {w.gang("waits").key: NEVER}
    monkeypatch.setattr(w.controller.queue, "reserved_starts", lambda: kept)
    w.controller.lifecycle.look_at_all()
    w.advance(5)
    kept.clear()
    w.change(runs, phase="Succeeded")
    w.advance(5)
    told = [(one.reason, one.warning) for one in w.cluster.events if one.regarding.name == "waits"]
    assert sorted(told) == [("Admitted", False), ("Busy", True), ("Reserved", False)]
    assert announced(w, "waits") == [
        "nodes are kept free for it until it can start",
        "its turn has come, and it has its places",
    ]


def test_gang_that_never_waited_in_line_has_no_event(world: MakeWorld) -> None:
    w = world(node("n0"))
    single(w, "a")
    w.advance(5)
    assert w.cluster.events == []


def test_gang_starts_once_the_job_before_it_has_succeeded(world: MakeWorld) -> None:
    w = world(node("n0"))
    pod = single(w, "a", after="ok:job/prep")
    w.advance(3)
    assert why(w, "a")[1].startswith("waits for Job prep, which doesn't exist")
    prep = Job("default", "prep", "uid-prep", 1)
    w.cluster.put(prep)
    w.advance(3)
    assert why(w, "a") == ("WaitsFor", "waits for Job prep to succeed")
    w.cluster.put(replace(prep, outcome=Ending.FAILED))
    w.advance(3)
    assert why(w, "a")[1].startswith("waits for Job prep to succeed, but it has failed: create it anew")
    w.cluster.put(replace(prep, outcome=Ending.SUCCEEDED))
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


PREPARED = Job("default", "prep", "uid-prep", 1, outcome=Ending.SUCCEEDED)


def prepared(w: World, job: Job) -> None:
    """Let a Job wait for another one, which succeeds and is deleted."""
    w.change_job(job, submission=Submission(after="ok:job/prep"))
    w.advance(3)
    w.cluster.put(PREPARED)
    w.advance(3)
    w.cluster.remove(PREPARED)
    w.advance(1)


@pytest.mark.parametrize("restarted", [False, True])
def test_dependency_of_a_pod_stays_met_when_the_job_is_deleted(world: MakeWorld, restarted: bool) -> None:
    w = world(node("n0", unschedulable=True))
    pod = single(w, "a", after="ok:job/prep")
    w.cluster.put(PREPARED)
    w.advance(5)
    w.cluster.remove(PREPARED)
    w.advance(1)
    if restarted:
        w.restart()
    w.change(node("n0"), unschedulable=False)
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


@pytest.mark.parametrize("restarted", [False, True])
def test_dependency_of_a_job_without_pods_stays_met(world: MakeWorld, restarted: bool) -> None:
    w = world(node("n0", unschedulable=True))
    job = w.jobs.submit("a", 2)
    w.cluster.fail("note_job", times=2)
    prepared(w, job)
    w.advance(3)
    assert w.cluster.job(job).submission.met == {"ok:job/prep"}
    if restarted:
        w.restart()
    w.change(node("n0"), unschedulable=False)
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 2
    assert [verb for verb, _ in w.cluster.calls].count("note_job") == 3


@pytest.mark.parametrize("restarted", [False, True])
def test_dependency_stays_met_for_the_next_pods_of_a_job(world: MakeWorld, restarted: bool) -> None:
    w = world(node("n0", cpu=1000))
    job = w.jobs.submit_array("a", 1, 2)
    prepared(w, job)
    (first,) = w.jobs.pods(job)
    if restarted:
        w.restart()
    w.change(first, phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"]


def test_dependency_stays_met_for_a_job_that_is_sent_back_in_line(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit("a", 4)
    prepared(w, job)
    preemptor = w.jobs.submit("high", 4, priority=10)
    w.advance(5)
    w.cluster.reap()
    w.advance(5)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    for pod in w.jobs.pods(preemptor):
        w.change(pod, phase="Succeeded")
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"] * 4


def test_dependencies_of_an_object_are_not_met_for_its_copy() -> None:
    notes = {AFTER_ANNOTATION: "ok:job/prep", MET_ANNOTATION: met_record("one", {"ok:job/prep", "any:job/x"})}
    assert submission(None, notes, "one").met == {"ok:job/prep", "any:job/x"}
    assert submission(None, notes, "other").met == submission(None, notes).met == frozenset()


def test_dependency_of_another_namespace_does_not_count(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(Job("others", "prep", "uid-prep", 1, outcome=Ending.SUCCEEDED))
    single(w, "a", after="any:job/prep")
    w.advance(3)
    assert "doesn't exist" in why(w, "a")[1]


def test_gang_starts_after_another_gang(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, second = single(w, "first"), single(w, "second", after="ok:gang/first")
    w.advance(3)
    assert why(w, "second") == ("WaitsFor", "waits for gang first to succeed")
    w.change(first, phase="Succeeded")
    w.advance(3)
    assert w.nodes_of(second) == ["n0"]


def test_jobs_in_a_circle_are_told(world: MakeWorld) -> None:
    w = world(node("n0"))
    jobs = {name: w.jobs.submit(name, 2) for name in "ab"}
    for name, after in (("a", "b"), ("b", "a")):
        w.change_job(jobs[name], submission=Submission(after=f"ok:job/{after}"))
    w.advance(3)
    code, text = why(w, "a")
    assert code == "WaitsFor"
    assert "itself, in a circle (job/b, job/a)" in text
    w.change_job(jobs["b"], submission=Submission())
    w.advance(3)
    assert w.gang("b").state is GangState.BOUND
    assert why(w, "a")[1] == "waits for Job b to succeed"


def test_limit_holds_within_one_step(world: MakeWorld) -> None:
    w = world(node("n0", unschedulable=True))
    limited(w, running_per_user=1)
    pods = [single(w, f"a{number}", user="ada") for number in range(3)]
    other = single(w, "b", user="bob")
    w.advance(2)
    w.change(node("n0"), unschedulable=False)
    w.advance(3)
    assert w.nodes_of(*pods, other) == ["n0", "", "", "n0"]
    assert why(w, "a1") == (
        "OverUserLimit",
        "queue default is at its limit: ada runs as many gangs as one user may (max.runningPerUser: 1)",
    )
    w.change(pods[0], phase="Succeeded")
    w.advance(3)
    assert w.nodes_of(pods[1], pods[2]) == ["n0", ""]


def test_next_in_line_moves_up_when_one_that_waits_is_deleted(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    runs = single(w, "runs")
    w.advance(2)
    limited(w, queued=1)
    first, second = single(w, "first", hold="true"), single(w, "second")
    w.change(runs, phase="Succeeded")
    w.advance(3)
    assert (
        why(w, "second")[1] == "queued: queue default has as many gangs in line as it takes (max.queued: 1)"
    )
    w.cluster.remove(w.now(first))
    w.advance(3)
    assert w.nodes_of(second) == ["n0"]


def test_work_of_a_namespace_without_a_record_has_one_user(world: MakeWorld) -> None:
    w = world(node("n0"))
    limited(w, running_per_user=1)
    here = [single(w, f"a{number}") for number in range(2)]
    there = single(w, "b", "others")
    w.advance(3)
    assert w.nodes_of(*here, there) == ["n0", "", "n0"]


def test_user_that_a_pod_of_a_controller_names_does_not_count(world: MakeWorld) -> None:
    w = world(node("n0"))
    limited(w, running_per_user=1)
    owner = Owner("ReplicaSet", "web", "uid-web", "apps/v1")
    w.cluster.put(ReplicaSet("default", "web", "uid-web", 2, submission=Submission(user="ada")))
    w.advance(1)
    pods = [single(w, f"web-{name}", owner=owner, user=name) for name in ("bob", "eve")]
    w.advance(3)
    assert w.nodes_of(*pods) == ["n0", ""]
    assert "ada runs as many" in why(w, "web-eve")[1]


def test_nothing_starts_in_a_queue_on_hold(world: MakeWorld) -> None:
    w = world(node("n0"))
    stopped(w, Stop.HOLD)
    pod = single(w, "a")
    w.advance(3)
    assert why(w, "a") == ("QueueStopped", "queue default is stopped: none of its work starts (stop: Hold)")
    stopped(w, Stop.NONE)
    w.advance(3)
    assert w.nodes_of(pod) == ["n0"]


def test_obstacles_are_the_same_after_a_restart(world: MakeWorld) -> None:
    w = world(node("n0"))
    running = single(w, "a", user="ada")
    waits, held = single(w, "b", after="ok:job/prep"), single(w, "c", hold="true")
    w.advance(3)
    before = [why(w, name) for name in "bc"]
    w.restart()
    w.advance(3)
    assert w.nodes_of(running, waits, held) == ["n0", "", ""]
    assert [why(w, name) for name in "bc"] == before
