"""What has a place stays in the queue in which it got it, whatever its labels, owners and objects say since."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, PLACED_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import Queue, Quota
from fluence_extender.room.records import unsealed
from tests.core.shapes import allocatable, requests
from tests.core.world import World

LIMITED = Queue("a", quota=Quota(limit={"cpu": 2000}), uid="a", default_for=frozenset({"default"}))
OTHER = Queue("b", uid="b")


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster of one node with 8 cores, with queue a that may use 2 of them, and b that may use all."""
    made = World(Node("n0", allocatable=allocatable(8, 16, 0)))
    for queue in (LIMITED, OTHER):
        made.cluster.put(queue)
    made.advance(0.1)
    yield made
    made.close()


def pod(world: World, name: str, gang: str, queue: str = "a", size: int = 1) -> Pod:
    """Create a pod of one core, and let a second pass in which it may get its place."""
    labels = {GROUP_LABEL: gang, QUEUE_LABEL: queue}
    said = {GROUP_SIZE_ANNOTATION: str(size)}
    made = world.pod(name, labels=labels, annotations=said, requests=requests(1000, 0))
    world.advance(1.0)
    return made


def cores(world: World) -> tuple[float, float]:
    """Return how many cores are charged to a and to b."""
    world.advance(1.0)
    use = world.controller.queue.admission.quotas.use
    return use.used("a").get("cpu", 0) / 1000, use.used("b").get("cpu", 0) / 1000


def gets_another_default(world: World, one: Pod) -> None:
    """Name no queue, in a namespace whose default is b from now on."""
    world.change(one, labels={GROUP_LABEL: one.labels[GROUP_LABEL]})
    world.cluster.put(structs.replace(LIMITED, default_for=frozenset()))
    world.cluster.put(structs.replace(OTHER, default_for=frozenset({"default"})))


Attempt = Callable[[World, Pod], None]

ATTEMPTS: dict[str, Attempt] = {
    "names another queue": lambda w, one: w.change(one, labels={**one.labels, QUEUE_LABEL: "b"}),
    "names no queue": lambda w, one: w.change(one, labels={GROUP_LABEL: one.labels[GROUP_LABEL]}),
    "names another gang": lambda w, one: w.change(one, labels={GROUP_LABEL: "new", QUEUE_LABEL: "b"}),
    "joins a gang of another queue": lambda w, one: w.change(
        one, labels={GROUP_LABEL: "b1", QUEUE_LABEL: "b"}
    ),
    "leaves its gang": lambda w, one: w.change(one, labels={QUEUE_LABEL: "b"}),
    "names a queue that isn't there": lambda w, one: w.change(one, labels={QUEUE_LABEL: "nowhere"}),
    "has another default": gets_another_default,
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_pod_that_runs_stays_charged_to_its_queue(world: World, attempt: str, restarted: bool) -> None:
    first, second = (pod(world, f"a{number}", f"a{number}") for number in range(2))
    pod(world, "b1", "b1", "b")
    assert cores(world) == (2, 1)
    for one in (first, second):
        ATTEMPTS[attempt](world, world.now(one))
    assert cores(world) == (2, 1)
    if restarted:
        world.restart()
    assert cores(world) == (2, 1)
    waits = pod(world, "late", "late")
    assert not world.now(waits).node
    world.cluster.remove(world.now(first))
    world.advance(3.0)
    assert world.now(waits).node
    assert cores(world) == (2, 1)


def test_member_that_joins_a_gang_that_runs_is_charged_to_its_queue(world: World) -> None:
    pod(world, "a0", "g")
    late = pod(world, "a1", "g", "b")
    assert unsealed(world.now(late).annotations[PLACED_ANNOTATION]).endswith(" in a")
    assert cores(world) == (2, 0)
    world.restart()
    assert cores(world) == (2, 0)
    third = pod(world, "a2", "g", "b")
    assert not world.now(third).node


def test_new_members_of_a_gang_that_took_in_others_pods_are_charged_to_a_queue_that_has_room(
    world: World,
) -> None:
    first, second = (pod(world, f"a{number}", f"a{number}") for number in range(2))
    for one in (first, second):
        world.change(one, labels={GROUP_LABEL: "g", QUEUE_LABEL: "b"})
    world.restart()
    world.advance(1.0)
    late = pod(world, "b0", "g", "b")
    assert not world.now(late).node
    assert cores(world) == (2, 0)


@pytest.mark.parametrize("restarted", [False, True])
def test_pods_of_a_job_that_were_created_with_their_nodes_stay_charged_once_it_is_gone(
    world: World, restarted: bool
) -> None:
    job = world.jobs.submit("train", 2, cpu=1000, labels={QUEUE_LABEL: "a"})
    world.advance(5.0)
    pods = world.jobs.pods(job)
    assert [one.node for one in pods] == ["n0", "n0"]
    assert cores(world) == (2, 0)
    for one in pods:
        world.change(one, owner=None, labels={QUEUE_LABEL: "b"})
    world.cluster.remove(job)
    world.advance(1.0)
    if restarted:
        world.restart()
    assert cores(world) == (2, 0)


def test_queue_that_nobody_has_made_is_not_recorded(world: World) -> None:
    for queue in (LIMITED, OTHER):
        world.cluster.remove(queue)
    world.advance(0.1)
    one = pod(world, "x", "x", "")
    assert " in " not in world.now(one).annotations[PLACED_ANNOTATION]
    world.cluster.put(structs.replace(LIMITED, default_for=frozenset()))
    world.cluster.put(
        structs.replace(OTHER, quota=Quota(limit={"cpu": 1000}), default_for=frozenset({"default"}))
    )
    world.restart()
    assert cores(world) == (0, 1)
