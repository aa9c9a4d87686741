"""A large gang whose members are alike costs a step a few passes over them: what they share is worked out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Deleted
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import Steer
from fluence_extender.gangs.lifecycle import lifecycle
from fluence_extender.gangs.membership import gang as gang_module
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.queue import submissions
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.unit.gangs.crowds import cluster, pod, settle

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

    count(submissions, "parents_of")
    count(Pass, "_try")
    count(lifecycle, "update_state")
    stated = gang_module.agreed_size

    def agreed_size(key: Any, memberships: Any) -> Any:
        compared = list(memberships)
        made["sizes"] += len(compared)
        return stated(key, compared)

    monkeypatch.setattr(gang_module, "agreed_size", agreed_size)
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
        controller.observe(Changed(member))
    return pods


def change(controller: Controller, member: Pod) -> None:
    """Let a pod change in a way that decides nothing."""
    notes = {**member.annotations, "example.com/note": "changed"}
    controller.observe(Changed(replace(member, annotations=notes)))


def steered_by_pass(controller: Controller, happens: Callable[[], None]) -> list[str]:
    """Make a pass, during which something ``happens``; return the pods that are told their places then."""
    view = controller.begin()
    assert view is not None
    controller.finish(None)
    plan = controller.plan(view)
    happens()
    controller.begin()
    return [one.pod.key for one in controller.finish(plan) if isinstance(one, Steer)]


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


def test_gang_that_can_never_fit_is_tried_once_for_each_change_of_a_member(calls: Counter[str]) -> None:
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
    assert calls["_try"] <= 5


def test_gang_that_can_never_fit_is_planned_again_when_it_asks_for_less(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    settle(controller)
    calls.clear()
    for member in pods:
        requests = Resources({"cpu": 1, "pods": 1})
        controller.observe(Changed(replace(member, requests=requests)))
    settle(controller)
    assert calls["_try"] >= 1


def test_gang_that_changes_during_each_pass_keeps_nobody_from_being_placed() -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1000)
    settle(controller)
    controller.observe(Changed(pod("other", 1)))
    placed = list[str]()
    for member in pods[:2]:
        placed += steered_by_pass(controller, partial(change, controller, member))
    assert placed == ["other/c0001"]


def test_gang_that_changed_during_its_pass_is_tried_again(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    assert steered_by_pass(controller, lambda: change(controller, pods[0])) == []
    assert calls["_try"] == 1
    assert len(settle(controller)) == len(pods)


def test_member_deleted_during_a_pass_keeps_the_gang_from_being_placed() -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    placed = steered_by_pass(controller, lambda: controller.observe(Deleted(pods[0])))
    assert placed + settle(controller) == []
    gang = the_gang(controller)
    assert gang.reason is not None
    assert gang.reason.lacks_members


def test_gang_that_is_deleted_during_a_pass_is_forgotten() -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)

    def delete() -> None:
        for member in pods:
            controller.observe(Deleted(member))

    assert steered_by_pass(controller, delete) + settle(controller) == []
    assert not controller.registry.gangs


def test_new_leader_evaluates_a_large_gang_before_it_is_tried(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    large(controller, 1, 50)
    view = controller.begin()
    assert view is not None
    controller.finish(None)
    controller.lifecycle.lead()
    controller.finish(controller.plan(view))
    calls.clear()
    while not calls["_try"]:
        controller.step()
        assert calls["update_state"], "evaluated in this term"


def test_steps_in_which_large_gangs_that_run_change_try_others(calls: Counter[str]) -> None:
    controller = cluster(lambda: 0.0)
    pods = large(controller, 1, 50)
    settle(controller)
    assert the_gang(controller).state is not GangState.WAITING
    change(controller, pods[0])
    controller.observe(Changed(pod("other", 1)))
    calls.clear()
    controller.step()
    assert calls["_try"] >= 1
