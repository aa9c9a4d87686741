"""Measure how soon the second replica binds after the first one ends, on a real control plane with waiting gangs.

There are two replicas of {kube-scheduler, extender}, nodes, and bound pods. Each round ends both processes of the
leader: it kills them (SIGKILL, as when their node loses power, so that the Lease has to expire), or stops them
(SIGTERM, the extender first, so that kube-scheduler releases the Lease). At the same moment gangs are created;
kube-scheduler is stopped once they exist. Reading the Lease every 20 ms shows when another replica holds it, and a
watch of the pods shows when the first and the last pod are bound. Then the first replica is started again, as the
standby of the next round.

    python -m benchmarks.failover [--nodes N] [--pods N] [--rounds N] [--engine embedded]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console

from benchmarks.report import machine
from benchmarks.throughput.bindings import Bindings
from benchmarks.throughput.workloads import LABELLED, Workload, controller, pod
from fluence_extender.demo.stack import Stack
from fluence_extender.localcluster import Api, ControlPlane
from fluence_extender.model.names import SCHEDULER_NAME
from tests.e2e.installation import Installation

NAMESPACE = "failover"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
LEASE = "fluence-system/fluence"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/fluence-system/leases/fluence"
WAITING = Workload("waiting", "20 gangs of 20", 20, 20)
WRITERS = 8
GOAL = 5.0
PATIENCE = 180.0
LOOK = 0.02
QUIET = 3.0


def kill(replica: Stack, waiting: Callable[[], object]) -> None:
    """End both processes, as when their node loses power."""
    del waiting
    assert replica.scheduler is not None
    replica.extender.kill()
    replica.scheduler.kill()


def stop(replica: Stack, waiting: Callable[[], object]) -> None:
    """Stop both processes, the extender first, as the Deployment's hook does.

    Kube-scheduler then releases the Lease.
    """
    assert replica.scheduler is not None
    replica.extender.stop(10)
    waiting()
    replica.scheduler.stop(10)


WAYS: dict[str, Callable[[Stack, Callable[[], object]], None]] = {"killed": kill, "stopped": stop}


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds from the end of the old leader to the next holder of the Lease, and from both moments to Bindings."""

    how: str
    to_lease: float
    lease_to_first: float
    end_to_first: float
    end_to_last: float
    load: float


class Stage:
    """Two replicas on ``plane`` that hold ``bound`` pods."""

    def __init__(self, plane: ControlPlane, bound: int, nodes: Sequence[str], engine: str) -> None:
        self._api: Api = plane.api
        self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        kubeconfig = Installation(plane).kubeconfig
        until(lambda: len(self._api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")["items"]) > 0)
        self._owner = self._api.request("POST", JOBS, controller(NAMESPACE))
        held = (pod(f"held-{number}", SCHEDULER_NAME) for number in range(bound))
        self._create([_on(one, nodes[number % len(nodes)]) for number, one in enumerate(held)])
        self.replicas = [
            Stack(
                plane,
                kubeconfig=kubeconfig,
                arguments=("--engine", engine),
                hostname=f"replica-{number}",
                lease=LEASE,
            )
            for number in range(2)
        ]

    def _create(self, pods: Sequence[dict[str, object]]) -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda one: self._api.request("POST", PODS, one), pods))

    @property
    def leader(self) -> Stack | None:
        """Return the replica that reports that it leads."""
        return next((one for one in self.replicas if one.extender.running and _leads(one)), None)

    def _holder(self) -> str:
        return str(self._api.get(LEASE_PATH)["spec"].get("holderIdentity") or "")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start replicas that have ended, and wait until one of them leads."""
        with ExitStack() as cleanup:
            for one in self.replicas:
                cleanup.enter_context(one)
            until(lambda: self.leader is not None)
            yield

    def play(self, how: str, number: int) -> Round:
        """End the leader in this way while gangs wait."""
        old = self.leader
        assert old is not None
        other = next(one for one in self.replicas if one is not old)
        name = f"replica-{self.replicas.index(other)}_"
        gangs = Workload(f"waiting-{number}", "", WAITING.gangs, WAITING.size).manifests(
            LABELLED, self._owner
        )
        with Bindings(self._api, NAMESPACE) as bindings, ThreadPoolExecutor(1) as pool:
            load = os.getloadavg()[0]
            ended = time.monotonic()
            creating = pool.submit(self._create, gangs)
            WAYS[how](old, creating.result)
            until(lambda: self._holder().startswith(name))
            taken = time.monotonic()
            creating.result()
            if not bindings.wait(len(gangs), PATIENCE):
                raise RuntimeError(
                    f"{len(bindings.seen)} of {len(gangs)} pods are bound after {PATIENCE:g} s"
                )
            at = sorted(bindings.seen.values())
        old.start()
        until(lambda: self.leader is other)
        for one in gangs:
            self._api.delete(f"{PODS}/{one['metadata']['name']}", gracePeriodSeconds="0")
        time.sleep(QUIET)
        return Round(how, taken - ended, at[0] - taken, at[0] - ended, at[-1] - ended, load)


def _on(one: dict[str, object], node: str) -> dict[str, object]:
    spec = one["spec"]
    assert isinstance(spec, dict)
    spec["nodeName"] = node
    return one


def _leads(replica: Stack) -> bool:
    try:
        return bool(replica.get("/v1/queues")["metadata"]["leading"])
    except (OSError, KeyError):
        return False


def until(true: Callable[[], bool]) -> None:
    """Wait until ``done`` is true. Raise `TimeoutError`."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it didn't come about within {PATIENCE:g} s")
        time.sleep(LOOK)


def table(rounds: Sequence[Round]) -> str:
    """Return the figures, one row for each way of ending the leader."""
    lines = [
        "| leader | rounds | to the Lease | Lease to first Binding | to first Binding | to last Binding | load |",
        "|---|---|---|---|---|---|---|",
    ]
    for how in WAYS:
        some = [one for one in rounds if one.how == how]
        if not some:
            continue
        columns = [
            f"{statistics.median(values):.1f} s / {max(values):.1f} s"
            for values in (
                [one.to_lease for one in some],
                [one.lease_to_first for one in some],
                [one.end_to_first for one in some],
                [one.end_to_last for one in some],
            )
        ]
        loads = f"{min(one.load for one in some):.1f} to {max(one.load for one in some):.1f}"
        lines.append(f"| {how} | {len(some)} | {' | '.join(columns)} | {loads} |")
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2000, help="bound ones")
    parser.add_argument("--rounds", type=int, default=5, help="of each way")
    parser.add_argument("--engine", default="embedded", choices=("embedded", "fluxion"))
    arguments = parser.parse_args()
    show = Console().print
    rounds: list[Round] = []
    with ControlPlane() as plane:
        nodes = plane.add_nodes(arguments.nodes, cpu=32, memory="128Gi")
        stage = Stage(plane, arguments.pods, nodes, arguments.engine)
        with stage.running():
            for number in range(arguments.rounds * len(WAYS)):
                rounds.append(stage.play(list(WAYS)[number % len(WAYS)], number))
                show(rounds[-1], markup=False)
    size = f"{arguments.nodes} nodes, {arguments.pods} bound pods, {WAITING.title} waiting"
    show(f"Engine {arguments.engine}, {size}. {machine()}.")
    show(table(rounds), markup=False, soft_wrap=True)
    worst = max(one.lease_to_first for one in rounds)
    show(f"Goal, {GOAL:g} s from the Lease to the first Binding: {'met' if worst <= GOAL else 'missed'}.")


if __name__ == "__main__":
    main()
