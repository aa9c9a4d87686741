"""Many gangs that wait at once: each is tried when room may have come, and a demand is planned once in a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import Steer
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.planning.reservations import MOST_IMPOSSIBLE
from fluence_extender.gangs.planning.view import Decided
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import DEFAULT_QUEUE, Queue, QueueLimits
from fluence_extender.queueing.entry import Rank
from fluence_extender.room.ledger import Ledger
from tests.core.values import node


def steered(controller: Controller) -> list[str]:
    """The gangs whose members are told their places by the next step."""
    return [one.pod.labels[GROUP_LABEL] for one in controller.step() if isinstance(one, Steer)]


class Tries:
    """Records which gangs are judged, be it by a count, and which of them are planned by themselves (``tried``)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judged: list[str] = []
        self.tried: list[str] = []
        attempt, judge = Pass._try, Pass._attempt

        def judging(one: Pass, gang: Gang, place: Rank) -> None:
            self.judged.append(gang.key.name)
            judge(one, gang, place)

        def noted(one: Pass, decided: Decided, place: Rank) -> None:
            self.tried.append(decided.after.key.name)
            attempt(one, decided, place)

        monkeypatch.setattr(Pass, "_try", noted)
        monkeypatch.setattr(Pass, "_attempt", judging)


def refused_gangs(count: int) -> Controller:
    """Gangs that are all different, and of which none has a place beside a foreign pod."""
    ledger = Ledger()
    controller = Controller(ledger, clock=lambda: 0.0)
    taken = Resources({"cpu": 3000, "pods": 1})
    foreign = Pod("others", "big", "u-big", scheduler="default-scheduler", node="n0", requests=taken)
    controller.observe(Listed(Node, (node("n0", cpu=4000),)))
    controller.observe(Listed(Pod, (foreign,)))
    controller.start()
    for number in range(count):
        asked = Resources({"cpu": 2000 + number, "pods": 1})
        pod = Pod("default", f"g{number:03}", f"u-{number:03}", gates=(GATE,), requests=asked, created=number)
        controller.observe(Changed(pod))
    return controller


def test_each_refused_gang_is_judged_whenever_room_may_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(monkeypatch)
    controller = refused_gangs(100)
    names = [f"g{number:03}" for number in range(100)]
    settle(controller)
    assert tries.tried == names
    for step in range(3):
        tries.judged.clear()
        controller.observe(Changed(node("n0", cpu=4000, labels={"step": str(step)})))
        controller.step()
        assert tries.judged == names
    controller.observe(Changed(node("n0", cpu=5000)))
    controller.step()
    placed = [key.name for key, gang in controller.registry.gangs.items() if not gang.placeless()]
    assert placed == names[:1]


def test_while_room_only_shrinks_no_gang_is_tried_but_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(monkeypatch)
    controller = refused_gangs(100)
    settle(controller)
    tries.tried.clear()
    small = Pod(
        "default", "small", "u-small", {GROUP_LABEL: "small"}, gates=(GATE,), requests=Resources({"cpu": 100})
    )
    controller.observe(Changed(small))
    taken = Pod(
        "others", "more", "u-more", scheduler="default-scheduler", node="n0", requests=Resources({"cpu": 100})
    )
    controller.observe(Changed(taken))
    assert settle(controller) == ["small"]
    assert tries.tried == ["small"]


def alike(count: int, members: int = 1) -> Controller:
    """Gangs that all ask the same, beside a foreign pod that leaves no room for one of them."""
    controller = refused_gangs(0)
    for gang in range(count):
        for number in range(members):
            controller.observe(Changed(equal(gang, number, members)))
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
    tries = Tries(monkeypatch)
    controller = alike(100)
    tries.tried.clear()
    controller.observe(Changed(node("n0", cpu=4000, labels={"step": "1"})))
    assert not settle(controller)
    assert len(tries.tried) <= MOST_IMPOSSIBLE + 1
    assert not controller.queue.untried


def test_room_for_one_of_many_equal_gangs_goes_to_the_first() -> None:
    controller = alike(20)
    controller.observe(Changed(node("n1", cpu=2000)))
    assert settle(controller) == ["g000"]
    assert reasons(controller) == {"busy: 0 of 1 fit now, short of cpu"}


def test_equal_gangs_are_told_what_fits_now() -> None:
    controller = alike(20, members=2)
    assert reasons(controller) == {"busy: 0 of 2 fit now, short of cpu"}
    controller.observe(Changed(node("n1", cpu=2000)))
    assert not settle(controller)
    assert reasons(controller) == {"busy: 1 of 2 fit now, short of cpu"}


def test_gang_that_asks_for_less_now_is_tried_though_its_equals_fail() -> None:
    controller = alike(20)
    smaller = replace(equal(7, 0, 1), requests=Resources({"cpu": 500, "pods": 1}))
    controller.observe(Changed(smaller))
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
    controller = alike(20)
    other = replace(equal(99, 0, 1), **said)
    controller.observe(Changed(other))
    settle(controller)
    found = controller.member(other.uid)
    assert found is not None
    assert found[0].reason is not None
    assert found[0].reason.code is code


def test_gang_of_a_full_queue_is_told_so_though_its_equals_lack_room() -> None:
    controller = alike(20)
    small = replace(equal(99, 0, 1), requests=Resources({"cpu": 100, "pods": 1}))
    controller.observe(Changed(small))
    settle(controller)
    full = Queue(DEFAULT_QUEUE, limits=QueueLimits(running=1), uid="default")
    controller.observe(Listed(Queue, (full,)))
    settle(controller)
    assert reasons(controller) == {"queued: queue default runs as many gangs as it may (max.running: 1)"}
