"""The rules of a queue hold for each place beyond those that a gang was promised; what was promised is completed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import Queue, QueueLimits, Quota, Stop
from tests.core.shapes import allocatable, requests
from tests.core.world import World

QUEUE = Queue("physics", uid="a", default_for=frozenset({"default"}))
OTHER = Queue("chemistry", uid="b")


@pytest.fixture
def world() -> Iterator[World]:
    """A node of 16 cores, and two queues without limits."""
    made = World(Node("n0", allocatable=allocatable(16, 64, 0)))
    made.cluster.put(QUEUE)
    made.cluster.put(OTHER)
    made.advance(0.1)
    yield made
    made.close()


def member(
    w: World, name: str, size: int = 1, cpu: int = 1000, group: str = "g", queue: str = "physics"
) -> Pod:
    """Create a pod with the label of a gang, and let a second pass in which it may get its place."""
    made = w.pod(
        name,
        labels={GROUP_LABEL: group, QUEUE_LABEL: queue},
        annotations={GROUP_SIZE_ANNOTATION: str(size)},
        requests=requests(cpu, 0),
        gates=(GATE,),
        created=w.loop.time(),
    )
    w.advance(1.0)
    return made


def rule(w: World, **fields: object) -> None:
    w.cluster.put(structs.replace(QUEUE, **fields))
    w.advance(0.5)


def bound(w: World, *pods: Pod) -> list[bool]:
    w.advance(3.0)
    return [bool(w.now(one).node) for one in pods]


STOPPED = {
    "held": {"stop": Stop.HOLD},
    "drained": {"stop": Stop.DRAIN},
}


@pytest.mark.parametrize("how", STOPPED)
@pytest.mark.parametrize("restarted", [False, True])
def test_members_that_join_a_running_gang_wait_while_its_queue_is_stopped(
    world: World, how: str, restarted: bool
) -> None:
    w = world
    first = member(w, "first")
    w.advance(1.0)
    since = w.loop.time() if how == "drained" else None
    rule(w, **STOPPED[how], stopped_since=since)
    w.advance(2.0)
    if restarted:
        w.restart()
    joiners = [member(w, f"j{number}") for number in range(3)]
    assert bound(w, first, *joiners) == [True, False, False, False]
    assert "queue physics is stopped" in str(w.gang("g").reason)
    rule(w)
    assert all(bound(w, *joiners))


@pytest.mark.parametrize("restarted", [False, True])
def test_each_member_beyond_the_promise_counts_as_a_gang_that_runs(world: World, restarted: bool) -> None:
    w = world
    rule(w, limits=QueueLimits(running=3))
    pods = [member(w, f"m{number}") for number in range(6)]
    assert sum(bound(w, *pods)) == 3
    assert "max.running: 3" in str(w.gang("g").reason)
    assert "beyond what it was promised" in str(w.gang("g").reason)
    if restarted:
        w.restart()
    other = member(w, "other", group="other")
    assert sum(bound(w, *pods, other)) == 3
    w.cluster.remove(w.now(pods[0]))
    assert sum(bound(w, *pods[1:], other)) == 3


def test_members_that_are_there_from_the_beginning_count_too(world: World) -> None:
    w = world
    rule(w, limits=QueueLimits(running=2))
    w.cluster.held = True
    for number in range(5):
        w.pod(
            f"m{number}",
            labels={GROUP_LABEL: "g", QUEUE_LABEL: "physics"},
            annotations={GROUP_SIZE_ANNOTATION: "1"},
            requests=requests(1000, 0),
            gates=(GATE,),
        )
    w.cluster.held = False
    w.cluster.deliver()
    w.advance(3.0)
    assert sum(bool(one.node) for one in w.cluster.pods()) == 2


def test_limit_of_a_user_counts_members_that_join(world: World) -> None:
    w = world
    rule(w, limits=QueueLimits(running_per_user=2))
    pods = [member(w, f"m{number}") for number in range(4)]
    assert sum(bound(w, *pods)) == 2
    assert "max.runningPerUser: 2" in str(w.gang("g").reason)


def test_gang_that_is_made_larger_counts_what_it_gets(world: World) -> None:
    w = world
    rule(w, limits=QueueLimits(running=3))
    pods = [member(w, f"m{number}", size=2) for number in range(2)]
    assert all(bound(w, *pods))
    for size in range(3, 8):
        for one in pods:
            w.change(one, annotations={**w.now(one).annotations, GROUP_SIZE_ANNOTATION: str(size)})
        pods.append(member(w, f"m{len(pods)}", size=size))
    assert sum(bound(w, *pods)) == 4


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("restarted", [False, True])
def test_lost_member_is_replaced_whatever_its_queue_says_since(
    world: World, size: int, restarted: bool
) -> None:
    w = world
    pods = [member(w, f"m{number}", size=size) for number in range(size)]
    assert all(bound(w, *pods))
    keeper = member(w, "keeper", group="g", size=size) if size == 1 else None
    assert keeper is None or all(bound(w, keeper))
    rule(w, stop=Stop.HOLD, limits=QueueLimits(running=1))
    if size == 2:
        w.cluster.remove(w.now(pods[1]))
        w.advance(1.0)
        if restarted:
            w.restart()
        assert all(bound(w, member(w, "again", size=2)))
    joiner = member(w, "joiner", size=size)
    assert bound(w, joiner) == [False]


def test_gang_that_was_begun_is_completed_though_its_queue_is_held(world: World) -> None:
    w = world
    w.disturb("n0")
    pods = [member(w, "m0", size=2, cpu=12_000)]
    w.change(Node("n0", allocatable=allocatable(16, 64, 0)), unschedulable=True)
    pods.append(member(w, "m1", size=2, cpu=1000))
    w.change(Node("n0", allocatable=allocatable(16, 64, 0)), unschedulable=False)
    assert all(bound(w, *pods))
    rule(w, stop=Stop.HOLD)
    w.cluster.remove(w.now(pods[1]))
    assert all(bound(w, member(w, "m1-again", size=2, cpu=1000)))


def test_gang_that_is_moved_to_another_queue_stays_under_the_rules_of_its_own(world: World) -> None:
    w = world
    pods = [member(w, f"m{number}", size=2) for number in range(2)]
    assert all(bound(w, *pods))
    rule(w, stop=Stop.HOLD)
    for one in pods:
        w.change(one, labels={GROUP_LABEL: "g", QUEUE_LABEL: "chemistry"})
    joiner = member(w, "joiner", size=2, queue="chemistry")
    assert bound(w, joiner) == [False]


def test_larger_members_count_against_the_quota(world: World) -> None:
    w = world
    rule(w, quota=Quota(limit={"cpu": 3000}))
    first = member(w, "first")
    assert bound(w, first, member(w, "large", cpu=4000)) == [True, False]
    assert bound(w, member(w, "fits", cpu=2000)) == [True]


def test_elastic_job_gets_no_more_pods_while_its_queue_is_held(world: World) -> None:
    w = world
    job = w.jobs.submit("train", 2, cpu=1000)
    w.advance(5.0)
    assert len([one for one in w.jobs.pods(job) if one.node]) == 2
    rule(w, stop=Stop.HOLD)
    w.change_job(job, parallelism=4, completions=4)
    w.advance(5.0)
    pods = w.jobs.pods(job)
    assert len(pods) == 4
    assert len([one for one in pods if one.node]) == 2
