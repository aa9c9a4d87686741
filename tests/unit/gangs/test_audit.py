"""The audit finds each kind of drift, mends it, and finds nothing where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import OwnPods, ResourcesFile
from fluence_extender.gangs.leadership.audit import Auditor
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.room.audit import DriftKind
from fluence_extender.room.holdings import Firmness
from tests.core.invariants import check, check_at_rest
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

DEVICES = ResourcesFile("test", "resources: [{type: qpu, name: fez}, {type: simulator, name: sv1, count: 4}]")

Spoil = Callable[[World, Pod], Any]


def holding_lost(w: World, pod: Pod) -> None:
    w.ledger.release(pod.uid)


def moved(w: World, pod: Pod) -> None:
    w.ledger.adopt(replace(w.now(pod), node="n1"), "g", Firmness.BOUND)


def shrunk(w: World, pod: Pod) -> None:
    w.ledger.amend(replace(w.now(pod), requests=asks(1)))


def weakened(w: World, pod: Pod) -> None:
    held = w.ledger.holdings[pod.uid]
    w.ledger._holdings[pod.uid] = msgspec.structs.replace(held, firmness=Firmness.PLANNED)


def plan_forgotten(w: World, pod: Pod) -> None:
    found = w.controller.member(pod.uid)
    assert found is not None
    found[0].change(pod.uid, assignment=None)


def left_over_hold(w: World, pod: Pod) -> None:
    gone = replace(pod, uid="gone", name="gone", node="n1", devices={})
    w.ledger.adopt(gone, "x", Firmness.BOUND)


def foreign_forgotten(w: World, pod: Pod) -> None:
    w.ledger.drop_foreign(_foreign(w).uid)


def foreign_miscounted(w: World, pod: Pod) -> None:
    w.ledger.put_foreign(replace(_foreign(w), requests=asks(1)))


def foreign_left_over(w: World, pod: Pod) -> None:
    w.ledger.put_foreign(replace(_foreign(w), uid="gone"))


def node_forgotten(w: World, pod: Pod) -> None:
    w.ledger.drop_node("n1")


def node_miscounted(w: World, pod: Pod) -> None:
    w.ledger.put_node(node("n1", cpu=2000))


def node_left_over(w: World, pod: Pod) -> None:
    w.ledger.put_node(node("n7"))


def sum_wrong(w: World, pod: Pod) -> None:
    account = w.ledger.accounts["n0"]
    account.free = account.free + Resources({"cpu": 700})


def _foreign(w: World) -> Pod:
    return next(pod for pod in w.cluster.pods() if not pod.ours)


@pytest.mark.parametrize(
    ("spoil", "kind", "text"),
    [
        (holding_lost, DriftKind.POD_DIFFERS, "uses nothing"),
        (moved, DriftKind.POD_DIFFERS, "n1, "),
        (shrunk, DriftKind.POD_DIFFERS, "'cpu': 1,"),
        (weakened, DriftKind.POD_DIFFERS, "not bound"),
        (plan_forgotten, DriftKind.POD_DIFFERS, "placed on n0"),
        (left_over_hold, DriftKind.POD_DIFFERS, "placed on n1"),
        (foreign_forgotten, DriftKind.POD_DIFFERS, "uses nothing"),
        (foreign_miscounted, DriftKind.POD_DIFFERS, "foreign"),
        (foreign_left_over, DriftKind.POD_DIFFERS, "foreign"),
        (node_forgotten, DriftKind.NODE_DIFFERS, "unknown"),
        (node_miscounted, DriftKind.NODE_DIFFERS, "2"),
        (node_left_over, DriftKind.NODE_DIFFERS, "cpu"),
        (sum_wrong, DriftKind.NODE_DIFFERS, "free"),
    ],
)
def test_drift_is_found_counted_and_mended(
    world: MakeWorld, spoil: Spoil, kind: DriftKind, text: str
) -> None:
    w, pod = running(world)
    counted: list[DriftKind] = []
    auditor = Auditor(w.controller, counted.append)
    spoil(w, pod)
    found = w.run(auditor.audit())
    assert [drift.kind for drift in found] == [kind]
    assert text in found[0].found
    assert counted == [drift.kind for drift in found]
    assert all(drift.found and drift.expected for drift in found)
    w.run(auditor.audit())
    assert not any(auditor.comparisons())
    w.advance(0.1)
    check(w)
    w.advance(60)
    check_at_rest(w)
    assert w.now(pod).node == "n0"


def running(world: MakeWorld) -> tuple[World, Pod]:
    """A world in which a pod with a device runs on n0, beside a gang and a pod of another scheduler."""
    w = world(node("n0"), node("n1"), DEVICES)
    (pod,) = gang(w, "quantum", 1000, devices={"qpu": 1, "simulator": 2})
    w.advance(3)
    gang(w, "pair", 1000, 1000)
    w.advance(3)
    w.foreign("n1", "daemon", requests=asks(250, 1))
    w.advance(1)
    assert w.now(pod).node == "n0"
    return w, w.now(pod)


def test_audit_of_a_consistent_ledger_finds_nothing_and_changes_nothing(world: MakeWorld) -> None:
    w, _ = running(world)
    gang(w, "waits", 9000)
    w.advance(3)
    version, held = w.ledger.version, dict(w.ledger.holdings)
    assert w.run(w.auditor.audit()) == []
    assert (w.ledger.version, dict(w.ledger.holdings)) == (version, held)


def test_replay_after_a_restart_is_no_drift(world: MakeWorld) -> None:
    w, pod = running(world)
    w.restart()
    assert w.run(w.auditor.audit()) == []
    w.advance(30)
    assert w.drifted == []
    assert w.ledger.holds(pod.uid, "n0")


def test_planned_gang_whose_hold_got_lost_is_planned_anew(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 1000, 1000)
    w.advance(1)
    w.ledger.release(pods[0].uid)
    found = w.run(w.auditor.audit())
    assert [drift.kind for drift in found] == [DriftKind.POD_DIFFERS]
    w.driver.wake()
    w.advance(1)
    assert w.ledger.holds(pods[0].uid, "n0")
    check(w)


def test_planned_hold_that_no_plan_stands_behind_is_released(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (pod,) = gang(w, "g", 9000)
    w.advance(1)
    w.ledger.take_all([(replace(pod, requests=asks(1000)), Assignment(pod.uid, "n0"))], "g")
    found = w.run(w.auditor.audit())
    assert [drift.kind for drift in found] == [DriftKind.POD_DIFFERS]
    assert pod.uid not in w.ledger.holdings


def test_nomination_without_a_place_is_taken_back_as_often_as_somebody_writes_it(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (pod,) = gang(w, "g", 9000)
    w.advance(1)
    for _ in range(3):
        w.change(pod, nominated="n0")
        w.advance(1)
        assert w.now(pod).nominated == ""
    assert w.run(w.auditor.audit()) == []


def test_nomination_whose_clearing_fails_is_taken_back_later(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (pod,) = gang(w, "g", 9000)
    w.advance(1)
    w.cluster.fail("nominate", times=2)
    w.change(pod, nominated="n0")
    w.advance(1)
    assert w.now(pod).nominated == "n0"
    w.advance(3)
    assert w.now(pod).nominated == ""


def test_standby_leaves_nominations_alone(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    (pod,) = gang(w, "g", 9000)
    w.advance(1)
    w.controller.leading = False
    w.controller.stand_down("another replica leads")
    w.change(pod, nominated="n0")
    w.advance(70)
    assert w.now(pod).nominated == "n0"


# What the watch has missed.


def missed(w: World, change: Callable[[], object]) -> None:
    """Change the cluster without telling anybody."""
    sinks, w.cluster._sinks = w.cluster._sinks, []
    change()
    w.cluster._sinks = sinks


def test_binding_that_the_watch_missed_is_taken_in(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    (pod,) = gang(w, "g", 1000)
    w.advance(1)
    missed(w, lambda: w.change(pod, node="n1", nominated="", gates=()))
    found = w.run(w.auditor.compare_with_a_fresh_list(w.cluster.own_pods))
    assert [drift.kind for drift in found] == [DriftKind.MISSED_BY_WATCH]
    assert w.ledger.holds(pod.uid, "n1")
    assert w.run(w.auditor.compare_with_a_fresh_list(w.cluster.own_pods)) == []


def test_pod_whose_end_the_watch_missed_is_released(world: MakeWorld) -> None:
    w, pod = running(world)
    missed(w, lambda: w.cluster.remove(pod))
    found = w.run(w.auditor.compare_with_a_fresh_list(w.cluster.own_pods))
    assert [(drift.kind, drift.expected) for drift in found] == [(DriftKind.MISSED_BY_WATCH, "gone")]
    assert pod.uid not in w.ledger.holdings


def test_pod_that_the_watch_never_showed_is_taken_in(world: MakeWorld) -> None:
    w = world(node("n0"))
    missed(w, lambda: w.pod("late", node="n0", requests=asks(1000)))
    found = w.run(w.auditor.compare_with_a_fresh_list(w.cluster.own_pods))
    assert [(drift.kind, drift.found) for drift in found] == [(DriftKind.MISSED_BY_WATCH, "unknown")]
    assert [held.name for held in w.ledger.holdings.values()] == ["late"]


def test_watch_that_is_only_slow_has_missed_nothing(world: MakeWorld) -> None:
    w, pod = running(world)

    async def audited() -> object:
        w.cluster.held = True
        w.cluster.remove(pod)
        w.pod("new", requests=asks(100))
        asyncio.get_running_loop().call_later(2.0, deliver)
        return await w.auditor.compare_with_a_fresh_list(w.cluster.own_pods)

    def deliver() -> None:
        w.cluster.held = False
        w.cluster.deliver()

    assert w.run(audited()) == []


def test_pod_that_comes_and_goes_between_two_looks_is_no_drift(world: MakeWorld) -> None:
    w, _ = running(world)

    async def audited() -> object:
        w.cluster.held = True
        brief = w.pod("brief", requests=asks(100))
        asyncio.get_running_loop().call_later(1.0, w.cluster.remove, brief)
        return await w.auditor.compare_with_a_fresh_list(w.cluster.own_pods)

    assert w.run(audited()) == []
    w.cluster.held = False
    w.cluster.deliver()


def test_nothing_is_judged_while_the_watch_is_out_of_touch(world: MakeWorld) -> None:
    w, pod = running(world)
    auditor = Auditor(w.controller, w.drifted.append, watching=lambda: False)
    missed(w, lambda: w.cluster.remove(pod))
    assert w.run(auditor.compare_with_a_fresh_list(w.cluster.own_pods)) == []
    assert pod.uid in w.ledger.holdings
    w.cluster.relist(Pod)
    assert pod.uid not in w.ledger.holdings


def test_api_server_that_does_not_answer_ends_the_look_in_peace(world: MakeWorld) -> None:
    w, _ = running(world)

    async def away(known: object) -> OwnPods:
        raise ClusterError("no answer")

    assert w.run(w.auditor.compare_with_a_fresh_list(away)) == []


def test_service_audits_by_itself_and_counts_what_it_finds(world: MakeWorld) -> None:
    w, pod = running(world)
    holding_lost(w, pod)
    w.advance(20)
    assert w.drifted == [DriftKind.POD_DIFFERS]
    assert w.ledger.holds(pod.uid, "n0")
