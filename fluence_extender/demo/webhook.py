"""The admission webhook as a process beside a control plane, which calls it by its URL."""

from __future__ import annotations

import ssl
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from fluence_extender.demo.stack import free_ports
from fluence_extender.localcluster import Component, ControlPlane
from fluence_extender.localcluster.process import Startable

WEBHOOK = "fluence-webhook"
STOPS_WITHIN = 10.0
"""Seconds; reviews under way are answered first."""


class Webhook(Startable):
    """One webhook for ``plane``, from ``start`` to ``stop`` or as a context manager; ``process`` is it.

    ``kubeconfig`` is what it uses (default: the admin's); ``url`` is where the API server is to call (default: this
    process; something between them where there are several); ``arguments`` are added to its command.
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
        """Start it and wait until it is registered. Raises `StartFailed`."""
        self.process.start()

    def stop(self) -> None:
        """Stop it; the registration stays."""
        self.process.stop(STOPS_WITHIN)

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        try:
            return self.get("/readyz") == "ok\n"
        except OSError:
            return False

    def get(self, path: str) -> str:
        """What it answers, whoever signed its certificate. Raises `OSError`."""
        return self._ask(urllib.request.Request(f"{self.at}{path}"))

    def post(self, path: str, body: bytes) -> str:
        """What it answers to a body of JSON. Raises `OSError`."""
        headers = {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self.at}{path}", body, headers))

    def _ask(self, request: urllib.request.Request) -> str:
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=5, context=unverified) as answer:
            return str(answer.read().decode())
