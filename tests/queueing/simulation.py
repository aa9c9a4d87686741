"""The product under a virtual clock: jobs of a trace are submitted, started as it decides, and end when they end."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from fluence_extender.objects.queues import PolicyName
from tests.queueing.cluster import Cluster, machine, rules
from tests.queueing.jobs import TraceJob


def simulate(
    jobs: Sequence[TraceJob], nodes: int, units: int, policy: PolicyName, depth: int | None = None
) -> list[int]:
    """Return when each job starts on so many nodes of so many units; ``jobs`` are in the order of submission."""
    cluster = Cluster(machine(*[units] * nodes), rules(policy, depth))
    started = [-1] * len(jobs)
    ends: list[tuple[int, int]] = []
    coming = 0
    while coming < len(jobs) or ends:
        now = min([end for end, _ in ends[:1]] + [job.submit for job in jobs[coming : coming + 1]])
        cluster.now = now
        while ends and ends[0][0] == now:
            cluster.end(str(heapq.heappop(ends)[1]))
        while coming < len(jobs) and jobs[coming].submit == now:
            cluster.submit(str(coming), jobs[coming].size, 1, jobs[coming].estimate)
            coming += 1
        for name in cluster.decide(now):
            started[int(name)] = now
            heapq.heappush(ends, (now + jobs[int(name)].run, int(name)))
    return started
