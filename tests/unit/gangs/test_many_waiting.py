"""Thousands that wait at once, as after a change of leader: a step plans for a bounded time, and each gets its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Kind, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import Steer
from fluence_extender.gangs.lifecycle.attempts import PLACED_AT_ONCE, TRIED_WITHIN, Attempts
from fluence_extender.gangs.lifecycle.evaluation import EVALUATED_WITHIN
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.heads import HOPELESS
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import DEFAULT_QUEUE, Queue, QueueLimits
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.queueing.order import Rank
from fluence_extender.room.ledger import Ledger
from tests.core.values import node

MEMBERS = 16
GANGS = 2 * PLACED_AT_ONCE // MEMBERS + 1


def member(gang: int, number: int, priority: int) -> Pod:
    name = f"g{gang}-{number}"
    return Pod(
        "default",
        name,
        f"u-{name}",
        {GROUP_LABEL: f"g{gang}"},
        {GROUP_SIZE_ANNOTATION: str(MEMBERS)},
        gates=(GATE,),
        requests=Resources({"cpu": 1, "pods": 1}),
        priority=priority,
        created=float(gang),
    )


def steered(controller: Controller) -> list[str]:
    """The gangs whose members are told their places by the next step."""
    return [one.pod.labels[GROUP_LABEL] for one in controller.step() if isinstance(one, Steer)]


def waiting_gangs(clock: Callable[[], float]) -> tuple[Controller, list[Pod]]:
    """Gangs that all have room, of which the last is the most important one."""
    ledger = Ledger()
    controller = Controller(ledger, clock=clock)
    last = GANGS - 1
    pods = [member(gang, number, int(gang == last)) for gang in range(GANGS) for number in range(MEMBERS)]
    controller.observe(Listed(Kind.NODE, tuple(node(f"n{number}", cpu=100_000) for number in range(20))))
    controller.observe(Listed(Kind.POD, tuple(pods)))
    controller.start()
    return controller, pods


def test_first_gangs_are_steered_before_all_are_planned_by_priority() -> None:
    controller, pods = waiting_gangs(lambda: 0.0)
    first = steered(controller)
    assert len(first) == PLACED_AT_ONCE
    assert f"g{GANGS - 1}" in first
    assert f"g{GANGS - 2}" not in first
    rest: list[str] = []
    while controller.lifecycle.restless:
        rest += steered(controller)
    assert sorted(first + rest) == sorted(pod.labels[GROUP_LABEL] for pod in pods)
    assert not steered(controller)


def test_placed_gangs_are_steered_before_others_are_tried_if_planning_is_slow() -> None:
    asked = count(step=TRIED_WITHIN)
    controller, pods = waiting_gangs(lambda: next(asked))
    first, steps = steered(controller), 1
    while not first:
        first, steps = steered(controller), steps + 1
    assert set(first) == {f"g{GANGS - 1}"}
    assert steps > GANGS // (EVALUATED_WITHIN // TRIED_WITHIN + 2)
    rest: list[str] = []
    while controller.lifecycle.restless:
        rest += steered(controller)
    assert sorted(first + rest) == sorted(pod.labels[GROUP_LABEL] for pod in pods)


def test_gang_that_becomes_known_during_a_long_evaluation_has_its_turn_before_those_behind_it() -> None:
    asked = count(step=EVALUATED_WITHIN)
    controller, _ = waiting_gangs(lambda: next(asked))
    for _ in range(GANGS // 2):
        assert not steered(controller)
    for number in range(MEMBERS):
        controller.observe(Changed(Kind.POD, member(GANGS, number, priority=2)))
    first = steered(controller)
    while not first:
        first = steered(controller)
    assert set(first) == {f"g{GANGS}"}


class Ticks:
    """A clock by which each attempt to place a gang takes ``each`` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, each: float) -> None:
        self.now = 0.0
        self.tried: list[str] = []
        attempt = Attempts._try

        def timed(attempts: Attempts, gang: Gang, place: Rank, now: float) -> bool:
            self.now += each
            self.tried.append(gang.key.name)
            return attempt(attempts, gang, place, now)

        monkeypatch.setattr(Attempts, "_try", timed)

    def __call__(self) -> float:
        return self.now


def refused_gangs(clock: Callable[[], float], count: int) -> Controller:
    """Gangs that are all different, and of which none has a place beside a foreign pod."""
    ledger = Ledger()
    controller = Controller(ledger, clock=clock)
    taken = Resources({"cpu": 3000, "pods": 1})
    foreign = Pod("others", "big", "u-big", scheduler="default-scheduler", node="n0", requests=taken)
    controller.observe(Listed(Kind.NODE, (node("n0", cpu=4000),)))
    controller.observe(Listed(Kind.POD, (foreign,)))
    controller.start()
    for number in range(count):
        asked = Resources({"cpu": 2000 + number, "pods": 1})
        pod = Pod("default", f"g{number:03}", f"u-{number:03}", gates=(GATE,), requests=asked, created=number)
        controller.observe(Changed(Kind.POD, pod))
    return controller


def test_step_tries_refused_gangs_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticks(monkeypatch, TRIED_WITHIN / 4)
    controller = refused_gangs(clock, 100)
    steps = 0
    while not steps or controller.lifecycle.restless:
        began = clock.now
        controller.step()
        steps += 1
        assert clock.now - began <= 2.5 * TRIED_WITHIN
    assert sorted(clock.tried) == [f"g{number:03}" for number in range(100)]


def test_each_refused_gang_is_tried_though_the_ledger_changes_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Ticks(monkeypatch, TRIED_WITHIN / 4)
    controller = refused_gangs(clock, 100)
    for step in range(40):
        controller.observe(Changed(Kind.NODE, node("n0", cpu=4000, labels={"step": str(step)})))
        controller.step()
        # The first in order come first whenever something has changed.
        assert "g000" in clock.tried[-10:]
    assert set(clock.tried) == {f"g{number:03}" for number in range(100)}


def alike(clock: Callable[[], float], count: int, members: int = 1) -> Controller:
    """Gangs that all ask the same, beside a foreign pod that leaves no room for one of them."""
    controller = refused_gangs(clock, 0)
    for gang in range(count):
        for number in range(members):
            controller.observe(Changed(Kind.POD, equal(gang, number, members)))
    settle(controller)
    return controller


def equal(gang: int, number: int, members: int) -> Pod:
    name = f"g{gang:03}-{number}"
    asked = Resources({"cpu": 2000, "pods": 1})
    labels, said = {GROUP_LABEL: f"g{gang:03}"}, {GROUP_SIZE_ANNOTATION: str(members)}
    return Pod("default", name, f"u-{name}", labels, said, gates=(GATE,), requests=asked, created=float(gang))


def settle(controller: Controller) -> list[str]:
    """Step until the core is at rest; return the gangs that were given places."""
    found = steered(controller)
    while controller.lifecycle.restless:
        found += steered(controller)
    return found


def reasons(controller: Controller) -> set[str]:
    """Why gangs wait."""
    return {gang.reason.text for gang in controller.registry.gangs.values() if gang.reason is not None}


def test_of_gangs_that_ask_the_same_only_the_first_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticks(monkeypatch, 0.0)
    controller = alike(clock, 100)
    assert len(clock.tried) <= HOPELESS + 1
    clock.tried.clear()
    controller.observe(Changed(Kind.NODE, node("n0", cpu=4000, labels={"step": "1"})))
    assert not settle(controller)
    assert len(clock.tried) <= HOPELESS + 1
    version = controller.ledger.version
    assert all(gang.attempt.version == version for gang in controller.registry.gangs.values())


def test_room_for_one_of_many_equal_gangs_goes_to_the_first() -> None:
    controller = alike(lambda: 0.0, 20)
    controller.observe(Changed(Kind.NODE, node("n1", cpu=2000)))
    assert settle(controller) == ["g000"]
    assert reasons(controller) == {"busy: 0 of 1 fit now, short of cpu"}


def test_equal_gangs_are_told_what_fits_now() -> None:
    controller = alike(lambda: 0.0, 20, members=2)
    assert reasons(controller) == {"busy: 0 of 2 fit now, short of cpu"}
    controller.observe(Changed(Kind.NODE, node("n1", cpu=2000)))
    assert not settle(controller)
    assert reasons(controller) == {"busy: 1 of 2 fit now, short of cpu"}


def test_gang_that_asks_for_less_now_is_tried_though_its_equals_fail() -> None:
    controller = alike(lambda: 0.0, 20)
    smaller = replace(equal(7, 0, 1), requests=Resources({"cpu": 500, "pods": 1}))
    controller.observe(Changed(Kind.POD, smaller))
    assert settle(controller) == ["g007"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"annotations": {GROUP_SIZE_ANNOTATION: "1", HOLD_ANNOTATION: "true"}}, ReasonCode.HELD),
        (
            {"annotations": {GROUP_SIZE_ANNOTATION: "1", AFTER_ANNOTATION: "ok:job/prep"}},
            ReasonCode.WAITS_FOR,
        ),
        ({"annotations": {GROUP_SIZE_ANNOTATION: "2"}}, ReasonCode.WAITING_FOR_MEMBERS),
        ({"gates": (GATE, "example.com/checked")}, ReasonCode.WAITING_FOR_GATES),
        ({"problem": "requests can't be read"}, ReasonCode.INVALID_REQUEST),
    ],
)
def test_new_gang_that_lacks_more_than_room_is_told_so_though_its_equals_lack_room(
    said: dict[str, Any], code: ReasonCode
) -> None:
    controller = alike(lambda: 0.0, 20)
    other = replace(equal(99, 0, 1), **said)
    controller.observe(Changed(Kind.POD, other))
    settle(controller)
    found = controller.member(other.uid)
    assert found is not None
    assert found[0].reason is not None
    assert found[0].reason.code is code


def test_gang_of_a_full_queue_is_told_so_though_its_equals_lack_room() -> None:
    controller = alike(lambda: 0.0, 20)
    small = replace(equal(99, 0, 1), requests=Resources({"cpu": 100, "pods": 1}))
    controller.observe(Changed(Kind.POD, small))
    settle(controller)
    full = Queue(DEFAULT_QUEUE, limits=QueueLimits(running=1), uid="default")
    controller.observe(Listed(Kind.QUEUE, (full,)))
    settle(controller)
    assert reasons(controller) == {"queued: queue default runs as many gangs as it may (max.running: 1)"}
