"""Gangs of Jobs that have to give their places back wait in line again, and their Jobs lose nothing by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.kinds.job import Job
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import (
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    NEVER_SUSPEND,
    QUEUE_LABEL,
    SUSPEND_LABEL,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.objects.queues import DEFAULT_QUEUE, Namespace, OverrunAction, Queue, Stop
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def evicted(w: World) -> list[str]:
    return [event.regarding.name for event in w.cluster.events if event.reason == "Evicted"]


def requeued(w: World) -> list[str]:
    return [event.regarding.name for event in w.cluster.events if event.reason == "Requeued"]


def settle(w: World, seconds: float = 5) -> None:
    """Let the pods that are being deleted go."""
    w.advance(seconds)
    w.cluster.reap()
    w.advance(seconds)


def preempted(w: World, *, by: str = "high", after: float = 2) -> tuple[Job, Job]:
    """A Job that another one of a higher priority, which came later, has sent back in line, and that one."""
    victim = w.jobs.submit("low", 4)
    w.advance(after)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    preemptor = w.jobs.submit(by, 4, priority=10)
    settle(w)
    return victim, preemptor


def finish(w: World, job: Job) -> None:
    for pod in w.jobs.pods(job):
        w.change(pod, phase="Succeeded")
    w.advance(3)


def test_preempted_job_is_suspended_and_started_again_in_its_turn(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim, preemptor = preempted(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    assert w.cluster.job(victim).held_for_placement
    assert not w.jobs.pods(victim)
    assert (evicted(w), requeued(w)) == ([], ["low"])
    finish(w, preemptor)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    check(w)


def test_event_and_history_say_for_whom_a_job_was_sent_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    preempted(w)
    (event,) = (one for one in w.cluster.events if one.reason == "Requeued")
    assert event.regarding.kind == "Job"
    assert event.message == "back in line: preempted by gang default/high (priority 10)"
    noted = [one.detail for one in w.gang("low").history.entries if one.kind is HistoryKind.REQUEUED]
    assert noted == ["preempted by gang default/high (priority 10)"]


@pytest.mark.parametrize("restarted", [False, True])
def test_job_that_was_sent_back_is_ahead_of_those_that_came_after_it(
    world: MakeWorld, restarted: bool
) -> None:
    w = world(node("n0"))
    victim, preemptor = preempted(w)
    later = w.jobs.submit("later", 4)
    w.advance(3)
    if restarted:
        w.restart()
        w.advance(3)
    finish(w, preemptor)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    assert not w.jobs.pods(later)
    check(w)


def test_place_is_that_of_the_submission_and_not_of_the_first_start(world: MakeWorld) -> None:
    w = world(node("n0"))
    first = w.jobs.submit("first", 4)
    w.advance(1)
    early = w.jobs.submit("early", 4)
    w.advance(1)
    between = w.jobs.submit("between", 4)
    w.advance(1)
    finish(w, first)
    assert w.jobs.nodes(early) == ["n0"] * 4
    preemptor = w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    finish(w, preemptor)
    assert w.jobs.nodes(early) == ["n0"] * 4
    assert not w.jobs.pods(between)
    check(w)


def test_place_outlives_a_second_time(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim, preemptor = preempted(w)
    since = w.cluster.job(victim).queued_since
    later = w.jobs.submit("later", 4)
    finish(w, preemptor)
    again = w.jobs.submit("again", 4, priority=10)
    settle(w)
    assert w.cluster.job(victim).queued_since == since
    finish(w, again)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    assert not w.jobs.pods(later)


def test_room_is_free_when_the_pods_are_gone(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim = w.jobs.submit("low", 4)
    w.advance(2)
    preemptor = w.jobs.submit("high", 4, priority=10)
    w.advance(20)
    assert all(pod.deleting for pod in w.jobs.pods(victim))
    assert not w.jobs.pods(preemptor)
    check(w)
    settle(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4


def test_gang_of_which_a_budget_protects_a_pod_stays(world: MakeWorld) -> None:
    w = world(node("n0"), Queue("physics", uid="q"))
    job = w.jobs.submit("low", 4, labels={QUEUE_LABEL: "physics"})
    w.advance(5)
    w.cluster.protected.add(w.jobs.pods(job)[2].uid)
    w.cluster.put(Queue("physics", uid="q", stop=Stop.EVICT))
    settle(w)
    assert w.jobs.nodes(job) == ["n0"] * 4
    w.cluster.protected.clear()
    settle(w, 40)
    assert not w.jobs.pods(job)
    assert w.cluster.job(job).held_for_placement


def test_conflict_is_tried_again(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("hold_job", Conflict("the Job has been modified", 409), times=2)
    victim, preemptor = preempted(w)
    settle(w)
    assert (evicted(w), requeued(w)) == ([], ["low"])
    assert w.cluster.job(victim).held_for_placement
    assert w.jobs.nodes(preemptor) == ["n0"] * 4


def test_pods_of_a_job_that_may_not_be_suspended_are_evicted(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("hold_job", Denied("jobs is forbidden", 403), times=1)
    victim, preemptor = preempted(w, after=2 + BINDS_FOR)
    settle(w)
    assert (len(evicted(w)), requeued(w)) == (4, [])
    assert w.cluster.job(victim).queued_since is None
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    (why,) = (one.detail for one in w.gang("low").history.entries if one.kind is HistoryKind.FAILED)
    assert "jobs is forbidden" in why


ALONE = Owner("Job", "low", "job", "batch/v1")


def test_pod_of_a_job_that_a_budget_protects_stays(world: MakeWorld) -> None:
    w = world(node("n0"), structs.replace(PHYSICS, overrun=OverrunAction.EVICT))
    w.cluster.put(Job("default", "low", "job", 1, 1, ours=True))
    pod = w.pod("low", labels=LABELS, owner=ALONE, requests=asks(4000, 1), gates=(GATE,))
    w.advance(2)
    w.cluster.protected.add(pod.uid)
    w.change(pod, started=w.controller.registry.gone.clock())
    w.advance(40)
    assert not w.now(pod).deleting


@pytest.mark.parametrize("times", [1, 3])
def test_eviction_that_fails_is_tried_again_while_it_is_wanted(world: MakeWorld, times: int) -> None:
    w = world(node("n0"))
    w.cluster.put(Job("default", "low", "job", 1, 1, ours=True, suspendable=False))
    (pod,) = gang(w, "low", 4000, owner=ALONE)
    w.advance(2)
    w.cluster.fail("evict", times=times)
    gang(w, "high", 4000, priority=10)
    w.advance(10)
    assert [key for verb, key in w.cluster.calls if verb == "evict"] == [pod.key] * (times + 1)
    assert w.now(pod).deleting


def test_unread_budgets_are_asked_again(world: MakeWorld) -> None:
    w = world(node("n0"), Queue("physics", uid="q"))
    job = w.jobs.submit("low", 4, labels={QUEUE_LABEL: "physics"})
    w.advance(5)
    w.cluster.fail("eviction_block", ClusterError("no answer"), times=1)
    w.cluster.put(Queue("physics", uid="q", stop=Stop.EVICT))
    settle(w, 40)
    assert requeued(w) == ["low"]
    assert not w.jobs.pods(job)


@pytest.mark.parametrize(
    "job",
    [
        Job("default", "low", "job", 4, 4, ours=True, suspendable=False),
        Job("default", "low", "job", 4, 4, ours=False),
        Job("default", "low", "job", 4, 4, ours=True, finished=True),
        Job("default", "low", "other", 4, 4, ours=True),
    ],
    ids=["another controls it", "other scheduler", "ended", "another of that name"],
)
def test_jobs_that_are_not_ours_to_suspend_are_evicted(world: MakeWorld, job: Job) -> None:
    w = world(node("n0"))
    w.cluster.put(job)
    owned(w, "low", "job", 4)
    w.advance(2)
    w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert (len(evicted(w)), requeued(w)) == (4, [])


def owned(w: World, group: str, uid: str, count: int, name: str = "") -> list[Pod]:
    """The pods of a Job that isn't placed before its pods exist, and that all belong to one group."""
    return [
        w.pod(
            f"{name or group}-{number}",
            labels={GROUP_LABEL: group},
            annotations={GROUP_SIZE_ANNOTATION: "4"},
            owner=Owner("Job", name or group, uid, "batch/v1"),
            requests=asks(1000, 1),
            gates=(GATE,),
        )
        for number in range(count)
    ]


def test_gang_with_pods_of_others_is_evicted(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(Job("default", "part", "job", 3, 3, ours=True))
    owned(w, "low", "job", 3, name="part")
    bare = owned(w, "low", "", 1, name="bare")
    w.change(bare[0], owner=None)
    w.advance(2)
    w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert (len(evicted(w)), requeued(w)) == (4, [])


def test_job_that_has_pods_in_other_gangs_is_not_suspended(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.put(Job("default", "both", "job", 8, 8, ours=True))
    owned(w, "low", "job", 4, name="both")
    for number in range(4):
        w.pod(
            f"rest-{number}",
            labels={GROUP_LABEL: "rest"},
            annotations={GROUP_SIZE_ANNOTATION: "4"},
            owner=Owner("Job", "both", "job", "batch/v1"),
            requests=asks(1000, 1),
            gates=(GATE,),
        )
    w.advance(2)
    w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert (len(evicted(w)), requeued(w)) == (4, [])


def array(w: World, name: str, count: int, **labels: str) -> Job:
    """A Job that isn't Indexed and in no queue, whose pods wait at the gate."""
    job = w.jobs.submit_array(name, count, count, labels=labels)
    w.change_job(job, queued=False, suspended=False, held_for_placement=False)
    return job


@pytest.mark.parametrize("restarted", [False, True])
def test_job_that_is_not_indexed_waits_without_pods_and_starts_in_its_place(
    world: MakeWorld, restarted: bool
) -> None:
    w = world(node("n0"))
    job = array(w, "low", 4, **{GROUP_LABEL: "low"})
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 4
    preemptor = w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert (evicted(w), requeued(w)) == ([], ["low"])
    assert not w.jobs.pods(job)
    later = w.jobs.submit("later", 4)
    if restarted:
        w.restart()
    w.advance(3)
    finish(w, preemptor)
    settle(w)
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert not w.jobs.pods(later)
    check(w)


def test_preemptions_of_a_gang_are_counted_over_its_runs(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim, preemptor = preempted(w)
    finish(w, preemptor)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    w.jobs.submit("next", 4, priority=10)
    settle(w)
    story = w.state.gang("default", "low", "", EVERYTHING)
    assert story is not None
    assert story.item.preemptions == 2
    assert story.item.preempted is not None
    other = w.state.gang("default", "next", "", EVERYTHING)
    assert other is not None
    assert (other.item.preemptions, other.item.preempted) == (0, None)


@pytest.mark.parametrize("restarted", [False, True])
def test_job_whose_pod_is_a_gang_by_itself_starts_in_its_place(world: MakeWorld, restarted: bool) -> None:
    w = world(node("n0", cpu=1000))
    job = array(w, "low", 1)
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"]
    (preemptor,) = gang(w, "high", 1000, priority=10)
    settle(w)
    assert (evicted(w), requeued(w)) == ([], ["low"])
    assert w.nodes_of(preemptor) == ["n0"]
    later = w.jobs.submit("later", 1)
    if restarted:
        w.restart()
    w.advance(3)
    assert not any(w.jobs.nodes(job))
    w.change(preemptor, phase="Succeeded")
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"]
    assert not any(w.jobs.nodes(later))
    check(w)


def gangs_of(w: World, job: Job) -> list[Gang]:
    """Return the gangs of a Job's pods. Each pod is a gang by itself."""
    registry = w.controller.registry
    return [registry.gangs[key] for key in sorted(registry.gangs_of("default", job.uid))]


def test_job_whose_pod_is_a_gang_by_itself_keeps_its_history_when_it_goes_back(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    job = array(w, "low", 1)
    w.advance(3)
    for number in (1, 2):
        assert w.jobs.nodes(job) == ["n0"]
        (preemptor,) = gang(w, f"high-{number}", 1000, priority=10)
        settle(w)
        assert w.nodes_of(preemptor) == ["n0"]
        w.change(preemptor, phase="Succeeded")
        settle(w)
        (again,) = gangs_of(w, job)
        story = w.state.gang("default", again.key.name, "", EVERYTHING)
        assert story is not None
        assert story.item.preemptions == number
        assert story.item.preempted is not None
        assert [entry.what for entry in story.item.history].count(HistoryKind.REQUEUED) == number
    # A Job that comes later has nothing to do with it.
    other = array(w, "low-2", 1)
    w.advance(3)
    assert [one.history.preemptions for one in gangs_of(w, other)] == [0]


def test_history_outlasts_a_plan_that_is_given_up_because_no_pod_came(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    job = array(w, "low", 1)
    w.advance(3)
    for number in (1, 2):
        (preemptor,) = gang(w, f"high-{number}", 1000, priority=10)
        settle(w)
        w.jobs.quota = 0
        w.change(preemptor, phase="Succeeded")
        w.advance(w.limits.uncreated + 5)
        w.cluster.reap()
        w.advance(5)
        w.jobs.quota = None
        w.advance(5)
        settle(w)
        assert w.jobs.nodes(job) == ["n0"]
        (again,) = gangs_of(w, job)
        entries = again.history.entries
        assert again.history.preemptions == number
        assert [one.kind for one in entries].count(HistoryKind.REQUEUED) == number
        assert [one.at for one in entries] == sorted(one.at for one in entries)


def test_evicted_pod_of_a_job_hands_its_history_to_the_pod_that_replaces_it(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000))
    w.cluster.put(Namespace("default", {SUSPEND_LABEL: NEVER_SUSPEND}))
    job = array(w, "low", 1)
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"]
    gang(w, "high", 1000, priority=10)
    settle(w)
    assert len(evicted(w)) == 1
    assert [one.history.preemptions for one in gangs_of(w, job)] == [1]


def test_pods_of_an_array_keep_a_history_each(world: MakeWorld) -> None:
    w = world(node("n0", cpu=3000))
    job = array(w, "low", 3)
    w.advance(3)
    preemptors = [gang(w, f"high-{number}", 1000, priority=10)[0] for number in range(3)]
    settle(w)
    for one in preemptors:
        w.change(one, phase="Succeeded")
    settle(w)
    assert w.jobs.nodes(job) == ["n0"] * 3
    preempted = sum("preempted by" in str(one.message) for one in w.cluster.events if one.reason == "Evicted")
    assert sum(one.history.preemptions for one in gangs_of(w, job)) == preempted > 1
    assert not any(one.history.sent_back for one in gangs_of(w, job))


def test_user_who_resumes_a_job_that_was_sent_back_gains_nothing(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim, preemptor = preempted(w)
    later = w.jobs.submit("later", 4)
    w.advance(BINDS_FOR)
    for _ in range(3):
        w.change_job(victim, suspended=False, held_for_placement=False)
        settle(w)
        assert "n0" not in w.jobs.nodes(victim)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    finish(w, preemptor)
    settle(w)
    assert w.jobs.nodes(victim) == ["n0"] * 4
    assert not any(w.jobs.nodes(later))
    check(w)


def test_job_that_its_user_resumes_at_once_is_suspended_again(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim = w.jobs.submit("low", 4)
    w.advance(2 + BINDS_FOR)
    preemptor = w.jobs.submit("high", 4, priority=10)
    for _ in range(200):
        w.advance(0.01)
        if w.cluster.job(victim).suspended:
            break
    w.change_job(victim, suspended=False, held_for_placement=False)
    settle(w)
    settle(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    assert "n0" not in w.jobs.nodes(victim)


def test_job_that_is_deleted_meanwhile_harms_nobody(world: MakeWorld) -> None:
    w = world(node("n0"))
    victim = w.jobs.submit("low", 4)
    w.advance(2)
    w.cluster.delays["hold_job"] = 2.0
    preemptor = w.jobs.submit("high", 4, priority=10)
    w.advance(1)
    w.cluster.remove(w.cluster.job(victim))
    for pod in w.jobs.pods(victim):
        w.cluster.delete(pod)
    settle(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    check(w)


def test_all_jobs_of_a_job_set_go_back_together(world: MakeWorld) -> None:
    w = world(node("n0"))
    parts = w.jobs.submit_set("low", 2, 2)
    w.advance(3)
    assert [w.jobs.nodes(job) for job in parts] == [["n0"] * 2] * 2
    preemptor = w.jobs.submit("high", 4, priority=10)
    settle(w)
    assert w.jobs.nodes(preemptor) == ["n0"] * 4
    assert all(w.cluster.job(job).held_for_placement for job in parts)
    assert (evicted(w), sorted(requeued(w))) == ([], [job.name for job in parts])
    finish(w, preemptor)
    assert [w.jobs.nodes(job) for job in parts] == [["n0"] * 2] * 2
    check(w)


def of_a_set(w: World) -> list[Job]:
    return w.jobs.submit_set("low", 2, 2)


def of_a_group(w: World) -> list[Job]:
    label, size = {GROUP_LABEL: "low"}, {GROUP_SIZE_ANNOTATION: "4"}
    names = ("low-a", "low-b")
    return [w.jobs.submit_array(name, 2, 2, labels=label, annotations=size) for name in names]


def half_sent_back(w: World, jobs: list[Job]) -> None:
    """Kill the service between two suspensions."""
    w.cluster.delays["hold_job"] = 0.5
    for _ in range(400):
        w.advance(0.05)
        if any(w.cluster.job(job).suspended for job in jobs):
            break
    assert [w.cluster.job(job).suspended for job in jobs].count(True) == 1
    w.kill()
    w.cluster.delays.clear()


@pytest.mark.parametrize("jobs_of", [of_a_set, of_a_group])
@pytest.mark.parametrize("stopped", [False, True])
def test_restart_sends_the_rest_of_a_gang_back_in_line(
    world: MakeWorld, jobs_of: Callable[[World], list[Job]], stopped: bool
) -> None:
    w = world(node("n0"))
    parts = jobs_of(w)
    w.advance(BINDS_FOR + 5)
    assert [w.jobs.nodes(job) for job in parts] == [["n0"] * 2] * 2
    preemptor = w.jobs.submit("high", 4, priority=10)
    if stopped:
        w.cluster.put(Queue(DEFAULT_QUEUE, uid="d", stop=Stop.EVICT))
    half_sent_back(w, parts)
    w.start()
    settle(w, 8)
    assert all(w.cluster.job(job).held_for_placement for job in parts)
    assert not any(w.jobs.pods(job) for job in parts)
    assert w.jobs.nodes(preemptor) == ([] if stopped else ["n0"] * 4)
    if stopped:
        w.cluster.put(Queue(DEFAULT_QUEUE, uid="d"))
        settle(w)
    finish(w, preemptor)
    settle(w)
    assert [w.jobs.nodes(job) for job in parts] == [["n0"] * 2] * 2
    assert (evicted(w), sorted(requeued(w))) == ([], [job.name for job in parts])
    check(w)


@pytest.mark.parametrize("jobs_of", [of_a_set, of_a_group])
def test_restart_resumes_what_was_sent_back_of_a_gang_once_nothing_asks_for_it(
    world: MakeWorld, jobs_of: Callable[[World], list[Job]]
) -> None:
    w = world(node("n0"))
    parts = jobs_of(w)
    w.advance(BINDS_FOR + 5)
    preemptor = w.jobs.submit("high", 4, priority=10)
    half_sent_back(w, parts)
    w.cluster.remove(w.cluster.job(preemptor))
    later = w.jobs.submit("later", 2)
    w.start()
    settle(w, 8)
    settle(w)
    assert [w.jobs.nodes(job) for job in parts] == [["n0"] * 2] * 2
    assert not any(w.jobs.nodes(later))
    assert (evicted(w), len(requeued(w))) == ([], 1)
    check(w)


def test_job_of_a_namespace_that_is_opted_out_is_evicted(world: MakeWorld) -> None:
    w = world(node("n0"), Namespace("default", {"fluence.flux-framework.org/suspend": "never"}))
    preempted(w, after=2 + BINDS_FOR)
    assert (len(evicted(w)), requeued(w)) == (4, [])


PHYSICS = Queue("physics", uid="q", default_duration=30.0)
LABELS = {QUEUE_LABEL: "physics"}


def overrunning(w: World, overrun: OverrunAction, most: float | None = None) -> tuple[Job, Job]:
    """A Job that runs longer than its queue says, and one that came after it."""
    w.cluster.put(structs.replace(PHYSICS, overrun=overrun, max_duration=most))
    job, later = w.jobs.submit("runs", 4, labels=LABELS), w.jobs.submit("later", 4, labels=LABELS)
    w.advance(3)
    for pod in w.jobs.pods(job):
        w.change(pod, started=w.controller.registry.gone.clock())
    w.advance(40)
    return job, later


def test_overrun_work_goes_back_ahead_of_what_came_after_it(world: MakeWorld) -> None:
    w = world(node("n0"))
    job, later = overrunning(w, OverrunAction.REQUEUE)
    settle(w)
    assert (evicted(w), requeued(w)) == ([], ["runs"])
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert not w.jobs.pods(later)


def test_independent_pods_of_a_job_go_back_together_once_none_of_them_may_run_on(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(structs.replace(PHYSICS, overrun=OverrunAction.REQUEUE))
    job, later = (w.jobs.submit_array(name, 4, 4, labels=dict(LABELS)) for name in ("runs", "later"))
    w.advance(3)
    for number, pod in enumerate(w.jobs.pods(job)):
        w.change(pod, started=w.controller.registry.gone.clock() + 5 * number)
    w.advance(60)
    settle(w)
    assert (evicted(w), requeued(w)) == ([], ["runs"])
    assert w.jobs.nodes(job) == ["n0"] * 4
    assert not w.jobs.pods(later)
    check(w)


def test_overrun_pod_does_not_wait_forever_for_others_of_its_job(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(structs.replace(PHYSICS, overrun=OverrunAction.REQUEUE, default_duration=20.0))
    job = w.jobs.submit_array("runs", 2, 100, labels=dict(LABELS))
    w.advance(3)
    stays = w.jobs.pods(job)[0]
    for _ in range(8):
        for pod in w.jobs.pods(job):
            if pod.started and pod.uid != stays.uid and not pod.finished:
                w.change(pod, phase="Succeeded")
        w.advance(2)
        for pod in w.jobs.pods(job):
            if pod.node and not pod.started and not pod.finished:
                w.change(pod, started=w.controller.registry.gone.clock())
        w.advance(10)
    assert (evicted(w), requeued(w)) == ([stays.name], [])


def test_independent_pods_of_which_some_may_run_on_are_evicted(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(structs.replace(PHYSICS, overrun=OverrunAction.REQUEUE))
    job = w.jobs.submit_array("runs", 4, 4, labels=dict(LABELS))
    w.advance(3)
    first, *others = w.jobs.pods(job)
    w.change(first, started=w.controller.registry.gone.clock())
    for pod in others:
        w.change(pod, started=w.controller.registry.gone.clock() + 1000)
    w.advance(40)
    assert (evicted(w), requeued(w)) == ([first.name], [])


@pytest.mark.parametrize(
    ("overrun", "most", "goes_back"),
    [
        (OverrunAction.REQUEUE, 20.0, True),
        (OverrunAction.EVICT, None, False),
        (OverrunAction.EXTEND, 20.0, False),
    ],
)
def test_queue_says_whether_work_goes_back_or_is_evicted(
    world: MakeWorld, overrun: OverrunAction, most: float | None, goes_back: bool
) -> None:
    w = world(node("n0"))
    overrunning(w, overrun, most)
    assert bool(requeued(w)) is goes_back
    assert bool(evicted(w)) is not goes_back


def test_all_of_a_stopped_queue_goes_back_and_starts_again_when_it_is_opened(world: MakeWorld) -> None:
    w = world(node("n0"), PHYSICS)
    job = w.jobs.submit("runs", 4, labels=LABELS)
    w.advance(5)
    w.cluster.put(structs.replace(PHYSICS, stop=Stop.EVICT))
    settle(w)
    assert not w.jobs.pods(job)
    assert (evicted(w), requeued(w)) == ([], ["runs"])
    w.cluster.put(PHYSICS)
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"] * 4
