"""Which gangs were ever whole, as a watch of its own has seen, because a whole gang may lose a member later.

A gang is whole when as many of its pods are bound or have succeeded as it has members. This is forgotten once none of
its pods is bound any more, because then the gang begins again. Disturbances also wait here for a moment in which a gang
is being bound.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from fluence_extender.model.names import SCHEDULER_NAME, SCHEDULER_NAMES
from tests.chaos.deeds import Moment
from tests.chaos.stage import PODS
from tests.chaos.workloads import WORKLOAD
from tests.e2e.harness import Manifest, node_of, phase_of
from tests.localcluster import Api, ApiError
from tests.localcluster.api import Watch

PAUSE = 0.3


def workload_of(pod: Manifest) -> str:
    """Return the workload of a pod."""
    return str((pod["metadata"].get("labels") or {}).get(WORKLOAD, ""))


@dataclass(slots=True)
class Witness:
    """Watches from `start` to `stop`; ``sizes`` says how many members each workload has."""

    api: Api
    sizes: dict[str, int]
    whole: set[str] = field(default_factory=set)
    _pods: dict[str, dict[str, bool]] = field(default_factory=dict)
    _passed: frozenset[str] = frozenset()
    _in_part: frozenset[str] = frozenset()
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

    def now_is(self, moment: Moment) -> bool:
        """Return whether one of our gangs is at that moment now, as far as the watch has shown."""
        match moment:
            case Moment.PASSED:
                return bool(self._passed)
            case Moment.PART:
                return bool(self._in_part)
        return True

    def take(self, kind: str, pod: Manifest) -> None:
        """Note an event."""
        name, uid = workload_of(pod), pod["metadata"]["uid"]
        ours = pod["spec"]["schedulerName"] in SCHEDULER_NAMES
        gone = kind == "DELETED" or "deletionTimestamp" in pod["metadata"] or phase_of(pod) == "Failed"
        filtered = pod["spec"]["schedulerName"] == SCHEDULER_NAME
        passed = filtered and not gone and not node_of(pod) and not pod["spec"].get("schedulingGates")
        self._passed = self._passed | {uid} if passed else self._passed - {uid}
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
        in_part = ours and placed > 0 and name not in self.whole
        self._in_part = self._in_part | {name} if in_part else self._in_part - {name}

    def _follow(self) -> None:
        version = ""
        while not self._ending.is_set():
            try:
                if not version:
                    listed = self.api.get(PODS)
                    version = listed["metadata"]["resourceVersion"]
                    self._pods.clear()
                    self._passed = self._in_part = frozenset()
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
