"""Record when each pod was bound and when it ran, as a watch shows it."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from tests.localcluster import Api
from tests.localcluster.api import Manifest, Watch

BOUND = "spec.nodeName!="


class Bindings:
    """The monotonic times at which a watch shows each pod of ``namespace`` as bound and as running; a context manager.

    The watch selects bound pods, so that a pod's first event is its binding.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.seen: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self._changed = threading.Condition()
        self._watch: Watch
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="bindings", daemon=True)

    def __enter__(self) -> Self:
        version = self._api.get(self._path, limit="1")["metadata"]["resourceVersion"]
        self._watch = self._api.watch(self._path, version, fieldSelector=BOUND)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._watch.close()
        self._thread.join(5)

    def _follow(self) -> None:
        while True:
            for event in self._watch:
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._note(event["object"])
            if self._closing.is_set():
                return
            # The API server ends watches that it finds too slow.
            listed = self._api.get(self._path, fieldSelector=BOUND)
            for pod in listed["items"]:
                self._note(pod)
            version = listed["metadata"]["resourceVersion"]
            self._watch = self._api.watch(self._path, version, fieldSelector=BOUND)

    def _note(self, pod: Manifest) -> None:
        name, now = pod["metadata"]["name"], time.monotonic()
        with self._changed:
            self.seen.setdefault(name, now)
            if pod["status"].get("phase") == "Running":
                self.running.setdefault(name, now)
            self._changed.notify_all()

    def wait(self, count: int, seconds: float) -> bool:
        """Return whether ``count`` pods were bound within ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.seen) >= count, seconds)

    def wait_running(self, count: int, seconds: float) -> bool:
        """Return whether ``count`` pods were running within ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.running) >= count, seconds)
