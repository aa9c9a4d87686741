"""Thousands that wait at once, as after a change of leader: the first are told their places before all are planned."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.cluster.port import Kind, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import Steer
from fluence_extender.gangs.lifecycle.attempts import PLACED_AT_ONCE, STEERED_WITHIN
from fluence_extender.graph.containment import LEVELS
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
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
    ledger = Ledger(matcher_setup(choose_engine("embedded"), "lonode", LEVELS), "lonode")
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
    asked = count(step=STEERED_WITHIN)
    controller, pods = waiting_gangs(lambda: next(asked))
    first = steered(controller)
    assert set(first) == {f"g{GANGS - 1}"}
    rest: list[str] = []
    while controller.lifecycle.restless:
        rest += steered(controller)
    assert sorted(first + rest) == sorted(pod.labels[GROUP_LABEL] for pod in pods)
