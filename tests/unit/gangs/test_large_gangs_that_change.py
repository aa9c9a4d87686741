"""A large gang whose members or whose workload change all the time is looked at at the pace of its namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.gangs.lifecycle import deadlines
from fluence_extender.gangs.lifecycle.lifecycle import Evaluation
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.planning.view import Decided, View, Views
from fluence_extender.model.gang import GangState
from fluence_extender.queueing.entry import Rank
from tests.core.values import node
from tests.unit.gangs.conftest import MakeWorld, gang

MEMBERS = 600
CHANGES_A_SECOND = 20


@pytest.fixture(autouse=True)
def slow_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOOKED_AT_FIRST", 3000)
    monkeypatch.setattr(deadlines, "LOOKED_AT_A_SECOND", 1000)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The members of each large gang at each look."""
    looks: list[int] = []
    evaluate = Evaluation._evaluate

    def counted(self: Evaluation, gang: Gang, now: float) -> None:
        if len(gang.members) >= deadlines.LARGE:
            looks.append(len(gang.members))
        evaluate(self, gang, now)

    monkeypatch.setattr(Evaluation, "_evaluate", counted)
    return looks


def test_members_that_change_are_looked_at_at_a_pace(world: MakeWorld, looked_at: list[int]) -> None:
    w = world(node("n0", cpu=8000, gib=100))
    pods = gang(w, "large", *[9000] * MEMBERS)
    w.advance(5)
    looked_at.clear()
    for step in range(10 * CHANGES_A_SECOND):
        w.change(pods[step], annotations={**pods[step].annotations, "note": str(step)})
        w.advance(1 / CHANGES_A_SECOND)
        if step % 20 == 0:
            gang(w, f"other{step}", 100, 100)
            w.advance(0.1)
            assert w.gang(f"other{step}").state is not GangState.WAITING
    most = deadlines.LOOKED_AT_FIRST + MEMBERS + deadlines.LOOKED_AT_A_SECOND * 12
    assert MEMBERS <= sum(looked_at) <= most


def test_view_of_a_large_gang_that_changes_copies_no_member(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[bool] = []
    take = Views.take

    def taken(self: Views, *args: Any) -> View:
        view = take(self, *args)
        large = w.gang("large")
        shared.append(view.registry.gangs[large.key].members is large.members)
        return view

    w = world(node("n0", cpu=8000, gib=100))
    pods = gang(w, "large", *[9000] * MEMBERS)
    w.advance(5)
    monkeypatch.setattr(Views, "take", taken)
    for step in range(100):
        w.change(pods[step], annotations={**pods[step].annotations, "note": str(step)})
        gang(w, f"other{step}", 1)
        w.advance(0.05)
    assert w.gang("other99").state is not GangState.WAITING
    assert len(shared) >= 50
    assert all(shared)


def test_what_changes_last_is_looked_at_in_the_end(world: MakeWorld) -> None:
    w = world(node("n0", cpu=10_000_000, gib=10_000, pods=3000))
    pods = gang(w, "large", *[1000] * (MEMBERS - 1), size=MEMBERS)
    for step in range(40):
        w.change(pods[step], annotations={**pods[step].annotations, "note": str(step)})
        w.advance(0.05)
    last = replace(pods[0], name="large-last", uid="large-last", resource_version="")
    w.cluster.put(last)
    w.advance(3)
    assert w.gang("large").state is not GangState.WAITING


def test_workload_with_many_pods_that_changes_is_taken_in_at_a_pace(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0", cpu=8000))
    w.jobs.quota = 0
    job = w.jobs.submit("large", MEMBERS, cpu=9000)
    w.advance(5)
    taken_in: list[int] = []
    recompute = Registry.recompute_late

    def counted(self: Registry, namespace: str) -> int:
        taken_in.append(recompute(self, namespace))
        return taken_in[-1]

    monkeypatch.setattr(Registry, "recompute_late", counted)
    for step in range(10 * CHANGES_A_SECOND):
        w.change_job(job, duration=100.0 + step)
        w.advance(1 / CHANGES_A_SECOND)
    most = deadlines.LOOKED_AT_FIRST + MEMBERS + deadlines.LOOKED_AT_A_SECOND * 11
    assert MEMBERS <= sum(taken_in) <= most


def test_large_gang_is_tried_at_a_pace_while_room_comes_and_goes(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    attempt = Pass._try

    def counted(self: Pass, decided: Decided, rank: Rank) -> None:
        if len(decided.after.members) >= deadlines.LARGE:
            tried.append(len(decided.after.members))
        attempt(self, decided, rank)

    monkeypatch.setattr(Pass, "_try", counted)
    w = world(node("n0", cpu=64_000, gib=1000, pods=500))
    gang(w, "large", *[1000 + number for number in range(MEMBERS)])
    w.advance(5)
    tried.clear()
    for step in range(100):
        (other,) = gang(w, f"other{step}", 100)
        w.advance(0.05)
        assert w.nodes_of(other) != [""]
        w.cluster.remove(other)
        w.advance(0.05)
    most = deadlines.LOOKED_AT_FIRST + MEMBERS + deadlines.LOOKED_AT_A_SECOND * 11
    assert sum(tried) <= most
