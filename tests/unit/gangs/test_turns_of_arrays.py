"""Jobs of a queue whose pods can't be pinned: they wait without pods, and are resumed in their turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.lifecycle.namespace_quotas import FIRST_PAUSE
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import COMPLETION_INDEX, GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.objects.queues import KueueQueue, Queue, SchedulingOptions
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld


def test_array_waits_without_pods_and_is_resumed_in_its_turn(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, second, third = (w.jobs.submit_array(name, 4, 4) for name in "abc")
    w.advance(3)
    assert w.jobs.nodes(first) == ["n0"] * 4
    assert not w.jobs.pods(second) + w.jobs.pods(third)
    for ended, following, waiting in ((first, second, third), (second, third, None)):
        for pod in w.jobs.pods(ended):
            w.change(pod, phase="Succeeded")
        w.advance(3)
        assert w.jobs.nodes(following) == ["n0"] * 4
        assert waiting is None or not w.jobs.pods(waiting)
        check(w)


def test_job_with_kueues_label_is_left_to_kueue_while_that_is_served(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.unserved.discard(KueueQueue)
    w.cluster.relist(KueueQueue)
    job = w.jobs.submit_array("a", 4, 4)
    w.change_job(job, kueue=True)
    w.advance(5)
    assert w.cluster.job(job).suspended
    w.restart()
    w.advance(5)
    assert w.cluster.job(job).suspended
    assert "resume" not in [verb for verb, _ in w.cluster.calls]
    w.cluster.unserved.add(KueueQueue)
    w.cluster.relist(KueueQueue)
    w.advance(5)
    assert w.jobs.nodes(job) == ["n0"] * 4
    check(w)


def test_one_trial_and_one_resumption_are_written_for_an_array(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.submit_array("a", 4, 4)
    w.advance(2)
    verbs = [verb for verb, _ in w.cluster.calls]
    assert (verbs.count("dry_run"), verbs.count("resume")) == (1, 1)
    check(w)


def test_array_starts_with_the_pods_that_fit_and_the_others_keep_its_place_in_line(world: MakeWorld) -> None:
    w = world(node("n0"))
    first, second = w.jobs.submit_array("a", 6, 6), w.jobs.submit_array("b", 1, 1)
    w.advance(3)
    assert sorted(w.jobs.nodes(first)) == ["", "", *["n0"] * 4]
    for number, starts in enumerate(([5, 0], [6, 0], [6, 1])):
        pod = next(one for one in w.jobs.pods(first) if one.node and not one.finished)
        w.change(pod, phase="Succeeded")
        w.advance(3)
        begun = [sum(1 for one in w.jobs.pods(job) if one.node) for job in (first, second)]
        assert begun == starts, number
    check(w)


def test_throttled_array_runs_as_many_pods_at_a_time_as_its_parallelism(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit_array("a", 2, 5)
    for left in (5, 4, 3, 2, 1):
        w.advance(2)
        running = [one for one in w.jobs.pods(job) if one.node and not one.finished]
        assert len(running) == min(left, 2)
        w.change(running[0], phase="Succeeded")
    w.advance(2)
    assert w.cluster.job(job).finished
    check(w)


def test_work_queue_without_completions_waits_for_its_turn(world: MakeWorld) -> None:
    w = world(node("n0"))
    full, job = w.jobs.submit("full", 4), w.jobs.submit_array("a", 3, None)
    w.advance(2)
    assert not w.jobs.pods(job)
    for pod in w.jobs.pods(full):
        w.change(pod, phase="Succeeded")
    w.advance(2)
    assert w.jobs.nodes(job) == ["n0"] * 3
    check(w)


def test_named_gang_of_an_array_is_resumed_once_all_its_pods_fit(world: MakeWorld) -> None:
    w = world(node("n0"))
    full = w.jobs.submit("full", 2)
    job = w.jobs.submit_array("a", 3, 3, labels={GROUP_LABEL: "mesh"})
    w.advance(3)
    assert not w.jobs.pods(job)
    assert w.gang("mesh").size == 3
    w.change(w.jobs.pods(full)[0], phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 3
    assert w.gang("mesh").state is GangState.BOUND
    check(w)


def test_room_of_a_resumed_array_is_held_until_its_pods_come(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit_array("a", 4, 4)
    w.advance(2)
    assert not w.cluster.job(job).suspended
    other = w.jobs.submit_array("b", 1, 1)
    w.advance(w.limits.uncreated / 2)
    assert w.cluster.job(other).suspended
    w.jobs.quota = None
    w.advance(2)
    assert w.jobs.nodes(job) == ["n0"] * 4
    check(w)


def test_pod_of_an_array_comes_in_place_of_one_that_was_expected_and_lost_its_room(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit_array("a", 2, 2, 2000)
    w.advance(2)
    taken = w.foreign("n0", "other", requests=asks(4000))
    w.advance(1)
    w.jobs.quota = None
    w.advance(2)
    w.cluster.remove(w.now(taken))
    w.advance(2)
    assert w.jobs.nodes(job) == ["n0"] * 2
    assert w.ledger.holdings.keys() == {pod.uid for pod in w.jobs.pods(job)}


def test_pods_of_a_resumed_array_that_have_no_place_yet_are_not_overtaken_before_they_exist(
    world: MakeWorld,
) -> None:
    w = world(node("n0"))
    other = w.pod("other", gates=(GATE,), requests=asks(1000, 1))
    w.advance(1)
    first, second = w.jobs.submit_array("a", 4, 4), w.jobs.submit_array("b", 1, 1)
    w.jobs.quota = 0
    w.advance(3)
    assert not w.cluster.job(first).suspended
    assert not w.jobs.pods(first)
    w.change(other, phase="Succeeded")
    w.advance(3)
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(first) == ["n0"] * 4
    assert not w.jobs.pods(second)
    check(w)


def test_room_of_an_array_whose_pods_do_not_come_is_given_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.put(Queue("default", scheduling=SchedulingOptions(admission_timeout=30.0)))
    w.jobs.quota = 0
    w.jobs.submit_array("a", 4, 4)
    w.advance(2)
    other = w.jobs.submit_array("b", 1, 1)
    w.advance(20)
    elsewhere = w.pod("p", "others", gates=(GATE,), requests=asks(1000, 1))
    assert w.cluster.job(other).suspended
    w.advance(15)
    assert w.nodes_of(elsewhere) == ["n0"]
    assert w.cluster.job(other).suspended
    w.advance(FIRST_PAUSE)
    assert not w.cluster.job(other).suspended
    check(w)


def test_user_who_resumes_his_array_early_gains_nothing(world: MakeWorld) -> None:
    w = world(node("n0"))
    full, first = w.jobs.submit("full", 4), w.jobs.submit_array("a", 4, 4)
    second = w.jobs.submit_array("b", 4, 4)
    w.advance(2)
    w.change_job(second, suspended=False, held_for_placement=False)
    w.advance(3)
    assert [one.withheld for one in w.jobs.pods(second)] == [True] * 4
    for pod in w.jobs.pods(full):
        w.change(pod, phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(first) == ["n0"] * 4
    assert w.jobs.nodes(second) == [""] * 4
    check(w)


def test_array_that_its_user_suspends_is_held_until_he_resumes_it(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit_array("a", 2, 2)
    w.change_job(job, held_for_placement=False)
    w.advance(10)
    assert w.cluster.job(job).suspended
    assert not w.jobs.pods(job)


@pytest.mark.parametrize("when", ["while it waits", "while it is resumed", "before its pods come"])
def test_array_that_is_deleted_gives_its_room_back(world: MakeWorld, when: str) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    full = w.jobs.submit_array("full", 4, 4) if when == "while it waits" else None
    job = w.jobs.submit_array("a", 4, 4)
    if when == "while it is resumed":
        w.advance(0.06)
    else:
        w.advance(2)
    w.cluster.remove(job)
    if full is not None:
        w.cluster.remove(full)
    other = w.jobs.submit_array("b", 4, 4)
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(other) == ["n0"] * 4
    assert not w.jobs.pods(job)
    check(w)


def test_places_are_found_anew_after_a_failed_resumption(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("resume", times=2)
    job = w.jobs.submit_array("a", 3, 3)
    w.advance(10)
    assert w.jobs.nodes(job) == ["n0"] * 3
    check(w)


def test_restart_between_resumption_and_pods_starts_the_array_all_the_same(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.jobs.quota = 0
    job = w.jobs.submit_array("a", 3, 3)
    w.advance(2)
    w.restart()
    w.jobs.quota = None
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 3
    check(w)


def test_restart_keeps_the_order_of_an_arrays_pods(world: MakeWorld) -> None:
    w = world(node("n0"))
    for number, (count, priority) in enumerate(((3, 0), (2, 0), (1, 10))):
        job = w.jobs.submit_array(f"j{number}", count, count, priority=priority)
        w.change_job(job, created=number + 0.5)
        w.advance(20)
        w.cluster.reap()
        w.advance(20)
    line = [str(one.gang) for one in w.controller.queue.line()]
    assert len(line) == 2
    w.restart()
    w.advance(10)
    assert [str(one.gang) for one in w.controller.queue.line()] == line


def test_independent_pods_of_an_indexed_job_wait_for_their_turn_if_it_is_in_a_queue(world: MakeWorld) -> None:
    w = world(node("n0"))
    full = w.jobs.submit("full", 4)
    notes = {GROUP_SIZE_ANNOTATION: "1", COMPLETION_INDEX: "0"}
    job = w.jobs.submit("a", 2, annotations=notes)
    w.cluster.put(replace(w.cluster.job(job), queued=True))
    w.advance(3)
    assert not w.jobs.pods(job)
    for pod in w.jobs.pods(full)[:2]:
        w.change(pod, phase="Succeeded")
    w.advance(3)
    assert w.jobs.nodes(job) == ["n0"] * 2
    assert {
        str(one.key.convention) for one in w.controller.registry.gangs.values() if "a-" in one.key.name
    } == {"pod"}
    check(w)


def test_gangs_of_expected_pods_become_those_of_real_ones(world: MakeWorld) -> None:
    w = world(node("n0"))
    job = w.jobs.submit_array("a", 2, 2)
    w.advance(3)
    pods = w.jobs.pods(job)
    assert {one.key.name for one in w.controller.registry.gangs.values()} == {pod.name for pod in pods}
    assert {one.key.uid for one in w.controller.registry.gangs.values()} == {pod.uid for pod in pods}
