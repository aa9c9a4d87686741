"""One measurement: create pods, wait until a contender has bound them, and count what that took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.throughput.bindings import Bindings
from benchmarks.throughput.contenders import PLANE, Contender
from benchmarks.throughput.usage import Reading, Used, between, cpu_seconds, read
from benchmarks.throughput.workloads import Manifest, Workload, controller
from tests.localcluster import ControlPlane

WRITERS = 8
QUIET = 2.0
"""Seconds after the last binding in which what follows it is still counted (pods begin to run, Events)."""

IDLE = 10.0
"""Seconds over which the idle cluster is measured."""

CALM = 0.15
"""CPU seconds a second of the API server below which the new nodes have settled."""

SETTLE = 600.0
PATIENCE = 300.0


class TooSlow(Exception):
    """Not all pods were bound in time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``seconds`` from the first to the last binding; CPU and writes from the start until it was quiet again.

    ``to_last`` are the seconds from the moment everything was there (the scheduler and the first pod) to the last
    binding, ``to_running`` those to the moment at which the last pod ran; ``latencies`` the seconds from creation to
    binding, pod by pod; for a Job's pods from the Job's creation.
    """

    contender: str
    workload: str
    mode: str
    pods: int
    seconds: float
    to_last: float
    to_running: float
    used: Used
    latencies: tuple[float, ...]
    load: float

    @property
    def rate(self) -> float:
        """The pods bound per second."""
        return self.pods / self.seconds

    def cpu(self, process: str) -> float:
        """The milliseconds of CPU for each pod."""
        return self.used.cpu.get(process, 0.0) * 1000 / self.pods

    @property
    def writes(self) -> float:
        """The writes to the API server for each pod."""
        return sum(self.used.writes.values()) / self.pods


class Bench:
    """Measures on one control plane, always in the same namespace, which it empties afterwards."""

    NAMESPACE = "throughput"

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._api = plane.api
        self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.NAMESPACE}})
        self._pods = f"/api/v1/namespaces/{self.NAMESPACE}/pods"
        self._jobs = f"/apis/batch/v1/namespaces/{self.NAMESPACE}/jobs"
        self._owner = self._api.request("POST", self._jobs, controller(self.NAMESPACE))
        self._idle = self._measure_idle()

    def backlog(self, contender: Contender, workload: Workload) -> Outcome:
        """Create the pods before the contender starts."""
        created = self.submit(contender, workload)
        time.sleep(QUIET)
        with self.running(contender) as bindings:
            ready = time.monotonic()
            before = read(self._api, contender.processes)
            return self._finish(contender, workload, "backlog", bindings, created, before, ready)

    def burst(self, contender: Contender, workload: Workload) -> Outcome:
        """Start everything before the first pod is created, and create the pods as fast as possible."""
        return self._measured(contender, workload, "burst", 0.0)

    def stream(self, contender: Contender, workload: Workload, rate: float) -> Outcome:
        """Start everything, and create ``rate`` pods each second."""
        return self._measured(contender, workload, "stream", rate)

    @contextmanager
    def running(self, contender: Contender) -> Iterator[Bindings]:
        """Run the contender, and record what it binds; in the end, empty the namespace and stop the contender."""
        with Bindings(self._api, self.NAMESPACE) as bindings:
            try:
                contender.start()
                yield bindings
            finally:
                try:
                    self._empty(contender)
                finally:
                    contender.stop()

    def submit(self, contender: Contender, workload: Workload, rate: float = 0.0) -> dict[str, float]:
        """Create the workload, groups before pods; return when the call for each pod or Job began, by name."""
        self._create(workload.groups(contender.form))
        return self._create(workload.manifests(contender.form, self._owner), rate)

    def _measured(self, contender: Contender, workload: Workload, mode: str, rate: float) -> Outcome:
        with self.running(contender) as bindings:
            time.sleep(QUIET)
            before = read(self._api, contender.processes)
            began = time.monotonic()
            created = self.submit(contender, workload, rate)
            return self._finish(contender, workload, mode, bindings, created, before, began)

    def _finish(
        self,
        contender: Contender,
        workload: Workload,
        mode: str,
        bindings: Bindings,
        created: dict[str, float],
        before: Reading,
        began: float,
    ) -> Outcome:
        if not bindings.wait(workload.pods, PATIENCE):
            raise TooSlow(
                f"{contender.name}, {workload.title}: {len(bindings.seen)} of {workload.pods} bound"
            )
        if not bindings.wait_running(workload.pods, PATIENCE):
            raise TooSlow(
                f"{contender.name}, {workload.title}: {len(bindings.running)} of {workload.pods} run"
            )
        time.sleep(QUIET)
        after = read(self._api, contender.processes)
        seen = bindings.seen
        first, last = min(seen.values()), max(seen.values())
        return Outcome(
            contender.name,
            workload.name,
            mode,
            workload.pods,
            last - (first if mode != "backlog" else min(began, first)),
            last - began,
            max(bindings.running.values()) - began,
            between(before, after, self._idle),
            tuple(sorted(when - created[workload.submitted_as(pod)] for pod, when in seen.items())),
            load_now(),
        )

    def _create(self, submitted: Sequence[Manifest], rate: float = 0.0) -> dict[str, float]:
        began = time.monotonic()

        def create(numbered: tuple[int, Manifest]) -> tuple[str, float]:
            number, manifest = numbered
            if rate:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            when = time.monotonic()
            self._api.create(manifest, self.NAMESPACE)
            return str(manifest["metadata"]["name"]), when

        with ThreadPoolExecutor(WRITERS) as pool:
            return dict(pool.map(create, enumerate(submitted)))

    def _measure_idle(self) -> dict[str, float]:
        """Return the CPU of the control plane's processes per second once new nodes have settled."""
        processes = {name: pid for name in PLANE if (pid := self._plane.component(name).pid) is not None}
        deadline = time.monotonic() + SETTLE
        while (found := rates(processes, IDLE))["kube-apiserver"] > CALM and time.monotonic() < deadline:
            continue
        return found

    def _empty(self, contender: Contender) -> None:
        # The controller of loose pods stays.
        others = f"metadata.name!={self.NAMESPACE}"
        self._api.delete(self._jobs, fieldSelector=others, propagationPolicy="Background")
        self._api.delete(self._pods, gracePeriodSeconds="0")
        if groups := contender.form.collection(self.NAMESPACE):
            self._api.delete(groups)
        self._api.delete(f"/apis/events.k8s.io/v1/namespaces/{self.NAMESPACE}/events")
        deadline = time.monotonic() + 120
        while self._api.get(self._pods, limit="1")["items"]:
            if time.monotonic() > deadline:
                raise TooSlow("the pods of the last measurement don't go")
            time.sleep(0.2)


def load_now() -> float:
    """Return the machine's load average over the last minute."""
    with open("/proc/loadavg") as file:
        return float(file.read().split()[0])


def rates(processes: dict[str, int], seconds: float) -> dict[str, float]:
    """Return the CPU seconds of each process per second, during the next ``seconds``."""
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    time.sleep(seconds)
    return {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in processes.items()}
