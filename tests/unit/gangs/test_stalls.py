"""A member that kube-scheduler refuses before it asks for its node doesn't keep its gang's share for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import NodeDevice
from tests.core.values import node
from tests.unit.gangs.conftest import MakeWorld, gang

TEXT = 'kube-scheduler refuses lacks-1 before it asks for its node: persistentvolumeclaim "lacks-1" not found'


def test_share_of_a_gang_with_a_member_that_lacks_its_claim_is_given_back(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    w.scheduler.unclaimed.add("lacks-1")
    pods = gang(w, "lacks", 1000, 1000)
    w.advance(4)
    rival = gang(w, "rival", 1000, 1000)
    w.advance(1)
    assert w.nodes_of(*pods, *rival) == ["", "", "", ""]
    w.advance(60)
    assert w.nodes_of(*rival) == ["n0", "n0"]
    assert w.now(pods[1]).nominated == ""


def test_reason_says_what_kube_scheduler_has_against_it_and_stays_the_same(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    w.scheduler.unclaimed.add("lacks-1")
    gang(w, "lacks", 1000, 1000)
    w.advance(48)
    reason = w.gang("lacks").reason
    assert reason is not None
    assert reason.text == TEXT
    assert f"gang default/lacks: {TEXT}" in w.told()


def test_gang_rests_longer_each_time(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    w.scheduler.unclaimed.add("lacks-1")
    gang(w, "lacks", 1000, 1000)
    held = 0
    for _ in range(600):
        w.advance(1)
        held += bool(w.ledger.holdings)
    assert w.gang("lacks").back_off.failures >= 4
    assert held < 330


def test_gang_is_bound_soon_after_the_claim_appears(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    w.scheduler.unclaimed.add("lacks-1")
    pods = gang(w, "lacks", 1000, 1000)
    w.advance(48)
    back_off = replace(w.gang("lacks").back_off, until=w.loop.time() + 500)
    w.gang("lacks").remember(back_off=back_off)
    w.scheduler.claim_appears("lacks-1")
    w.advance(20)
    assert w.nodes_of(*pods) == ["n0", "n0"]
    assert w.gang("lacks").back_off.failures == 0


def test_further_member_that_lacks_its_claim_gives_up_its_own_share_alone(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    pods = gang(w, "lacks", 1000, size=1)
    w.advance(3)
    w.scheduler.unclaimed.add("lacks-9")
    extra = w.pod(
        "lacks-9", labels=pods[0].labels, annotations=pods[0].annotations, requests=pods[0].requests
    )
    w.advance(4)
    assert w.ledger.holds(extra.uid, "n0")
    (rival,) = gang(w, "rival", 1000)
    w.advance(60)
    assert w.nodes_of(pods[0], rival) == ["n0", "n0"]


def test_restart_does_not_make_a_stalled_gang_keep_its_share(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), direct=False)
    w.scheduler.unclaimed.add("lacks-1")
    pods = gang(w, "lacks", 1000, 1000)
    w.advance(5)
    # A nomination that kube-scheduler didn't clear stands as a promise.
    w.change(pods[1], nominated="n0")
    w.restart()
    rival = gang(w, "rival", 1000, 1000)
    w.advance(70)
    assert w.nodes_of(*rival) == ["n0", "n0"]


def test_gang_that_is_slow_for_other_reasons_keeps_its_share(world: MakeWorld) -> None:
    w = world(node("n0", cpu=2000), scheduling=False)
    pods = gang(w, "slow", 1000, 1000)
    w.advance(300)
    assert all(w.ledger.holds(pod.uid, "n0") for pod in pods)


@pytest.mark.parametrize("deleted", [False, True])
def test_pod_that_is_not_served_does_not_keep_the_gates_of_others_that_claim_devices(
    deleted: bool, world: MakeWorld
) -> None:
    devices = tuple(NodeDevice("gpu.example.com", "n0", f"gpu-{number}", {}) for number in range(4))
    claims = (ClaimSpec((DeviceRequest("gpu", (Choice("gpus", (), 1),)),)),)
    w = world(replace(node("n0", cpu=2000), devices=devices), direct=False)
    w.scheduler.unclaimed.add("lacks-0")
    (lacks,) = gang(w, "lacks", 100, claims=claims)
    w.advance(1)
    (other,) = gang(w, "other", 100, claims=claims)
    w.advance(1)
    assert not w.now(lacks).gates
    assert w.now(other).gates
    if deleted:
        w.cluster.remove(lacks)
        w.advance(1)
    else:
        w.advance(60)
    assert w.nodes_of(other) == ["n0"]
