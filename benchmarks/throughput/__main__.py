"""Measure throughput, and write the page.

    python -m benchmarks.throughput [--write] [--nodes 1000 5000] [--workloads single gang512] [--modes burst]

Creating 5,000 nodes takes about a minute on an idle machine, and the whole run an hour and a quarter. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.throughput.contenders import Contender, Fluence, StockScheduler
from benchmarks.throughput.figures import Figure, Figures, figure
from benchmarks.throughput.measure import Bench, Outcome, TooSlow
from benchmarks.throughput.page import MODES, OURS, STOCK, page, plots
from benchmarks.throughput.policies import ACCOUNT, policies, shipped
from benchmarks.throughput.scale import cost_by_size
from benchmarks.throughput.workloads import STREAM, WORKLOADS, Workload
from tests.localcluster import ControlPlane

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
PAGE, FIGURES = FOLDER / "throughput.md", FOLDER / "throughput.json"
SIZES = (1_000, 5_000)
SCALE_SIZES = (1_000, 5_000, 15_000)
SCALE_GANGS = {
    "single pods": (300, 1),
    "gangs of 3": (150, 3),
    "gangs of 50": (6, 50),
    "a gang of 512": (1, 512),
}
STREAM_RATE = 50.0
CONTENDERS = 2

console = Console()


def main() -> None:
    """Measure what the arguments select, and print it or write it."""
    arguments = _arguments()
    figures = Figures.load(FIGURES)
    if arguments.scale:
        figures.scale = cost_by_size(SCALE_SIZES, SCALE_GANGS)
    for nodes in arguments.nodes:
        workloads = [
            one.part(arguments.part) for one in (*WORKLOADS, STREAM) if one.name in arguments.workloads
        ]
        for one in _measure(nodes, workloads, arguments.modes, arguments.engine, arguments.rounds):
            figures.add(one)
            if arguments.write:
                figures.save(FIGURES)
    text = page(figures)
    if not arguments.write:
        console.print(text, markup=False)
        return
    figures.save(FIGURES)
    PAGE.write_text(text)
    for name, drawn in plots(figures):
        (FOLDER / name).write_text(drawn)


def _arguments() -> argparse.Namespace:
    names = [one.name for one in (*WORKLOADS, STREAM)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, its plots and figures")
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--part", type=float, default=1.0, help="of each workload's gangs, for a shorter run")
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--rounds", type=int, default=3, help="of each, of which the middle one counts")
    parser.add_argument("--scale", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def _measure(
    nodes: int, workloads: Sequence[Workload], modes: Sequence[str], engine: str, rounds: int
) -> Iterator[Figure]:
    """Measure each workload in each mode, both contenders in turn and in random order; keep the median round."""
    with ControlPlane() as plane:
        for manifest in shipped(*ACCOUNT):
            plane.api.apply(manifest)
        console.print(f"making {nodes:,} nodes")
        plane.add_nodes(nodes, cpu=32, memory="128Gi", timeout=900)
        bench = Bench(plane)
        for mode in modes:
            for workload in workloads:
                if not _applies(workload, mode):
                    continue
                taken = [
                    list(_round(plane, bench, nodes, _contenders(plane, engine, workload), workload, mode))
                    for _ in range(rounds)
                ]
                yield from _middle(taken)


def _applies(workload: Workload, mode: str) -> bool:
    """Return whether the workload is measured in this mode.

    Without the service its Jobs have no pods yet, so no pods would be there beforehand.
    """
    if workload.name == STREAM.name or mode == "stream":
        return workload.name == STREAM.name and mode == "stream"
    return mode == "burst" or not workload.jobs


def _round(
    plane: ControlPlane,
    bench: Bench,
    nodes: int,
    contenders: Sequence[Contender],
    workload: Workload,
    mode: str,
) -> Iterator[Figure]:
    """Return a figure for each contender that isn't too slow."""
    for contender in contenders:
        try:
            with policies(plane, contender.name == OURS):
                outcome = _run(bench, contender, workload, mode)
        except TooSlow as slow:
            console.print(f"left out: {slow}", markup=False)
            continue
        found = figure(nodes, outcome)
        console.print(found, markup=False)
        yield found


def _contenders(plane: ControlPlane, engine: str, workload: Workload) -> list[Contender]:
    ours = Fluence(plane, engine, StockScheduler(plane) if workload.foreign_every else None)
    contenders: list[Contender] = [StockScheduler(plane), ours]
    random.shuffle(contenders)
    return contenders


def _middle(rounds: Sequence[Sequence[Figure]]) -> Sequence[Figure]:
    """The round in the middle by how much more one contender's processes took than the other's.

    Both figures are of one round, a minute apart, so that the machine was as quick for both. Where a contender was
    left out of every round, the last round stands for it.
    """
    whole = [one for one in rounds if len(one) == CONTENDERS]
    return sorted(whole, key=_ratio)[len(whole) // 2] if whole else rounds[-1]


def _ratio(found: Sequence[Figure]) -> float:
    took = {one.contender: sum(one.cpu.values()) for one in found}
    return took[OURS] / took[STOCK]


def _run(bench: Bench, contender: Contender, workload: Workload, mode: str) -> Outcome:
    match mode:
        case "burst":
            return bench.burst(contender, workload)
        case "backlog":
            return bench.backlog(contender, workload)
        case _:
            return bench.stream(contender, workload, STREAM_RATE)


if __name__ == "__main__":
    main()
