"""A gang whose members have places, and whose Bindings don't come about, says so."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.errors import Denied
from fluence_extender.http.state.gangs import gang_shape
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import GangState
from fluence_extender.model.pod import Owner
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import node
from tests.core.world import LIMITS
from tests.unit.gangs.conftest import MakeWorld, gang

JOB = Owner("Job", "j", "uid-j")
NO = Denied("admission webhook denied the request", 403)
TEXT = "placed, but g-0 can't be bound to n0: admission webhook denied the request"


@pytest.mark.parametrize("owner", [JOB, None], ids=["by kube-scheduler", "by us"])
def test_reason_says_what_the_api_server_has_against_the_binding(
    world: MakeWorld, owner: Owner | None
) -> None:
    w = world(node("n0"))
    w.cluster.fail("bind", NO, times=10_000)
    pods = gang(w, "g", 500, 500, owner=owner)
    w.advance(30)
    seen = set()
    for _ in range(60):
        w.advance(1)
        seen.add(w.gang("g").reason)
    assert seen == {Reason(ReasonCode.CANNOT_BIND, TEXT)}
    assert f"gang default/g: {TEXT}" in w.told()
    assert gang_shape(w.gang("g"), EVERYTHING).why == "CannotBind"
    w.cluster._failures.clear()
    w.advance(10)
    assert all(w.nodes_of(*pods))
    assert (w.gang("g").state, w.gang("g").reason) == (GangState.BOUND, None)


def test_reason_says_that_kube_scheduler_is_silent_until_it_goes_on(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (one,) = gang(w, "g", 500, owner=JOB)
    w.advance(1)
    w.placements.hand_over(w.asked(one), "n0")
    w.advance(LIMITS.handed - 1)
    assert w.gang("g").reason is None
    w.advance(2)
    silent = w.gang("g").reason
    assert silent is not None
    assert (
        silent.text
        == "placed, but g-0 can't be bound to n0: kube-scheduler got the node and has not bound the pod within 20 s"
    )
    w.placements.hand_over(w.asked(one), "n0")
    w.advance(1)
    assert w.gang("g").reason == silent
    w.change(one, failure='running Bind plugin "DefaultBinder": forbidden')
    w.advance(1)
    said = w.gang("g").reason
    assert said is not None
    assert said.text.endswith('to n0: running Bind plugin "DefaultBinder": forbidden')
    w.run(w.cluster.bind(w.now(one), "n0", {}))
    w.advance(1)
    assert w.gang("g").reason is None


def test_errors_of_other_attempts_are_not_taken_for_failed_bindings(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    marked, plain = gang(w, "g", 500), gang(w, "h", 500, owner=JOB)
    w.advance(1)
    w.change(marked[0], failure="gang default/g is not bound: the other members have not reached bind")
    w.change(plain[0], failure="not the leader")
    w.advance(1)
    assert w.gang("g").reason is w.gang("h").reason is None


def test_reason_ends_when_the_member_gets_another_place(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500), scheduling=False)
    (one,) = gang(w, "g", 500)
    w.change(one, marked=False)
    w.advance(1)
    found = w.controller.member(one.uid)
    assert found is not None
    assert found[1].assignment is not None
    place = found[1].assignment.node
    w.placements.hand_over(w.asked(one), place)
    w.change(one, failure="no")
    w.advance(1)
    assert w.gang("g").reason is not None
    w.change(next(each for each in w.cluster.nodes() if each.name == place), unschedulable=True)
    w.advance(LIMITS.handed + 1)
    assert found[1].assignment.node != place
    assert w.gang("g").reason is None
