"""One measurement: submit all Jobs as they are due, wait until they are over, and count what that took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.admission.contenders import Admitter
from benchmarks.admission.execution import PlayedExecution
from benchmarks.admission.shape import CLASSES, Submitted
from benchmarks.peers.kueue import VERSION
from benchmarks.throughput.measure import IDLE, QUIET, WRITERS, TooSlow, load_now, rates
from benchmarks.throughput.usage import Used, between, read
from fluence_extender.localcluster import ApiError, ControlPlane

PATIENCE = 900.0
PLANE = ("etcd", "kube-apiserver")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the admission of ``jobs`` Jobs went.

    ``to_last`` are the seconds from the first Job's creation to the last one's first admission, ``seconds`` those until
    all were over. ``waits`` are the mean seconds from the moment a Job was due to its first admission, by class.
    ``returned`` counts suspensions of admitted Jobs. ``own`` is what admits them, of the processes in ``used``.
    """

    contender: str
    round: int
    jobs: int
    to_submit: float
    to_last: float
    seconds: float
    waits: Mapping[str, float]
    returned: int
    own: str
    used: Used
    load: float

    @property
    def rate(self) -> float:
        """The Jobs admitted a second."""
        return self.jobs / self.to_last

    def cpu(self, process: str = "") -> float:
        """Return the milliseconds of CPU of a process for each Job, by default of all of them."""
        spent = self.used.cpu[process] if process else sum(self.used.cpu.values())
        return spent * 1000 / self.jobs

    @property
    def writes(self) -> float:
        """The writes to the API server for each Job, without those of the played execution and of the users."""
        return sum(self.used.writes.values()) / self.jobs - 2


def measured(plane: ControlPlane, contender: Admitter, work: Sequence[Submitted], number: int) -> Outcome:
    """Let the contender admit the work in a new namespace. Raise `TooSlow`."""
    namespace = f"{contender.name}-{number}"
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    contender.start()
    try:
        contender.enter(namespace)
        time.sleep(QUIET)
        processes = {name: _pid(plane, name) for name in PLANE} | contender.own
        idle = rates(processes, IDLE)
        with PlayedExecution(plane.api, namespace, {one.name: one.kind.runs for one in work}) as played:
            before = read(plane.api, processes)
            began = time.monotonic()
            _submit(plane, contender, work, namespace)
            to_submit = time.monotonic() - began
            if not played.wait(PATIENCE):
                raise TooSlow(f"{contender.name}: {len(played.complete)} of {len(work)} Jobs are over")
            over = time.monotonic()
            time.sleep(QUIET)
            after = read(plane.api, processes | contender.own)
        return Outcome(
            contender.name,
            number,
            len(work),
            to_submit,
            max(played.admitted.values()) - began,
            over - began,
            _waits(work, played.admitted, began),
            played.returned,
            next(iter(contender.own)),
            between(before, after, idle),
            load_now(),
        )
    finally:
        _empty(plane, namespace)
        contender.stop()


def _pid(plane: ControlPlane, name: str) -> int:
    pid = plane.component(name).pid
    assert pid is not None, f"{name} isn't running"
    return pid


def _submit(plane: ControlPlane, contender: Admitter, work: Sequence[Submitted], namespace: str) -> None:
    """Create each Job when it is due, or as soon as the API server takes it."""
    began = time.monotonic()

    def create(one: Submitted) -> None:
        time.sleep(max(0.0, began + one.due - time.monotonic()))
        plane.api.create(contender.job(one), namespace)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(create, work))


def _waits(work: Sequence[Submitted], admitted: Mapping[str, float], began: float) -> dict[str, float]:
    return {
        kind.name: statistics.mean(admitted[one.name] - began - one.due for one in work if one.kind is kind)
        for kind in CLASSES
    }


def _empty(plane: ControlPlane, namespace: str) -> None:
    """Delete what the measurement leaves, before its owner stops; nothing else collects it here."""
    plane.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", propagationPolicy="Background")
    with suppress(ApiError):
        plane.api.delete(f"/apis/{VERSION}/namespaces/{namespace}/workloads")
    time.sleep(QUIET)
