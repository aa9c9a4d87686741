"""The queue under a virtual clock: jobs of a trace are submitted, started as it decides, and end when they end."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from fluence_extender.queueing.engine import QueueEngine, Start
from fluence_extender.queueing.entry import Entry, Slots
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.jobs import TraceJob
from tests.queueing.planner import FirstFit


def simulate(
    jobs: Sequence[TraceJob], nodes: int, units: int, policy: PolicyName, depth: int | None = None
) -> list[int]:
    """Return when each job starts on so many nodes of so many units; ``jobs`` are in the order of submission."""
    room = np.full((nodes, 1), units, dtype=np.int64)
    queue = QueueEngine(Timeline(room), FirstFit(), QueuePolicy(policy, depth))
    started = [-1] * len(jobs)
    ends: list[tuple[int, int]] = []
    coming = 0
    while coming < len(jobs) or ends:
        now = min([end for end, _ in ends[:1]] + [job.submit for job in jobs[coming : coming + 1]])
        while ends and ends[0][0] == now:
            queue.release(str(heapq.heappop(ends)[1]))
        while coming < len(jobs) and jobs[coming].submit == now:
            job = jobs[coming]
            queue.submit(Entry(str(coming), (Slots(job.size, (1,)),), (now, coming), job.estimate))
            coming += 1
        for decision in queue.decide(now):
            if isinstance(decision, Start):
                number = int(decision.entry.key)
                started[number] = now
                heapq.heappush(ends, (now + jobs[number].run, number))
    return started
