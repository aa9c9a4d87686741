"""Measure matching: the embedded engine on counts, its walker, and libreapi_cli where it is installed.

All engines get the same requests in one run, including reading the placement and R, so that their ratios hold on any
machine. The walker is left out above ``--walker-limit`` nodes and libreapi_cli above ``--library-limit``, because both
need a vertex for each leaf.

    python -m benchmarks.matcher [--nodes 100,1000] [--policies lonode] [--write]

``--write`` also writes docs/benchmarks/matcher.md and matcher.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.matcher_cluster import cluster
from benchmarks.matcher_page import Measured, plot, report
from fluence_extender.matcher.expansion import MOST_WRITTEN, expanded
from fluxion_ffi import LibraryUnavailable, open_library

POLICIES = ("first", "lonode", "hinode")
ENGINES = ("counts", "walker", "libreapi_cli")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "matcher.md"
_MANY = 1_000


def engines(size: int, asked: argparse.Namespace) -> Iterator[str]:
    """Return the engines that are measured at a size."""
    for engine in asked.engines.split(","):
        if engine == "walker" and size > asked.walker_limit:
            continue
        if engine == "libreapi_cli" and (size > asked.library_limit or not has_library()):
            continue
        yield engine


def has_library() -> bool:
    try:
        open_library()
    except LibraryUnavailable:
        return False
    return True


def repeats(engine: str, size: int) -> int:
    """Return how often each call is made; its median counts."""
    if engine == "counts":
        return 15
    return 2 if size >= _MANY else 5


def measure(size: int, asked: argparse.Namespace, folder: Path) -> Measured:
    """Return the figures of one size, by policy and engine."""
    compact = cluster(range(size))
    files = {"counts": folder / "counts.json", "units": folder / "units.json"}
    files["counts"].write_text(json.dumps(compact))
    chosen = list(engines(size, asked))
    if chosen != ["counts"]:
        files["units"].write_text(json.dumps(expanded(compact, MOST_WRITTEN)))
    del compact
    found: Measured = {}
    for policy in asked.policies.split(","):
        for engine in chosen:
            command = [sys.executable, "-m", "benchmarks.matcher_engine", engine, policy, str(size)]
            command += [str(files.get(engine, files["units"])), str(repeats(engine, size))]
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.setdefault(policy, {})[engine] = json.loads(run.stdout)
            print(f"{size:,} nodes, {policy}, {engine}: done", file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measure, show the figures, and write the page with ``--write``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="100,1000,5000,15000", help="cluster sizes, separated by commas")
    parser.add_argument("--policies", default=",".join(POLICIES), help="match policies, separated by commas")
    parser.add_argument("--engines", default=",".join(ENGINES), help="engines, separated by commas")
    parser.add_argument("--walker-limit", type=int, default=1_000, help="largest cluster for the walker")
    parser.add_argument("--library-limit", type=int, default=5_000, help="largest one for libreapi_cli")
    parser.add_argument("--write", action="store_true", help="also write docs/benchmarks/matcher.{md,svg}")
    asked = parser.parse_args()
    chosen = asked.engines.split(",")
    if "counts" not in chosen or not set(chosen) <= set(ENGINES):
        parser.error(
            f"--engines: counts, which the others are compared with, and any of {', '.join(ENGINES[1:])}"
        )
    measured: dict[int, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, asked.nodes.split(",")):
            measured[size] = measure(size, asked, Path(folder))
    text = report(measured)
    print(text)
    if asked.write:
        PAGE.write_text(text + "\n")
        PAGE.with_suffix(".svg").write_text(plot(measured))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
