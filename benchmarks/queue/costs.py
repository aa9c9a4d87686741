"""What the queue costs on a large cluster: one event, one reservation, and a pass over everything that waits.

The nodes are half full of jobs with declared ends. The waiting entries ask for 1 to 512 slots of 168 sizes. Times are
processor time, so that other programs count as little as possible.
"""

from __future__ import annotations

import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fluence_extender.queueing.engine import QueueEngine, Start
from fluence_extender.queueing.entry import Amounts, Entry, Footprint, Running, Slots
from fluence_extender.queueing.order import WaitingEntries
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.planner import FirstFit

GIB = 2**30
NODE = (64_000, 256 * GIB, 8, 110)
SIZES = [
    (cores * 1000, gib * GIB, gpus, 1)
    for cores in (1, 2, 4, 8, 16, 32, 64)
    for gib in (1, 4, 16, 64, 128, 250)
    for gpus in (0, 1, 4, 8)
]
HOUR = 3600.0
EVENTS = 200
HEADINGS = ("what", "median", "slowest")


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


def measure(nodes: int, waiting: int, running: int, depth: int) -> list[Cost]:
    """Return the costs at a reservation depth."""
    dice = random.Random(nodes)
    tracemalloc.start()
    entries = [_entry(dice, number) for number in range(waiting)]
    order = WaitingEntries()
    for one in entries:
        order.put(one)
    memory = tracemalloc.get_traced_memory()[0] / waiting
    tracemalloc.stop()
    timeline = Timeline(_room(nodes))
    queue = QueueEngine(timeline, FirstFit(), QueuePolicy(PolicyName.HYBRID, depth))
    for number in range(running):
        _fill(dice, queue, number)
    name = f"at depth {depth}:"
    found = [Cost("memory of an entry", memory, memory, "B")]
    found.append(_summary(f"{name} submission", [_timed(partial(queue.submit, one)) for one in entries]))
    for now, what in enumerate(("first pass", "pass, all found anew", "pass, nothing changed")):
        found.extend(_pass(queue, float(now), f"{name} {what}"))
    keys = dice.sample(sorted(timeline.holds), min(EVENTS, running))
    ended = [timeline.holds[key] for key in keys]
    timeline.slack(24 * HOUR)
    found.append(_summary(f"{name} end of a pod", [_timed(partial(queue.release, key)) for key in keys]))
    found.append(_summary(f"{name} start of a pod", [_timed(partial(queue.hold, one)) for one in ended]))
    return found


def _pass(queue: QueueEngine, now: float, what: str) -> list[Cost]:
    steps, starts, before = [], 0, time.thread_time()
    known = len(queue.promises)
    for decision in queue.decide(now):
        after = time.thread_time()
        steps.append((after - before) * 1000)
        starts += isinstance(decision, Start)
        before = after
    whole = sum(steps)
    title = f"{what} ({starts} starts, {known} then {len(queue.promises)} reservations)"
    return [Cost(title, whole, whole), Cost(f"{what}: a step", statistics.median(steps), max(steps))]


def _timed(action: Callable[[], None]) -> float:
    before = time.thread_time()
    action()
    return (time.thread_time() - before) * 1000


def _summary(what: str, times: list[float]) -> Cost:
    return Cost(what, statistics.median(times), max(times))


def _room(nodes: int) -> Amounts:
    return np.tile(np.array(NODE, dtype=np.int64), (nodes, 1))


def _entry(dice: random.Random, number: int) -> Entry:
    count = max(1, int(2 ** dice.uniform(0, 9)))
    duration = dice.choice((HOUR / 6, HOUR, 4 * HOUR, 24 * HOUR)) * dice.uniform(0.5, 1)
    return Entry(f"team/job-{number}", (Slots(count, dice.choice(SIZES)),), (0.0, number), duration)


def _fill(dice: random.Random, queue: QueueEngine, number: int) -> None:
    """Let a job run on one to five nodes that have room for it."""
    free = queue.timeline.free
    rows = np.array(sorted(dice.sample(range(len(free)), dice.choice((1, 1, 2, 4, 5)))))
    share = np.minimum(free[rows].min(axis=0), np.array(NODE) // 2)
    queue.hold(
        Running(f"run-{number}", Footprint(rows, np.tile(share, (len(rows), 1))), dice.uniform(60, 24 * HOUR))
    )
