"""The execution of Jobs, played: no pods exist, and a Job is complete some time after it was admitted.

Kueue's own performance test plays it in the same way. An admitted Job is one that isn't suspended.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from fluence_extender.localcluster import Api, ApiError
from fluence_extender.localcluster.api import Watch

WRITERS = 4


class PlayedExecution:
    """Completes the Jobs of a namespace, each ``runs`` seconds after it was admitted; a context manager.

    ``admitted`` are the monotonic times at which a watch first showed each Job as admitted, ``complete`` the names of
    those that are over, and ``returned`` the number of times an admitted Job was suspended again.
    """

    def __init__(self, api: Api, namespace: str, runs: Mapping[str, float]) -> None:
        self._api = api
        self._path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._runs = runs
        self.admitted: dict[str, float] = {}
        self.complete: set[str] = set()
        self.returned = 0
        self._due: list[tuple[float, str, int]] = []
        self._turns: dict[str, int] = {}
        self._changed = threading.Condition()
        self._ending = False
        self._watch: Watch
        self._pool = ThreadPoolExecutor(WRITERS)
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._follow, self._finish)]

    def __enter__(self) -> Self:
        version = self._api.get(self._path, limit="1")["metadata"]["resourceVersion"]
        self._watch = self._api.watch(self._path, version)
        for one in self._threads:
            one.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._watch.close()
        for one in self._threads:
            one.join(5)
        self._pool.shutdown(cancel_futures=True)

    def wait(self, seconds: float) -> bool:
        """Return whether all Jobs were over within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.complete) >= len(self._runs), seconds)

    def _follow(self) -> None:
        while True:
            for event in self._watch:
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._note(event["object"])
            if self._ending:
                return
            # The API server ends watches that it finds too slow.
            listed = self._api.get(self._path)
            for job in listed["items"]:
                self._note(job)
            self._watch = self._api.watch(self._path, listed["metadata"]["resourceVersion"])

    def _note(self, job: Mapping[str, Any]) -> None:
        name, now = str(job["metadata"]["name"]), time.monotonic()
        with self._changed:
            turn = self._turns.get(name, 0)
            if any(one["type"] == "Complete" for one in job["status"].get("conditions", ())):
                self.complete.add(name)
            elif job["spec"].get("suspend", False) == (turn % 2 == 0):
                return
            elif turn % 2:
                self.returned += 1
                self._turns[name] = turn + 1
            else:
                self.admitted.setdefault(name, now)
                self._turns[name] = turn + 1
                heapq.heappush(self._due, (now + self._runs[name], name, turn + 1))
            self._changed.notify_all()

    def _finish(self) -> None:
        while True:
            with self._changed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if self._ending:
                    return
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                _, name, turn = heapq.heappop(self._due)
                if self._turns[name] != turn:
                    continue
            self._pool.submit(self._end, name)

    def _end(self, name: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {
            "status": "True",
            "reason": "CompletionsReached",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }
        conditions = [{"type": one, **said} for one in ("SuccessCriteriaMet", "Complete")]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        # A Job that was suspended in this moment stays as it is.
        with suppress(ApiError):
            self._api.patch(f"{self._path}/{name}/status", {"status": status})
