"""A gang whose members have places, and whose Bindings don't come about, says so."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.errors import Denied, NoAnswer
from fluence_extender.http.state.gangs import gang_shape
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import GangState
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import node
from tests.unit.gangs.conftest import MakeWorld, gang

NO = Denied("admission webhook denied the request", 403)
TEXT = "placed, but g-0 can't be bound to n0: admission webhook denied the request"


@pytest.mark.parametrize("direct", [True, False])
def test_reason_says_what_the_api_server_has_against_the_binding(world: MakeWorld, direct: bool) -> None:
    w = world(node("n0"), direct=direct)
    w.cluster.fail("bind", NO, times=10_000)
    pods = gang(w, "g", 500, 500)
    w.advance(30)
    seen = set()
    for _ in range(60):
        w.advance(1)
        seen.add(w.gang("g").reason)
    assert seen == {Reason(ReasonCode.CANNOT_BIND, TEXT)}
    assert f"gang default/g: {TEXT}" in w.told()
    assert gang_shape(w.gang("g"), EVERYTHING).why == "CannotBind"
    w.cluster._failures.clear()
    # Meanwhile the pauses of direct pods have grown to a minute.
    w.advance(65 if direct else 10)
    assert all(w.nodes_of(*pods))
    assert (w.gang("g").state, w.gang("g").reason) == (GangState.BOUND, None)


def test_pod_whose_binding_is_refused_for_a_moment_is_bound_seconds_later(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("bind", NO, times=8)
    pods = gang(w, "g", 500, 500)
    w.advance(12)
    assert all(w.nodes_of(*pods))


def test_pauses_between_bindings_that_are_refused_grow_to_a_minute(world: MakeWorld) -> None:
    w = world(node("n0"))
    w.cluster.fail("bind", NO, times=10_000)
    gang(w, "g", 500)
    w.advance(400)
    before = sum(verb == "bind" for verb, _ in w.cluster.calls)
    w.advance(240)
    after = sum(verb == "bind" for verb, _ in w.cluster.calls)
    assert after - before <= 5 * 5


def test_errors_of_other_attempts_are_not_taken_for_failed_bindings(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    first, second = gang(w, "g", 500), gang(w, "h", 500)
    w.advance(1)
    w.change(first[0], failure="gang default/g is not bound: the other members have not reached bind")
    w.change(second[0], failure="not the leader")
    w.advance(1)
    assert w.gang("g").reason is w.gang("h").reason is None


def test_reason_ends_when_the_member_gets_another_place(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500))
    w.cluster.fail("bind", NO, times=10_000)
    gang(w, "g", 500)
    w.advance(5)
    member = w.member(next(iter(w.gang("g").members)))
    assert member.assignment is not None
    place = member.assignment.node
    assert w.gang("g").reason is not None
    w.cluster._failures.clear()
    w.change(next(each for each in w.cluster.nodes() if each.name == place), unschedulable=True)
    w.advance(6)
    assert w.member(member.pod.uid).bound not in ("", place)
    assert w.gang("g").reason is None


@pytest.mark.parametrize("direct", [True, False])
def test_pod_whose_binding_has_no_answer_keeps_its_place_until_it_is_known(
    world: MakeWorld, direct: bool
) -> None:
    w = world(node("n0", cpu=500), direct=direct)
    w.cluster.fail("bind", NoAnswer("no answer", 0), times=40)
    (pod,) = gang(w, "g", 500)
    w.advance(6)
    (other,) = gang(w, "other", 500, priority=10)
    w.advance(2)
    assert w.nodes_of(pod, other) == ["", ""]
    w.advance(60)
    assert w.nodes_of(pod, other) == ["n0", ""]
