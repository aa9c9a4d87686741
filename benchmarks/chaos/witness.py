"""Who was ever whole: seen by a watch of its own, as a gang that was whole may lose a member later on.

A gang is whole at a moment when as many of its pods are bound or have succeeded as it has members; that is forgotten
once none of its pods is bound any more, because then it begins anew.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from benchmarks.chaos.stage import PODS
from benchmarks.chaos.workloads import WORKLOAD
from fluence_extender.localcluster import Api, ApiError
from fluence_extender.localcluster.api import Watch
from tests.e2e.harness import Manifest, node_of, phase_of

PAUSE = 0.3


def workload_of(pod: Manifest) -> str:
    """The workload that a pod belongs to."""
    return str((pod["metadata"].get("labels") or {}).get(WORKLOAD, ""))


@dataclass(slots=True)
class Witness:
    """Watches from `start` to `stop`; ``sizes`` says how many members each workload has."""

    api: Api
    sizes: dict[str, int]
    whole: set[str] = field(default_factory=set)
    _pods: dict[str, dict[str, bool]] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _watch: Watch | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._follow, name="witness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._ending.set()
        if self._watch is not None:
            self._watch.close()
        if self._thread is not None:
            self._thread.join(10)

    def take(self, kind: str, pod: Manifest) -> None:
        """Note an event."""
        name, uid = workload_of(pod), pod["metadata"]["uid"]
        mine = self._pods.setdefault(name, {})
        if kind == "DELETED" or phase_of(pod) == "Failed":
            mine.pop(uid, None)
        else:
            mine[uid] = bool(node_of(pod))
        placed = sum(mine.values())
        if placed >= self.sizes.get(name, 1):
            self.whole.add(name)
        elif not placed:
            self.whole.discard(name)

    def _follow(self) -> None:
        version = ""
        while not self._ending.is_set():
            try:
                if not version:
                    listed = self.api.get(PODS)
                    version = listed["metadata"]["resourceVersion"]
                    self._pods.clear()
                    for pod in listed["items"]:
                        self.take("ADDED", pod)
                self._watch = self.api.watch(PODS, version)
                version = self._consume(self._watch, version)
            except ApiError:
                pass
            self._ending.wait(PAUSE)

    def _consume(self, watch: Watch, version: str) -> str:
        for event in watch:
            if event["type"] == "ERROR":
                return ""
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self.take(event["type"], event["object"])
        return version
