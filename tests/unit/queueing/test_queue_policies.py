"""What starts and what is reserved under each policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fluence_extender.queueing.engine import Start
from fluence_extender.queueing.entry import NEVER, Slots
from fluence_extender.queueing.policy import DEPTHS, PolicyName, QueuePolicy
from tests.queueing.values import decisions, engine, entry, promised, room, run, started, taken

ALL = list(PolicyName)
BACKFILLING = [PolicyName.EASY, PolicyName.HYBRID, PolicyName.CONSERVATIVE]


@pytest.mark.parametrize("policy", ALL)
def test_what_fits_starts_in_order(policy: PolicyName) -> None:
    queue = engine(room(4, 4), policy)
    for one in (entry("a", 4), entry("b", 2), entry("c", 2)):
        queue.submit(one)
    assert started(queue, 0) == ["a", "b", "c"]
    assert not queue.waiting.entries
    assert started(queue, 1) == []


def test_first_come_first_served_stops_at_the_first_that_does_not_fit() -> None:
    queue = engine(room(4), PolicyName.FCFS)
    run(queue, "r", {0: 2}, end=50)
    for one in (entry("a", 1), entry("b", 3), entry("c", 1)):
        queue.submit(one)
    assert started(queue, 0) == ["a"]
    assert promised(queue) == {}


@pytest.mark.parametrize("policy", BACKFILLING)
def test_a_short_entry_overtakes_a_blocked_one_and_a_long_one_does_not(policy: PolicyName) -> None:
    queue = engine(room(4), policy)
    run(queue, "r", {0: 3}, end=50)
    for one in (entry("a", 4), entry("b", 1, duration=51), entry("c", 1, duration=50)):
        queue.submit(one)
    assert started(queue, 0) == ["c"]
    assert promised(queue)["a"] == 50


@pytest.mark.parametrize("policy", BACKFILLING)
def test_a_long_entry_overtakes_where_the_blocked_one_leaves_room(policy: PolicyName) -> None:
    queue = engine(room(4, 4), policy)
    run(queue, "r", {0: 3, 1: 2}, end=50)
    for one in (entry("a", 6), entry("b", 2, duration=NEVER), entry("c", 1, duration=NEVER)):
        queue.submit(one)
    assert started(queue, 0) == ["b"]


def test_what_is_reserved_is_kept_on_each_node() -> None:
    """Both nodes together leave two units, as ``b`` asks for, but not on the node that isn't reserved."""
    queue = engine(room(4, 4), PolicyName.EASY)
    run(queue, "r", {0: 3}, end=50)
    run(queue, "s", {1: 3}, end=60)
    for one in (entry("a", 1, 4), entry("b", 2, 1, duration=60), entry("c", 1, 1, duration=60)):
        queue.submit(one)
    assert started(queue, 0) == ["c"]
    assert promised(queue) == {"a": 50}
    assert taken(queue.promises["a"].places) == {0: [4]}


def test_the_node_that_is_worth_the_least_to_others_is_reserved() -> None:
    queue = engine(room(4, 4), PolicyName.EASY)
    run(queue, "r", {0: 2, 1: 3}, end=50)
    for one in (entry("a", 1, 4), entry("b", 1, 2, duration=NEVER)):
        queue.submit(one)
    assert started(queue, 0) == ["b"]
    assert taken(queue.promises["a"].places) == {1: [4]}


def test_reservations_prefer_nodes_that_nobody_could_use_now() -> None:
    queue = engine(room(1, 1, 1), PolicyName.EASY)
    run(queue, "r", {1: 1}, end=50)
    run(queue, "s", {2: 1}, end=50)
    for one in (entry("a", 2), entry("b", 1, duration=NEVER)):
        queue.submit(one)
    assert started(queue, 0) == ["b"]
    assert taken(queue.promises["a"].places) == {1: [1], 2: [1]}


def test_a_short_entry_goes_to_a_node_that_is_promised_for_later() -> None:
    """So the other one stays for an entry that runs on beyond that."""
    queue = engine(room(1, 1, 1, 1), allowed={"last": np.array([False, True, True, True])})
    run(queue, "r", {2: 1, 3: 1}, end=50)
    for one in (entry("a", 3, where="last"), entry("b", 1, duration=50), entry("c", 1, duration=NEVER)):
        queue.submit(one)
    assert started(queue, 0) == ["b", "c"]
    assert promised(queue) == {"a": 50}


@pytest.mark.parametrize(
    ("policy", "count"), [(PolicyName.EASY, 1), (PolicyName.HYBRID, 64), (PolicyName.CONSERVATIVE, 256)]
)
def test_the_policies_reserve_for_so_many(policy: PolicyName, count: int) -> None:
    queue = engine(room(1), policy)
    run(queue, "r", {0: 1}, end=10)
    for number in range(300):
        queue.submit(entry(f"e{number:03}", duration=5))
    assert started(queue, 0) == []
    assert list(promised(queue).values()) == [10 + 5 * number for number in range(count)]
    assert DEPTHS[policy] == count == QueuePolicy(policy).depth


def test_the_depth_can_be_set_except_for_first_come_first_served() -> None:
    assert QueuePolicy(PolicyName.HYBRID, 3).depth == 3
    assert QueuePolicy(PolicyName.FCFS, 3).depth == 0


def test_a_pass_looks_at_so_many_entries() -> None:
    queue = engine(room(4), queue_depth=2)
    run(queue, "r", {0: 3}, end=50)
    for one in (entry("a", 4), entry("b", 4), entry("c", 1)):
        queue.submit(one)
    assert started(queue, 0) == []


@pytest.mark.parametrize("policy", ALL)
def test_an_entry_that_no_node_could_ever_run_blocks_nobody(policy: PolicyName) -> None:
    queue = engine(room(4), policy)
    run(queue, "r", {0: 3}, end=50)
    for one in (entry("a", 1, 5), entry("b", 5), entry("c", 1, duration=NEVER)):
        queue.submit(one)
    assert started(queue, 0) == ["c"]
    assert promised(queue) == {}


@pytest.mark.parametrize("policy", ALL)
def test_an_entry_whose_slots_fit_alone_and_never_together_blocks_nobody(policy: PolicyName) -> None:
    queue = engine(room(4), policy)
    queue.submit(replace(entry("a"), slots=(Slots(1, (3,)), Slots(1, (2,)))))
    queue.submit(entry("b", 4, duration=NEVER))
    assert started(queue, 0) == ["b"]
    assert promised(queue) == {}


def test_an_entry_that_no_longer_fits_on_any_node_gives_up_its_reservation() -> None:
    queue = engine(room(4, 2))
    run(queue, "r", {0: 4, 1: 2}, end=50)
    queue.submit(entry("a", 1, 4))
    queue.submit(entry("b", 2, duration=NEVER))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 50}
    queue.resize(np.array([0]), room(0))
    assert started(queue, 1) == []
    assert promised(queue) == {"b": 50}


def test_a_more_important_entry_gets_its_reservation_first() -> None:
    queue = engine(room(4), PolicyName.EASY)
    run(queue, "r", {0: 4}, end=50)
    queue.submit(entry("a", 4))
    started(queue, 0)
    queue.submit(entry("b", 4, priority=1))
    started(queue, 1)
    assert promised(queue) == {"b": 50}


def test_a_reservation_comes_earlier_when_a_pod_ends_early() -> None:
    queue = engine(room(4), PolicyName.EASY)
    run(queue, "r", {0: 2}, end=50)
    run(queue, "s", {0: 2}, end=90)
    queue.submit(entry("a", 4))
    started(queue, 0)
    assert promised(queue) == {"a": 90}
    queue.release("s")
    started(queue, 5)
    assert promised(queue) == {"a": 50}
    queue.release("r")
    assert started(queue, 50) == ["a"]


def test_entries_with_different_slots_and_devices_of_a_pool_get_a_reservation() -> None:
    """Rows 0 and 1 are nodes with cores, row 2 is a pool of devices."""
    queue = engine(room((4, 0), (4, 0), (0, 2)), PolicyName.EASY)
    run(queue, "r", {0: (3, 0), 2: (0, 1)}, end=50)
    run(queue, "s", {2: (0, 1)}, end=70)
    both = entry("a", 2, (3, 0))
    queue.submit(replace(both, slots=(*both.slots, Slots(1, (0, 1)))))
    queue.submit(entry("b", 1, (0, 1), duration=NEVER))
    assert started(queue, 0) == []
    assert promised(queue) == {"a": 50}
    assert taken(queue.promises["a"].places) == {0: [3, 0], 1: [3, 0], 2: [0, 1]}


def test_entries_keep_to_the_rows_that_they_may_use() -> None:
    queue = engine(room(4, 4), allowed={"second": np.array([False, True])})
    run(queue, "r", {1: 2}, end=50)
    queue.submit(entry("a", 4, where="second"))
    queue.submit(entry("b", 4, duration=NEVER))
    assert started(queue, 0) == ["b"]
    assert taken(queue.promises["a"].places) == {1: [4]}


def test_a_withdrawn_entry_gives_up_its_reservation() -> None:
    queue = engine(room(4), PolicyName.EASY)
    run(queue, "r", {0: 3}, end=50)
    queue.submit(entry("a", 4))
    queue.submit(entry("b", 1, duration=NEVER))
    assert started(queue, 0) == []
    queue.withdraw("a")
    assert started(queue, 1) == ["b"]
    assert promised(queue) == {}


def test_a_started_entry_holds_its_places_until_they_are_released() -> None:
    queue = engine(room(4))
    queue.submit(entry("a", 4, duration=30))
    queue.submit(entry("b", 4))
    (start,) = (one for one in decisions(queue, 0) if isinstance(one, Start))
    assert taken(start.places) == {0: [4]}
    assert queue.timeline.holds["a"].end == 30
    assert promised(queue) == {"b": 30}
    assert queue.wake_at() == 30
    queue.release("a")
    assert started(queue, 12) == ["b"]


def test_what_happens_during_a_pass_counts_after_it() -> None:
    queue = engine(room(4, 4))
    queue.submit(entry("a", 1, 4))
    queue.submit(entry("b", 1, 4))
    going = queue.decide(0)
    assert next(going) is None
    queue.resize(np.array([0]), room(0))
    queue.withdraw("b")
    assert [one.entry.key for one in going if isinstance(one, Start)] == ["a"]
    assert queue.timeline.room.tolist() == [[0], [4]]


def test_a_new_pass_ends_one_that_was_left_unfinished() -> None:
    queue = engine(room(4))
    queue.submit(entry("a", 4))
    left = queue.decide(0)
    next(left)
    queue.release("nothing")
    assert started(queue, 1) == ["a"]
    assert list(left) == []


def test_nothing_is_found_anew_while_nothing_changes() -> None:
    queue = engine(room(4), PolicyName.HYBRID)
    run(queue, "r", {0: 4}, end=50)
    queue.submit(entry("a", 4))
    started(queue, 0)
    before = queue.promises["a"]
    queue.submit(entry("b", 4))
    started(queue, 1)
    assert queue.promises["a"] is before
    assert promised(queue) == {"a": 50, "b": 150}
