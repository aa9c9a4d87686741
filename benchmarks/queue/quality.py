"""What the decisions of the queue are worth on a workload, under some policies and beside textbook EASY.

The product decides on a virtual clock: its order, timeline, reservations and planner (`tests.queueing.cluster`).

* mean bounded slowdown: (wait + run) / run, at least 1, with a run of at least 10 s
* utilization: the share of the machine that is used from the first submission to the last start
* wait of the widest: the 99th percentile among the tenth of the jobs that ask for the most
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fluence_extender.objects.queues import PolicyName
from tests.queueing.jobs import TraceJob, generated
from tests.queueing.reference import Discipline, starts
from tests.queueing.simulation import simulate

SHORTEST = 10
PRODUCT = (
    ("fcfs", PolicyName.FCFS, None),
    ("easy", PolicyName.EASY, None),
    ("easy, no reservations", PolicyName.EASY, 0),
    ("hybrid, 8 reservations", PolicyName.HYBRID, 8),
)
"""The policies that are simulated, with their numbers of reservations."""

HEADINGS = ("scheduler", "mean bounded slowdown", "utilization", "wait of the widest, p99")


@dataclass(frozen=True, slots=True)
class Quality:
    """The figures of one scheduler."""

    scheduler: str
    slowdown: float
    utilization: float
    wait: float

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [
            self.scheduler,
            f"{self.slowdown:.2f}",
            f"{self.utilization:.1%}",
            f"{self.wait / 3600:.2f} h",
        ]


def judge(scheduler: str, jobs: Sequence[TraceJob], started: Sequence[int], machine: int) -> Quality:
    """Return the figures of a scheduler that started each job at a time."""
    start, run = np.array(started), np.array([job.run for job in jobs])
    submit, size = np.array([job.submit for job in jobs]), np.array([job.size for job in jobs])
    waits = start - submit
    slowdowns = np.maximum((waits + run) / np.maximum(run, SHORTEST), 1)
    first, last = submit.min(), start.max()
    used = (np.minimum(start + run, last) - start) * size
    widest = waits[size >= np.quantile(size, 0.9)]
    return Quality(
        scheduler,
        float(slowdowns.mean()),
        float(used.sum() / max(machine * (last - first), 1)),
        float(np.quantile(widest, 0.99)),
    )


def compare(jobs: Sequence[TraceJob], machine: int) -> dict[str, list[int]]:
    """Return when each job starts under the references and under the product, on nodes that jobs take whole."""
    found = {f"reference {one.value}": starts(jobs, machine, one) for one in Discipline}
    for name, policy, depth in PRODUCT:
        found[name] = simulate(jobs, machine, 1, policy, depth)
    return found


def worth_of_reservations(count: int, machine: int, load: float, seeds: int) -> list[Quality]:
    """Return the figures of EASY over those of first fit, for a generated workload of each seed.

    Both are the references', which start each job when the product does.
    """
    found: list[Quality] = []
    for seed in range(1, seeds + 1):
        jobs = generated(count, machine, load, seed)
        easy, first_fit = (
            judge("", jobs, starts(jobs, machine, one), machine)
            for one in (Discipline.EASY, Discipline.FIRST_FIT)
        )
        found.append(
            Quality(
                f"seed {seed}",
                easy.slowdown / first_fit.slowdown,
                easy.utilization / first_fit.utilization,
                easy.wait / first_fit.wait,
            )
        )
    return found


def waits(jobs: Sequence[TraceJob], started: Sequence[int]) -> list[float]:
    """Return how long each job waits."""
    return [float(start - job.submit) for start, job in zip(started, jobs, strict=True)]
