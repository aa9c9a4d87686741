"""What an event of a node costs: what the node touches, however many gangs wait."""

from __future__ import annotations

from collections import Counter

import pytest

from fluence_extender.cluster.port import Changed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.refusals import Refusals
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.resources import Resources
from tests.core.values import node
from tests.unit.gangs.crowds import cluster, pod, settle

WAITING = 5000
EVENTS = 100


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often members of gangs are listed, and bars are looked for."""
    found: Counter[str] = Counter()
    pending, admitting = Gang.pending, Refusals.admitting

    def counted_pending(gang: Gang) -> object:
        found["gangs"] += 1
        return pending(gang)

    def counted_admitting(refusals: Refusals, name: str) -> Refusals:
        found["bars"] += 1
        return admitting(refusals, name)

    monkeypatch.setattr(Gang, "pending", counted_pending)
    monkeypatch.setattr(Refusals, "admitting", counted_admitting)
    return found


def crowded() -> Controller:
    controller = cluster(lambda: 0.0)
    for number in range(WAITING):
        requests = Resources({"cpu": 100_000, "pods": 1})
        controller.observe(Changed(pod("crowd", number, requests=requests)))
    settle(controller)
    return controller


def test_node_events_cost_nothing_for_gangs_that_have_nothing_on_the_node(calls: Counter[str]) -> None:
    controller = crowded()
    calls.clear()
    for number in range(EVENTS):
        changed = node(f"n{number % 10}", cpu=4000, labels={"step": str(number)})
        controller.observe(Changed(changed))
    assert calls.total() <= 10 * EVENTS


def test_node_on_which_others_use_too_much_costs_a_step_what_is_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = crowded()
    mine = pod("other", 1, requests=Resources({"cpu": 3000, "pods": 1}))
    controller.observe(Changed(mine))
    settle(controller)
    found = controller.member(mine.uid)
    assert found is not None
    assert found[1].assignment is not None
    controller.observe(Changed(node("n1", cpu=4000)))
    settle(controller)
    foreign = pod("kube-system", 1, requests=Resources({"cpu": 3500, "pods": 1}), node="n0", scheduler="x")
    relieved: list[str] = []
    relieve = Places.relieve

    def counted(places: Places, gangs: list[Gang]) -> None:
        relieved.extend(gang.key.namespace for gang in gangs)
        relieve(places, gangs)

    monkeypatch.setattr(Places, "relieve", counted)
    controller.observe(Changed(foreign))
    settle(controller)
    assert relieved == ["other"]
    found = controller.member(mine.uid)
    assert found is not None
    assert found[1].assignment is not None
    assert found[1].assignment.node == "n1"
