"""The demo on an embedded cluster: the extender as in production, and an API server in the same process.

The extender has both its listeners, its embedded engine, and its /v1. Only the API server, the controllers, the
kubelets and kube-scheduler are simulated. This kube-scheduler calls the verbs over HTTP, by the configuration that we
generate for the real one. Everything runs in one event loop in a thread of its own, because an embedded cluster belongs
to its loop.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp
import uvloop
import yaml

from fluence_extender.apps.extender.app import serving
from fluence_extender.apps.kubectl.options import SERVER_VARIABLE
from fluence_extender.apps.scheduler_config import scheduler_config
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.demo import DemoError
from fluence_extender.demo.manifests import devices_file
from fluence_extender.demo.view import PodView
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.http_extenders import HttpExtenders
from fluence_extender.embeddedcluster.kube_scheduler import Extenders, KubeScheduler
from fluence_extender.embeddedcluster.kubelets import EmbeddedKubelets
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.embeddedcluster.workloads import EmbeddedWorkloads
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.http.listeners.serving import background
from fluence_extender.model.names import DEFAULT_SCHEDULER
from fluence_extender.model.node import Node
from fluence_extender.model.requests import allocatable_resources

NODE: dict[str, Any] = {"cpu": "4", "memory": "16Gi", "pods": 110}
"""What each node of the demo has."""
START_LIMIT = 60.0
"""Seconds that the service may take until it is ready."""

T = TypeVar("T")


class EmbeddedSite:
    """An embedded cluster of ``nodes`` nodes, and the extender with ``policy``, which keeps ``history`` in a file."""

    def __init__(self, nodes: int, policy: str, history: str = "") -> None:
        self._count = nodes
        self._policy = policy
        self._history = history
        self._thread: threading.Thread | None = None
        self._loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._api_url = ""
        self._cluster: EmbeddedCluster | None = None
        self._workloads: EmbeddedWorkloads | None = None

    def __enter__(self) -> Self:
        """Start everything. Raise `DemoError`."""
        with ExitStack() as undo:
            undo.push(self.__exit__)
            thread = threading.Thread(target=self._run, name="embedded cluster", daemon=True)
            thread.start()
            # A thread whose start was interrupted can't be joined. It ends with the process.
            self._thread = thread
            if not self._ready.wait(START_LIMIT) or self._failure is not None:
                raise DemoError(
                    f"the embedded cluster didn't start: {self._failure or f'it took over {START_LIMIT:g} s'}"
                )
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop everything."""
        if self._thread is not None:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = None

    @property
    def api_url(self) -> str:
        """The URL of the state API."""
        return self._api_url

    def introduction(self) -> str:
        """Return what runs."""
        return (
            f"An embedded cluster with {self._count} nodes of 4 cpu and 16Gi, and the extender with its embedded "
            f"engine. State: {self._api_url}/v1/gangs"
        )

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create the object of an example."""
        assert self._workloads is not None
        self._call(self._workloads.apply, manifest)

    def pods(self) -> Sequence[PodView]:
        """Return the pods of the examples. Raise `DemoError` once the cluster has ended."""
        assert self._cluster is not None
        return [
            PodView(pod.uid, pod.name, pod.scheduler, pod.node, pod.phase)
            for pod in self._call(self._cluster.pods)
        ]

    def gangs(self) -> list[dict[str, Any]]:
        """Return the gangs, as ``/v1/gangs`` shows them. Raise `OSError`."""
        with urllib.request.urlopen(f"{self.api_url}/v1/gangs", timeout=10) as answer:
            items: list[dict[str, Any]] = json.load(answer)["items"]
        return items

    def commands(self) -> Sequence[str]:
        """Return commands with which a user can look at the cluster from another shell."""
        return (
            f"export {SERVER_VARIABLE}={self.api_url}",
            f"{_plugin()} jobs",
            f"curl ${SERVER_VARIABLE}/v1/gangs",
        )

    def _call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call ``function`` in the cluster's event loop. Raise what it raises, and `DemoError` at its end."""

        async def called() -> T:
            return function(*arguments)

        if self._loop.is_closed():
            raise DemoError("the embedded cluster has ended")
        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(START_LIMIT)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        resources = devices_file().read_text()
        allocatable = allocatable_resources(NODE)
        nodes = [
            Node(
                name,
                f"uid-{name}",
                {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                allocatable,
            )
            for name in (f"node-{number}" for number in range(self._count))
        ]
        cluster = EmbeddedCluster(*nodes, ResourcesFile(str(devices_file()), resources))
        EmbeddedKubelets(cluster)
        self._workloads = EmbeddedWorkloads(cluster, parse_resources(resources))
        settings = Settings(engine="embedded", policy=self._policy, port=0, api_port=0, history=self._history)
        async with serving(settings, EmbeddedSession(cluster), self._stop) as listeners:
            config = yaml.safe_load(scheduler_config(f"http://{listeners.verbs_address}", ""))
            async with aiohttp.ClientSession() as session:
                extenders = HttpExtenders(session, config["extenders"])
                schedulers = {
                    "kube-scheduler": KubeScheduler(cluster, extenders).run(),
                    DEFAULT_SCHEDULER: KubeScheduler(cluster, Extenders(), DEFAULT_SCHEDULER).run(),
                }
                async with background(schedulers):
                    await _ready(session, f"http://{listeners.api_address}/readyz")
                    self._cluster, self._api_url = cluster, f"http://{listeners.api_address}"
                    self._ready.set()
                    await self._stop.wait()


async def _ready(session: aiohttp.ClientSession, url: str) -> None:
    """Return once ``url`` answers 200."""
    while True:
        async with session.get(url) as answer:
            if answer.status == 200:
                return
        await asyncio.sleep(0.05)


def _plugin() -> str:
    """Return how a shell calls the kubectl plugin: through kubectl, else by the path beside this Python."""
    if shutil.which("kubectl") and shutil.which("kubectl-fluence"):
        return "kubectl fluence"
    return str(Path(sys.executable).parent / "kubectl-fluence")
