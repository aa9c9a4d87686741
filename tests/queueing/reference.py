"""FCFS, EASY backfilling and first fit on one resource, as the textbook has them, to compare with.

It shares no code with the product. A machine is a number of units, a job takes some of them. Under EASY the first job
that doesn't fit gets the shadow time: when enough units will be free according to the estimates. Units that it will
leave over then are extra. A later job starts now if it fits, and either ends by the shadow time or needs no more than
the extra units. Under first fit nothing is kept free for anybody: each job starts as soon as it fits.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from enum import Enum

from tests.queueing.jobs import TraceJob


class Discipline(Enum):
    """Which jobs may start before the first one of the queue."""

    FCFS = "FCFS"
    EASY = "EASY"
    FIRST_FIT = "first fit"


def starts(jobs: Sequence[TraceJob], machine: int, discipline: Discipline) -> list[int]:
    """Return when each job starts. ``jobs`` are in the order of submission, which is the order of the queue."""
    return _Machine(jobs, machine, discipline).run()


class _Machine:
    def __init__(self, jobs: Sequence[TraceJob], machine: int, discipline: Discipline) -> None:
        self.jobs = jobs
        self.free = machine
        self.discipline = discipline
        self.started = [-1] * len(jobs)
        self.queue: list[int] = []
        self.running: set[int] = set()
        self.ends: list[tuple[int, int]] = []

    def run(self) -> list[int]:
        coming = 0
        while coming < len(self.jobs) or self.ends:
            times = [self.ends[0][0]] if self.ends else []
            if coming < len(self.jobs):
                times.append(self.jobs[coming].submit)
            now = min(times)
            while self.ends and self.ends[0][0] == now:
                _, job = heapq.heappop(self.ends)
                self.running.discard(job)
                self.free += self.jobs[job].size
            while coming < len(self.jobs) and self.jobs[coming].submit == now:
                self.queue.append(coming)
                coming += 1
            self.schedule(now)
        return self.started

    def schedule(self, now: int) -> None:
        while self.queue and self.jobs[self.queue[0]].size <= self.free:
            self.start(self.queue[0], now)
        if not self.queue or self.discipline is Discipline.FCFS:
            return
        shadow, extra = math.inf, 0
        if self.discipline is Discipline.EASY:
            shadow, extra = self.shadow(self.jobs[self.queue[0]].size)
        for job in self.queue[1:]:
            size = self.jobs[job].size
            if size > self.free:
                continue
            if now + self.jobs[job].estimate <= shadow:
                self.start(job, now)
            elif size <= extra:
                extra -= size
                self.start(job, now)

    def start(self, job: int, now: int) -> None:
        self.queue.remove(job)
        self.started[job] = now
        self.free -= self.jobs[job].size
        self.running.add(job)
        heapq.heappush(self.ends, (now + self.jobs[job].run, job))

    def shadow(self, size: int) -> tuple[int, int]:
        """Return when the first job can start, and how many units are left over then."""
        free = self.free
        expected = sorted((self.started[job] + self.jobs[job].estimate, job) for job in self.running)
        for number, (end, job) in enumerate(expected):
            free += self.jobs[job].size
            last = number + 1 == len(expected) or expected[number + 1][0] > end
            if free >= size and last:
                return end, free - size
        raise AssertionError("the job is larger than the machine")
