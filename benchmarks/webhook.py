"""Measure the webhook in a burst of pods, compared with webhooks that only allow each request.

The burst is 5,000 reviews, as the API server writes them, over 200 kept-alive TLS connections: as many mutating
requests as a kube-apiserver has under way at the same time by default (--max-mutating-requests-inflight). Both webhooks
run in processes of their own under the same server, and are called in turns, so that other load on the machine affects
them alike. Then the same burst goes through a real API server, which calls one or the other for each pod (as dry runs,
which are admitted like other requests and not stored).

    python -m benchmarks.webhook [--write]
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import multiprocessing
import random
import ssl
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.filter import pod
from benchmarks.report import PAGES, report, table
from fluence_extender.apps.webhook import GARBAGE
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.http.listeners.bodies import JSON, Bodies, respond
from fluence_extender.http.listeners.gate import OpenGate
from fluence_extender.http.listeners.serving import Address
from fluence_extender.identity.authority import SharedAuthority
from fluence_extender.identity.certificates import make_authority, make_leaf
from fluence_extender.identity.tls import show_certificate, tls_context
from fluence_extender.localcluster import Api, ControlPlane
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.contract import Context, GroupKind, OwnedPods
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.limit_ranges import Bounds
from fluence_extender.webhook.metrics import WebhookMetrics
from fluence_extender.webhook.registration import RegistrationReconciler, UrlTarget, registration
from fluence_extender.webhook.server import WebhookApp, serve_https

BURST = 5_000
AT_ONCE = 200
ROUNDS = 2
THREADS = 64
REPORT = PAGES / "webhook.md"
RESOURCES = Path(__file__).resolve().parent.parent / "examples" / "devices" / "resources.yaml"

LABEL = "benchmark"
QPU = "fluxion.flux-framework.org/qpu"
OURS, ECHO, USUAL = "webhook", "echo", "fastapi"


class Echo:
    """Reads a review and allows the pod as it is."""

    def __init__(self) -> None:
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        review = msgspec.json.decode(await self._bodies.posted_json(scope, receive, "echo"))
        response = {"uid": review["request"]["uid"], "allowed": True}
        kind = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        await respond(send, 200, JSON, msgspec.json.encode({**kind, "response": response}))


def usual_app() -> FastAPI:
    """The same, as users of FastAPI write it."""
    app = FastAPI()

    @app.post("/mutate")
    async def mutate(review: dict[str, Any]) -> dict[str, Any]:
        response = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

    return app


class KnownAnswers:
    """Lookups that return at once, as after the first pod of a namespace."""

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        return False

    async def bounds(self, namespace: str) -> Bounds:
        return {}

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        return OwnedPods(4)

    async def gated_jobs(self) -> str | None:
        return ""


class NoObjects:
    """Objects for a reconciler that isn't run here."""

    async def read(self, path: str) -> dict[str, Any] | None:
        raise AssertionError(path)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)


def webhook_app() -> ASGIApp:
    """Return the webhook with all handlers, on a cluster with native PodGroups and two devices."""
    objects, lookups = NoObjects(), KnownAnswers()
    context = Context(
        resources=parse_resources(RESOURCES.read_text()),
        groups=GroupKind.NATIVE,
        gate_by_webhook=True,
    )
    target = UrlTarget("https://127.0.0.1/mutate")
    source = SharedAuthority(objects, "default", target.hosts, lambda: datetime.now(UTC))
    unused = RegistrationReconciler(
        objects, source, target, lambda identity: None, lambda: True, lambda: False
    )
    admission = Admission(tuple(HANDLERS), lambda: context, lookups)
    return WebhookApp(admission, unused, WebhookMetrics(), lambda: "", OpenGate())


def serve(which: str, told: Connection) -> None:
    """Run a server process: report its port and its CA, then serve until it is terminated."""

    async def run() -> None:
        now = datetime.now(UTC)
        authority = make_authority(now)
        leaf = make_leaf(authority, ["127.0.0.1"], now)
        tls = tls_context()
        show_certificate(tls, leaf.certificate_pem, leaf.key_pem)
        apps: dict[str, Callable[[], ASGIApp]] = {OURS: webhook_app, ECHO: Echo, USUAL: usual_app}
        app = apps[which]()
        async with serve_https(app, Address("127.0.0.1", 0), tls) as address:
            told.send((address.port, authority.certificate_pem))
            await asyncio.Event().wait()

    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@dataclass(frozen=True, slots=True)
class Served:
    """One running webhook."""

    port: int
    authority: bytes

    @property
    def url(self) -> str:
        """The URL at which it is called."""
        return f"https://127.0.0.1:{self.port}/mutate"


@contextlib.contextmanager
def servers() -> Iterator[dict[str, Served]]:
    """Run the webhooks, each in its own process."""
    context = multiprocessing.get_context("spawn")
    found: dict[str, Served] = {}
    with contextlib.ExitStack() as stack:
        for which in (OURS, ECHO, USUAL):
            here, there = context.Pipe()
            server = context.Process(target=serve, args=(which, there), daemon=True)
            server.start()
            stack.callback(server.join)
            stack.callback(server.terminate)
            if not here.poll(60):
                raise TimeoutError(f"{which} didn't start within 60 seconds")
            found[which] = Served(*here.recv())
        yield found


def classical(number: int) -> dict[str, Any]:
    """Return a member of a gang of eight, before it has a uid."""
    made = pod(number)
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        made["metadata"].pop(field, None)
    made.pop("status")
    made["spec"].pop("priority")
    made["metadata"].pop("ownerReferences")
    made["metadata"].pop("finalizers")
    made["metadata"]["labels"].pop("batch.kubernetes.io/job-completion-index")
    made["spec"]["volumes"][0] = {"name": "kube-api-access-4mz8q", "emptyDir": {}}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def quantum(number: int) -> dict[str, Any]:
    """Return the same pod with a quantum device."""
    made = classical(number)
    for asked in made["spec"]["containers"][0]["resources"].values():
        asked.pop("nvidia.com/gpu")
        asked[QPU] = "1"
    return made


PODS: dict[str, Callable[[int], dict[str, Any]]] = {"gang members": classical, "quantum pods": quantum}


def review(manifest: dict[str, Any], number: int) -> bytes:
    """Return the review of one pod as bytes."""
    request = {
        "uid": f"uid-{number}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": manifest["metadata"]["name"],
        "namespace": "research",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:job-controller", "groups": ["a", "b"]},
        "object": manifest,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    body = json.dumps(document, separators=(",", ":")).encode()
    head = (
        "POST /mutate?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n"
    )
    return head.encode() + body


async def burst(served: Served, requests: Sequence[bytes], patched: bool) -> list[float]:
    """Send all requests, `AT_ONCE` at a time; return the seconds that each took."""
    trusting = ssl.create_default_context(cadata=served.authority.decode())
    lines = [
        await asyncio.open_connection("127.0.0.1", served.port, ssl=trusting, limit=1 << 20)
        for _ in range(AT_ONCE)
    ]
    waiting, times = iter(requests), []

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in waiting:
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            times.append(time.perf_counter() - began)
            if not head.startswith(b"HTTP/1.1 200") or (b'"patch"' in body) is not patched:
                raise AssertionError(f"{head!r} {body[:300]!r}")
        writer.close()

    async with asyncio.TaskGroup() as tasks:
        for line in lines:
            tasks.create_task(work(*line))
    return times


def register(api: Api, which: str, served: Served) -> None:
    """Register this webhook for the pods with this label."""
    wanted = registration(UrlTarget(served.url), served.authority)
    wanted["metadata"]["name"] = f"benchmark-{which}"
    for one in wanted["webhooks"]:
        one["objectSelector"] = {"matchLabels": {LABEL: which}}
    api.create(wanted)


def through(api: Api, make: Callable[[int], dict[str, Any]]) -> dict[str, list[float]]:
    """Let the API server admit mixed bursts of pods for all webhooks; return the seconds that each pod took."""
    pods = "/api/v1/namespaces/default/pods"

    def create(which: str, number: int) -> tuple[str, float, bool]:
        manifest = make(number)
        manifest["metadata"]["namespace"] = "default"
        manifest["metadata"]["labels"][LABEL] = which
        began = time.perf_counter()
        stored = api.request("POST", pods, manifest, query={"dryRun": "All"})
        return which, time.perf_counter() - began, "schedulingGates" in stored["spec"]

    deadline = time.monotonic() + 60
    while not create(OURS, 0)[2]:
        if time.monotonic() > deadline:
            raise TimeoutError("the API server doesn't call the webhook")
        time.sleep(0.2)
    order = [(which, number) for which in (OURS, ECHO) for number in range(BURST)]
    random.Random(7).shuffle(order)
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda one: create(*one), order))
    times: dict[str, list[float]] = {OURS: [], ECHO: []}
    for which, seconds, changed in done:
        if changed is not (which == OURS):
            raise AssertionError(f"a pod went through without its webhook, {which}")
        times[which].append(seconds)
    return times


@dataclass(frozen=True, slots=True)
class Measured:
    """The times of one kind of pods, in seconds, by webhook; ``way`` is the way to the webhook."""

    way: str
    pods: str
    times: dict[str, list[float]]

    def quantile(self, which: str, percent: int) -> float:
        """Return a percentile in milliseconds."""
        return statistics.quantiles(self.times[which], n=100, method="inclusive")[percent - 1] * 1e3

    def row(self) -> list[str]:
        """Return the figures as the table shows them."""
        cells = [self.way, self.pods]
        for percent in (50, 99):
            own = self.quantile(OURS, percent)
            cells.append(f"{own:,.0f}")
            for which in (ECHO, USUAL):
                if which not in self.times:
                    cells += ["", ""]
                    continue
                floor = self.quantile(which, percent)
                cells += [f"{floor:,.0f}", f"{own / floor:.2f}"]
        return cells


HEADINGS = ["", "pods"] + [
    f"p{percent} {column}"
    for percent in (50, 99)
    for column in ("webhook ms", "echo ms", "webhook/echo", "FastAPI ms", "webhook/FastAPI")
]


def straight(found: dict[str, Served]) -> list[Measured]:
    """Measure bursts over direct connections."""
    done = []
    for name, make in PODS.items():
        requests = [review(make(number), number) for number in range(BURST)]
        times: dict[str, list[float]] = {OURS: [], ECHO: [], USUAL: []}
        for which in times:
            uvloop.run(burst(found[which], requests[: AT_ONCE * 4], which == OURS))
        for _ in range(ROUNDS):
            for which in times:
                times[which] += uvloop.run(burst(found[which], requests, which == OURS))
        done.append(Measured("straight", name, times))
    return done


def by_api_server(found: dict[str, Served]) -> list[Measured]:
    """Measure bursts of pods that a real API server admits."""
    with ControlPlane() as plane:
        for which in (OURS, ECHO):
            register(plane.api, which, found[which])
        return [
            Measured("through the API server", name, through(plane.api, make)) for name, make in PODS.items()
        ]


def page(found: Sequence[Measured], where: str) -> str:
    """Return the figures as a page of the documentation."""
    lines = [
        "# Admission, compared with an echo",
        "",
        f"A burst of {BURST:,} pods, admitted by the webhook with all its handlers (each pod gets a patch), and by",
        "two that read the review and allow the pod unchanged: one as lean as ours (echo), one as FastAPI's users",
        "write it. All use the same server and TLS, in processes of their own. *Through the API server*: two",
        f"bursts, mixed, created by {THREADS} clients (dry runs) on a real one, which calls the webhook or the echo by",
        f"the pod's label. *Straight*: {ROUNDS} bursts each, in turns, over {AT_ONCE} kept-alive connections, each",
        "which sends its next review once the last is answered, so that a time is mostly a wait for earlier reviews.",
        "Made by `python -m benchmarks.webhook --write`.",
        "",
        f"Machine: {where}; clients, webhook and API server share it.",
        "",
        *table(HEADINGS, found, texts=2),
        "",
    ]
    return "\n".join(lines)


def measured() -> list[Measured]:
    """Measure both ways."""
    with servers() as found:
        return [*by_api_server(found), *straight(found)]


def main() -> None:
    """Measure, show the figures, and write the page with ``--write``."""
    report(REPORT, "Time the admission webhook beside an echo.", HEADINGS, measured, page)


if __name__ == "__main__":
    main()
