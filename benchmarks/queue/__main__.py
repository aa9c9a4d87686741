"""Measure the queue: what its decisions are worth on a workload, and what they cost on a large cluster.

The workload is generated, or read from a file in the Standard Workload Format.

    python -m benchmarks.queue [--jobs 1000] [--machine 128] [--load 0.9] [--swf FILE] [--plot FILE]
    python -m benchmarks.queue --seeds 8 [--jobs 3000]
    python -m benchmarks.queue --costs [--nodes 5000] [--waiting 10000] [--running 2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.queue import beside_passes, costs, quality, swf
from benchmarks.queue.plot import curves
from benchmarks.report import Figures, machine
from tests.queueing.jobs import generated


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs of the workload are simulated")
    parser.add_argument("--machine", type=int, default=128, help="nodes of the generated workload's machine")
    parser.add_argument("--load", type=float, default=0.9, help="the share of it that the jobs would use")
    parser.add_argument("--swf", type=Path, help="a workload in the Standard Workload Format")
    parser.add_argument("--plot", type=Path, help="an SVG file to draw the waits in")
    parser.add_argument(
        "--seeds", type=int, help="compare EASY with first fit on so many generated workloads"
    )
    parser.add_argument("--costs", action="store_true", help="measure what the queue costs instead")
    parser.add_argument(
        "--beside-passes",
        action="store_true",
        help="measure what the service answers while passes run instead",
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=2000)
    asked = parser.parse_args()
    if asked.costs:
        for policy in (costs.EASY, costs.HYBRID):
            show(costs.HEADINGS, costs.measure(asked.nodes, asked.waiting, asked.running, policy))
        return
    if asked.beside_passes:
        for policy in (costs.EASY, costs.HYBRID):
            answered = beside_passes.measure(asked.nodes, asked.waiting, asked.running, policy)
            show(beside_passes.HEADINGS, answered)
        return
    if asked.seeds:
        for one in quality.worth_of_reservations(asked.jobs, asked.machine, asked.load, asked.seeds):
            print(
                f"{one.scheduler}: slowdown {one.slowdown:.2f}, utilization {one.utilization:.3f}, wait {one.wait:.2f}"
            )
        return
    jobs, size = generated(asked.jobs, asked.machine, asked.load, seed=1), asked.machine
    if asked.swf is not None:
        jobs, size = swf.read(asked.swf, asked.jobs)
    found = quality.compare(jobs, size)
    show(quality.HEADINGS, [quality.judge(name, jobs, started, size) for name, started in found.items()])
    if asked.plot is not None:
        title = f"{len(jobs)} jobs on {size} nodes"
        drawn = curves(title, {name: quality.waits(jobs, started) for name, started in found.items()})
        asked.plot.write_text(drawn, encoding="utf-8")


def show(headings: Sequence[str], found: Sequence[Figures]) -> None:
    """Show a table on the terminal."""
    shown = Table(title=machine())
    for heading in headings:
        shown.add_column(heading, justify="right")
    for one in found:
        shown.add_row(*one.row())
    Console(width=150).print(shown)


if __name__ == "__main__":
    main()
