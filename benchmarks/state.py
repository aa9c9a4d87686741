"""Measure what the state API costs a busy service: 5,000 nodes, 20,000 pods, every list in full.

The service answers over a loopback connection from one event loop, as it does beside the filter verb. While a client in
another process reads a document, a task in that loop repeatedly waits for its turn. The CPU time that the process
spends before the task gets its turn is how long a filter call would wait.

    python -m benchmarks.state [--write]
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.report import PAGES, report, table
from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.cluster.port import Kind, Listed
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.graph.containment import LEVELS
from fluence_extender.http.listeners.serving import Address
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.server import Listeners
from fluence_extender.http.state.app import api_app
from fluence_extender.http.state.service import ServiceState
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources

NODES = 5_000
PODS = 20_000
GANG = 8
ROUNDS = 5
REPORT = PAGES / "state.md"
PATHS = (
    "/v1/gangs",
    "/v1/gangs/default/g77",
    "/v1/allocations",
    "/v1/nodes",
    "/v1/nodes/n77",
    "/v1/backends",
    "/v1/graph",
    "/metrics",
)
_CLIENT = """
import sys, time, urllib.request, json
for line in sys.stdin:
    url = line.strip()
    began = time.perf_counter()
    size = 0
    with urllib.request.urlopen(url, timeout=600) as answer:
        while part := answer.read(1 << 20):
            size += len(part)
    print(json.dumps([time.perf_counter() - began, size]), flush=True)
"""


@dataclass(frozen=True)
class Cost:
    """Seconds that a document took, its bytes, and the longest work between two turns meanwhile, in seconds."""

    path: str
    seconds: float
    size: int
    wait: float

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [
            self.path,
            f"{self.size / 1e6:.2f}",
            f"{self.seconds * 1e3:.0f}",
            f"{self.wait * 1e3:.1f}",
        ]


HEADINGS = ("document", "MB", "ms", "at most at one go, ms of CPU")


def cluster() -> tuple[list[Node], list[Pod]]:
    """Return a cluster that is half full: every node of 64 cores has four pods of 8 cores, in gangs."""
    nodes = [
        Node(
            f"n{number}",
            labels={"topology.kubernetes.io/zone": f"z{number % 10}"},
            allocatable=Resources({"cpu": 64_000, "memory": 256 * 2**30, "pods": 110}),
        )
        for number in range(NODES)
    ]
    requests = Resources({"cpu": 8_000, "memory": 16 * 2**30, "pods": 1})
    pods = [
        Pod(
            "default",
            f"g{number // GANG}-{number % GANG}",
            f"uid-{number:06}",
            labels={GROUP_LABEL: f"g{number // GANG}"},
            annotations={GROUP_SIZE_ANNOTATION: str(GANG)},
            requests=requests,
            node=f"n{number % NODES}",
            phase="Running",
            created=1.78e9 + number,
        )
        for number in range(PODS)
    ]
    return nodes, pods


def controller() -> Controller:
    """Return a service that has taken over this cluster."""
    ledger = Ledger(matcher_setup(choose_engine("embedded"), "lonode", LEVELS))
    made = Controller(ledger)
    nodes, pods = cluster()
    made.observe(Listed(Kind.NODE, tuple(nodes)))
    made.observe(Listed(Kind.POD, tuple(pods)))
    made.start()
    while made.lifecycle.restless:
        made.step()
    return made


class Turns:
    """The most processor time between two turns of the loop since it was last asked, seconds.

    Processor time, because it doesn't count what other programs of the machine take meanwhile.
    """

    def __init__(self) -> None:
        self._longest = 0.0

    async def run(self) -> None:
        """Wait for one turn after another."""
        last = time.process_time()
        while True:
            await asyncio.sleep(0.0005)
            now = time.process_time()
            self._longest = max(self._longest, now - last)
            last = now

    def take(self) -> float:
        """Return the longest wait, and start again."""
        longest, self._longest = self._longest, 0.0
        return longest


async def measure() -> list[Cost]:
    """Measure all documents; return the median of several rounds for each."""
    known = controller()
    driver = Driver(known, EmbeddedCluster())
    placements = LivePlacements(known, driver, lambda: "")
    state = ServiceState(known, placements)
    metrics = Metrics()
    gc.collect()
    gc.freeze()
    turns = Turns()
    ticking = asyncio.create_task(turns.run())
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CLIENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert client.stdin is not None
    assert client.stdout is not None
    found: list[Cost] = []
    at = Address("127.0.0.1", 0)
    async with Listeners(VerbsApp(placements, metrics), api_app(state, metrics), at, at) as listeners:
        await asyncio.sleep(1)
        turns.take()
        await asyncio.sleep(3)
        found.append(Cost("nothing", 0.0, 0, turns.take()))
        for path in PATHS:
            rounds: list[Cost] = []
            for _ in range(ROUNDS):
                turns.take()
                client.stdin.write(f"http://{listeners.api_address}{path}\n".encode())
                seconds, size = json.loads(await client.stdout.readline())
                rounds.append(Cost(path, seconds, size, turns.take()))
            seconds = statistics.median(one.seconds for one in rounds)
            wait = statistics.median(one.wait for one in rounds)
            found.append(Cost(path, seconds, rounds[0].size, wait))
    client.stdin.close()
    await client.wait()
    ticking.cancel()
    known.ledger.close()
    return found


def page(found: Sequence[Cost], where: str) -> str:
    """Return the figures as a page of the documentation."""
    lines = [
        "# The state API on a large cluster",
        "",
        f"Every document in full, with {NODES:,} nodes and {PODS:,} pods in gangs of {GANG}: its size, the time until",
        "a client has read all of it, and the longest processor time before something else in the same event",
        f"loop (a filter call, say) had its turn. Each is the middle of {ROUNDS} rounds.",
        "Made by `python -m benchmarks.state --write`.",
        "",
        f"Machine: {where}.",
        "",
        *table(HEADINGS, found),
        "",
    ]
    return "\n".join(lines)


def measured() -> list[Cost]:
    """Measure all documents, on the loop of the service."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


def main() -> None:
    """Measure, show the figures, and write the page with ``--write``."""
    report(REPORT, "Time the state API on a large cluster.", HEADINGS, measured, page)


if __name__ == "__main__":
    main()
