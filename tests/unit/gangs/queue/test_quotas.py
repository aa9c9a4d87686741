"""Queues with quotas: how much their gangs hold, what they borrow, and why a gang waits for its quota."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fluence_extender.cluster.port import Changed
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import Queue, Quota
from tests.core.shapes import allocatable, requests
from tests.core.world import World
from tests.queueing.cluster import Cluster, Slot, machine

QPUS = """
resources:
  - {name: ibm-a, type: qpu, count: 3}
"""


def queue(name: str, parent: str = "", **quota: dict[str, int]) -> Queue:
    """Return a queue with a quota of these many cores, and of other resources."""
    amounts: dict[str, Any] = {
        what: {kind: amount * 1000 if kind == "cpu" else amount for kind, amount in some.items()}
        for what, some in quota.items()
    }
    return Queue(name, parent=parent, quota=Quota(**amounts), uid=name)


def why(cluster: Cluster, gang: str) -> tuple[ReasonCode, str] | None:
    reason = cluster.gang(gang).reason
    return None if reason is None else (reason.code, reason.text)


def cores(cluster: Cluster, name: str) -> float:
    return cluster.controller.queue.admission.quotas.use.used(name).get("cpu", 0) / 1000


def test_gang_over_the_limit_waits_with_a_reason_and_those_behind_it_start() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}), queue("b"))
    for name in ("a1", "a2", "a3"):
        cluster.submit(name, size=2, queue="a")
    cluster.submit("b1", size=3, queue="b")
    assert cluster.decide(0.0) == ["a1", "a2", "b1"]
    assert why(cluster, "a3") == (
        ReasonCode.OVER_QUOTA,
        "over quota: queue a may use 4 cpu (limit.cpu), and with the 2 cpu of this gang it would use more; it starts "
        "when enough comes back: wait, ask for less, or name another queue",
    )
    assert cluster.controller.queue.reservations() == []


def test_gang_starts_once_its_quota_has_room_again() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}))
    for name in ("a1", "a2", "a3"):
        cluster.submit(name, size=2, queue="a")
    cluster.decide(0.0)
    cluster.end("a1")
    assert cluster.decide(1.0) == ["a3"]
    assert cores(cluster, "a") == 4


def test_gang_starts_once_its_quota_is_raised() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 2}))
    cluster.submit("a1", size=4, queue="a")
    assert cluster.decide(0.0) == []
    cluster.configure(queue("a", limit={"cpu": 4}))
    assert cluster.decide(1.0) == ["a1"]


def test_limit_of_a_parent_counts_what_all_its_children_hold() -> None:
    tree = queue("top", limit={"cpu": 5}), queue("a", "top"), queue("b", "top")
    cluster = Cluster(machine(16), *tree)
    cluster.submit("a1", size=3, queue="a")
    cluster.submit("b1", size=3, queue="b")
    cluster.submit("t1", size=2, queue="top")
    assert cluster.decide(0.0) == ["a1", "t1"]
    found = why(cluster, "b1")
    assert found is not None
    assert "queue top, which queue b is part of, may use 5 cpu" in found[1]
    assert (cores(cluster, "top"), cores(cluster, "a"), cores(cluster, "b")) == (5, 3, 0)


def test_guarantee_that_is_not_lent_stays_free_for_its_queue() -> None:
    own = queue("a", guaranteed={"cpu": 6}, lendable={"cpu": 2})
    cluster = Cluster(machine(8), own, queue("b"))
    for number in range(8):
        cluster.submit(f"b{number}", queue="b")
    assert len(cluster.decide(0.0)) == 4
    assert why(cluster, "b7") == (
        ReasonCode.BUSY,
        "busy: it needs more cpu than is free beside what other queues keep for themselves (what they are guaranteed "
        "and don't lend)",
    )
    cluster.submit("a1", size=4, queue="a")
    assert cluster.decide(1.0) == ["a1"]


def test_what_is_lent_may_be_borrowed_in_full() -> None:
    cluster = Cluster(machine(8), queue("a", guaranteed={"cpu": 6}), queue("b", guaranteed={"cpu": 2}))
    cluster.submit("b1", count=8, queue="b")
    assert cluster.decide(0.0) == ["b1"]
    assert cluster.controller.queue.admission.quotas.use.borrowed("b") == {"cpu": 6000}


def test_devices_are_limited_by_their_type() -> None:
    limited = queue("a", limit={"fluxion.flux-framework.org/qpu": 1})
    cluster = Cluster(machine(8), limited, resources=QPUS)
    for name in ("a1", "a2"):
        cluster.submit_slots(name, [Slot(1, devices=(("qpu", 1),))], queue="a")
    assert cluster.decide(0.0) == ["a1"]
    found = why(cluster, "a2")
    assert found is not None
    assert "may use 1 fluxion.flux-framework.org/qpu" in found[1]


def test_restart_counts_what_runs() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}))
    cluster.submit("a1", count=2, size=2, queue="a")
    cluster.decide(0.0)
    again = cluster.restarted()
    again.submit("a2", queue="a")
    assert again.decide(1.0) == []
    assert why(again, "a2") is not None
    again.end("a1")
    assert again.decide(2.0) == ["a2"]


def test_limit_that_falls_below_what_runs_stops_nothing_that_runs() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}))
    cluster.submit("a1", count=2, size=2, queue="a")
    cluster.decide(0.0)
    cluster.configure(queue("a", limit={"cpu": 1}))
    cluster.submit("a2", queue="a")
    assert cluster.decide(1.0) == []
    assert cluster.nodes_of("a1") == ["n0", "n0"]


def test_mixed_gang_has_all_its_places_within_the_quota_or_none() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}))
    cluster.submit_slots("a1", [Slot(3), Slot(2)], queue="a")
    assert cluster.decide(0.0) == []
    assert cores(cluster, "a") == 0


def test_nothing_is_counted_where_no_queue_has_a_quota() -> None:
    cluster = Cluster(machine(8), Queue("a", uid="a"))
    cluster.submit("a1", queue="a")
    assert cluster.decide(0.0) == ["a1"]
    assert not cluster.controller.queue.admission.quotas.active
    assert not cluster.controller.queue.admission.usage.held(("a", None))
    cluster.configure(queue("a", limit={"cpu": 1}))
    cluster.submit("a2", queue="a")
    assert cluster.decide(1.0) == []


def test_contradictions_are_told_and_the_rest_counts() -> None:
    cluster = Cluster(
        machine(8),
        queue("x", "y", limit={"cpu": 2}),
        queue("y", "x"),
        queue("lost", "nowhere", guaranteed={"cpu": 1}),
        queue("a", guaranteed={"cpu": 12}),
        queue("b", guaranteed={"cpu": 4, "example.com/none": 1}),
    )
    cluster.submit("x1", size=3, queue="x")
    assert cluster.decide(0.0) == []
    queues = cluster.controller.queue
    told = {name: queues.problems(one) for name, one in queues.settings.queues.items()}
    assert told["x"] == ["spec.parent: the queue is its own ancestor (x in y in x)"]
    assert told["y"] == ["spec.parent: the queue is its own ancestor (y in x in y)"]
    assert told["lost"] == [
        "spec.parent: there is no queue nowhere",
        "spec.guaranteed isn't in force: the queue has no place in the tree",
    ]
    assert told["a"] == [
        "spec.guaranteed cpu: 12 counts as 6, because 16 is guaranteed of the 8 of the cluster"
    ]
    assert told["b"] == [
        "spec.guaranteed example.com/none: nothing in the cluster has it",
        "spec.guaranteed cpu: 4 counts as 2, because 16 is guaranteed of the 8 of the cluster",
    ]


def test_queue_below_the_last_level_stands_alone() -> None:
    names = ("q1", "q2", "q3", "q4", "q5")
    tree = [queue(name, parent) for name, parent in zip(names, ("", *names), strict=False)]
    cluster = Cluster(machine(8), *tree)
    cluster.decide(0.0)
    settings = cluster.controller.queue.settings
    assert cluster.controller.queue.problems(settings.queues["q5"]) == [
        "spec.parent: the tree may have 4 levels, and q4 is on the last"
    ]
    assert cluster.controller.queue.problems(settings.queues["q4"]) == []


def test_member_of_a_begun_gang_that_is_made_anew_and_larger_finds_no_more_than_its_share() -> None:
    world = World(
        Node("n0", allocatable=allocatable(16, 16, 0)), queue("default", limit={"cpu": 4}), scheduling=False
    )
    fields: dict[str, Any] = {"labels": {GROUP_LABEL: "g"}, "annotations": {GROUP_SIZE_ANNOTATION: "2"}}
    first, second = (world.pod(f"g-{one}", requests=requests(2000, 0), **fields) for one in (0, 1))
    world.advance(1.0)
    world.change(first, node="n0")
    world.cluster.delete(second)
    larger = world.pod("g-1", requests=requests(12000, 0), **fields)
    world.advance(1.0)
    assert world.gang("g").must_be_completed
    reason = world.gang("g").reason
    assert reason is not None
    assert reason.code is ReasonCode.OVER_QUOTA
    world.cluster.delete(larger)
    again = world.pod("g-1", requests=requests(2000, 0), **fields)
    world.advance(1.0)
    assert world.member(again.uid).assignment is not None
    world.close()


def test_guarantees_beyond_the_parent_or_the_own_limit_are_told_and_count_in_part() -> None:
    cluster = Cluster(
        machine(8),
        queue("p", guaranteed={"cpu": 4}),
        queue("c1", "p", guaranteed={"cpu": 4}),
        queue("c2", "p", guaranteed={"cpu": 4}),
        queue("d", guaranteed={"cpu": 2}, limit={"cpu": 1, "example.com/none": 1}),
        queue("e", guaranteed={"cpu": 1}, lendable={"cpu": 2}),
    )
    cluster.submit("d1", queue="d")
    cluster.submit("c", size=4, queue="c1")
    assert sorted(cluster.decide(0.0)) == ["c", "d1"]
    queues = cluster.controller.queue
    told = {name: queues.problems(one) for name, one in queues.settings.queues.items()}
    pro_rata = "spec.guaranteed cpu: 4 counts as 2, because 8 is guaranteed of the 4 of queue p"
    assert (told["p"], told["c1"], told["c2"]) == ([], [pro_rata], [pro_rata])
    assert told["d"] == [
        "spec.guaranteed cpu: 2 counts as its limit, 1",
        "spec.limit example.com/none: nothing in the cluster has it",
    ]
    assert told["e"] == ["spec.lendable cpu: it is more than the queue is guaranteed"]


def test_pods_that_are_being_deleted_count_until_they_end() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 2}))
    cluster.submit("a1", size=2, queue="a")
    cluster.decide(0.0)
    (pod,) = cluster.pods["a1"]
    cluster.controller.observe(Changed(replace(pod, deleting=True)))
    cluster.submit("a2", size=2, queue="a")
    assert cluster.decide(1.0) == []
    cluster.end("a1")
    assert cluster.decide(2.0) == ["a2"]


def test_quota_that_is_dropped_and_stated_again_forgets_what_has_ended_meanwhile() -> None:
    stated = queue("a", limit={"cpu": 2})
    cluster = Cluster(machine(8), stated)
    cluster.submit("a1", size=2, queue="a")
    cluster.decide(0.0)
    cluster.configure(queue("a"))
    cluster.decide(1.0)
    cluster.end("a1")
    cluster.decide(2.0)
    cluster.configure(stated)
    cluster.submit("a2", size=2, queue="a")
    assert cluster.decide(3.0) == ["a2"]


def test_member_beyond_the_size_that_never_fits_keeps_back_none_and_none_passes_the_quota() -> None:
    kept = queue("vip", guaranteed={"cpu": 4}, lendable={"cpu": 0})
    cluster = Cluster(machine(8), kept, queue("a", limit={"nvidia.com/gpu": 1}))
    cluster.submit_slots("a1", [Slot(1), Slot(999), *[Slot(1)] * 6], queue="a")
    for pod in list(cluster.pods["a1"]):
        cluster._put("a1", replace(pod, annotations={GROUP_SIZE_ANNOTATION: "1"}))
    cluster.decide(0.0)
    assert cores(cluster, "a") == 4


def test_gang_that_asks_for_more_than_the_limit_is_told_that_it_never_starts() -> None:
    cluster = Cluster(machine(8), queue("a", limit={"cpu": 4}))
    cluster.submit("a1", size=5, queue="a")
    cluster.decide(0.0)
    assert why(cluster, "a1") == (
        ReasonCode.OVER_QUOTA,
        "over quota: queue a may use 4 cpu (limit.cpu), and this gang asks for 5 cpu; ask for less, or name another "
        "queue",
    )
