"""Queues that take back what they are guaranteed: whose places, when, and that nobody takes them back again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import Queue, QueuePreemption, Quota, Reclaim, Within
from tests.core.shapes import allocatable, requests
from tests.core.world import World

BACK = QueuePreemption(Reclaim.BORROWED)


def queue(name: str, cores: int, preemption: QueuePreemption = BACK, **fields: Any) -> Queue:
    """Return a queue that is guaranteed so many cores."""
    return Queue(
        name, quota=Quota(guaranteed={"cpu": cores * 1000}), preemption=preemption, uid=name, **fields
    )


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster of one node with 4 cores."""
    made = World(Node("n0", allocatable=allocatable(4, 16, 0)))
    yield made
    made.close()


def gang(world: World, name: str, team: str, size: int = 1, priority: int = 0) -> list[Pod]:
    """Create a gang of pods with one core each, and let a second pass in which they may run."""
    labels = {GROUP_LABEL: name, QUEUE_LABEL: team}
    said = {GROUP_SIZE_ANNOTATION: str(size)}
    pods = [
        world.pod(
            f"{name}-{number}",
            labels=labels,
            annotations=said,
            requests=requests(1000, 0),
            priority=priority,
        )
        for number in range(size)
    ]
    world.advance(1.0)
    for pod in world.cluster.pods():
        if pod.node and not pod.started:
            world.change(pod, started=world.loop.time(), phase="Running")
    return pods


def running(world: World) -> list[str]:
    """Return the names of the gangs that have nodes."""
    world.cluster.reap()
    world.advance(3.0)
    world.cluster.reap()
    world.advance(3.0)
    return sorted({pod.labels[GROUP_LABEL] for pod in world.cluster.pods() if pod.node and not pod.deleting})


def state(world: World, *queues: Queue) -> None:
    for one in queues:
        world.cluster.put(one)
    world.advance(0.1)


def test_owner_takes_back_a_whole_gang_of_equal_priority_and_keeps_what_it_got(world: World) -> None:
    state(world, queue("a", 2), queue("b", 2))
    gang(world, "b1", "b", 2)
    gang(world, "b2", "b", 2)
    gang(world, "a1", "a", 2)
    assert running(world) == ["a1", "b1"]
    assert any("whose queue takes back what it is guaranteed" in text for text in world.told())
    gang(world, "b3", "b", 2, priority=10)
    assert "a1" in running(world)


def test_owner_takes_back_from_a_higher_priority_which_takes_nothing_in_return(world: World) -> None:
    state(world, queue("a", 2), queue("b", 0, QueuePreemption()))
    gang(world, "b1", "b", 2, priority=100)
    gang(world, "b2", "b", 2, priority=100)
    gang(world, "a1", "a", 2)
    assert running(world) == ["a1", "b1"]
    gang(world, "b4", "b", 2, priority=100)
    assert running(world) == ["a1", "b1"]


def test_entry_beyond_the_guarantee_takes_nothing(world: World) -> None:
    state(world, queue("a", 1), queue("b", 2))
    gang(world, "b1", "b", 2)
    gang(world, "b2", "b", 2)
    gang(world, "a1", "a", 2)
    assert running(world) == ["b1", "b2"]


def test_queue_within_its_guarantee_loses_nothing(world: World) -> None:
    state(world, queue("a", 2), queue("b", 2), queue("c", 0, QueuePreemption()))
    gang(world, "b1", "b", 2)
    gang(world, "c1", "c", 2, priority=10)
    gang(world, "c2", "c", 2, priority=10)
    assert running(world) == ["b1", "c1"]
    gang(world, "a1", "a", 2)
    assert running(world) == ["a1", "b1"]


def test_nothing_is_taken_back_where_the_queue_does_not_say_so(world: World) -> None:
    state(world, queue("a", 2, QueuePreemption()), queue("b", 2))
    gang(world, "b1", "b", 2)
    gang(world, "b2", "b", 2)
    gang(world, "a1", "a", 2)
    assert running(world) == ["b1", "b2"]


def test_borrower_runs_for_the_shortest_time_first(world: World) -> None:
    state(world, queue("a", 2, QueuePreemption(Reclaim.BORROWED, min_runtime=600.0)), queue("b", 2))
    gang(world, "b1", "b", 2)
    gang(world, "b2", "b", 2)
    gang(world, "a1", "a", 2)
    world.advance(500.0)
    assert running(world) == ["b1", "b2"]
    world.advance(100.0)
    assert running(world) == ["a1", "b1"]


def test_the_queue_with_the_largest_share_gives_back(world: World) -> None:
    state(world, queue("a", 1), queue("b", 0), queue("c", 0))
    gang(world, "b1", "b")
    for number in range(3):
        gang(world, f"c{number}", "c")
    gang(world, "b2", "b")
    gang(world, "a1", "a")
    assert running(world) == ["a1", "b1", "c0", "c1"]


def test_two_owners_take_back_no_more_than_the_guarantee(world: World) -> None:
    state(world, queue("a", 1), queue("b", 0))
    for number in range(4):
        gang(world, f"b{number}", "b")
    gang(world, "a1", "a")
    gang(world, "a2", "a")
    assert running(world) == ["a1", "b0", "b1", "b2"]


def test_work_of_one_queue_takes_from_itself_by_priority_unless_the_queue_says_otherwise(
    world: World,
) -> None:
    state(world, queue("a", 4, QueuePreemption(within=Within.NEVER)))
    gang(world, "a1", "a", 4)
    gang(world, "a2", "a", 4, priority=10)
    assert running(world) == ["a1"]
    state(world, queue("a", 4, QueuePreemption(within=Within.LOWER_PRIORITY)))
    world.advance(10.0)
    assert running(world) == ["a2"]


def test_gang_whose_pods_are_made_anew_in_turn_is_taken_back_all_the_same(world: World) -> None:
    patient = QueuePreemption(Reclaim.BORROWED, min_runtime=30.0)
    state(world, queue("a", 4, patient), queue("b", 0, QueuePreemption()))
    alive = gang(world, "b1", "b", 2)
    (*owner,) = gang(world, "a1", "a", 4)
    for turn in range(10):
        world.advance(8.0)
        world.cluster.reap()
        old = alive.pop(0)
        if any(pod.uid == old.uid for pod in world.cluster.pods()):
            world.cluster.remove(old)
        labels, said = old.labels, old.annotations
        alive.append(world.pod(f"b1-r{turn}", labels=labels, annotations=said, requests=old.requests))
        world.advance(1.0)
        for pod in world.cluster.pods():
            if pod.node and not pod.started and not pod.deleting:
                world.change(pod, started=world.loop.time(), phase="Running")
    assert all(world.nodes_of(*owner))
