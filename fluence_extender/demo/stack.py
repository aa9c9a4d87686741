"""The service and its kube-scheduler on a control plane, as they stand side by side in a pod of a cluster.

Both are processes of their own, so that a test can kill either. The verbs keep their port through a restart, as they do
on loopback in a pod.
"""

from __future__ import annotations

import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fluence_extender.apps.scheduler_config import ENVIRONMENT, scheduler_config
from fluence_extender.apps.settings import DEFAULT_LEASE_DURATION
from fluence_extender.localcluster import Component, ControlPlane
from fluence_extender.localcluster.process import Startable, under_hostname

SCHEDULER = "kube-scheduler-fluence"
EXTENDER = "fluence-extender"


class Stack(Startable):
    """``extender`` and ``scheduler`` on ``plane``, from ``start`` to ``stop`` or as a context manager.

    ``kubeconfig`` is what both use (default: the admin's) unless the scheduler has one of its own; ``arguments`` are
    added to ``serve``; ``feature_gates`` are the scheduler's. As one of several replicas both run under a ``hostname``
    of their own and take part in the election for ``lease`` (NAMESPACE/NAME), of ``lease_duration`` seconds. With
    ``barrier`` the extender binds every pod.
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
        barrier: bool = False,
    ) -> None:
        self._plane = plane
        self._hostname = hostname
        self._lease = lease
        self._lease_duration = lease_duration
        self._barrier = barrier
        self._kubeconfig = str(kubeconfig or plane.kubeconfig)
        self._schedulers = str(scheduler_kubeconfig or self._kubeconfig)
        self._gates = feature_gates
        verbs, api = free_ports(2)
        self.verbs_url = f"http://127.0.0.1:{verbs}"
        self.api_url = f"http://127.0.0.1:{api}"
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
        """Start both and wait until they are ready. Raises `StartFailed`."""
        try:
            self.extender.start()
            self.start_scheduler()
        except BaseException:
            self.stop()
            raise

    def start_scheduler(self) -> None:
        """Start the scheduler alone, and wait until it is ready. Raises `StartFailed`."""
        config = scheduler_config(
            self.verbs_url, self._schedulers, self._lease, self._lease_duration, self._barrier
        )
        name = "-".join(filter(None, (SCHEDULER, self._hostname)))
        self.scheduler = self._plane.start_scheduler(
            config, name=name, feature_gates=self._gates, hostname=self._hostname, environment=ENVIRONMENT
        )

    def stop(self) -> None:
        """Stop both."""
        if self.scheduler is not None:
            self.scheduler.stop()
        self.extender.stop()

    def ready(self) -> bool:
        """Whether the service says that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.api_url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def get(self, path: str) -> Any:
        """A document of the state API, for example ``/v1/gangs``."""
        with urllib.request.urlopen(f"{self.api_url}{path}", timeout=10) as answer:
            return json.load(answer)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports
