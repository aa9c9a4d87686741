"""Attempts that fail outside: twice on one node, then elsewhere, then a rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.refusals import Refusals
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.values import node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

LIMITS = Limits()


def fail(w: World, one: Pod) -> None:
    """Clear the nomination, as kube-scheduler does after a failed attempt, and wait for the next."""
    w.change(one, nominated="")
    w.advance(2)


@pytest.mark.parametrize(
    ("times", "barred"),
    [
        ([0.0], False),
        ([0.0, 0.1, 0.5], False),
        ([0.0, 1.0], False),
        ([0.0, 1.0, 2.0], True),
        ([0.0, 1.6], True),
    ],
)
def test_node_is_barred_after_two_attempts_with_some_time_between(times: list[float], barred: bool) -> None:
    refusals = before = Refusals()
    for now in times:
        before, refusals = refusals, refusals.counted("n0", now, LIMITS)
    assert (refusals.excluded is not before.excluded) is barred
    assert set(refusals.excluded_nodes(times[-1])) == ({"n0"} if barred else set())


def test_bars_end() -> None:
    refusals = Refusals(excluded={"n0": 10.0, "n1": 20.0})
    assert refusals.next_admission(0.0) == 10.0
    assert refusals.next_admission(10.0) == 20.0
    assert refusals.excluded_nodes(10.0) == {"n1"}
    assert refusals.excluded_nodes(20.0) == frozenset()
    assert refusals.next_admission(20.0) == float("inf")


def test_refused_node_is_nominated_again_and_then_left(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    fail(w, one)
    assert w.now(one).nominated == "n0"
    fail(w, one)
    assert w.now(one).nominated == "n1"


def test_filter_and_cleared_nomination_of_one_attempt_count_once(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    for _ in range(3):
        w.placements.refused(w.asked(one), "n0")
        w.change(one, nominated="")
        w.advance(0.1)
    assert w.now(one).nominated == "n0"


def test_refusal_of_a_node_that_is_not_planned_teaches_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    for _ in range(4):
        w.placements.refused(w.asked(one), "n1")
        w.placements.refused(w.asked(pod("stranger")), "n0")
        w.advance(2)
    assert w.now(one).nominated == "n0"


def test_only_node_is_tried_again_when_its_bar_ends(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    fail(w, one)
    fail(w, one)
    assert w.now(one).nominated == ""
    w.advance(w.limits.excluded_for)
    assert w.now(one).nominated == "n0"


def test_bar_ends_when_the_node_changes(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    fail(w, one)
    fail(w, one)
    w.change(node("n0"), labels={"volume": "attached"})
    w.advance(0.5)
    assert w.now(one).nominated == "n0"


def test_gang_refused_over_and_over_rests_and_says_so(world: MakeWorld) -> None:
    nodes = [node(f"n{number}") for number in range(9)]
    w = world(*nodes, scheduling=False, limits=Limits(replans=2, back_off=50.0, excluded_for=200.0))
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    for _ in range(6):
        fail(w, one)
    assert w.now(one).nominated == ""
    assert w.gang("g").reason is not None
    assert str(w.gang("g").reason) == (
        "kube-scheduler's own filters refused a member on 3 of the nodes that have room (see its events)"
    )
    w.advance(40)
    assert w.now(one).nominated == ""
    w.advance(12)
    assert w.now(one).nominated == "n3"


def test_gang_of_many_that_is_refused_gives_its_room_back_within_seconds(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}", 20_000) for number in range(40)), scheduling=False)
    pods = gang(w, "g", *([1000] * 30))
    later = gang(w, "later", *([1000] * 4))
    w.advance(1)
    began = w.loop.time()
    while not w.gang("g").back_off.failures:
        fail(w, pods[0])
        assert w.loop.time() < began + 25
    assert not any(w.now(one).nominated for one in pods)
    assert "kube-scheduler's own filters refused a member" in str(w.gang("g").reason)
    assert all(w.now(one).nominated for one in later)
    # Next time it gets twice as long.
    w.advance(w.gang("g").back_off.until - w.loop.time() + 1)
    again = w.loop.time()
    while w.gang("g").back_off.failures < 2:
        fail(w, pods[0])
    assert 25 < w.loop.time() - again < 45


def assert_refused_and_moved(w: World, one: Pod) -> None:
    """Refuse the pod on its node; its gang gets another place and doesn't back off."""
    before, failures = w.now(one).nominated, w.gang("g").back_off.failures
    assert before
    fail(w, one)
    fail(w, one)
    assert w.gang("g").back_off.failures == failures
    assert w.now(one).nominated not in ("", before)


@pytest.mark.parametrize("stalls", [False, True])
def test_time_without_places_does_not_count_as_time_in_which_they_were_refused(
    world: MakeWorld, stalls: bool
) -> None:
    nodes = node("n0"), node("n1"), node("n2")
    w = world(*nodes, scheduling=False, limits=Limits(back_off=50.0))
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    fail(w, one)
    fail(w, one)
    assert w.now(one).nominated == "n1"
    if stalls:
        w.change(one, refusal="persistentvolumeclaim not found")
        w.advance(w.limits.unasked + 10)
        assert w.gang("g").back_off.failures
        w.change(one, refusal="")
        w.advance(w.gang("g").back_off.until - w.loop.time() + 20)
    else:
        for each in nodes:
            w.change(each, unschedulable=True)
        w.advance(100)
        assert w.now(one).nominated == ""
        for each in nodes:
            w.change(each, unschedulable=False)
        w.advance(1)
    assert_refused_and_moved(w, one)


def test_time_in_which_a_member_is_missing_does_not_count_as_time_in_which_they_were_refused(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"), node("n2"), scheduling=False, limits=Limits(back_off=50.0))
    stays, leaves = gang(w, "g", 400, 400)
    w.advance(1)
    fail(w, stays)
    fail(w, stays)
    w.cluster.delete(leaves)
    w.advance(100)
    assert not w.now(stays).nominated
    w.cluster.put(replace(leaves, uid="another"))
    w.advance(5)
    assert_refused_and_moved(w, stays)


RESTING = Limits(replans=1, back_off=50.0, excluded_for=10.0, longest_back_off=150.0, unasked=10_000.0)


def refuse_until_it_rests(w: World, one: Pod) -> float:
    """Refuse the pod on every node until its gang rests; how long it is going to."""
    before = w.gang("g").back_off.failures
    for _ in range(40):
        if w.gang("g").back_off.failures > before:
            return w.gang("g").back_off.until - w.loop.time()
        fail(w, one)
    raise AssertionError("the gang doesn't rest")


def test_rest_after_refusals_doubles_up_to_a_bound(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}") for number in range(9)), scheduling=False, limits=RESTING)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    rests = []
    for _ in range(4):
        rests.append(refuse_until_it_rests(w, one))
        w.advance(rests[-1] + 1)
        assert w.now(one).nominated != ""
    assert [round(rest, -1) for rest in rests] == [50, 100, 150, 150]


def test_long_rest_ends_soon_after_a_node_has_come(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False, limits=RESTING)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.advance(refuse_until_it_rests(w, one) + 1)
    assert refuse_until_it_rests(w, one) > 90
    w.cluster.put(node("m0"))
    w.advance(51)
    assert w.now(one).nominated != ""


def test_gang_that_was_bound_rests_briefly_again(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False, limits=RESTING)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.advance(refuse_until_it_rests(w, one) + 1)
    w.change(one, node=w.now(one).nominated, gates=())
    w.advance(1)
    assert w.gang("g").back_off.failures == 0


def test_nodes_that_come_and_go_do_not_make_a_gang_rest(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False, limits=Limits(replans=2))
    one = gang(w, "g", 1000)[0]
    for number in range(8):
        w.change(node("n0"), unschedulable=number % 2 == 0)
        w.change(node("n1"), unschedulable=number % 2 == 1)
        w.advance(1)
    assert w.now(one).nominated == "n0"


def test_attempt_that_our_own_bind_refused_says_nothing_about_the_node(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), limits=Limits(bind_wait=2.0), direct=False)
    first = gang(w, "g", 1000, 1000, gates=())
    # kube-scheduler doesn't try the second member for a while, so the first waits at the barrier in vain.
    w.change(first[1], gates=(GATE,))
    w.advance(20)
    assert all(not member.refusals.excluded for member in w.gang("g").members.values())
    assert w.nodes_of(*first) == ["n0", "n0"]


def test_member_of_many_that_is_refused_moves_alone(world: MakeWorld) -> None:
    w = world(node("n0", 2000), node("n1", 2000), scheduling=False)
    pods = gang(w, "g", 1000, 1000, 1000)
    w.advance(1)
    moved = next(one for one in pods if w.now(one).nominated == "n0")
    fail(w, moved)
    fail(w, moved)
    assert w.now(moved).nominated == "n1"
    assert sorted(w.now(one).nominated for one in pods) == ["n0", "n1", "n1"]


def test_members_that_keep_each_other_away_end_up_on_a_node_each(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}", 20_000) for number in range(10)), scheduling=False)
    pods = gang(w, "g", *([1000] * 9))
    w.advance(1)
    for _ in range(4):
        taken: set[str] = set()
        for one in pods:
            # As with anti-affinity: the first keeps the node, who comes after it is refused.
            if w.now(one).nominated in taken:
                w.change(one, nominated="")
            taken.add(w.now(one).nominated)
        w.advance(2)
    assert len({w.now(one).nominated for one in pods}) == 9
    assert w.gang("g").reason is None


def test_refused_member_joins_the_others_where_there_is_no_node_apart(world: MakeWorld) -> None:
    w = world(node("n0", 2000), node("n1", 4000), scheduling=False)
    pods = gang(w, "g", 1000, 1000, 1000)
    w.advance(1)
    moved = next(one for one in pods if w.now(one).nominated == "n0")
    fail(w, moved)
    fail(w, moved)
    assert w.now(moved).nominated == "n1"


def test_resting_gang_names_the_filters_that_refused_it_last(world: MakeWorld) -> None:
    nodes = [node(f"n{number}") for number in range(9)]
    w = world(*nodes, scheduling=False, limits=Limits(replans=2, back_off=50.0, excluded_for=200.0))
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.change(one, refusal="0/9 nodes are available: 9 node(s) had no available disk.")
    for _ in range(6):
        fail(w, one)
    assert str(w.gang("g").reason).endswith("(its last attempt: VolumeRestrictions on 9 nodes)")
