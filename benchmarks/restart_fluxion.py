"""Measure how much of a start with libreapi_cli the library takes, and how much the code around it.

It loads the graph and allocates all pods, as the engine's own process does at a start, in one process whose calls into
the library are timed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import fluxion_ffi
from fluence_extender.apps.extender.engines import shared_policy
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import to_jgf
from fluence_extender.graph.units import COARSE, request_counts
from fluence_extender.matcher.expansion import MOST_WRITTEN, expanded
from fluence_extender.matcher.fluxion import FluxionMatcher
from fluence_extender.matcher.port import Hold, MatcherOptions
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

GIB = 2**30
IMPORTS = "import fluence_extender.matcher.worker, fluence_extender.matcher.fluxion"

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
    """Return the seconds that the imports of the engine's process take, measured in a fresh process."""
    script = f"import time; began = time.process_time(); {IMPORTS}; print(time.process_time() - began)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return float(done.stdout)


def parts(nodes: int, pods: int) -> str:
    """Return a table of the CPU time of a start, on ``nodes`` of 32 cores and 128 GiB with ``pods`` pods."""
    allocatable = Resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
    there = [Node(f"node-{number}", allocatable=allocatable) for number in range(nodes)]
    containment = build_containment(there, units=COARSE)
    document = to_jgf(containment)
    vertices = len(expanded(document, MOST_WRITTEN)["graph"]["nodes"])
    options = MatcherOptions(policy=shared_policy("lonode"), prune_filters="ALL:core,ALL:memory,ALL:gpu")
    library = TimedLibrary(fluxion_ffi.open_library())
    stand_in: Any = library
    matcher, loading, preparing = _spent(lambda: FluxionMatcher(stand_in, document, options), library)
    ranks = [containment.vertex(path).rank for path in containment.nodes.values()]
    holds = [
        Hold(1 + number, ranks[number % nodes], request_counts(_asked(number), COARSE))
        for number in range(pods)
    ]
    granted, holding, asking = _spent(lambda: matcher.hold_all(holds), library)
    matcher.close()
    assert not any(isinstance(one, Exception) for one in granted)
    return f"""Of that the engine's own process, in seconds of CPU time:

| | in libreapi_cli | around it |
|---|---:|---:|
| imports of its process | | {_imports():.2f} |
| load of {vertices:,} vertices | {loading:.2f} | {preparing:.2f} |
| {pods:,} holds, one match each | {holding:.2f} | {asking:.2f} |

The library makes a vertex of each core and GiB, and each hold is a match that it walks the graph for.
"""


def _asked(number: int) -> Resources:
    """Return the requests of one pod of the benchmark."""
    return Resources({"cpu": 500 + number % 5 * 250, "memory": (1 + number % 3) * GIB})
