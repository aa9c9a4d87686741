"""Members that kube-scheduler binds itself once it was told their node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.execution.actions import Action
from fluence_extender.gangs.lifecycle.handover import NOT_ITS_TURN, ended
from fluence_extender.gangs.lifecycle.member_states import MemberState
from fluence_extender.http.scheduler.port import Nowhere, On, Undecided
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import ALLOCATION_ANNOTATION, GATE
from fluence_extender.model.pod import Owner, Pod, Requirement
from tests.core.values import node, pod
from tests.core.world import LIMITS, World
from tests.unit.gangs.conftest import MakeWorld, gang

JOB = Owner("Job", "j", "uid-j")
APP = ("app", "leader")


def owned(w: World, *cpu: int, **fields: Any) -> list[Pod]:
    return gang(w, "g", *(cpu or (1000, 1000)), owner=JOB, **fields)


def told(w: World, one: Pod) -> str:
    """Have kube-scheduler told the pod's node, as in a filter call that it answers itself."""
    location = w.placements.locate(w.asked(one))
    assert isinstance(location, On)
    assert w.placements.hand_over(w.asked(one), location.node) == On(location.node)
    return location.node


def told_and_cordoned(w: World, one: Pod) -> str:
    """Have kube-scheduler told the pod's node, and cordon that: nobody else would be placed there any more."""
    place = told(w, one)
    w.change(next(each for each in w.cluster.nodes() if each.name == place), unschedulable=True)
    return place


def is_binding(w: World, one: Pod) -> bool:
    found = w.controller.member(one.uid)
    assert found is not None
    return found[1].binding


def place_of(w: World, one: Pod) -> str:
    found = w.controller.member(one.uid)
    assert found is not None
    assert found[1].assignment is not None
    return found[1].assignment.node


def test_unmarked_members_are_bound_without_our_verb(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    pods = owned(w)
    w.advance(3)
    assert all(w.nodes_of(*pods))
    assert w.gang("g").state is GangState.BOUND
    assert not any(ALLOCATION_ANNOTATION in w.now(one).annotations for one in pods)
    assert not any(is_binding(w, one) for one in pods)


def test_place_is_kept_from_our_answer_until_the_binding_is_seen(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), node("n1", cpu=1000), scheduling=False)
    (one,) = owned(w, 1000)
    w.advance(1)
    place = told_and_cordoned(w, one)
    w.advance(1)
    assert place_of(w, one) == place
    w.run(w.cluster.bind(w.now(one), place, {}))
    w.advance(1)
    assert w.nodes_of(one) == [place]
    assert not is_binding(w, one)


def test_place_is_taken_back_when_nothing_is_seen_in_time(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), node("n1", cpu=1000), scheduling=False)
    one = w.pod("alone", requests=pod(cpu=1000).requests, gates=(GATE,))
    w.advance(1)
    place = told_and_cordoned(w, one)
    w.advance(LIMITS.handed - 2)
    assert (is_binding(w, one), place_of(w, one)) == (True, place)
    w.advance(4)
    assert not is_binding(w, one)
    assert place_of(w, one) != place


def test_gang_that_is_not_whole_any_more_gives_its_places_back_when_nothing_is_seen(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    first, second = owned(w)
    w.advance(1)
    told(w, first)
    w.cluster.remove(w.now(second))
    w.advance(1)
    assert first.uid in w.ledger.allocations
    w.advance(LIMITS.handed + 2)
    assert not w.ledger.allocations
    assert w.gang("g").state is GangState.WAITING


def test_asking_again_gives_it_more_time(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), scheduling=False)
    (one,) = owned(w, 1000)
    w.advance(1)
    told(w, one)
    w.advance(LIMITS.handed - 2)
    told(w, one)
    w.advance(LIMITS.handed - 2)
    assert is_binding(w, one)


@pytest.mark.parametrize(
    ("changes", "over"),
    [
        ({"node": "n0"}, True),
        ({"deleting": True}, True),
        ({"phase": "Failed"}, True),
        ({"refusal": "0/1 nodes are available"}, True),
        ({"labels": {"a": "b"}}, False),
        ({"nominated": "n0"}, False),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else str(one),
)
def test_what_ends_an_attempt(changes: dict[str, Any], over: bool) -> None:
    before = pod()
    assert ended(replace(before, **changes), before) is over


def test_earlier_refusal_ends_no_handover() -> None:
    before = pod(refusal="0/1 nodes are available")
    assert not ended(replace(before, labels={"a": "b"}), before)


def test_member_refused_after_all_may_move(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), node("n1", cpu=1000), scheduling=False)
    one = w.pod("alone", requests=pod(cpu=1000).requests, gates=(GATE,))
    w.advance(1)
    place = told_and_cordoned(w, one)
    w.change(one, refusal="0/2 nodes are available")
    w.advance(1)
    assert place_of(w, one) != place


def test_member_that_is_deleted_meanwhile_holds_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    first, second = owned(w)
    w.advance(1)
    told(w, first)
    w.change(first, deleting=True)
    w.advance(0.1)
    assert first.uid not in w.ledger.allocations
    w.cluster.remove(w.now(first))
    w.cluster.remove(w.now(second))
    w.advance(0.1)


def test_begun_gang_is_completed_beside_the_member_that_was_handed_over(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), scheduling=False)
    first, second = owned(w)
    w.advance(1)
    told(w, first)
    assert w.gang("g").begun
    w.advance(0.1)
    assert w.gang("g").state is GangState.COMMITTED
    assert place_of(w, second) == "n0"


def test_standby_trusts_no_handover(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one, _ = owned(w)
    w.advance(1)
    told(w, one)
    w.controller.stand_down("the lease was lost")
    found = w.controller.member(one.uid)
    assert found is not None
    assert found[1].state is MemberState.WAITING


def test_marked_members_gather_before_the_others_lose_their_gates(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.scheduler.unclaimed.add("g-1")
    judged = {"interdependent": True, "owner": JOB}
    pods = [*gang(w, "g", 500, 500, size=4, **judged)]
    pods += [
        w.pod(f"plain-{number}", labels=pods[0].labels, annotations=pods[0].annotations, gates=(GATE,),
              requests=pods[0].requests, owner=JOB)
        for number in range(2)
    ]  # fmt: skip
    w.advance(3)
    assert [GATE in w.now(one).gates for one in pods] == [False, False, True, True]
    assert not any(w.nodes_of(*pods))
    w.scheduler.claim_appears("g-1")
    w.advance(10)
    assert all(w.nodes_of(*pods))
    assert [ALLOCATION_ANNOTATION in w.now(one).annotations for one in pods] == [True, True, False, False]


def test_unmarked_pod_with_devices_is_refused_with_what_to_do(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = w.pod("p", devices={"annealer": 1}, gates=(GATE,))
    w.cluster.put(replace(one, marked=False))
    w.advance(0.1)
    answer = w.placements.hand_over(w.asked(one), "n0")
    assert isinstance(answer, Nowhere)
    assert "admission policy" in answer.reason
    assert not is_binding(w, one)


@pytest.mark.parametrize("last", [False, True])
def test_gang_with_an_unmarked_member_that_requests_devices_is_not_bound(
    world: MakeWorld, last: bool
) -> None:
    resources = ResourcesFile("test", "resources: [{type: annealer, name: chip, count: 1}]")
    w = world(node("n0"), resources)
    plain = owned(w, 500, 500, size=3)
    quantum = w.pod(
        "z" if last else "a", labels=plain[0].labels, annotations=plain[0].annotations, gates=(GATE,),
        requests=plain[0].requests, devices={"annealer": 1}, owner=JOB,
    )  # fmt: skip
    w.cluster.put(replace(quantum, marked=False))
    w.advance(8)
    assert not any(w.nodes_of(*plain, quantum))
    assert not w.ledger.allocations
    reason = w.gang("g").reason
    assert reason is not None
    assert f"{quantum.name} requests devices" in reason.text
    other = w.pod("other", devices={"annealer": 1}, requests=plain[0].requests, gates=(GATE,))
    w.advance(1)
    assert w.nodes_of(other) == ["n0"]


def test_member_that_was_nominated_and_has_to_wait_for_its_turn_is_not_refused(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (plain,) = owned(w, 500, size=2, gates=(), nominated="n0")
    w.pod(
        "judged",
        labels=plain.labels,
        annotations=plain.annotations,
        requests=plain.requests,
        interdependent=True,
    )
    w.advance(1)
    found = w.controller.member(plain.uid)
    assert found is not None
    for _ in range(4):
        w.change(plain, nominated="n0")
        w.advance(1)
        assert w.placements.hand_over(w.asked(plain), "n0") == Undecided(NOT_ITS_TURN)
        w.change(plain, nominated="")
        w.advance(1)
    assert found[0].rest.replans == found[1].refusals.count == 0


def seeker(w: World, mates: list[Pod], **labels: str) -> Pod:
    """A member that is refused where no pod labelled ``app=leader`` is, unless nobody is and it is one itself."""

    def near(one: Pod, where: str, placed: Mapping[str, str]) -> bool:
        nodes = [
            placed[pod.name] for pod in w.cluster.pods() if APP in pod.labels.items() and pod.name in placed
        ]
        return not one.pod_affinity or where in nodes or (not nodes and APP in one.labels.items())

    w.scheduler.rules.append(near)
    return w.pod(
        "seeker", labels={**mates[0].labels, **labels}, annotations=mates[0].annotations, gates=(GATE,),
        requests=mates[0].requests, owner=JOB, interdependent=True,
        pod_affinity=((Requirement("app", "In", ("leader",)),),),
    )  # fmt: skip


def test_unmarked_member_to_which_a_marked_one_has_to_be_near_goes_first(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    mates = owned(w, 500, 500, size=3)
    w.change(mates[0], labels={**mates[0].labels, "app": "leader"})
    one = seeker(w, mates)
    w.advance(20)
    assert all(w.nodes_of(*mates, one))
    assert w.nodes_of(one) == w.nodes_of(mates[0])


def test_marked_member_without_affinity_to_its_gang_goes_first(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    mates = owned(w, 500, 500, size=3)
    one = seeker(w, mates)
    w.advance(20)
    assert not any(w.nodes_of(*mates, one))
    assert all(GATE in w.now(each).gates for each in mates)


def test_marked_member_that_seeks_its_like_still_goes_first(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    mates = owned(w, 500, 500, size=3)
    w.change(mates[0], labels={**mates[0].labels, "app": "leader"})
    w.scheduler.unclaimed.add("seeker")
    one = seeker(w, mates, app="leader")
    w.advance(3)
    assert all(GATE in w.now(each).gates for each in mates)
    w.scheduler.claim_appears("seeker")
    w.advance(10)
    assert all(w.nodes_of(*mates, one))


def test_unmarked_members_run_once_at_most_for_a_marked_one_that_is_refused_for_something_else(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"))
    leading = {"app": "leader"}
    mates = owned(w, 500, 500, size=3)
    w.change(mates[0], labels={**mates[0].labels, **leading})
    w.scheduler.unclaimed.add("seeker")
    w.scheduler.begun_elsewhere.add("g")  # So it may be begun before the marked one has come.
    one = seeker(w, mates)
    w.advance(LIMITS.unasked + 4)
    assert all(w.nodes_of(*mates))
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.text.startswith("kube-scheduler refuses seeker before it asks for its node")
    assert reason.text.endswith(
        "; 2 of 3 members are bound and evicted unless the gang is completed within 25 s"
    )
    w.advance(LIMITS.completion or 0)
    assert all(w.now(each).deleting for each in mates)
    w.cluster.reap()
    again = owned(w, 500, 500, size=3)
    w.change(again[0], labels={**again[0].labels, **leading})
    w.advance(10 * (LIMITS.completion or 0))
    assert not any(w.nodes_of(*again))
    w.scheduler.claim_appears("seeker")
    w.advance(2 * LIMITS.longest_rest)
    assert all(w.nodes_of(*again, one))


def test_marked_pods_are_left_to_our_verb(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (one,) = gang(w, "g", 1000)
    w.advance(1)
    assert w.now(one).marked
    assert w.placements.hand_over(w.asked(one), "n0") == On("n0")
    assert not is_binding(w, one)


def test_unmarked_member_without_a_gate_waits_for_the_marked_ones(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (plain,) = owned(w, 500, size=2, gates=())
    (judged,) = [
        w.pod("judged", labels=plain.labels, annotations=plain.annotations, requests=plain.requests,
              interdependent=True)
    ]  # fmt: skip
    w.advance(1)
    assert w.placements.hand_over(w.asked(plain), "n0") == Undecided(NOT_ITS_TURN)
    w.run(w.placements.bind(w.asked(judged), "n0"))
    assert w.placements.hand_over(w.asked(plain), "n0") == On("n0")


def test_victim_with_a_binding_under_way_causes_no_extra_steps(world: MakeWorld) -> None:
    w = world(node("n0", cpu=4000), scheduling=False)
    first, second = owned(w, 2000, 2000)
    w.advance(1)
    w.run(w.cluster.bind(w.now(first), "n0", {}))
    w.advance(1)
    w.cluster.delays["eviction_block"] = 0.5
    gang(w, "high", 2000, priority=10)
    w.advance(0.2)
    told(w, second)
    decide, steps = w.controller.step, []

    def step() -> list[Action]:
        steps.append(w.loop.time())
        return decide()

    w.controller.step = step  # type: ignore[method-assign]
    w.advance(5)
    assert w.now(first).deleting
    assert place_of(w, second) == "n0"
    assert len(steps) < 20
    w.cluster.reap()
    w.advance(LIMITS.handed + 1)
    assert second.uid not in w.ledger.allocations
