"""Measure other gang schedulers beside this project, and write the page.

    python -m benchmarks.peers [--write] [--nodes 1000] [--workloads gang512] [--contests halves] [--contenders ...]

Programs that aren't built yet are built first, which takes minutes each. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.peers.contests import CORES, HALVES, MIXED, TOO_LARGE, Arena
from benchmarks.peers.coscheduling import Coscheduling
from benchmarks.peers.figures import PeerFigures
from benchmarks.peers.kueue import KueueJobs
from benchmarks.peers.native import NativeGangs
from benchmarks.peers.page import OURS, page
from benchmarks.peers.volcano import Volcano
from benchmarks.throughput.contenders import Contender, Fluence, StockScheduler
from benchmarks.throughput.figures import Figure, figure
from benchmarks.throughput.measure import Bench, TooSlow
from benchmarks.throughput.policies import ACCOUNT, policies, shipped
from benchmarks.throughput.workloads import WORKLOADS, Workload
from tests.localcluster import ControlPlane, LocalClusterError

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
PAGE, FIGURES = FOLDER / "peers.md", FOLDER / "peers.json"
MEASURED = ("gang512", "gangs50", "single", "job512", "jobs50")
CONTESTS = (HALVES, MIXED, TOO_LARGE)

CONTENDERS: dict[str, Callable[[ControlPlane], Contender]] = {
    "stock": StockScheduler,
    "fluence": lambda plane: Fluence(plane, "embedded"),
    NativeGangs.name: NativeGangs,
    Coscheduling.name: Coscheduling,
    Volcano.name: Volcano,
    KueueJobs.name: lambda plane: KueueJobs(plane, Bench.NAMESPACE),
}
OF_JOBS = (KueueJobs.name,)
"""These know no gangs but Jobs."""
ALWAYS = ("stock", "fluence")
"""Every run measures these, because figures are compared within a run."""

console = Console()


def main() -> None:
    """Measure what the arguments select, and print it or write it."""
    arguments = _arguments()
    figures = PeerFigures.load(FIGURES)

    def save() -> None:
        if arguments.write:
            figures.save(FIGURES)
            PAGE.write_text(page(figures))

    for nodes in arguments.nodes:
        workloads = [one.part(arguments.part) for one in WORKLOADS if one.name in arguments.workloads]
        names = [name for name in CONTENDERS if name in ALWAYS or name in arguments.contenders]
        with ControlPlane() as plane:
            for manifest in shipped(*ACCOUNT):
                plane.api.apply(manifest)
            console.print(f"making {nodes:,} nodes")
            plane.add_nodes(nodes, cpu=CORES, memory="128Gi", timeout=900)
            bench = Bench(plane)
            names = _able(plane, names, figures)
            of_gangs = [name for name in names if name not in OF_JOBS]
            for workload in workloads:
                measured = names if workload.jobs else of_gangs
                figures.forget(nodes, workload.name, measured, ALWAYS)
                for _ in range(arguments.rounds):
                    _round(plane, bench, nodes, measured, workload, figures)
                    save()
            arena = Arena(bench, plane.api, nodes)
            for contest in arguments.contests:
                for name in of_gangs:
                    with (
                        _noted(figures, f"{name}, {contest} at {nodes:,} nodes"),
                        policies(plane, name == OURS),
                    ):
                        held = arena.hold(CONTENDERS[name](plane), contest)
                        console.print(held, markup=False)
                        figures.add_contest(held)
                    save()
    save()
    if not arguments.write:
        console.print(page(figures), markup=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} and its figures")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_000])
    parser.add_argument("--workloads", nargs="*", choices=MEASURED, default=MEASURED)
    parser.add_argument("--contests", nargs="*", choices=CONTESTS, default=CONTESTS)
    parser.add_argument("--contenders", nargs="*", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--part", type=float, default=1.0, help="of each workload's gangs, for a shorter run")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each workload, of which the middle one counts"
    )
    return parser.parse_args()


@contextmanager
def _noted(figures: PeerFigures, what: str) -> Iterator[None]:
    """Note why ``what`` failed, if it does, and forget that it failed before."""
    figures.failures.pop(what, None)
    try:
        yield
    except (LocalClusterError, TooSlow) as error:
        console.print(f"left out: {what}: {error}", markup=False)
        figures.failures[what] = str(error)


def _able(plane: ControlPlane, names: Sequence[str], figures: PeerFigures) -> list[str]:
    """Return the contenders that start; note why the others don't."""
    for name in names:
        contender = CONTENDERS[name](plane)
        with _noted(figures, name):
            try:
                contender.start()
            finally:
                contender.stop()
    return [name for name in names if name not in figures.failures]


def _round(
    plane: ControlPlane,
    bench: Bench,
    nodes: int,
    names: Sequence[str],
    workload: Workload,
    figures: PeerFigures,
) -> None:
    """Measure each contender once, in random order."""
    found: list[Figure] = []
    for name in random.sample(names, len(names)):
        with (
            _noted(figures, f"{name}, {workload.name} at {nodes:,} nodes"),
            policies(plane, name == OURS),
        ):
            found.append(figure(nodes, bench.burst(CONTENDERS[name](plane), workload)))
            console.print(found[-1], markup=False)
    figures.add_round(nodes, workload.name, found)


if __name__ == "__main__":
    main()
