"""What a restart believes of places: what the service itself has recorded of that pod, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from msgspec import structs

from fluence_extender.kinds.job import Job
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    NODE_NAME,
    PLACED_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Owner, Pod, Requirement
from fluence_extender.objects.queues import NamespaceSelector, Queue, QueueLimits, Quota
from fluence_extender.room import records as seals
from fluence_extender.room.records import KEY_BYTES, Seal
from tests.core.shapes import allocatable, requests
from tests.core.values import SEAL
from tests.core.world import World

PHYSICS = Queue("physics", quota=Quota(limit={"cpu": 1000}), uid="a", default_for=frozenset({"default"}))
OTHERS = Queue(
    "others", quota=Quota(limit={"cpu": 9000}), uid="b", namespaces=NamespaceSelector(names=frozenset({"x"}))
)
ON_N0 = (NodeTerm(fields=(Requirement(NODE_NAME, "In", ("n0",)),)),)


@pytest.fixture
def world() -> Iterator[World]:
    """A node of 8 cores; queue physics may use one, and queue others belongs to another namespace."""
    made = World(Node("n0", allocatable=allocatable(8, 32, 0)))
    for queue in (PHYSICS, OTHERS):
        made.cluster.put(queue)
    made.advance(0.1)
    yield made
    made.close()


def pinned(world: World, name: str, record: str, group: str = "", **fields: object) -> Pod:
    """Create what a user can make of a pod: it has no gate, wants node n0 and says that it was pinned there."""
    notes = {GROUP_SIZE_ANNOTATION: "1", PLACED_ANNOTATION: record}
    made = Pod("default", name, f"uid-{name}")
    pod = replace(
        made,
        labels={GROUP_LABEL: group or name},
        annotations={**notes, **fields.pop("notes", {})},  # type: ignore[dict-item]
        affinity=ON_N0,
        requests=requests(1000, 0),
        created=100.0,
        **fields,  # type: ignore[arg-type]
    )
    world.cluster.put(pod)
    return pod


def fill(world: World) -> Pod:
    """Let a pod take what physics may use; return it as the service has recorded it."""
    first = world.pod(
        "first",
        labels={GROUP_LABEL: "first"},
        annotations={GROUP_SIZE_ANNOTATION: "1"},
        requests=requests(1000, 0),
        gates=("fluence.flux-framework.org/gang",),
    )
    world.advance(1.0)
    assert world.now(first).annotations[PLACED_ANNOTATION].startswith("1 group/first in physics")
    return world.now(first)


def used(world: World) -> tuple[float, float]:
    """Return how many cores are charged to physics and to others."""
    use = world.controller.queue.admission.quotas.use
    return use.used("physics").get("cpu", 0) / 1000, use.used("others").get("cpu", 0) / 1000


def record_of(pod: Pod) -> str:
    return pod.annotations[PLACED_ANNOTATION]


FORGED: dict[str, Callable[[Pod], tuple[str, str]]] = {
    "written by a user": lambda first: ("1 group/a0 in others", ""),
    "written by a user, with a seal": lambda first: ("1 group/a0 in others #AAAAAAAAAAAAAAAA", ""),
    "copied from a pod of the same gang": lambda first: (record_of(first), "first"),
    "copied, with another queue": lambda first: (record_of(first).replace("physics", "others"), "first"),
    "copied, with another size": lambda first: (record_of(first).replace("1 ", "9 ", 1), "first"),
    "sealed in another namespace": lambda first: (
        SEAL.on_pod(Pod("x", "a0", "uid-a0"), "1 group/a0 in others"),
        "",
    ),
    "sealed for the pod of this name that was deleted": lambda first: (
        SEAL.on_pod(Pod("default", "a0", "uid-before"), "1 group/a0 in physics"),
        "",
    ),
    "sealed by another service": lambda first: (
        Seal((b"x" * KEY_BYTES,)).on_pod(Pod("default", "a0", "uid-a0"), "1 group/a0 in physics"),
        "",
    ),
    "sealed for a Job": lambda first: (SEAL.on_job("default", "job", "1 group/a0 in physics"), ""),
    "too long": lambda first: ("1 group/a0 in physics" + "x" * 100_000 + " #AAAA", ""),
    "of other characters": lambda first: ("1 group/a0 in physics #\u00b2\u00e9", ""),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_record_places_no_pod_past_its_queues_limit(world: World, kind: str) -> None:
    first = fill(world)
    record, group = FORGED[kind](first)
    forged = [pinned(world, name, record.replace("a0", name), group) for name in ("a0", "a1")]
    world.restart()
    world.advance(2.0)
    assert [one.uid in world.ledger.holdings for one in forged] == [False, False]
    assert first.uid in world.ledger.holdings
    assert used(world) == (1, 0)


@pytest.mark.parametrize("kind", FORGED)
def test_forged_record_on_a_bound_pod_charges_nobody_else(world: World, kind: str) -> None:
    first = fill(world)
    record, group = FORGED[kind](first)
    world.disturb("n0")
    pinned(world, "a0", record, group, node="n0")
    world.restart()
    world.advance(1.0)
    assert world.ledger.accounts["n0"].free["cpu"] == 6000
    assert used(world) == (2, 0)


def test_own_record_is_believed_after_a_restart(world: World) -> None:
    first = fill(world)
    world.restart()
    assert world.ledger.holdings[first.uid].assignment.node == "n0"
    assert used(world) == (1, 0)


def test_record_counts_for_no_queue_that_doesnt_take_the_namespace(world: World) -> None:
    record = SEAL.on_pod(Pod("default", "a0", "uid-a0"), "1 group/a0 in others")
    world.disturb("n0")
    pinned(world, "a0", record, node="n0")
    steered = pinned(world, "a1", SEAL.on_pod(Pod("default", "a1", "uid-a1"), "1 group/a1 in others"))
    world.restart()
    world.advance(1.0)
    assert used(world) == (1, 0)
    assert steered.uid not in world.ledger.holdings


def test_steered_gang_gets_no_place_that_its_queue_has_given_to_another_since(world: World) -> None:
    fill(world)
    dropped = pinned(world, "a0", SEAL.on_pod(Pod("default", "a0", "uid-a0"), "1 group/a0 in physics"))
    world.restart()
    world.advance(1.0)
    assert dropped.uid not in world.ledger.holdings
    assert used(world) == (1, 0)


def test_plan_of_a_job_places_one_pod_for_each_of_its_indexes(world: World) -> None:
    world.cluster.put(structs.replace(PHYSICS, quota=Quota(limit={"cpu": 2000})))
    world.advance(0.1)
    record = SEAL.on_job("default", "job", "2 group/a in physics")
    owner = Owner("Job", "train", "job", "batch/v1")
    pods = [
        pinned(world, f"a{number}", record, "a", owner=owner, notes={COMPLETION_INDEX: str(number % 2)})
        for number in range(6)
    ]
    world.restart()
    world.advance(0.1)
    held = [one for one in pods if one.uid in world.ledger.holdings]
    assert len(held) == 2
    assert used(world) == (2, 0)


def test_pods_without_a_verifiable_record_keep_what_they_use_and_promise_nothing(world: World) -> None:
    first = fill(world)
    world.disturb("n0")
    world.change(
        first, node="n0", annotations={**first.annotations, PLACED_ANNOTATION: "1 group/first in physics"}
    )
    world.restart()
    world.advance(1.0)
    assert world.ledger.accounts["n0"].free["cpu"] == 7000
    assert not world.gang("first").begun
    assert used(world) == (1, 0)


def test_job_that_its_user_resumes_gets_no_places_past_its_queues_limit(world: World) -> None:
    world.cluster.put(structs.replace(PHYSICS, quota=Quota(), limits=QueueLimits(running=1)))
    world.advance(0.1)
    first = world.jobs.submit("first", 2, cpu=1000)
    world.advance(60.0)
    assert len(world.jobs.pods(first)) == 2
    world.change_job(first, suspended=True)
    world.advance(1.0)
    world.cluster.reap()
    world.advance(4.0)
    second = world.jobs.submit("second", 2, cpu=1000)
    world.advance(5.0)
    assert [one.node for one in world.jobs.pods(second)] == ["n0", "n0"]
    world.change_job(first, suspended=False)
    world.advance(5.0)
    for _ in range(2):
        assert not any(one.assignment for one in world.gang("first").members.values())
        world.restart()
        world.advance(1.0)


JOB = Job("default", "train", "uid-job", parallelism=2, completions=2, indexed=True, ours=True)


def test_plan_counts_for_the_job_whose_template_it_was_written_on() -> None:
    record = SEAL.on_job("default", JOB.uid, "2 job/train")
    planned = replace(JOB, nodes=("n0", "n1"), placed_with=record)
    assert SEAL.believed_job(planned) is planned
    for other in (
        replace(planned, uid="uid-other"),
        replace(planned, namespace="other"),
        replace(planned, placed_with=record.replace("2 ", "3 ", 1)),
        replace(planned, placed_with="2 job/train"),
        replace(planned, placed_with=SEAL.on_pod(Pod("default", "train", JOB.uid), "2 job/train")),
    ):
        assert SEAL.believed_job(other).nodes == ()


def test_records_are_known_by_a_former_key_and_written_with_the_present_one() -> None:
    old, new = b"old" * 11, b"new" * 11
    pod = Pod("default", "p", "u")
    before = replace(pod, annotations={PLACED_ANNOTATION: Seal((old,)).on_pod(pod, "1 pod/p u")})
    assert Seal((new, old)).believed(before) is before
    assert PLACED_ANNOTATION not in Seal((new,)).believed(before).annotations
    after = replace(pod, annotations={PLACED_ANNOTATION: Seal((new, old)).on_pod(pod, "1 pod/p u")})
    assert Seal((new,)).believed(after) is after


def test_many_unverifiable_records_cost_one_digest_each(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = 0
    real = seals._digest

    def counted(*args: str | bytes) -> str:
        nonlocal digests
        digests += 1
        return real(*args)

    monkeypatch.setattr(seals, "_digest", counted)
    for number in range(20_000):
        pod = Pod(
            "default",
            f"p{number}",
            f"u{number}",
            annotations={PLACED_ANNOTATION: "1 group/g in a #" + "A" * 16},
        )
        assert not SEAL.believed(pod).annotations
    assert digests == 20_000
