"""What starts and what is reserved under each policy."""

from __future__ import annotations

import pytest

from fluence_extender.objects.queues import PolicyName
from fluence_extender.queueing.entry import DEPTHS, NEVER, QueuePolicy
from tests.queueing.cluster import Cluster, Slot, machine, rules

ALL = list(PolicyName)
BACKFILLING = [PolicyName.EASY, PolicyName.HYBRID, PolicyName.CONSERVATIVE]
DEVICES = "resources: [{type: simulator, name: sv1, count: 2}]"


@pytest.mark.parametrize("policy", ALL)
def test_what_fits_starts(policy: PolicyName) -> None:
    w = Cluster(machine(4, 4), rules(policy))
    w.submit("a", 4)
    w.submit("b", 2)
    w.submit("c", 2)
    assert w.waiting == ["a", "b", "c"]
    assert w.decide(0) == ["a", "b", "c"]
    assert w.waiting == []
    assert w.decide(1) == []


@pytest.mark.parametrize("policy", ALL)
def test_gangs_that_ask_for_all_of_it_start_in_their_order(policy: PolicyName) -> None:
    w = Cluster(machine(4), rules(policy))
    for name in "dbca":
        w.submit(name, 4)
    started = []
    for now in range(4):
        (name,) = w.decide(now)
        started.append(name)
        w.end(name)
    assert started == ["d", "b", "c", "a"]


def test_first_come_first_served_stops_at_the_first_that_does_not_fit() -> None:
    w = Cluster(machine(4), rules(PolicyName.FCFS))
    w.run("r", {"n0": 2}, end=50)
    w.submit("a", 1)
    w.submit("b", 3)
    w.submit("c", 1)
    assert w.decide(0) == ["a"]
    assert w.promised() == {}


@pytest.mark.parametrize("policy", BACKFILLING)
def test_a_short_gang_overtakes_a_blocked_one_and_a_long_one_does_not(policy: PolicyName) -> None:
    w = Cluster(machine(4), rules(policy))
    w.run("r", {"n0": 3}, end=50)
    w.submit("a", 4)
    w.submit("b", 1, duration=51)
    w.submit("c", 1, duration=50)
    assert w.decide(0) == ["c"]
    assert w.promised()["a"] == 50


@pytest.mark.parametrize("policy", BACKFILLING)
def test_a_long_gang_overtakes_where_the_blocked_one_leaves_room(policy: PolicyName) -> None:
    w = Cluster(machine(4, 4), rules(policy))
    w.run("r", {"n0": 3, "n1": 2}, end=50)
    w.submit("a", 6)
    w.submit("b", 2, duration=NEVER)
    w.submit("c", 1, duration=NEVER)
    assert w.decide(0) == ["b"]


def test_what_is_reserved_is_kept_on_each_node() -> None:
    """Both nodes together leave two units, as ``b`` asks for, but not on the node that isn't reserved."""
    w = Cluster(machine(4, 4))
    w.run("r", {"n0": 3}, end=50)
    w.run("s", {"n1": 3}, end=60)
    w.submit("a", 1, 4)
    w.submit("b", 2, 1, duration=60)
    w.submit("c", 1, 1, duration=60)
    assert w.decide(0) == ["c"]
    assert w.promised() == {"a": 50}
    assert w.reserved("a") == ["n0"]
    assert w.nodes_of("c") == ["n1"]


def test_the_node_that_is_worth_the_least_to_others_is_reserved() -> None:
    w = Cluster(machine(4, 4))
    w.run("r", {"n0": 2, "n1": 3}, end=50)
    w.submit("a", 1, 4)
    w.submit("b", 1, 2, duration=NEVER)
    assert w.decide(0) == ["b"]
    assert w.reserved("a") == ["n1"]


def test_reservations_prefer_nodes_that_nobody_could_use_now() -> None:
    w = Cluster(machine(1, 1, 1))
    w.run("r", {"n1": 1}, end=50)
    w.run("s", {"n2": 1}, end=50)
    w.submit("a", 2)
    w.submit("b", 1, duration=NEVER)
    assert w.decide(0) == ["b"]
    assert w.reserved("a") == ["n1", "n2"]


@pytest.mark.parametrize(
    ("policy", "count"), [(PolicyName.EASY, 1), (PolicyName.HYBRID, 64), (PolicyName.CONSERVATIVE, 256)]
)
def test_the_policies_reserve_for_so_many(policy: PolicyName, count: int) -> None:
    w = Cluster(machine(1), rules(policy))
    w.run("r", {"n0": 1}, end=10)
    for number in range(count + 2):
        w.submit(f"e{number:03}", duration=5)
    assert w.decide(0) == []
    assert list(w.promised().values()) == [10 + 5 * number for number in range(count)]
    assert DEPTHS[policy] == count == QueuePolicy(policy).depth


def test_the_depth_can_be_set_except_for_first_come_first_served() -> None:
    for policy, promises in ((PolicyName.EASY, {"a": 50, "b": 150}), (PolicyName.FCFS, {})):
        w = Cluster(machine(4), rules(policy, depth=2))
        w.run("r", {"n0": 4}, end=50)
        for name in "abc":
            w.submit(name, 4)
        assert w.decide(0) == []
        assert w.promised() == promises


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("policy", BACKFILLING)
def test_next_gang_is_promised_a_start_once_one_ahead_of_it_is_withdrawn(
    policy: PolicyName, size: int
) -> None:
    w = Cluster(machine(4), rules(policy, depth=2))
    w.run("r", {"n0": 4}, end=50)
    w.submit("a", 4)
    w.submit("b", 4)
    w.submit("c", size)
    assert w.decide(0) == []
    assert w.promised() == {"a": 50, "b": 150}
    w.withdraw("a")
    assert w.decide(1) == []
    assert w.promised() == {"b": 50, "c": 150}


def test_a_pass_looks_at_so_many_gangs() -> None:
    w = Cluster(machine(4), rules(queue_depth=2))
    w.run("r", {"n0": 3}, end=50)
    w.submit("a", 4)
    w.submit("b", 4)
    w.submit("c", 1, duration=10)
    assert w.decide(0) == []
    w.withdraw("b")
    assert w.decide(1) == ["c"]


@pytest.mark.parametrize("policy", ALL)
def test_a_gang_that_no_node_could_ever_run_blocks_nobody(policy: PolicyName) -> None:
    w = Cluster(machine(4), rules(policy))
    w.run("r", {"n0": 3}, end=50)
    w.submit("a", 1, 5)
    w.submit("b", 5)
    w.submit("c", 1, duration=NEVER)
    assert w.decide(0) == ["c"]
    assert w.promised() == {}


@pytest.mark.parametrize("policy", ALL)
def test_a_gang_whose_pods_fit_alone_and_never_together_blocks_nobody(policy: PolicyName) -> None:
    w = Cluster(machine(4), rules(policy))
    w.submit_slots("a", [Slot(3), Slot(2)])
    w.submit("b", 4, duration=NEVER)
    assert w.decide(0) == ["b"]
    assert w.promised() == {}


def test_a_gang_that_no_longer_fits_on_any_node_gives_up_its_reservation() -> None:
    w = Cluster(machine(4, 2))
    w.run("r", {"n0": 4, "n1": 2}, end=50)
    w.submit("a", 1, 4)
    w.submit("b", 2, duration=NEVER)
    assert w.decide(0) == []
    assert w.promised() == {"a": 50}
    w.put_node(machine(0)[0])
    assert w.decide(1) == []
    assert w.promised() == {"b": 50}


def test_a_more_important_gang_gets_its_reservation_first() -> None:
    w = Cluster(machine(4))
    w.run("r", {"n0": 4}, end=50)
    w.submit("a", 4)
    w.decide(0)
    w.submit("b", 4, priority=1)
    w.decide(1)
    assert w.promised() == {"b": 50}


def test_a_reservation_comes_earlier_when_a_pod_ends_early() -> None:
    w = Cluster(machine(4))
    w.run("r", {"n0": 2}, end=50)
    w.run("s", {"n0": 2}, end=90)
    w.submit("a", 4)
    w.decide(0)
    assert w.promised() == {"a": 90}
    w.end("s")
    w.decide(5)
    assert w.promised() == {"a": 50}
    w.end("r")
    assert w.decide(50) == ["a"]


def test_a_gang_with_different_pods_and_devices_gets_a_reservation() -> None:
    w = Cluster(machine(4, 4), resources=DEVICES)
    one = (("simulator", 1),)
    w.submit_slots("r", [Slot(3, ("n0",), one)], 50)
    w.submit_slots("s", [Slot(1, ("n0",), one)], 70)
    assert w.decide(0) == ["r", "s"]
    w.submit_slots("a", [Slot(3), Slot(3), Slot(1, devices=one)])
    w.submit_slots("b", [Slot(1, devices=one)], NEVER)
    w.submit("c", 1, 2, duration=NEVER)
    assert w.decide(0) == []
    assert w.promised() == {"a": 50}
    assert w.reserved("a") == ["n0", "n1"]
    w.end("r")
    assert w.decide(20) == ["a"]
    assert w.waiting == ["b", "c"]


def test_gangs_keep_to_the_nodes_that_they_may_use() -> None:
    w = Cluster(machine(4, 4))
    w.run("r", {"n1": 2}, end=50)
    w.submit("a", 4, nodes=["n1"])
    w.submit("b", 4, duration=NEVER)
    assert w.decide(0) == ["b"]
    assert w.reserved("a") == ["n1"]


def test_a_withdrawn_gang_gives_up_its_reservation() -> None:
    w = Cluster(machine(4))
    w.run("r", {"n0": 3}, end=50)
    w.submit("a", 4)
    w.submit("b", 1, duration=NEVER)
    assert w.decide(0) == []
    w.withdraw("a")
    assert w.decide(1) == ["b"]
    assert w.promised() == {}


def test_a_started_gang_holds_its_places_until_it_ends() -> None:
    w = Cluster(machine(4))
    w.submit("a", 4, duration=30)
    w.submit("b", 4)
    assert w.decide(0) == ["a"]
    assert w.nodes_of("a") == ["n0"] * 4
    assert w.promised() == {"b": 30}
    w.end("a")
    assert w.decide(12) == ["b"]


def test_nothing_is_found_anew_while_nothing_changes() -> None:
    w = Cluster(machine(4), rules(PolicyName.HYBRID))
    w.run("r", {"n0": 4}, end=50)
    w.submit("a", 4)
    w.decide(0)
    before = w.promises["a"].reservation
    w.submit("b", 4)
    w.decide(1)
    assert w.promises["a"].reservation is before
    assert w.promised() == {"a": 50, "b": 150}
