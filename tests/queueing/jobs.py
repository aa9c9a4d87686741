"""Jobs of a trace, and workloads like those of real machines.

The generated workload has the traits that Lublin and Feitelson found in logs of parallel machines (JPDC 63, 2003).
Sizes are spread evenly over their logarithm, with many powers of two and many single nodes. Run times have two humps,
and the larger a job, the likelier the later hump. Arrivals come in bursts that follow the hour of the day. Users
estimate too long, and in round numbers.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

HOUR = 3600
ROUND = (60, 300, 900, 1800, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR)
"""The estimates that users make, in seconds."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job that takes ``size`` units for ``run`` seconds, and declares that it takes ``estimate``, which is more."""

    submit: int
    run: int
    estimate: int
    size: int


def generated(count: int, machine: int, load: float, seed: int) -> list[TraceJob]:
    """Return jobs that would use about ``load`` of a machine of so many units, in the order of their submission."""
    dice = random.Random(seed)
    shapes = [_shape(dice, machine) for _ in range(count)]
    work = sum(run * size for run, _, size in shapes)
    gaps = _gaps(dice, count, work / (machine * load))
    jobs, clock = [], 0.0
    for (run, estimate, size), gap in zip(shapes, gaps, strict=True):
        clock += gap
        jobs.append(TraceJob(int(clock), run, estimate, size))
    return jobs


def _shape(dice: random.Random, machine: int) -> tuple[int, int, int]:
    size = 1
    if dice.random() > 0.24:
        power = dice.uniform(0, math.log2(machine)) * dice.choice((0.6, 1.0))
        size = min(machine, max(1, round(2 ** (round(power) if dice.random() < 0.75 else power))))
    long = dice.random() < 0.3 + 0.4 * math.log2(size + 1) / math.log2(machine + 1)
    run = max(1, min(48 * HOUR, int(dice.gammavariate(10, 900) if long else dice.gammavariate(4, 60))))
    guess = run * (1 if dice.random() < 0.15 else dice.uniform(1, 10))
    estimate = next((one for one in ROUND if one >= guess), ROUND[-1])
    return run, max(run, estimate), size


def _gaps(dice: random.Random, count: int, span: float) -> list[float]:
    """Return pauses between submissions: bursts, and a quarter of the rate at night."""
    raw, clock = [], 0.0
    for _ in range(count):
        rate = 0.625 - 0.375 * math.cos(2 * math.pi * (clock % 24) / 24)
        gap = dice.gammavariate(0.5, 2) / rate
        raw.append(gap)
        clock += gap / count * 24 * 7
    scale = span / sum(raw)
    return [gap * scale for gap in raw]
