"""What an attack costs another tenant: how long small pods wait for their nodes, and probes of `/readyz` for
answers."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count

from tests.e2e.harness import Namespace, node_of
from tests.e2e.workloads import ours

PAUSE = 0.1
"""Seconds between a pod and the next, and between a probe and the next."""

NEVER = 60.0
"""A pod without a node, or a probe without an answer, counts as having waited for this many seconds."""


@dataclass(slots=True)
class Waits:
    """Seconds: until each pod was bound, and until each probe was answered with 200."""

    binds: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """Give the median, the 99th percentile and the number of each."""
        rows = (("bound", self.binds), ("ready", self.probes))
        return ", ".join(
            f"{name} {quantile(waits, 0.5):.2f} s (p99 {quantile(waits, 0.99):.2f} s, {len(waits)})"
            for name, waits in rows
        )


def quantile(seconds: Sequence[float], part: float) -> float:
    """Return the value that ``part`` of the values don't exceed."""
    assert seconds, "nothing was measured"
    ordered = sorted(seconds)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


@contextmanager
def measured(namespace: Namespace, url: str) -> Iterator[Waits]:
    """Create small pods in ``namespace`` and probe the service at ``url`` while this lasts, and measure the waits.

    At the end it waits for the last pod and the last probe, up to `NEVER` seconds.
    """
    waits, over = Waits(), threading.Event()
    number = count()

    def repeat(measure: Callable[[], float], into: list[float]) -> None:
        while not over.is_set():
            into.append(measure())
            time.sleep(PAUSE)

    threads = [
        threading.Thread(target=repeat, args=(lambda: bind_time(namespace, next(number)), waits.binds)),
        threading.Thread(target=repeat, args=(lambda: probe_time(url), waits.probes)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield waits
    finally:
        over.set()
        for thread in threads:
            thread.join()


def bind_time(namespace: Namespace, number: int) -> float:
    """Return how long a small pod waits for its node after it was created."""
    name = f"small-{number}"
    (pod,) = namespace.create(ours(name, cpu="10m"))
    begun = time.monotonic()
    version = pod["metadata"]["resourceVersion"]
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    watch = namespace.api.watch(path, version, fieldSelector=f"metadata.name={name}")
    timer = threading.Timer(NEVER, watch.close)
    timer.start()
    try:
        bound = any(event["type"] == "MODIFIED" and node_of(event["object"]) for event in watch)
    finally:
        timer.cancel()
        watch.close()
    waited = time.monotonic() - begun
    namespace.delete_pod(name)
    return waited if bound else NEVER


def probe_time(url: str) -> float:
    """Return how long `/readyz` takes to answer; an answer other than 200 counts as none."""
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=NEVER):
            return time.monotonic() - begun
    except (OSError, HTTPException):
        return NEVER
