"""What the peers with programs of their own share: starting and stopping these beside the control plane."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.throughput.contenders import process_ids
from tests.localcluster import ApiError, Component, ControlPlane, TimedOut
from tests.localcluster.process import poll
from tests.localcluster.stack import unverified

SERVED = 60.0
"""Seconds within which the API server has to serve newly defined resources."""


class Programs:
    """The running programs of ``peer`` on ``plane``, by the name in the report."""

    def __init__(self, plane: ControlPlane, peer: str) -> None:
        self._plane = plane
        self._peer = peer
        self._components: dict[str, Component] = {}

    def start(self, shown: str, command: Sequence[str | Path], url: str) -> None:
        """Start a program, and wait until ``url`` answers 200. Raise `StartFailed`."""
        name = f"{self._peer}-{shown}"
        with_kubeconfig = ["/usr/bin/env", f"KUBECONFIG={self._plane.kubeconfig}", *map(str, command)]
        component = Component(name, with_kubeconfig, self._plane.log(name), lambda: _answers(url))
        self._components[shown] = component
        component.start()

    def stop(self) -> None:
        """Stop all of them, the last one first."""
        for component in reversed(self._components.values()):
            component.stop()
        self._components.clear()

    @property
    def processes(self) -> dict[str, int]:
        """Return the process ids of the programs and of the control plane. Raise `StartFailed` if one has ended."""
        return process_ids(self._plane, {}) | self.own

    @property
    def own(self) -> dict[str, int]:
        """Return the process ids of the programs. Raise `StartFailed` if one has ended."""
        for component in self._components.values():
            component.check()
        own = {shown: component.pid for shown, component in self._components.items()}
        return {shown: pid for shown, pid in own.items() if pid is not None}


def define(plane: ControlPlane, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Create these definitions of custom resources, and wait until they are served. Raise `TimedOut`."""
    for one in definitions:
        plane.api.apply(dict(one))
        spec = one["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        path, plural = f"/apis/{spec['group']}/{version}", spec["names"]["plural"]
        if not poll(partial(_served, plane, path, plural), SERVED):
            raise TimedOut(f"{path}/{plural} to be served", SERVED)


def _served(plane: ControlPlane, path: str, plural: str) -> bool:
    """Return whether the API server answers for a resource, and names it to clients that ask what there is."""
    try:
        plane.api.get(f"{path}/{plural}", limit="1")
        return any(one["name"] == plural for one in plane.api.get(path)["resources"])
    except ApiError:
        return False


def _answers(url: str) -> bool:
    tls: ssl.SSLContext | None = unverified() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(url, timeout=5, context=tls) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
