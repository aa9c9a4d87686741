"""Queues and users that have had less have their turns first; what was used before decays and outlasts a restart."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from msgspec import structs

from fluence_extender.cluster.port import Changed
from fluence_extender.model.names import USER_ANNOTATION
from fluence_extender.objects.queues import PriorityClass, Queue, QueueStatus, Quota
from tests.queueing.cluster import Cluster, Slot, machine

DAY = 86_400.0
ONE_QPU = """
resources:
  - {name: ibm-a, type: qpu, count: 1}
"""


def shares(cluster: Cluster, *names: str) -> list[float]:
    found = cluster.controller.queue.admission.shares
    return [round(found.share(name), 6) for name in names]


def weighted(name: str, weight: float = 1.0, parent: str = "", half_life: float | None = None) -> Queue:
    return Queue(name, weight=weight, parent=parent, half_life=half_life, uid=name)


def test_queues_take_turns_by_their_weights() -> None:
    cluster = Cluster(machine(9), weighted("a", 2), weighted("b", 1))
    for number in range(9):
        cluster.submit(f"a{number}", queue="a")
    for number in range(9):
        cluster.submit(f"b{number}", queue="b")
    started = cluster.decide(0.0)
    assert [name for name in started if name[0] == "a"] == [f"a{number}" for number in range(6)]
    assert [name for name in started if name[0] == "b"] == [f"b{number}" for number in range(3)]
    assert shares(cluster, "a", "b") == [round(6 / 9 / 2, 6), round(3 / 9, 6)]


def test_order_is_by_priority_and_age_where_no_queue_has_a_weight() -> None:
    cluster = Cluster(machine(9), Queue("a", uid="a"), Queue("b", uid="b"))
    for number in range(6):
        cluster.submit(f"a{number}", queue="a")
    for number in range(6):
        cluster.submit(f"b{number}", queue="b")
    assert len([name for name in cluster.decide(0.0) if name[0] == "b"]) == 3


def test_users_of_a_queue_take_turns() -> None:
    cluster = Cluster(machine(4), weighted("a"))
    for user in ("ada", "ada", "ada", "ada", "eve", "eve"):
        name = f"{user}-{len(cluster.pods)}"
        cluster.submit(name, queue="a")
        for pod in list(cluster.pods[name]):
            cluster._put(name, replace(pod, annotations={**pod.annotations, USER_ANNOTATION: user}))
    started = cluster.decide(0.0)
    assert sorted(name.partition("-")[0] for name in started) == ["ada", "ada", "eve", "eve"]


def test_service_accounts_of_a_namespace_have_the_turns_of_one_user() -> None:
    """Whoever may edit in a namespace may make, and impersonate, any number of them."""
    cluster = Cluster(machine(4), weighted("a"))
    accounts = [f"system:serviceaccount:lab:bot-{number}" for number in range(4)]
    for user in (*accounts, "eve", "eve"):
        name = f"{user.rpartition(':')[2]}-{len(cluster.pods)}"
        cluster.submit(name, queue="a")
        for pod in list(cluster.pods[name]):
            cluster._put(name, replace(pod, annotations={**pod.annotations, USER_ANNOTATION: user}))
    started = cluster.decide(0.0)
    assert sorted(name.partition("-")[0] for name in started) == ["bot", "bot", "eve", "eve"]


def test_children_share_what_their_parent_has() -> None:
    tree = weighted("a"), weighted("a1", parent="a"), weighted("a2", parent="a"), weighted("b")
    cluster = Cluster(machine(8), *tree)
    for queue in ("a1", "a2", "b"):
        for number in range(8):
            cluster.submit(f"{queue}-{number}", queue=queue)
    started = [name.partition("-")[0] for name in cluster.decide(0.0)]
    assert {name: started.count(name) for name in ("a1", "a2", "b")} == {"a1": 2, "a2": 2, "b": 4}


def test_largest_part_of_any_resource_counts() -> None:
    cluster = Cluster(machine((10, 2)), weighted("cores"), weighted("gpus"))
    cluster.submit("g1", size=(1, 1), queue="gpus")
    cluster.submit("c1", size=(2, 0), queue="cores")
    cluster.decide(0.0)
    assert shares(cluster, "cores", "gpus") == [0.2, 0.5]


def test_queue_within_its_guarantee_goes_before_one_that_borrows() -> None:
    guaranteed = Queue("b", quota=Quota({"cpu": 2000}), uid="b")
    cluster = Cluster(machine(4), Queue("a", uid="a"), guaranteed)
    for number in range(4):
        cluster.submit(f"a{number}", queue="a")
    for number in range(4):
        cluster.submit(f"b{number}", queue="b")
    assert sorted(cluster.decide(0.0)) == ["a0", "a1", "b0", "b1"]


def test_queue_that_used_much_goes_last_until_that_has_decayed() -> None:
    for pause, first in ((0.0, "b"), (60 * DAY, "a")):
        queues = weighted("a", half_life=DAY), weighted("b", half_life=DAY)
        cluster = Cluster(machine(4), *queues)
        cluster.submit("past", size=4, queue="a", duration=DAY)
        cluster.decide(0.0)
        cluster.end("past")
        cluster.decide(DAY)
        cluster.submit("a1", size=4, queue="a")
        cluster.submit("b1", size=4, queue="b")
        assert cluster.decide(DAY + pause + 1)[0][0] == first


def test_past_use_is_exact_however_often_it_is_looked_at() -> None:
    found = []
    for looks in (1, 50):
        cluster = Cluster(machine(4), weighted("a", half_life=DAY))
        cluster.submit("past", size=4, queue="a")
        cluster.decide(0.0)
        for number in range(1, looks):
            cluster.now = DAY * number / looks
            cluster.controller.queue.admission.shares.past("a")
        cluster.now = DAY
        past = cluster.controller.queue.admission.shares.past("a")
        assert past is not None
        found.append(past.amounts["cpu"])
    assert found == pytest.approx([4000 * DAY / log(2) * (1 - exp(-log(2)))] * 2)


def test_restart_keeps_what_was_used() -> None:
    queues = weighted("a", half_life=DAY), weighted("b", half_life=DAY)
    cluster = Cluster(machine(8), *queues)
    cluster.submit("past", size=4, queue="a", duration=DAY)
    cluster.submit("on", size=2, queue="b", duration=9 * DAY)
    cluster.decide(0.0)
    cluster.end("past")
    cluster.decide(DAY)
    cluster.decide(DAY + 20)
    for one in cluster.objects:
        admission = cluster.controller.queue.admission
        assert isinstance(one, Queue)
        said = cluster.controller.queue.settings.queues[one.name]
        status = QueueStatus(past=admission.shares.past(one.name))
        cluster.controller.observe(Changed(structs.replace(said, status=status)))
    cluster.objects = tuple(cluster.controller.queue.settings.made.values())
    before = shares(cluster, "a", "b")
    again = cluster.restarted()
    again.decide(DAY + 20)
    assert shares(again, "a", "b") == pytest.approx(before, abs=1e-5)
    cluster.now = again.now = 3 * DAY
    assert shares(again, "a", "b") == pytest.approx(shares(cluster, "a", "b"), abs=1e-5)


def test_waiting_makes_up_for_priority_where_a_queue_ages() -> None:
    for step, order in ((None, ["high", "low"]), (60.0, ["low", "high"]), (600.0, ["high", "low"])):
        cluster = Cluster(machine(1), Queue("a", class_step=step, uid="a"))
        cluster.controller.observe(Changed(PriorityClass("high", 1000)))
        cluster.submit("low", queue="a", created=-300.0)
        cluster.submit("high", queue="a", priority=1000, created=0.0)
        assert cluster.decide(1.0) == order[:1]


def jain(delivered: list[float]) -> float:
    return sum(delivered) ** 2 / (len(delivered) * sum(one * one for one in delivered))


WEIGHTS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 2.0}
SIZES = {"a": 1, "b": 4, "c": 2, "d": 1}
LENGTHS = {"a": 600.0, "b": 1800.0, "c": 900.0, "d": 300.0}
OVERLOAD = DAY / 12
NODES = machine(*[8] * 4)


def overloaded(*queues: Queue) -> tuple[dict[str, float], float]:
    """Let four teams have more work than there is room, in jobs of different sizes and lengths.

    Return the core-seconds that each got, and the part of the cluster that all together used.
    """
    cluster = Cluster(NODES, *queues)
    ends: dict[str, float] = {}
    delivered = dict.fromkeys(WEIGHTS, 0.0)
    waiting = dict.fromkeys(WEIGHTS, 0)
    made, time = 0, 0.0
    while time < OVERLOAD:
        for name in WEIGHTS:
            while waiting[name] < 34 // SIZES[name] + 2:
                made += 1
                waiting[name] += 1
                cluster.submit(f"{name}-{made}", size=SIZES[name], queue=name, duration=LENGTHS[name])
        for started in cluster.decide(time):
            name = started.partition("-")[0]
            waiting[name] -= 1
            ends[started] = time + LENGTHS[name]
        following = min(ends.values())
        for running in ends:
            name = running.partition("-")[0]
            delivered[name] += SIZES[name] * (min(following, OVERLOAD) - time)
        time = following
        for over in [one for one, end in ends.items() if end <= time]:
            cluster.end(over)
            del ends[over]
    return delivered, sum(delivered.values()) / (32 * OVERLOAD)


@pytest.mark.parametrize("guaranteed", [False, True])
def test_overloaded_queues_get_what_their_weights_entitle_them_to(guaranteed: bool) -> None:
    """Guarantees in proportion to the weights, which others may borrow, cost nothing."""
    queues = [weighted(name, weight, half_life=DAY / 12) for name, weight in WEIGHTS.items()]
    if guaranteed:
        queues = [structs.replace(one, quota=Quota({"cpu": int(WEIGHTS[one.name] * 4000)})) for one in queues]
    delivered, used = overloaded(*queues)
    _, without = overloaded(*(Queue(name, uid=name) for name in WEIGHTS))
    assert jain([delivered[name] / WEIGHTS[name] for name in WEIGHTS]) >= 0.95
    assert used >= without - 0.005
    assert used > 0.97


def test_device_is_shared_by_the_weights_of_its_queues() -> None:
    """One gang at a time has the only QPU, each for a minute, so what was used before decides."""
    cluster = Cluster(
        machine(8), weighted("a", 2, half_life=DAY), weighted("b", 1, half_life=DAY), resources=ONE_QPU
    )
    for number in range(60):
        for team in ("a", "b"):
            cluster.submit_slots(f"{team}{number}", [Slot(1, devices=(("qpu", 1),))], queue=team)
    minutes = {"a": 0, "b": 0}
    for minute in range(60):
        (started,) = cluster.decide(60.0 * minute)
        minutes[started[0]] += 1
        cluster.now = 60.0 * (minute + 1)
        cluster.end(started)
    assert minutes["a"] + minutes["b"] == 60
    assert abs(minutes["a"] - 40) <= 1, minutes
