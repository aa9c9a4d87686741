"""What the queue costs on a large cluster: a submission, a start or end, a reservation, a pass over all that wait.

The cluster is full of running gangs that declare when they end, each alone on one to four nodes. The waiting gangs have
one to four pods and ask for more than is free anywhere, so a pass tries them in vain. All goes through the controller,
as observations of the cluster do. Times are processor time, and the controller goes by it, too, so that other programs
count as little as possible.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fluence_extender.apps.extender.app import GARBAGE
from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import DEFAULT_QUEUE, PolicyName, Queue, SchedulingOptions
from tests.core.engine import EMBEDDED

GIB = 2**30
NODE = Resources({"cpu": 64_000, "memory": 256 * GIB, "nvidia.com/gpu": 8, "pods": 110})
HOUR = 3600.0
EVENTS = 50
ENDS = 5
FEW_NODES, MEASURED = 100, 2000
"""The nodes of the cluster, and the waiting gangs, with which memory is measured; it depends on neither number."""

LONGEST = 60_000.0
"""Milliseconds after which measuring a pass is cut short."""

HEADINGS = ("what", "median", "slowest")
EASY, HYBRID = PolicyName.EASY, PolicyName.HYBRID


class _Clock:
    """The time in seconds that this thread has worked, and what was ``skipped``."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.thread_time() + self.skipped


CLOCK = _Clock()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing costs, in milliseconds or in bytes."""

    what: str
    median: float
    slowest: float
    unit: str = "ms"

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [self.what, *(f"{one:,.3f} {self.unit}" for one in (self.median, self.slowest))]


def measure(nodes: int, waiting: int, running: int, policy: PolicyName) -> list[Cost]:
    """Return the costs under a policy."""
    found = _memory(policy)
    dice = random.Random(nodes)
    there = running_gangs(dice, nodes, running)
    controller = _full(nodes, there, policy)
    coming = [waiting_gang(dice, number) for number in range(waiting)]
    # As the service does once it has started.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    name = f"{policy.value}:"
    submissions = [_timed(partial(_see, controller, gang)) for gang in coming]
    found.append(_summary(f"{name} submission", submissions))
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        found.extend(_passes(controller, there, name))
    finally:
        gc.enable()
        gc.unfreeze()
    return found


def _full(nodes: int, there: list[list[Pod]], policy: PolicyName) -> Controller:
    """Return the controller of a cluster of so many nodes on which these gangs run."""
    controller = Controller(EMBEDDED.ledger(), Limits(completion=None, assembly=None), clock=CLOCK)
    controller.observe(Listed(Node, tuple(empty_nodes(nodes))))
    controller.observe(Listed(Queue, (default_queue(policy),)))
    controller.observe(Listed(Pod, tuple(pod for gang in there for pod in gang)))
    controller.start()
    return controller


def _passes(controller: Controller, there: list[list[Pod]], name: str) -> list[Cost]:
    """Measure the first passes, some after gangs have ended, and some after others were submitted."""
    first = _rest(controller)
    reserved = len(controller.queue.reservations())
    passes = sum(one.planned for one in first)
    found = [
        Cost(f"{name} first passes ({reserved} reservations)", passes, passes),
        _on_loop(f"{name} first passes: on the loop", first),
    ]
    told, ended = [_announced(controller)], []
    for _ in range(ENDS):
        _end(controller, there.pop())
        ended.append(_rest(controller))
        told.append(_announced(controller))
    submitted = []
    for number in range(EVENTS):
        _see(controller, waiting_gang(random.Random(number), 10**6 + number))
        submitted.append(_rest(controller))
    return [
        *found,
        _summary(f"{name} pass after an end", [sum(one.planned for one in steps) for steps in ended]),
        _on_loop(f"{name} pass after an end: on the loop", [one for steps in ended for one in steps]),
        _on_loop(f"{name} announcing after a pass: on the loop", [one for steps in told for one in steps]),
        _summary(
            f"{name} pass after a submission", [sum(one.planned for one in steps) for steps in submitted]
        ),
        _on_loop(
            f"{name} pass after a submission: on the loop", [one for steps in submitted for one in steps]
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """The milliseconds that a step took, and how many of them for a pass, which the service makes in a thread."""

    whole: float
    planned: float


def _rest(controller: Controller) -> list[_Step]:
    """Return the steps until the core was at rest, or for as long as `LONGEST`.

    A pass is over when all gangs that have changed were looked at: the loop goes on while a thread makes it.
    """
    steps, made = list[_Step](), None
    while not steps or controller.lifecycle.restless or made is not None:
        began = time.thread_time()
        view = controller.begin()
        viewed = time.thread_time()
        planned = viewed
        if view is not None:
            made = controller.plan(view)
            planned = time.thread_time()
        over = not controller.lifecycle.behind
        controller.finish(made if over else None)
        made = None if over else made
        steps.append(_Step((time.thread_time() - began) * 1000, (planned - viewed) * 1000))
        if sum(one.whole for one in steps) > LONGEST:
            break
    return steps


def _on_loop(what: str, steps: Sequence[_Step]) -> Cost:
    """Return what each step took without the pass."""
    return _summary(what, [one.whole - one.planned for one in steps])


def _announced(controller: Controller) -> list[_Step]:
    """Return the steps that announce the reasons of a pass, once they have stood for long enough."""
    CLOCK.skipped += controller.lifecycle.limits.announce_after
    return _rest(controller)


def _memory(policy: PolicyName) -> list[Cost]:
    """Measure what the controller keeps of a waiting gang besides its pods, on a cluster that is small but full."""
    dice = random.Random(MEASURED)
    controller = _full(FEW_NODES, running_gangs(dice, FEW_NODES, FEW_NODES // 2), policy)
    coming = [waiting_gang(dice, number) for number in range(MEASURED)]
    _rest(controller)
    tracemalloc.start()
    found = []

    def kept(when: str) -> None:
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / len(coming)
        found.append(Cost(f"memory of a waiting gang besides its pods, {when}", each, each, "B"))

    for gang in coming:
        _see(controller, gang)
    kept("when it is submitted")
    _rest(controller)
    _announced(controller)
    kept("when its reason is announced")
    tracemalloc.stop()
    return found


def _see(controller: Controller, gang: Sequence[Pod]) -> None:
    for pod in gang:
        controller.observe(Changed(pod))


def _end(controller: Controller, gang: Sequence[Pod]) -> None:
    for pod in gang:
        controller.observe(Deleted(pod))


def _timed(action: Callable[[], object]) -> float:
    before = time.thread_time()
    action()
    return (time.thread_time() - before) * 1000


def _summary(what: str, times: list[float]) -> Cost:
    return Cost(what, statistics.median(times), max(times))


def empty_nodes(count: int) -> list[Node]:
    """Return the nodes of the cluster."""
    return [Node(f"n{number}", f"uid-n{number}", allocatable=NODE) for number in range(count)]


def default_queue(policy: PolicyName) -> Queue:
    """Return the queue in which all gangs wait."""
    return Queue(DEFAULT_QUEUE, scheduling=SchedulingOptions(policy), uid="default")


def running_gangs(dice: random.Random, nodes: int, gangs: int) -> list[list[Pod]]:
    """Return gangs that together fill all nodes but for a few cores of each."""
    now = time.time()
    left = list(range(nodes))
    dice.shuffle(left)
    found = []
    for number in range(gangs):
        share = max(1, round(len(left) / (gangs - number)))
        size = dice.randint(1, 2 * share - 1) if number < gangs - 1 else len(left)
        mine, left = left[:size], left[size:]
        duration = dice.uniform(60, 24 * HOUR)
        requests = Resources({"cpu": 60_000, "memory": 200 * GIB, "nvidia.com/gpu": 8, "pods": 1})
        placed = (
            replace(pod, gates=(), node=f"n{node}", started=now, phase="Running")
            for pod, node in zip(_pods(f"r{number}", len(mine), requests, duration, 1.0), mine, strict=True)
        )
        found.append(list(placed))
    return [gang for gang in found if gang]


def waiting_gang(dice: random.Random, number: int) -> list[Pod]:
    """Return a gang that waits."""
    cores, gib, gpus = (
        dice.choice((8, 16, 32, 64)),
        dice.choice((16, 64, 128, 250)),
        dice.choice((0, 1, 4, 8)),
    )
    requests = Resources({"cpu": cores * 1000, "memory": gib * GIB, "nvidia.com/gpu": gpus, "pods": 1})
    duration = dice.choice((HOUR / 6, HOUR, 4 * HOUR, 24 * HOUR)) * dice.uniform(0.5, 1)
    return _pods(f"g{number}", dice.choice((1, 1, 2, 4)), requests, duration, time.time())


def _pods(name: str, count: int, requests: Resources, duration: float, created: float) -> list[Pod]:
    labels, said = {GROUP_LABEL: name}, {GROUP_SIZE_ANNOTATION: str(count)}
    return [
        Pod(
            "team",
            f"{name}-{number}",
            f"{name}-{number}",
            labels,
            said,
            gates=(GATE,),
            requests=requests,
            created=created,
            duration=duration,
        )
        for number in range(count)
    ]
