"""A large gang whose members are alike costs a step a few passes over them: what they share is worked out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Deleted, Kind
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle import evaluation, large_gangs
from fluence_extender.gangs.lifecycle.attempts import Attempts
from fluence_extender.gangs.membership import assembly
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue import ends
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.unit.gangs.crowds import cluster, pod, settle, steered

MEMBERS = 600
FEW = MEMBERS // 20
"""More calls than this are calls for each member."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what members share was worked out."""
    made: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        counted: Callable[..., Any] = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            made[name] += 1
            return counted(*arguments)

        monkeypatch.setattr(module, name, counting)

    count(ends, "parents_of")
    count(Attempts, "_try")
    count(evaluation, "settle")
    stated = assembly.agreed_size

    def agreed_size(key: Any, memberships: Any) -> Any:
        compared = list(memberships)
        made["sizes"] += len(compared)
        return stated(key, compared)

    monkeypatch.setattr(assembly, "agreed_size", agreed_size)
    return made


def large(controller: Controller, cpu: int, members: int = MEMBERS) -> list[Pod]:
    """Let a large gang of one Job come; return its pods."""
    pods = [
        pod(
            "large",
            number,
            labels={GROUP_LABEL: "g"},
            annotations={GROUP_SIZE_ANNOTATION: str(members)},
            owner=Owner("Job", "j", "job", "batch/v1"),
            requests=Resources({"cpu": cpu, "pods": 1}),
        )
        for number in range(members)
    ]
    for member in pods:
        controller.observe(Changed(Kind.POD, member))
    return pods


def change(controller: Controller, member: Pod) -> None:
    """Let a pod change in a way that decides nothing."""
    notes = {**member.annotations, "example.com/note": "changed"}
    controller.observe(Changed(Kind.POD, replace(member, annotations=notes)))


def the_gang(controller: Controller) -> Gang:
    (gang,) = controller.registry.gangs.values()
    return gang


@pytest.mark.parametrize("cpu", [1000, 9000], ids=["fits together nowhere", "each fits nowhere"])
def test_what_members_share_is_worked_out_once(calls: Counter[str], cpu: int) -> None:
    controller = cluster(lambda: 0.0)
    large(controller, cpu)
    calls.clear()
    settle(controller)
    assert the_gang(controller).reason is not None
    assert calls["parents_of"] <= FEW
    assert calls["sizes"] <= FEW


def test_gang_that_can_never_fit_is_not_planned_again_when_a_member_changes(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    settle(controller)
    told = the_gang(controller).reason
    assert told is not None
    assert told.code is ReasonCode.UNSATISFIABLE
    calls.clear()
    for member in pods[:5]:
        change(controller, member)
        settle(controller)
    assert the_gang(controller).reason == told
    assert calls["_try"] == 0


def test_gang_that_can_never_fit_is_planned_again_when_it_asks_for_less(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    settle(controller)
    calls.clear()
    for member in pods:
        requests = Resources({"cpu": 1, "pods": 1})
        controller.observe(Changed(Kind.POD, replace(member, requests=requests)))
    settle(controller)
    assert calls["_try"] >= 1


def test_large_gang_is_tried_in_the_step_after_that_which_evaluates_it(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", MEMBERS)
    controller = cluster(lambda: 0.0)
    large(controller, 1000)
    controller.step()
    assert calls["_try"] == 0
    assert controller.lifecycle.behind
    controller.step()
    assert calls["_try"] == 1


def test_large_gangs_that_change_in_each_step_keep_nobody_from_being_tried(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", MEMBERS)
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    settle(controller)
    controller.observe(Changed(Kind.POD, pod("other", 1)))
    placed = list[str]()
    for member in pods[:2]:
        change(controller, member)
        placed += steered(controller)
    assert placed == ["other/c0001"]


def test_large_gang_whose_members_change_in_each_step_is_tried_all_the_same(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", MEMBERS)
    monkeypatch.setattr(large_gangs, "LOOKED_AT_FIRST", MEMBERS // 2)
    monkeypatch.setattr(large_gangs, "LOOKED_AT_A_SECOND", 1)
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    controller.step()
    evaluated = calls["settle"]
    change(controller, pods[0])
    controller.step()
    assert calls["_try"] == 1
    assert calls["settle"] == evaluated, "not evaluated in the step that tries it"
    assert controller.registry.dirty, "evaluated in the next step"


def test_member_deleted_between_evaluation_and_attempt_keeps_the_gang_from_being_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", 50)
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    controller.step()
    controller.observe(Deleted(Kind.POD, pods[0]))
    placed = steered(controller) + steered(controller)
    assert placed == []
    gang = the_gang(controller)
    assert gang.reason is not None
    assert gang.reason.incomplete


def test_large_gang_that_is_deleted_between_evaluation_and_attempt_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", 50)
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    controller.step()
    for member in pods:
        controller.observe(Deleted(Kind.POD, member))
    assert steered(controller) + steered(controller) == []
    assert not controller.registry.gangs


def test_new_leader_evaluates_a_large_gang_before_it_is_tried(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", 50)
    controller = cluster(lambda: 0.0)
    large(controller, 1, 50)
    controller.step()
    controller.lifecycle.lead()
    calls.clear()
    while not calls["_try"]:
        controller.step()
        assert calls["settle"], "evaluated in this term"


def test_steps_in_which_large_gangs_that_run_change_try_others(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SPLIT", 50)
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    settle(controller)
    assert the_gang(controller).state is not GangState.WAITING
    change(controller, pods[0])
    controller.observe(Changed(Kind.POD, pod("other", 1)))
    calls.clear()
    controller.step()
    assert calls["_try"] >= 1
