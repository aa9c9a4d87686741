"""What the service states of pods for the account of past work: once, by the leader, and the same after a restart."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting import accounts
from fluence_extender.gangs.reporting.accounts import run_key
from fluence_extender.model.accounting import HeldAmount, PodAccount, WorkOutcome
from fluence_extender.model.names import (
    ACCOUNT_LABEL,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    QUEUE_LABEL,
    USER_ANNOTATION,
)
from fluence_extender.model.pod import Owner
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld, gang


class Statements:
    """Takes in what is stated."""

    def __init__(self) -> None:
        self.all: list[PodAccount] = []
        self.terms: list[frozenset[str]] = []
        self.stood_down = 0

    def record(self, account: PodAccount) -> None:
        self.all.append(account)

    def begin(self, running: frozenset[str]) -> None:
        self.terms.append(running)

    def stand_down(self) -> None:
        self.stood_down += 1

    def last(self, pod: str) -> PodAccount:
        """What was stated last of a pod."""
        return [one for one in self.all if one.pod == pod][-1]


def test_pod_is_stated_when_it_starts_and_when_it_ends(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    pod = w.pod(
        "train",
        labels={ACCOUNT_LABEL: "grant"},
        annotations={USER_ANNOTATION: "ada"},
        gates=(GATE,),
        requests=asks(1500, 1),
    )
    w.advance(3)
    (first,) = sink.all
    assert (first.namespace, first.gang, first.queue, first.user) == ("default", "train", "default", "ada")
    assert (first.account, first.node, first.workload, first.ended) == ("grant", "n0", "", None)
    assert first.amounts == (HeldAmount("cpu", "", 1500), HeldAmount("memory", "", 1024))
    w.change(pod, phase="Running", started=7.0)
    w.advance(1)
    w.change(pod, phase="Succeeded", ended=30.0)
    w.advance(1)
    last = sink.all[-1]
    assert (last.started, last.ended, last.outcome, last.run) == (7, 30, WorkOutcome.SUCCEEDED, first.run)
    stated = len(sink.all)
    w.cluster.remove(w.now(pod))
    w.advance(1)
    assert len(sink.all) == stated


def test_pod_that_is_deleted_while_it_runs_is_stated_as_deleted(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    (pod,) = gang(w, "one", 1000)
    w.advance(3)
    w.cluster.remove(w.now(pod))
    w.advance(1)
    assert sink.all[-1].outcome is WorkOutcome.DELETED
    assert sink.all[-1].ended is not None


def test_pod_that_never_started_is_not_stated(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    (pod,) = gang(w, "wide", 9000)
    w.advance(3)
    w.cluster.remove(w.now(pod))
    w.advance(1)
    assert sink.all == []


def test_restart_states_the_same_again(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    pods = gang(w, "two", 1000, 1000)
    w.advance(3)
    for pod in pods:
        w.change(pod, phase="Running", started=5.0)
    w.advance(1)
    before = {pod.name: sink.last(pod.name) for pod in pods}
    assert len({one.run for one in before.values()}) == 1
    w.restart()
    w.advance(1)
    assert sink.terms[-1] == {pod.uid for pod in pods}
    assert {pod.name: sink.last(pod.name) for pod in pods} == before


def test_name_that_is_used_again_is_another_run(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    (first,) = gang(w, "again", 1000)
    w.advance(3)
    w.change(first, phase="Succeeded")
    w.advance(1)
    w.cluster.remove(w.now(first))
    w.advance(1)
    gang(w, "again", 1000)
    w.advance(3)
    runs = list(dict.fromkeys(one.run for one in sink.all))
    assert len(runs) == 2


def test_pods_of_one_owner_are_one_run(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    owner = Owner("Job", "train", "job-uid", "batch/v1")
    size = {GROUP_SIZE_ANNOTATION: "2"}
    for names in ("ab", "cd"):
        pods = [
            w.pod(name, gates=(GATE,), requests=asks(1000, 1), owner=owner, annotations=size)
            for name in names
        ]
        w.advance(3)
        for pod in pods:
            w.change(pod, phase="Failed")
        w.advance(1)
    assert {one.pod for one in sink.all} == set("abcd")
    assert {one.run for one in sink.all} == {sink.all[0].run}
    assert {one.workload for one in sink.all} == {"job/train"}


def test_members_of_a_large_gang_that_start_together_cost_one_look_at_it(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Gang] = []

    def key_of(of: Gang) -> str:
        looked_at.append(of)
        return run_key(of)

    monkeypatch.setattr(accounts, "run_key", key_of)
    sink = Statements()
    w = world(node("n0"), sink=sink)
    pods = gang(w, "large", *[100] * 4)
    w.advance(3)
    assert len({account.pod for account in sink.all}) == len(pods)
    assert len(looked_at) == 1


def test_labels_that_change_later_move_no_use(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    (pod,) = gang(w, "mine", 1000)
    w.advance(3)
    labels = {GROUP_LABEL: "theirs", QUEUE_LABEL: "other", ACCOUNT_LABEL: "theirs"}
    w.change(pod, labels=labels)
    w.advance(2)
    w.change(pod, phase="Succeeded")
    w.advance(1)
    last = sink.all[-1]
    assert (last.gang, last.queue, last.account, last.outcome) == (
        "mine",
        "default",
        "",
        WorkOutcome.SUCCEEDED,
    )


def test_standby_states_nothing(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    (pod,) = gang(w, "seen", 1000)
    w.advance(3)
    stated = len(sink.all)
    w.controller.stand_down("another leads")
    w.change(pod, phase="Succeeded")
    w.advance(1)
    assert (sink.stood_down, len(sink.all)) == (1, stated)


def test_service_account_is_charged_by_its_name(world: MakeWorld) -> None:
    sink = Statements()
    w = world(node("n0"), sink=sink)
    w.pod("p", annotations={USER_ANNOTATION: "system:serviceaccount:lab:bot"}, requests=asks(1000, 1))
    w.advance(3)
    assert sink.last("p").user == "system:serviceaccount:lab:bot"
