"""What the service answers while passes over the waiting gangs run without a break.

The whole service runs on an embedded cluster, with its listeners, as in production. A pod of a running gang ends and
starts again some times in a second, so passes follow each other. Meanwhile another process calls filter for a pod that
has its place, and single pods are created one after the other.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle

import uvloop

from benchmarks.queue.costs import Cost, default_queue, empty_nodes, running_gangs, waiting_gang
from fluence_extender.apps.extender.app import serving
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.port import Changed, Observation, Regarding
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GATE, SCHEDULER_NAME
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import PolicyName

CALLS = 1000
PAUSE = 0.005
"""Seconds between two calls of filter."""

SINGLES = 20
TURN = 0.05
"""Seconds for which a running pod is gone."""

REQUESTS = Resources({"cpu": 100, "memory": 2**20, "pods": 1})
LONGEST = 60.0
"""Seconds that a pod may take until it has its node."""

SETTLING = 40.0
"""Seconds for the first passes and their Events."""

WRITE = 0.005
"""Seconds that a write to the API server takes."""

POD = ("team", "called")
HEADINGS = ("what", "median", "99th percentile")


class _DistantCluster(EmbeddedCluster):
    """An embedded cluster whose reports take as long as an API server's."""

    async def report_pod(
        self, pod: Pod, message: str, asks_since: float = 0.0, met: Collection[str] = ()
    ) -> None:
        """See `EmbeddedCluster.report_pod`."""
        await asyncio.sleep(WRITE)
        await super().report_pod(pod, message, asks_since, met)

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `EmbeddedCluster.event`."""
        await asyncio.sleep(WRITE)
        await super().event(regarding, reason, message, warning)


def measure(nodes: int, waiting: int, running: int, policy: PolicyName) -> list[Cost]:
    """Return what filter and the start of single pods take under a policy."""
    return uvloop.run(_measure(nodes, waiting, running, policy))


async def _measure(nodes: int, waiting: int, running: int, policy: PolicyName) -> list[Cost]:
    dice = random.Random(nodes)
    there = running_gangs(dice, nodes, running)
    cluster = _DistantCluster(
        *empty_nodes(nodes),
        default_queue(policy),
        *(pod for gang in there for pod in gang),
        *(pod for number in range(waiting) for pod in waiting_gang(dice, number)),
    )
    settings = Settings(engine="embedded", port=0, api_port=0, completion_limit=None, assembly_limit=None)
    async with serving(settings, EmbeddedSession(cluster), asyncio.Event()) as listeners:
        cluster.put(_pod(POD[1], SCHEDULER_NAME))
        await asyncio.sleep(SETTLING)
        name, verbs = f"{policy.value}:", str(listeners.verbs_address)
        found = [_summary(f"{name} filter while no pass runs", await _called(verbs))]
        async with _passes(cluster, there):
            found.append(_summary(f"{name} filter while passes run", await _called(verbs)))
            single = [await _start(cluster, number) for number in range(SINGLES)]
            found.append(_summary(f"{name} a single pod until it has its node", single))
    return found


def _pod(name: str, scheduler: str) -> Pod:
    gates = () if scheduler == DIRECT_SCHEDULER_NAME else (GATE,)
    return Pod(
        POD[0],
        name,
        name,
        gates=gates,
        requests=REQUESTS,
        scheduler=scheduler,
        created=time.time(),
        duration=60.0,
    )


@asynccontextmanager
async def _passes(cluster: EmbeddedCluster, there: list[list[Pod]]) -> AsyncIterator[None]:
    """End a member of a gang again and again within this context, and start it again, so that all gangs are tried."""

    async def end_one_after_the_other() -> None:
        for number, gang in enumerate(cycle(there)):
            pod = gang[0]
            cluster.remove(pod)
            await asyncio.sleep(TURN)
            cluster.put(replace(pod, uid=f"{pod.name}+{number}"))

    task = asyncio.create_task(end_one_after_the_other())
    try:
        yield
    finally:
        task.cancel()


async def _start(cluster: EmbeddedCluster, number: int) -> float:
    """Return the milliseconds from the creation of a single pod until it is bound."""
    bound = asyncio.Event()
    pod = _pod(f"single-{number}", DIRECT_SCHEDULER_NAME)

    def sink(seen: Observation) -> None:
        shown = seen.object if isinstance(seen, Changed) else None
        if isinstance(shown, Pod) and shown.uid == pod.uid and shown.node:
            bound.set()

    cluster.watch(sink)
    try:
        await asyncio.sleep(random.uniform(0, 0.5))
        began = time.perf_counter()
        cluster.put(pod)
        async with asyncio.timeout(LONGEST):
            await bound.wait()
        return (time.perf_counter() - began) * 1000
    finally:
        cluster.unwatch(sink)


async def _called(address: str) -> list[float]:
    """Return the milliseconds of calls of filter, by another process."""
    words = ("-m", "benchmarks.queue.beside_passes", address)
    caller = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    output, _ = await caller.communicate()
    times: list[float] = json.loads(output)
    return times


def _summary(what: str, times: list[float]) -> Cost:
    return Cost(what, statistics.median(times), statistics.quantiles(times, n=100)[98])


def _call(address: str) -> list[float]:
    """Call filter again and again."""
    connection = http.client.HTTPConnection(address)
    namespace, name = POD
    pod = {
        "metadata": {"namespace": namespace, "name": name, "uid": name},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": []},
    }
    body = json.dumps({"Pod": pod, "NodeNames": [f"n{number}" for number in range(100)]})
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        times.append((time.perf_counter() - began) * 1000)
        if answer.status != 200:
            raise SystemExit(content.decode())
        time.sleep(PAUSE)
    return times


if __name__ == "__main__":
    print(json.dumps(_call(sys.argv[1])))
