"""The product's processes on a control plane: the service with its kube-scheduler, and the admission webhook.

The service and its kube-scheduler run side by side, as in a pod of a cluster. Each is a process of its own, so that a
test can kill it. The verbs keep their port through a restart, as they do on loopback in a pod.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fluence_extender.apps.scheduler_config import ENVIRONMENT, FEATURE_GATES, scheduler_config
from fluence_extender.apps.settings import DEFAULT_LEASE_DURATION
from tests.localcluster import Component, ControlPlane
from tests.localcluster.process import Startable, under_hostname

SCHEDULER = "kube-scheduler-fluence"
EXTENDER = "fluence-extender"
WEBHOOK = "fluence-webhook"
ANSWER_LIMIT = 15.0
"""Seconds that the webhook gets to answer: longer than it waits for another pod of a group, so that tests see why."""
WEBHOOK_STOP_LIMIT = 10.0
"""Seconds that the webhook gets to answer the reviews under way before it is killed."""


class Stack(Startable):
    """The ``extender`` and the ``scheduler`` on ``plane``.

    Both use ``kubeconfig`` (default: the admin's), unless the scheduler has ``scheduler_kubeconfig``. ``arguments`` are
    added to ``serve``; ``feature_gates`` are more of the scheduler's. As one of several replicas both run under their
    own ``hostname`` and take part in the election for ``lease`` (NAMESPACE/NAME), of ``lease_duration`` seconds.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        kubeconfig: Path | None = None,
        arguments: Sequence[str] = (),
        feature_gates: dict[str, bool] | None = None,
        scheduler_kubeconfig: Path | None = None,
        hostname: str = "",
        lease: str = "",
        lease_duration: int = DEFAULT_LEASE_DURATION,
    ) -> None:
        self._plane = plane
        self._hostname = hostname
        self._lease = lease
        self._lease_duration = lease_duration
        self._kubeconfig = str(kubeconfig or plane.kubeconfig)
        self._scheduler_kubeconfig = str(scheduler_kubeconfig or self._kubeconfig)
        self._gates = feature_gates
        verbs, api = free_ports(2)
        self.verbs_url = f"http://127.0.0.1:{verbs}"
        self.api_url = f"{'https' if '--api-service' in arguments else 'http'}://127.0.0.1:{api}"
        command = [
            *(sys.executable, "-m", "fluence_extender", "serve"),
            *("--kubeconfig", self._kubeconfig),
            *("--port", str(verbs), "--api-port", str(api)),
            *(("--lease", lease) if lease else ()),
            *arguments,
        ]
        if hostname:
            command = under_hostname(hostname, command)
        name = "-".join(filter(None, (EXTENDER, hostname)))
        self.extender = Component(name, command, plane.log(name), self.ready)
        self.scheduler: Component | None = None

    def start(self) -> None:
        """Start both and wait until they are ready. Raise `StartFailed`."""
        try:
            self.extender.start()
            self.start_scheduler()
        except BaseException:
            self.stop()
            raise

    def start_scheduler(self) -> None:
        """Start only the scheduler, and wait until it is ready. Raise `StartFailed`."""
        config = scheduler_config(
            self.verbs_url, self._scheduler_kubeconfig, self._lease, self._lease_duration
        )
        name = "-".join(filter(None, (SCHEDULER, self._hostname)))
        self.scheduler = self._plane.start_scheduler(
            yaml.safe_load(config),
            name=name,
            feature_gates={**FEATURE_GATES, **(self._gates or {})},
            hostname=self._hostname,
            environment=ENVIRONMENT,
        )

    def stop(self) -> None:
        """Stop both."""
        if self.scheduler is not None:
            self.scheduler.stop()
        self.extender.stop()

    def ready(self) -> bool:
        """Return whether the service reports that it is ready."""
        try:
            url, tls = f"{self.api_url}/readyz", unverified()
            with urllib.request.urlopen(url, timeout=2, context=tls) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def get(self, path: str) -> Any:
        """Return a document of the state API, for example ``/v1/gangs``."""
        with urllib.request.urlopen(f"{self.api_url}{path}", timeout=10) as answer:
            return json.load(answer)


class Webhook(Startable):
    """The admission webhook for ``plane``; ``process`` is its process.

    It uses ``kubeconfig`` (default: the admin's). The API server calls it at ``url`` (default: this process; with
    several webhooks, a load balancer). ``arguments`` are added to its command.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        kubeconfig: Path | None = None,
        url: str = "",
        arguments: Sequence[str] = (),
        name: str = WEBHOOK,
    ) -> None:
        (self.port,) = free_ports(1)
        self.at = f"https://127.0.0.1:{self.port}"
        command = [
            *(sys.executable, "-m", "fluence_extender", "webhook"),
            *("--kubeconfig", str(kubeconfig or plane.kubeconfig)),
            *("--port", str(self.port), "--url", url or f"{self.at}/mutate"),
            *arguments,
        ]
        self.process = Component(name, command, plane.log(name), self.ready)

    def start(self) -> None:
        """Start it and wait until it is registered. Raise `StartFailed`."""
        self.process.start()

    def stop(self) -> None:
        """Stop it; its registration stays."""
        self.process.stop(WEBHOOK_STOP_LIMIT)

    def ready(self) -> bool:
        """Return whether it reports that it is ready."""
        try:
            return self.get("/readyz") == "ok\n"
        except OSError:
            return False

    def get(self, path: str) -> str:
        """Return its answer, without verifying its certificate. Raise `OSError`."""
        return self._send(urllib.request.Request(f"{self.at}{path}"))

    def post(self, path: str, body: bytes) -> str:
        """Return its answer to a JSON body. Raise `OSError`."""
        headers = {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(f"{self.at}{path}", body, headers))

    def _send(self, request: urllib.request.Request) -> str:
        with urllib.request.urlopen(request, timeout=ANSWER_LIMIT, context=unverified()) as answer:
            return str(answer.read().decode())


def unverified() -> ssl.SSLContext:
    """Return a context that accepts any certificate, as probes do."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def free_ports(count: int) -> list[int]:
    """Return loopback ports on which no process listens now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports
