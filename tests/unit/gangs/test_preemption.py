"""A gang that does not fit preempts whole gangs of lower priority if it fits without them."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from tests.core.invariants import check, check_at_rest
from tests.core.state_api import every
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def reason(world: World, name: str) -> str:
    found = world.gang(name).reason
    return found.text if found is not None else ""


def terminating(world: World, *pods: Pod) -> list[bool]:
    return [world.now(pod).deleting for pod in pods]


def test_victim_is_evicted_whole_and_the_preemptor_takes_its_place(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    high = gang(w, "high", 3000, priority=10)
    w.advance(2)
    assert terminating(w, *low) == [True, True]
    assert reason(w, "high") == "preempting default/low: 0 of 2 pods gone"
    found = w.gang("high").reason
    assert found is not None
    assert found.code is ReasonCode.PREEMPTING
    w.cluster.reap()
    w.advance(3)
    assert w.nodes_of(*high) == ["n0"]
    assert w.gang("high").state is GangState.BOUND
    assert any("preempted by gang default/high (priority 10)" in text for text in w.told())
    check_at_rest(w)


def test_evicted_gang_names_its_preemptor_and_its_former_pods(world: MakeWorld) -> None:
    w = world(node("n0"))
    (low,) = gang(w, "low", 3000)
    w.advance(2)
    gang(w, "high", 3000, priority=10)
    w.advance(2)
    terminating_gang = w.state.gang("default", "low", "", EVERYTHING)
    assert terminating_gang is not None
    assert terminating_gang.item.state == "finished"
    assert terminating_gang.item.reason.startswith(
        "its pods are being deleted: preempted by gang default/high"
    )
    w.cluster.reap()
    w.advance(3)
    story = w.state.gang("default", "low", "", EVERYTHING)
    assert story is not None
    assert story.item.reason.startswith("its pods are gone: preempted by gang default/high")
    assert story.item.former == (low.name,)
    listed = {one.name: one for one in every(w.state.gangs(True, EVERYTHING))}
    assert all(
        getattr(story.item, one.name) == getattr(listed["low"], one.name) for one in fields(listed["low"])
    )


def test_equal_priority_never_preempts(world: MakeWorld) -> None:
    w = world(node("n0"))
    first = gang(w, "first", 3000, priority=10)
    w.advance(2)
    gang(w, "second", 3000, priority=10)
    w.advance(10)
    assert terminating(w, *first) == [False]
    assert reason(w, "second") == "busy: 0 of 1 fit now, short of cpu"


def test_preemption_policy_never_preempts_no_gang(world: MakeWorld) -> None:
    w = world(node("n0"))
    low = gang(w, "low", 3000)
    w.advance(2)
    gang(w, "high", 3000, priority=10, preempts=False)
    w.advance(10)
    assert terminating(w, *low) == [False]
    assert reason(w, "high").startswith("busy:")


def test_no_gang_is_evicted_for_one_that_would_not_fit_afterwards(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000)
    w.foreign("n1", "theirs", requests=asks(3000, 1))
    w.advance(2)
    gang(w, "high", 3000, 3000, priority=10)
    w.advance(10)
    assert terminating(w, *low) == [False]
    assert not [call for call in w.cluster.calls if call[0] == "evict"]


def test_pods_of_other_schedulers_are_never_evicted(world: MakeWorld) -> None:
    w = world(node("n0"))
    theirs = w.foreign("n0", "theirs", requests=asks(3000, 1), priority=-5)
    gang(w, "high", 3000, priority=10)
    w.advance(10)
    assert terminating(w, theirs) == [False]


def test_only_gangs_in_the_way_are_evicted(world: MakeWorld) -> None:
    w = world(*(node(f"n{number}") for number in range(4)))
    lows = [gang(w, f"low{number}", 3000, priority=number)[0] for number in range(4)]
    w.advance(3)
    gang(w, "high", 3000, 3000, priority=10)
    w.advance(2)
    assert terminating(w, *lows) == [True, True, False, False]


def test_freed_nodes_are_held_until_all_victims_are_gone(world: MakeWorld) -> None:
    w = world(node("n0"))
    lows = [gang(w, name, 1500)[0] for name in ("a", "b")]
    w.advance(2)
    high = gang(w, "high", 3500, priority=10)
    w.advance(2)
    assert terminating(w, *lows) == [True, True]
    assert [w.now(pod).nominated for pod in high] == ["n0"]
    assert w.waits(high[0])
    w.cluster.remove(w.now(lows[0]))
    w.advance(1)
    late = gang(w, "late", 1000)
    w.advance(3)
    assert w.nodes_of(*late) == [""]
    assert reason(w, "late").endswith("; behind default/high (priority 10)")
    assert reason(w, "high") == "preempting default/a, default/b: 1 of 2 pods gone"
    w.cluster.reap()
    w.advance(3)
    assert w.nodes_of(*high, *late) == ["n0", ""]


def test_gang_of_higher_priority_may_take_held_nodes(world: MakeWorld) -> None:
    w = world(node("n0"))
    low = gang(w, "low", 3000)
    w.advance(2)
    middle = gang(w, "middle", 3000, priority=10)
    w.advance(2)
    top = gang(w, "top", 3000, priority=20)
    w.advance(2)
    w.cluster.reap()
    w.advance(3)
    assert w.nodes_of(*top, *middle) == ["n0", ""]
    assert low[0].uid not in w.ledger.holdings


def test_held_nodes_open_when_the_preemptor_is_deleted(world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "low", 3000)
    w.advance(2)
    high = gang(w, "high", 3000, priority=10)
    w.advance(2)
    late = gang(w, "late", 3000)
    w.cluster.remove(w.now(high[0]))
    w.cluster.reap()
    w.advance(3)
    assert w.nodes_of(*late) == ["n0"]


def test_gang_under_a_budget_stays_and_another_is_evicted(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    guarded = gang(w, "guarded", 3000, priority=0)
    other = gang(w, "other", 3000, priority=5)
    w.advance(2)
    w.cluster.protected.add(guarded[0].uid)
    gang(w, "high", 3000, priority=10)
    w.advance(3)
    assert terminating(w, *guarded, *other) == [False, True]


def test_preemptor_whose_only_victims_are_under_a_budget_waits_and_names_the_budget(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    w.cluster.protected.add(low[1].uid)
    high = gang(w, "high", 3000, priority=10)
    w.advance(4)
    assert terminating(w, *low) == [False, False]
    assert reason(w, "high").endswith("a disruption budget allows no eviction now")
    assert w.now(high[0]).nominated == ""
    w.cluster.protected.clear()
    w.advance(8)
    assert terminating(w, *low) == [True, True]


def test_eviction_that_has_begun_is_completed(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    w.cluster.fail("evict", times=1)
    high = gang(w, "high", 3000, priority=10)
    w.advance(1)
    assert sorted(terminating(w, *low)) == [False, True]
    w.cluster.remove(w.now(high[0]))
    w.advance(4)
    assert terminating(w, *low) == [True, True]


def test_surplus_members_of_an_elastic_gang_are_taken_alone(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    elastic = gang(w, "elastic", 3000, 3000, 3000, size=2)
    w.advance(3)
    high = gang(w, "high", 3000, priority=10)
    w.advance(2)
    assert terminating(w, *elastic) == [False, False, True]
    w.cluster.reap()
    w.advance(3)
    assert all(w.nodes_of(*high))
    assert w.gang("elastic").state is GangState.BOUND


def test_no_surplus_is_taken_from_a_gang_that_is_disrupted_as_a_whole(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    w.cluster.put(PodGroup("default", "elastic", "u", 2, indivisible=True))
    elastic = gang(w, "elastic", 3000, 3000, 3000, size=2)
    w.advance(3)
    gang(w, "high", 3000, priority=10)
    w.advance(2)
    assert terminating(w, *elastic) == [True, True, True]


def test_the_last_of_the_surplus_members_is_taken_first(world: MakeWorld) -> None:
    w = world(node("n0", 4000))
    elastic = gang(w, "elastic", 1000, 1000, 1000, 1000, size=2)
    w.advance(3)
    gang(w, "high", 1000, priority=10)
    w.advance(2)
    assert terminating(w, *elastic) == [False, False, False, True]


def test_elastic_gang_does_not_preempt_for_more_than_its_minimum(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000)
    w.advance(2)
    high = gang(w, "high", 3000, 3000, size=1, priority=10)
    w.advance(3)
    assert terminating(w, *low) == [False]
    assert sorted(w.nodes_of(*high)) == ["", "n1"]


def test_planned_victim_loses_its_places_without_an_eviction(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    low = gang(w, "low", 3000)
    w.advance(1)
    assert w.gang("low").state is GangState.COMMITTED
    high = gang(w, "high", 3000, priority=10)
    w.advance(3)
    assert w.now(high[0]).nominated == "n0"
    assert w.now(low[0]).nominated == ""
    assert not [call for call in w.cluster.calls if call[0] == "evict"]


def test_replacements_of_evicted_members_wait_behind_the_preemptor(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    high = gang(w, "high", 3000, 3000, priority=10)
    w.advance(2)
    w.cluster.remove(w.now(low[0]))
    again = [
        w.pod(
            f"low-again-{number}",
            labels={GROUP_LABEL: "low"},
            annotations={GROUP_SIZE_ANNOTATION: "2"},
            requests=asks(3000, 1),
            gates=(GATE,),
        )
        for number in range(2)
    ]
    w.advance(3)
    assert w.nodes_of(*again) == ["", ""]
    w.cluster.reap()
    w.advance(3)
    assert sorted(w.nodes_of(*high)) == ["n0", "n1"]
    assert w.nodes_of(*again) == ["", ""]


@pytest.mark.parametrize("gone", [0, 1])
def test_new_leader_continues_a_preemption(world: MakeWorld, gone: int) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    high = gang(w, "high", 3500, 3500, priority=10)
    w.advance(2)
    for pod in low[:gone]:
        w.cluster.remove(w.now(pod))
    late = gang(w, "late", 1000, priority=5)
    w.restart()
    w.advance(3)
    check(w)
    assert w.nodes_of(*late) == [""]
    assert [bool(w.now(pod).nominated) for pod in high] == [True, True]
    w.cluster.reap()
    w.advance(3)
    assert sorted(w.nodes_of(*high)) == ["n0", "n1"]


def test_new_leader_completes_an_eviction_that_has_begun(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    low = gang(w, "low", 3000, 3000)
    w.advance(2)
    w.cluster.fail("evict", times=1)
    gang(w, "high", 3500, 3500, priority=10)
    w.advance(1)
    assert sorted(terminating(w, *low)) == [False, True]
    w.restart()
    w.advance(3)
    assert terminating(w, *low) == [True, True]


def test_victim_that_terminates_too_slowly_is_named(world: MakeWorld) -> None:
    w = world(node("n0"))
    gang(w, "low", 3000)
    w.advance(2)
    gang(w, "high", 3000, priority=10)
    w.advance(305)
    assert "low-0 has not gone within 300 s" in reason(w, "high")


def test_victim_that_terminates_too_slowly_is_replaced_by_another(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    stuck, other = gang(w, "stuck", 3000)[0], gang(w, "other", 3000, priority=5)[0]
    w.advance(2)
    high = gang(w, "high", 3000, priority=10)
    w.advance(305)
    assert terminating(w, stuck, other) == [True, True]
    (freed,) = w.nodes_of(other)
    w.cluster.remove(w.now(other))
    w.advance(3)
    assert w.nodes_of(*high) == [freed]


def test_chains_of_preemptions_end(world: MakeWorld) -> None:
    w = world(node("n0"))
    for priority in range(6):
        gang(w, f"g{priority}", 3000, priority=priority)
        w.advance(2)
        w.cluster.reap()
        w.advance(2)
    assert w.gang("g5").state is GangState.BOUND
    evicted = [call for call in w.cluster.calls if call[0] == "evict"]
    assert len(evicted) == 5


def test_gang_takes_freed_capacity_though_an_equal_gang_before_it_has_none(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    lows = [gang(w, name, 3000)[0] for name in ("a-low", "b-low")]
    w.advance(2)
    first, second = (gang(w, name, 3000, priority=10)[0] for name in ("first", "second"))
    w.advance(2)
    assert terminating(w, *lows) == [True, True]
    kept = {w.now(pod).nominated: pod for pod in (first, second)}
    assert kept.keys() == {"n0", "n1"}
    w.cluster.remove(next(w.now(low) for low in lows if w.now(low).node == w.now(second).nominated))
    w.advance(3)
    assert w.nodes_of(first) == [""]
    assert w.nodes_of(second) != [""], reason(w, "second")
