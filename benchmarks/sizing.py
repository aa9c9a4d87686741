"""Measure what `fluence-extender serve` needs by the size of the cluster: memory, and CPU while nothing happens.

A real etcd and kube-apiserver hold the nodes and bound pods, as in `benchmarks.restart`; three quarters of the pods are
this scheduler's. The peak is that of the process until `REST` seconds after it is ready.

    python -m benchmarks.sizing [--write]
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import PAGES, report, table
from benchmarks.restart import cpu_seconds, fill, free_port, installed, start, wait_until_ready
from fluence_extender.localcluster.controlplane import KUBELETS, MANAGER, ControlPlane

SIZES = ((100, 1_000), (1_000, 5_000), (5_000, 20_000))
REST = 30.0
HEADINGS = (
    *("nodes", "bound pods", "ready after, s", "CPU until then, s", "peak RSS, MiB", "RSS at rest, MiB"),
    "CPU at rest, % of a core",
)


@dataclass(frozen=True)
class Needs:
    """What the process needed at one size."""

    nodes: int
    pods: int
    ready: float
    starting: float
    peak: float
    rest: float
    share: float

    def row(self) -> list[str]:
        """Return its cells."""
        numbers = (self.ready, self.starting, self.peak, self.rest, self.share)
        return [
            f"{self.nodes:,}",
            f"{self.pods:,}",
            *(f"{one:.1f}" if one < 20 else f"{one:.0f}" for one in numbers),
        ]


def needs(nodes: int, pods: int) -> Needs:
    """Measure one size on a control plane of its own."""
    with ControlPlane() as plane:
        for component in (KUBELETS, MANAGER):
            plane.component(component).stop()
        fill(plane.api, nodes, pods)
        log, api_port = plane.folder / "serve.log", free_port()
        environment = installed(plane.folder / "bytecode")
        # The first start compiles the bytecode that the second one finds.
        start(plane.kubeconfig, "embedded", log, environment)
        command = [sys.executable, "-m", "fluence_extender", "serve", "--kubeconfig", str(plane.kubeconfig)]
        command += ["--engine", "embedded", "--port", str(free_port()), "--api-port", str(api_port)]
        begun = time.monotonic()
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            wait_until_ready(process, api_port, log)
            ready, starting = time.monotonic() - begun, cpu_seconds(process.pid)
            time.sleep(REST)
            resting = cpu_seconds(process.pid) - starting
            return Needs(
                *(nodes, pods, ready, starting, memory(process.pid, "VmHWM"), memory(process.pid, "VmRSS")),
                100 * resting / REST,
            )
        finally:
            process.kill()
            process.wait()


def memory(pid: int, field: str) -> float:
    """Return a process's memory in MiB by its field of proc(5)."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def measure() -> list[Needs]:
    """Measure all sizes."""
    return [needs(*size) for size in SIZES]


def page(found: Sequence[Needs], where: str) -> str:
    """Return the page."""
    rows = "\n".join(table(HEADINGS, found, texts=0))
    return f"""# What the service needs

Memory and CPU of `fluence-extender serve` with the embedded engine, on a real etcd and kube-apiserver with nodes of 32
cores and bound pods, three quarters of them this scheduler's. The peak is that until {REST:g} s after it is ready; at
rest nothing changes in the cluster for {REST:g} s. The API server shares the CPUs. Made by
`python -m benchmarks.sizing --write`.

Machine: {where}.

{rows}
"""


if __name__ == "__main__":
    report(PAGES / "sizing.md", __doc__.splitlines()[0], HEADINGS, measure, page)
