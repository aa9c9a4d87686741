"""Measure the filter verb, compared with FastAPI applications that only echo the same body.

Requests are those that kube-scheduler sends to a nodeCacheCapable extender: a whole Pod and the names of all offered
nodes, one call after another over one kept-alive loopback connection. The echoes show what HTTP alone costs: one
returns the bytes, the other is FastAPI's usual handler with a parsed body. All three run in one server process with the
same settings and are called in turns, so that other load on the machine affects them alike.

    python -m benchmarks.filter [--write]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import uvloop
from fastapi import FastAPI, Request, Response

from benchmarks.report import PAGES, report, table
from fluence_extender.http.listeners.serving import Address
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.app import VerbsApp
from fluence_extender.http.scheduler.port import Location, Nowhere, On, RequestedPod
from fluence_extender.http.server import Listeners

NODES = 15_000
PODS = 15_000
# Different requests of one size; a turn sends each of them once to each target. The first turns warm up.
REQUESTS = 20
WARM_UP = 5
REPORT = PAGES / "filter.md"

# Names in a call, and measured calls to each target.
SIZES = {1: 3000, 100: 3000, 1_000: 2000, 5_000: 2000, 15_000: 1000}
TARGETS = {"filter": "/filter", "bytes": "/bytes", "parsed": "/parsed"}


def node_name(number: int) -> str:
    """Return the name of one node, as long as cloud providers make them."""
    return f"gke-batch-pool-1-7f3c9d2e-{number:05d}"


class FixedPlan:
    """A plan of `PODS` pods that never changes, with what the verbs need."""

    ready = True
    not_ready_reason = ""
    leading = True

    def __init__(self) -> None:
        self._nodes = {f"uid-{pod}": node_name(pod % NODES) for pod in range(PODS)}

    async def wait_for_lead(self) -> None:
        return None

    async def wait_for_pod(self, pod: RequestedPod) -> None:
        pass

    def locate(self, pod: RequestedPod) -> Location:
        node = self._nodes.get(pod.uid)
        return On(node) if node else Nowhere("unknown pod")

    def refused(self, pod: RequestedPod, node: str) -> None:
        raise AssertionError(f"{node} is offered in every call")

    def hand_over(self, pod: RequestedPod, node: str) -> Location:
        return On(node)

    async def bind(self, pod: RequestedPod, node: str) -> None:
        return None

    def may_evict(self, uids: Sequence[str]) -> bool:
        return True


def echo_app() -> FastAPI:
    """Return the application with the two echoes."""
    app = FastAPI()

    @app.post("/bytes")
    async def as_bytes(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    @app.post("/parsed")
    async def parsed(body: dict[str, Any]) -> dict[str, Any]:
        return body

    return app


def serve(ports: Connection) -> None:
    """Run the server process: report its two ports, then serve until it is terminated."""

    async def run() -> None:
        at = Address("127.0.0.1", 0)
        async with Listeners(VerbsApp(FixedPlan(), Metrics()), echo_app(), at, at) as listeners:
            ports.send((listeners.verbs_address.port, listeners.api_address.port))
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def pod(number: int) -> dict[str, Any]:
    """Return a Job's pod as kube-scheduler gets it from the API server."""
    name = f"train-{number // 8}-{number % 8}-x7k2p"
    job = f"train-{number // 8}"
    mount = {
        "name": "kube-api-access-4mz8q",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    managed = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-21T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {f"f:label-{i}": {} for i in range(6)}},
            "f:spec": {f"f:field{i}": {} for i in range(30)},
        },
    }
    return {
        "metadata": {
            "name": name,
            "generateName": f"{job}-{number % 8}-",
            "namespace": "research",
            "uid": f"uid-{number}",
            "resourceVersion": "1234567",
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": {
                "batch.kubernetes.io/job-name": job,
                "batch.kubernetes.io/job-completion-index": str(number % 8),
                "fluence.flux-framework.org/group": job,
            },
            "annotations": {"fluence.flux-framework.org/group-size": "8"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": True}
            ],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "managedFields": [managed],
        },
        "spec": {
            "volumes": [{"name": mount["name"], "projected": {"sources": [], "defaultMode": 420}}],
            "containers": [
                {
                    "name": "worker",
                    "image": "registry.example/train:1.4.2",
                    "command": ["python", "-m", "train", "--epochs", "10"],
                    "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(12)],
                    "resources": {
                        "limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
                        "requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
                    },
                    "volumeMounts": [mount],
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "schedulerName": "fluence",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
            "priority": 0,
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }


def request_body(size: int, chosen: random.Random) -> tuple[bytes, bytes]:
    """Return a filter request of ``size`` names, and the node on which its pod is planned."""
    number = chosen.randrange(PODS)
    planned = node_name(number % NODES)
    others = (node_name(i) for i in range(NODES) if i != number % NODES)
    names = [name for name, _ in zip(others, range(size - 1), strict=False)]
    names.insert(chosen.randrange(size), planned)
    request = {"Pod": pod(number), "Nodes": None, "NodeNames": names}
    return json.dumps(request, separators=(",", ":")).encode(), planned.encode()


class KeptAlive:
    """A connection that posts one body after another."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 * 1024 * 1024)

    def post(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Post a body; return the seconds from the first byte sent to the last byte received, and the answer's body."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        message = head.encode() + body
        view = memoryview(self._buffer)
        began = time.perf_counter()
        self._socket.sendall(message)
        have, whole, start = 0, 0, 0
        while not whole or have < whole:
            count = self._socket.recv_into(view[have:])
            if not count:
                raise ConnectionError("the server hung up")
            have += count
            if not whole and (end := self._buffer.find(b"\r\n\r\n", 0, have)) >= 0:
                start = end + 4
                whole = start + _content_length(bytes(view[:end]))
        took = time.perf_counter() - began
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(bytes(view[:have]).decode(errors="replace"))
        return took, bytes(view[start:whole])

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError("an answer without a length")


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of one size, in seconds, by target."""

    names: int
    calls: int
    body: int
    times: dict[str, list[float]]

    def quantile(self, target: str, percent: int) -> float:
        """Return a percentile in microseconds."""
        return statistics.quantiles(self.times[target], n=100, method="inclusive")[percent - 1] * 1e6

    def row(self) -> list[str]:
        """Return the figures as the table shows them."""
        cells = [f"{self.names:,}", f"{self.body / 1024:,.0f}"]
        for percent in (50, 99):
            own, floor, usual = (self.quantile(target, percent) for target in TARGETS)
            cells += [f"{value:,.0f}" for value in (own, floor, usual)]
            cells += [f"{own / floor:.2f}", f"{own / usual:.2f}"]
        return cells


HEADINGS = ["names", "body KiB"] + [
    f"p{percent} {column}"
    for percent in (50, 99)
    for column in ("filter µs", "echo µs", "parsed µs", "filter/echo", "filter/parsed")
]


def measure(size: int, calls: int, connections: dict[str, KeptAlive]) -> Measured:
    """Call the targets in turns."""
    chosen = random.Random(size)
    requests = [request_body(size, chosen) for _ in range(REQUESTS)]
    times: dict[str, list[float]] = {target: [] for target in TARGETS}
    for turn in range(WARM_UP + calls // REQUESTS):
        for target, path in TARGETS.items():
            for body, planned in requests:
                took, answer = connections[target].post(path, body)
                if target == "filter" and b'"NodeNames":["%b"]' % planned not in answer:
                    raise AssertionError(f"not the planned node: {answer[:200]!r}")
                if turn >= WARM_UP:
                    times[target].append(took)
    return Measured(size, calls, len(requests[0][0]), times)


def run() -> list[Measured]:
    """Start the server, measure every size, stop the server."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        if not here.poll(60):
            raise TimeoutError("the server didn't start within 60 seconds")
        verbs, echo = here.recv()
        connections = {target: KeptAlive(verbs if target == "filter" else echo) for target in TARGETS}
        measured = [measure(size, calls, connections) for size, calls in SIZES.items()]
        for connection in connections.values():
            connection.close()
        return measured
    finally:
        server.terminate()
        server.join()


def page(measured: Sequence[Measured], where: str) -> str:
    """Return the figures as a page of the documentation."""
    calls = ", ".join(f"{one.calls:,} of {one.names:,}" for one in measured)
    lines = [
        "# Filter, compared with an echo",
        "",
        "Time of one `POST /filter` over a kept-alive loopback connection, one call after another, for a pod",
        "whose node is planned, compared with two FastAPI handlers in the same process that return the body:",
        "as bytes (echo), and parsed into a dict (parsed). Made by `python -m benchmarks.filter --write`.",
        "",
        f"Machine: {where}. On a machine with other work, the 99th percentiles come from that work.",
        "",
        *table(HEADINGS, measured, texts=0),
        "",
        f"Calls to each of the three, by names in the body: {calls}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, show the figures, and write the page with ``--write``."""
    report(REPORT, "Time the filter verb beside FastAPI echoes of its body.", HEADINGS, run, page)


if __name__ == "__main__":
    main()
