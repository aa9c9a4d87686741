"""The kubelets of an embedded cluster: a bound pod runs, ends as its annotations say, and goes once it is deleted.

The annotations are those of the local control plane's nodes: ``run-for`` and ``fail-after`` hold the seconds after
which a pod ends well or badly; without them it runs until it is deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.port import Changed, Observation
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.model.names import DOMAIN
from fluence_extender.model.notation import parse_duration
from fluence_extender.model.pod import Pod

ENDINGS = {f"demo.{DOMAIN}/run-for": "Succeeded", f"demo.{DOMAIN}/fail-after": "Failed"}
START_TIME = 0.1
STOP_TIME = 0.1
"""Seconds that a container takes to start and to stop."""


class EmbeddedKubelets:
    """Plays the kubelets of all nodes of ``cluster`` in the running event loop."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        cluster.watch(self._observe)

    def _observe(self, seen: Observation) -> None:
        if not isinstance(seen, Changed) or not isinstance(seen.object, Pod) or not seen.object.node:
            return
        pod = seen.object
        if pod.deleting:
            self._later(STOP_TIME, pod, self._cluster.remove)
        elif pod.phase == "Pending":
            self._later(START_TIME, pod, self._start)

    def _later(self, seconds: float, pod: Pod, act: Callable[[Pod], None]) -> None:
        """Call ``act`` with the pod as it is then, unless it is gone by then."""

        def on_current() -> None:
            try:
                now = self._cluster.pod(pod)
            except Gone:
                return
            act(now)

        self._loop.call_later(seconds, on_current)

    def _start(self, pod: Pod) -> None:
        if pod.deleting or pod.phase != "Pending":
            return
        self._cluster.put(replace(pod, phase="Running", started=time.time(), ready=True))
        for annotation, phase in ENDINGS.items():
            seconds = parse_duration(pod.annotations.get(annotation, ""))
            if seconds is not None:
                self._later(seconds, pod, lambda now, phase=phase: self._end(now, phase))  # type: ignore[misc]

    def _end(self, pod: Pod, phase: str) -> None:
        if not pod.finished:
            self._cluster.put(replace(pod, phase=phase, ready=False))
