"""Thousands of gangs of one namespace that wait for one reason or another, and a clock that counts the work."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import Steer
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.planning.view import Decided
from fluence_extender.gangs.queue import obstacles
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    HOLD_ANNOTATION,
    QUEUE_LABEL,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import DEFAULT_QUEUE, Queue, QueueLimits, Quota, Stop
from fluence_extender.room.ledger import Ledger
from tests.core.values import node

CROWD = 2000
"""The gangs of a crowd."""

TEAM = "team"
"""The queue of crowds that a queue keeps waiting."""

SMALL = Resources({"cpu": 100, "pods": 1})
Fields = dict[str, Any]


def after(text: str) -> Fields:
    return {"annotations": {AFTER_ANNOTATION: text}}


def random_others(number: int) -> Fields:
    chosen = random.Random(number).sample(range(CROWD), 32)
    return after(",".join(f"ok:gang/c{one:04}" for one in chosen))


def chain(number: int) -> Fields:
    return after(f"ok:gang/c{number + 1:04}")


def circle(number: int) -> Fields:
    return after(f"ok:gang/c{(number + 1) % CROWD:04}")


def hub(number: int) -> Fields:
    return after("ok:gang/c0001") if number != 1 else {"annotations": {HOLD_ANNOTATION: "true"}}


def missing_jobs(number: int) -> Fields:
    return after(f"ok:job/j{number},any:job/k{number}")


def held(_: int) -> Fields:
    return {"annotations": {HOLD_ANNOTATION: "true"}}


def of_no_queue(number: int) -> Fields:
    return {"labels": {QUEUE_LABEL: f"q{number}"}}


def of_team(_: int) -> Fields:
    return {"labels": {QUEUE_LABEL: TEAM}}


def limited(limits: QueueLimits) -> Queue:
    return Queue(TEAM, limits=limits, uid="team")


def of_other_shapes(number: int) -> Fields:
    return {"requests": Resources({"cpu": 10_000 + number, "pods": 1})}


def incomplete(number: int) -> Fields:
    return {"labels": {GROUP_LABEL: f"g{number}"}, "annotations": {GROUP_SIZE_ANNOTATION: "2"}}


def gated(_: int) -> Fields:
    return {"gates": (GATE, "example.com/checked")}


STOPPED = Queue(TEAM, stop=Stop.HOLD, uid="team")
BLOCKED: dict[str, tuple[Callable[[int], Fields], Queue | None, ReasonCode]] = {
    "held": (held, None, ReasonCode.HELD),
    "after 32 others": (random_others, None, ReasonCode.WAITS_FOR),
    "after one another": (chain, None, ReasonCode.WAITS_FOR),
    "after one": (hub, None, ReasonCode.WAITS_FOR),
    "in a circle": (circle, None, ReasonCode.WAITS_FOR),
    "after missing Jobs": (missing_jobs, None, ReasonCode.WAITS_FOR),
    "without queue": (of_no_queue, None, ReasonCode.NO_QUEUE),
    "of a stopped queue": (of_team, STOPPED, ReasonCode.QUEUE_STOPPED),
    "beyond max.queued": (of_team, limited(QueueLimits(queued=1, running=1)), ReasonCode.QUEUED),
    "beyond max.running": (of_team, limited(QueueLimits(running=1)), ReasonCode.QUEUED),
    "beyond max.runningPerUser": (
        of_team,
        limited(QueueLimits(running_per_user=1)),
        ReasonCode.OVER_USER_LIMIT,
    ),
    "over the quota of their queue": (
        of_team,
        Queue(TEAM, quota=Quota(limit={"cpu": 150}), uid="team"),
        ReasonCode.OVER_QUOTA,
    ),
    "without all members": (incomplete, None, ReasonCode.WAITING_FOR_MEMBERS),
    "gated by others": (gated, None, ReasonCode.WAITING_FOR_GATES),
}
"""Crowds that a rule keeps waiting: what their pods say, the queue that they name, and their reason."""


class Work:
    """A clock by which each look at a gang takes ``look`` seconds. It counts looks, and attempts in passes.

    A pass runs beside the event loop, so attempts take no time here.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: float = 0.0002) -> None:
        self.now = 0.0
        self.done: Counter[str] = Counter()
        self.tried: list[str] = []
        tries, obstacle, follows = Pass._try, QueueAdmission.obstacle, obstacles.circle

        def timed_try(one: Pass, decided: Decided, *rest: Any) -> None:
            self.done["attempts"] += 1
            self.tried.append(f"{decided.after.key.namespace}/{decided.after.key.name}")
            tries(one, decided, *rest)

        def timed_look(admission: QueueAdmission, gang: Gang) -> Any:
            self.now += look
            self.done["looks"] += 1
            return obstacle(admission, gang)

        def timed_circle(*args: Any) -> Any:
            self.now += look
            self.done["circles"] += 1
            return follows(*args)

        monkeypatch.setattr(Pass, "_try", timed_try)
        monkeypatch.setattr(QueueAdmission, "obstacle", timed_look)
        monkeypatch.setattr(obstacles, "circle", timed_circle)

    def __call__(self) -> float:
        return self.now

    def reset(self) -> None:
        """Count from here on."""
        self.done.clear()
        self.tried.clear()


def pod(namespace: str, number: int, **fields: Any) -> Pod:
    """The pod ``number`` of a namespace, a gang by itself unless its fields say otherwise."""
    name = f"c{number:04}"
    fields = {"requests": SMALL, "gates": (GATE,), "created": float(number), **fields}
    return Pod(namespace, name, f"{namespace}-{name}", **fields)


def cluster(clock: Callable[[], float], queue: Queue | None = None) -> Controller:
    """A started controller on one node with 4 cores, with the default queue and perhaps another one."""
    ledger = Ledger()
    controller = Controller(ledger, clock=clock)
    controller.observe(Listed(Node, (node("n0", cpu=4000),)))
    queues = (Queue(DEFAULT_QUEUE, uid="default"), *(() if queue is None else (queue,)))
    controller.observe(Listed(Queue, queues))
    controller.start()
    return controller


def crowd(controller: Controller, says: Callable[[int], Fields], namespace: str = "crowd") -> list[Pod]:
    """Let a crowd come and settle; return its pods."""
    pods = [pod(namespace, number, **says(number)) for number in range(CROWD)]
    for one in pods:
        controller.observe(Changed(one))
    settle(controller)
    return pods


def steered(controller: Controller) -> list[str]:
    """The gangs whose pods are told their nodes by one step."""
    return [f"{one.pod.namespace}/{one.pod.name}" for one in controller.step() if isinstance(one, Steer)]


def settle(controller: Controller) -> list[str]:
    """Step until the core is at rest; return the pods that were told their nodes."""
    found = steered(controller)
    while controller.lifecycle.restless:
        found += steered(controller)
    return found


def steps_until_placed(controller: Controller, one: Pod, most: int = 1000) -> int:
    """Let a pod come, and return in which step it is told its node."""
    controller.observe(Changed(one))
    for number in range(1, most + 1):
        if f"{one.namespace}/{one.name}" in steered(controller):
            return number
    return most + 1


def room_comes(controller: Controller, step: int) -> None:
    """Let the node change, after which every gang that may start is tried again."""
    controller.observe(Changed(node("n0", cpu=4000, labels={"step": str(step)})))


def toggled(pods: list[Pod]) -> Iterator[Pod]:
    """Pods of a crowd, one after the other, each with another annotation that means nothing."""
    for number, one in enumerate(pods):
        yield replace(one, annotations={**one.annotations, "example.com/round": str(number)})
