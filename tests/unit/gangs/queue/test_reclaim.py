"""Queues that take back what they are guaranteed: whose places, when, and that nobody takes them back again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import Queue, QueuePreemption, Quota, Reclaim, Within
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


def gang(
    world: World,
    name: str,
    team: str,
    size: int = 1,
    *,
    least: int | None = None,
    priority: int = 0,
    qpus: int = 0,
) -> list[Pod]:
    """Create a gang of pods with one core each, and let a second pass in which they may run.

    It runs with ``least`` of them, by default with all.
    """
    labels = {GROUP_LABEL: name, QUEUE_LABEL: team}
    said = {GROUP_SIZE_ANNOTATION: str(size if least is None else least)}
    pods = [
        world.pod(
            f"{name}-{number}",
            labels=labels,
            annotations=said,
            requests=requests(1000, 0),
            priority=priority,
            devices={"qpu": qpus} if qpus else {},
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


def test_what_one_queue_keeps_does_not_stop_another_from_taking_back(world: World) -> None:
    """What is kept is free, but not for others: what they are guaranteed they take from those that borrow."""
    keeps = Queue("k", quota=Quota({"cpu": 1000}, lendable={"cpu": 0}), preemption=BACK, uid="k")
    state(world, keeps, queue("a", 1), queue("b", 0))
    for number in range(4):
        gang(world, f"b{number}", "b")
    assert running(world) == ["b0", "b1", "b2"]
    gang(world, "a1", "a")
    assert running(world) == ["a1", "b0", "b1"]
    gang(world, "a2", "a")
    assert running(world) == ["a1", "b0", "b1"]
    reason = world.gang("a2").reason
    assert reason is not None
    assert reason.code is ReasonCode.BUSY
    gang(world, "k1", "k")
    assert running(world) == ["a1", "b0", "b1", "k1"]


def test_limit_of_a_parent_that_a_sibling_has_used_up_is_taken_back(world: World) -> None:
    parent = Queue("p", quota=Quota({"cpu": 2000}, {"cpu": 2000}), uid="p")
    state(world, parent, queue("a", 1, parent="p"), queue("b", 0, parent="p"))
    for number in range(3):
        gang(world, f"b{number}", "b")
    assert running(world) == ["b0", "b1"]
    gang(world, "a1", "a")
    assert running(world) == ["a1", "b0"]


def test_device_is_taken_back(world: World) -> None:
    qpu = {"fluxion.flux-framework.org/qpu": 1}
    owner = Queue("a", quota=Quota(guaranteed=qpu), preemption=BACK, uid="a")
    state(world, owner, queue("b", 0))
    world.cluster.put(ResourcesFile("test", "resources: [{type: qpu, name: ibm-a}]"))
    world.advance(1.0)
    gang(world, "b1", "b", qpus=1, priority=10)
    gang(world, "b2", "b")
    assert running(world) == ["b1", "b2"]
    gang(world, "a1", "a", qpus=1)
    assert running(world) == ["a1", "b2"]


def test_gang_under_a_disruption_budget_stays_and_another_borrower_goes(world: World) -> None:
    state(world, queue("a", 1), queue("b", 0))
    pods = [gang(world, f"b{number}", "b")[0] for number in range(4)]
    world.cluster.protected |= {one.uid for one in pods[1:]}
    gang(world, "a1", "a")
    assert running(world) == ["a1", "b1", "b2", "b3"]


def test_owner_whose_borrowers_are_all_under_budgets_waits_and_says_so(world: World) -> None:
    keeps = Queue("k", quota=Quota({"cpu": 1000}, lendable={"cpu": 0}), uid="k")
    for others in ((), (keeps,)):
        state(world, queue("a", 1), queue("b", 0), *others)
        pods = [gang(world, f"b{number}", "b")[0] for number in range(4)]
        world.cluster.protected |= {one.uid for one in pods}
        gang(world, "a1", "a")
        assert "a1" not in running(world)
        reason = world.gang("a1").reason
        assert reason is not None
        assert reason.code is ReasonCode.BUSY
        assert reason.text.endswith("a disruption budget allows no eviction now")
        for pod in list(world.cluster.pods()):
            world.cluster.remove(pod)
        world.advance(1.0)


def test_surplus_members_go_before_whole_gangs(world: World) -> None:
    state(world, queue("a", 1), queue("b", 0))
    gang(world, "b1", "b", 4, least=2)
    gang(world, "a1", "a")
    assert running(world) == ["a1", "b1"]
    assert len([one for one in world.cluster.pods() if one.labels[GROUP_LABEL] == "b1" and one.node]) == 3
    gang(world, "a2", "a")
    assert running(world) == ["a1", "b1"]


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 1.0])
def test_restart_in_the_middle_takes_back_once(world: World, kept: int, seconds: float) -> None:
    keeps = Queue("k", quota=Quota({"cpu": 1000 * kept}, lendable={"cpu": 0}), uid="k")
    state(world, queue("a", 2), queue("b", 0), *([keeps] if kept else []))
    for number in range(4 - kept):
        gang(world, f"b{number}", "b")
    labels, said = {GROUP_LABEL: "a1", QUEUE_LABEL: "a"}, {GROUP_SIZE_ANNOTATION: "2"}
    for number in range(2):
        world.pod(f"a1-{number}", labels=labels, annotations=said, requests=requests(1000, 0))
    world.advance(seconds)
    world.restart()
    world.advance(seconds)
    world.restart()
    expected = ["a1", "b0", "b1"] if not kept else ["a1", "b0"]
    assert running(world) == expected
    assert sum(verb == "evict" for verb, _ in world.cluster.calls) == 2
