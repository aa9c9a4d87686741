"""Measure background work on a full cluster of 5,000 nodes and 20,000 pods, and how long other answers wait for it.

The work is a what-if simulation of 9,000 pods (as one gang or as many gangs, which fit or don't), or an audit of the
whole ledger. Meanwhile a task in the same event loop measures how long it waits for its turn.

    python -m benchmarks.beside [--nodes 5000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from benchmarks.preemption import cluster
from benchmarks.stalls import Stalls
from fluence_extender.gangs.leadership.audit import Auditor
from fluence_extender.whatif.simulator import Simulator

PODS = 9_000


def manifest(jobs: int, cpu: str, priority: int = 0, pods: int = PODS) -> bytes:
    """Return that many Jobs with ``pods`` pods together, each pod with ``cpu`` cores."""
    template = {
        "spec": {
            "schedulerName": "fluence",
            "priority": priority,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        }
    }
    sizes = {"parallelism": pods // jobs, "completions": pods // jobs, "completionMode": "Indexed"}
    items = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"job{number}"},
            "spec": {**sizes, "template": template},
        }
        for number in range(jobs)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


async def measured(work: Callable[[], Awaitable[object]]) -> tuple[float, float, float, float]:
    """Return the seconds and CPU seconds of the work, and how long others wait: in all, and for the loop itself."""
    stalls = Stalls()
    watch = asyncio.get_running_loop().create_task(stalls.run())
    await asyncio.sleep(0.05)
    stalls.wall = stalls.own = 0.0
    began, cpu = time.perf_counter(), time.process_time()
    await work()
    took, spent = time.perf_counter() - began, time.process_time() - cpu
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch
    return took, spent, stalls.wall, stalls.own


async def measure(nodes: int, rounds: int) -> None:
    """Measure and print a table in Markdown."""
    controller = cluster(nodes, time.monotonic)
    gc.collect()
    gc.freeze()
    simulator, auditor = Simulator(controller), Auditor(controller, lambda _: None)
    cases: dict[str, Callable[[], Awaitable[object]]] = {
        "nothing": lambda: asyncio.sleep(0.5),
        "audit": auditor.audit,
        "what if: a gang of 9,000 that fits": lambda: simulator.answer(manifest(1, "1")),
        "what if: 900 gangs of 10 that fit": lambda: simulator.answer(manifest(900, "1")),
        "what if: a gang of 9,000 that doesn't fit": lambda: simulator.answer(manifest(1, "12")),
        "what if: 900 gangs of 10 that don't fit": lambda: simulator.answer(manifest(900, "12")),
        "what if: a gang of 64 that would preempt": lambda: simulator.answer(manifest(1, "12", 9, 64)),
        "what if: a gang of 9,000 that would preempt": lambda: simulator.answer(manifest(1, "6", 9)),
        "what if: 900 gangs of 10 that would preempt": lambda: simulator.answer(manifest(900, "6", 9)),
    }
    print(
        f"| {nodes:,} nodes | s | CPU s | others wait at most, ms | of which for the loop itself, ms of CPU |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, work in cases.items():
        runs = [await measured(work) for _ in range(rounds)]
        took, spent, wall, own = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"| {name} | {took:.2f} | {spent:.2f} | {wall * 1000:.0f} | {own * 1000:.1f} |")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    uvloop.run(measure(given.nodes, given.rounds))


if __name__ == "__main__":
    main()
