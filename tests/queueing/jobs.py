"""Jobs of a trace, and workloads like those of real machines.

The generated workload follows the model of Lublin and Feitelson (JPDC 63, 2003), with the parameters that they
published for all jobs together. Sizes: single units, and numbers whose logarithm is uniform in two stages, with many
powers of two. Run times: the logarithm is drawn from one of two gamma distributions, and the larger a job, the likelier
the one of long times. Arrivals: the logarithm of a pause is a gamma variate, and a gamma-shaped daily cycle stretches
the pauses at night. The pauses are scaled to the load that is asked for. The model says nothing of estimates: here some
jobs are estimated well and most too long, in the round numbers that users choose.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

HOUR = 3600
ROUND = (60, 300, 900, 1800, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR)
"""The estimates that users make, in seconds."""

SERIAL, POWER_OF_TWO = 0.244, 0.576
SMALLEST, BELOW_MIDDLE = 0.8, 0.86
"""The smallest logarithm of the size of a parallel job, and the share of sizes in the lower stage."""

SHORT, LONG = (4.2, 0.94), (312.0, 0.03)
PA, PB = -0.0054, 0.78
"""The gamma distributions of the logarithm of run times, and by size the probability of the first."""

LONGEST = 12.0
"""The largest logarithm of a run time: two days."""

BETWEEN, LONGEST_GAP = (10.2303, 0.4871), 13.0
"""The distribution of the logarithm of a pause, and its largest value: five days."""

BY_TIME_OF_DAY = (8.1737, 3.9631)
BUCKETS, BUCKET, DAY_BEGINS = 48, 1800, 11
"""The gamma distribution of submissions over the half hours of a day, which begins with the bucket ``DAY_BEGINS``."""


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
    """Return the run time, the estimate and the size of a job."""
    size = _size(dice, machine)
    short = dice.random() < min(max(PA * size + PB, 0.0), 1.0)
    run = int(math.exp(min(dice.gammavariate(*(SHORT if short else LONG)), LONGEST))) + 1
    guess = run * (1 if dice.random() < 0.15 else dice.uniform(1, 10))
    estimate = next((one for one in ROUND if one >= guess), ROUND[-1])
    return run, max(run, estimate), size


def _size(dice: random.Random, machine: int) -> int:
    """Return how many units a job takes: one, or a number whose logarithm is uniform in two stages."""
    if machine == 1 or dice.random() < SERIAL:
        return 1
    low, high = SMALLEST, math.log2(machine)
    middle = max(low, high - 2.5)
    power = dice.uniform(low, middle) if dice.random() < BELOW_MIDDLE else dice.uniform(middle, high)
    return min(machine, max(1, round(2 ** (round(power) if dice.random() < POWER_OF_TWO else power))))


def _gaps(dice: random.Random, count: int, span: float) -> list[float]:
    """Return pauses between submissions that add up to ``span``, denser where the daily cycle has more jobs."""
    raw = [math.exp(min(dice.gammavariate(*BETWEEN), LONGEST_GAP)) for _ in range(count)]
    scale = span / sum(raw)
    usual = sum(map(_busyness, range(BUCKETS))) / BUCKETS
    gaps, clock = [], 0.0
    for one in raw:
        gap = one * scale * usual / max(_busyness(int(clock / BUCKET) % BUCKETS), usual / 20)
        gaps.append(gap)
        clock += gap
    stretch = span / sum(gaps)
    return [gap * stretch for gap in gaps]


def _busyness(bucket: int) -> float:
    """Return in proportion how many jobs come in a half hour of the day; the day begins at half past five."""
    at = bucket if bucket >= DAY_BEGINS else bucket + BUCKETS
    shape, scale = BY_TIME_OF_DAY
    return math.exp((shape - 1) * math.log(at / 30) - (at - 30) / scale)
