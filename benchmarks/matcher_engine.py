"""Measure one engine on one cluster under one policy, in its own process, and print the figures as JSON, in seconds.

    python -m benchmarks.matcher_engine ENGINE POLICY NODES FILE REPEAT

``ENGINE`` is ``counts`` (the embedded engine on a document with counts), ``walker`` (the same engine on a document with
a vertex for each leaf), or ``libreapi_cli``. RSS, in MiB, is the memory of the process, and what loading the graph adds
to it.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.matcher_cluster import PRUNE, cluster, slots
from fluence_extender.matcher import Matcher, MatcherOptions, MatchOp, create_matcher
from fluence_extender.matcher.engine import EmbeddedEngine
from fluence_extender.matcher.expansion import expanded
from fluence_extender.matcher.port import Hold

SLOTS = (1, 64, 512)
SHAPES = {"(core, memory)": {"core": 1, "memory": 1}, "(8 core, gpu)": {"core": 8, "gpu": 1}}
STATES = ("empty", "half-full", "fragmented")
_FILLING = {"core": 3, "memory": 3}
_FILLS = 10
_FIRST_FILL = 10**9
"""The first job id of fills; the number of matches never reaches it."""


def create(engine: str, text: str, options: MatcherOptions) -> Matcher:
    return (
        create_matcher("fluxion", text, options)
        if engine == "libreapi_cli"
        else EmbeddedEngine(text, options)
    )


def timed(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of this process, which exclude other load on the machine."""
    start = time.process_time()
    call()
    return time.process_time() - start


def rss() -> float:
    """Return the resident memory of this process in MiB."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def read(matcher: Matcher, spec: dict[str, Any]) -> int:
    """Allocate, read the placement and R, and return the jobid."""
    match = matcher.match(MatchOp.ALLOCATE, spec)
    assert match.placement
    assert match.R
    return match.jobid


def pairs(matcher: Matcher, spec: dict[str, Any], repeat: int) -> tuple[float, float]:
    """Return the median seconds of a match and of its cancel."""
    matches, cancels = [], []
    jobs: list[int] = []
    for _ in range(repeat):
        matches.append(timed(lambda: jobs.append(read(matcher, spec))))
        cancels.append(timed(lambda: matcher.cancel(jobs.pop())))
    return statistics.median(matches), statistics.median(cancels)


def in_state(matcher: Matcher, state: str, nodes: int, repeat: int) -> Iterator[tuple[str, float]]:
    for name, leaves in SHAPES.items():
        for count in SLOTS:
            most = nodes * (4 if "gpu" in leaves else 10)
            if count <= most // 3:
                match, cancel = pairs(matcher, slots(count, **leaves), repeat)
                yield f"{state}: {count} x {name}", match
                if state == "empty" and count == SLOTS[-1] and "memory" in leaves:
                    yield "cancel of 512", cancel


def fill(matcher: Matcher, nodes: int, number: int) -> list[int]:
    """Allocate three cores and units of memory on every node; return the job ids."""
    first = _FIRST_FILL + number * nodes
    holds = [Hold(first + rank, rank, _FILLING) for rank in range(nodes)]
    assert all(isinstance(granted, dict) for granted in matcher.hold_all(holds))
    return [one.jobid for one in holds]


def changes(matcher: Matcher, compact: bool, nodes: int, repeat: int) -> Iterator[tuple[str, float]]:
    adds, removes = [], []
    for number in range(nodes, nodes + repeat):
        branch = cluster(range(number, number + 1))
        document = branch if compact else expanded(branch)
        adds.append(timed(partial(matcher.add_subgraph, document)))
        removes.append(timed(partial(matcher.remove_subgraph, f"/cluster/node{number}")))
    yield "add a node", statistics.median(adds)
    yield "remove a node", statistics.median(removes)


def figures(engine: str, policy: str, nodes: int, file: Path, repeat: int) -> Iterator[tuple[str, float]]:
    options = MatcherOptions(policy=policy, prune_filters=PRUNE)
    text = file.read_text()
    before = rss()
    start = time.process_time()
    matcher = create(engine, text, options)
    yield "load", time.process_time() - start
    del text
    after = rss()
    yield "RSS of the graph, MiB", max(after - before + file.stat().st_size / 2**20, 0.1)
    yield "RSS of the process, MiB", after
    yield from in_state(matcher, "empty", nodes, repeat)
    yield from changes(matcher, engine == "counts", nodes, min(repeat, 5))
    jobs = [fill(matcher, nodes, number) for number in range(_FILLS // 2)]
    yield from in_state(matcher, "half-full", nodes, repeat)
    jobs += [fill(matcher, nodes, number) for number in range(_FILLS // 2, _FILLS)]
    for held in jobs[::2]:
        for jobid in held:
            matcher.cancel(jobid)
    yield from in_state(matcher, "fragmented", nodes, repeat)
    matcher.close()


def main() -> None:
    engine, policy, nodes, file, repeat = sys.argv[1:]
    print(json.dumps(dict(figures(engine, policy, int(nodes), Path(file), int(repeat)))))


if __name__ == "__main__":
    main()
