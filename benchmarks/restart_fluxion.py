"""Measure how much of a start with libreapi_cli the library takes, and how much the code around it.

It loads the graph and holds what the pods use on each node, as the library's own process does at a start, in one
process whose calls into the library are timed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import fluxion_ffi
from fluence_extender.engine.graph_worker import PRUNE_FILTERS, GraphWorker, shared_policy
from fluence_extender.engine.jobspec import compute_jobspec
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import unit_jgf
from fluence_extender.graph.units import request_counts
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

GIB = 2**30
IMPORTS = "import fluence_extender.engine.graph_worker"

Made = TypeVar("Made")


class TimedLibrary:
    """A library that measures how many seconds of CPU time its calls have taken."""

    def __init__(self, library: fluxion_ffi.Library) -> None:
        self._library = library
        self.seconds = 0.0

    def call(self, *arguments: Any) -> Any:
        """See `fluxion_ffi.Library.call`."""
        began = time.process_time()
        try:
            return self._library.call(*arguments)
        finally:
            self.seconds += time.process_time() - began

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def _spent(work: Callable[[], Made], library: TimedLibrary) -> tuple[Made, float, float]:
    """Return the result of ``work``, and the seconds of CPU time that it spent in the library and around it."""
    began, before = time.process_time(), library.seconds
    made = work()
    inside = library.seconds - before
    return made, inside, time.process_time() - began - inside


def _imports() -> float:
    """Return the seconds that the imports of the library's process take, measured in a fresh process."""
    script = f"import time; began = time.process_time(); {IMPORTS}; print(time.process_time() - began)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return float(done.stdout)


def parts(nodes: int, pods: int) -> str:
    """Return a table of the CPU time of a start, on ``nodes`` of 32 cores and 128 GiB with ``pods`` pods."""
    allocatable = Resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
    containment = build_containment(
        Node(f"node-{number}", allocatable=allocatable) for number in range(nodes)
    )
    library = TimedLibrary(fluxion_ffi.open_library())
    stand_in: Any = library
    options = fluxion_ffi.GraphOptions(matcher_policy=shared_policy("lonode"), prune_filters=PRUNE_FILTERS)
    graph, loading, preparing = _spent(
        lambda: fluxion_ffi.ResourceGraph(stand_in, unit_jgf(containment), options), library
    )
    worker = GraphWorker(graph)
    ranks = [containment.vertex(path).rank for path in containment.nodes.values()]
    holds = [
        (rank, compute_jobspec(request_counts(used), 1, (rank,)))
        for rank, used in zip(ranks, _in_use(nodes, pods), strict=True)
        if used
    ]
    refused, holding, asking = _spent(lambda: worker.apply((), holds), library)
    worker.close()
    assert not refused
    vertices = sum(containment.vertex(path).count for path in containment.walk())
    return f"""Of that the library's own process, in seconds of CPU time:

| | in libreapi_cli | around it |
|---|---:|---:|
| imports of its process | | {_imports():.2f} |
| load of {vertices:,} vertices | {loading:.2f} | {preparing:.2f} |
| {len(holds):,} holds, one match each | {holding:.2f} | {asking:.2f} |

The library makes a vertex of each core and GiB. A hold is what all pods of one node use together, and a match that the
library walks the graph for.
"""


def _in_use(nodes: int, pods: int) -> list[Resources]:
    """Return what the pods of the benchmark use on each node."""
    used: list[Counter[str]] = [Counter() for _ in range(nodes)]
    for number in range(pods):
        used[number % nodes].update({"cpu": 500 + number % 5 * 250, "memory": (1 + number % 3) * GIB})
    return [Resources(dict(amounts)) for amounts in used]
