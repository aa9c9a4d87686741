"""What happened to a namespace's pods, event by event, from a watch: for what must never be, not even for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.localcluster import ApiError


@dataclass(slots=True)
class History:
    """Each pod as it was when it was first seen bound, in order, with the time of arrival (monotonic seconds)."""

    bound: dict[str, tuple[float, Manifest]] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)

    def take(self, pod: Manifest) -> None:
        """Note one state of a pod."""
        uid = pod["metadata"]["uid"]
        if not node_of(pod):
            return
        if uid not in self.bound:
            self.bound[uid] = (time.monotonic(), pod)
        elif node_of(self.bound[uid][1]) != node_of(pod):
            self.moved.append(pod["metadata"]["name"])

    def wait(self, members: int) -> None:
        """Wait until the watch, which may lag behind a list, has seen so many Bindings."""
        wait_for(
            lambda: len(self.bound) >= members,
            what=f"the watch to have seen {members} Bindings",
            seen=self.names,
        )

    def names(self) -> list[str]:
        """The pods that were ever bound, in order."""
        return [pod["metadata"]["name"] for _, pod in self.bound.values()]

    def span(self, prefix: str) -> float:
        """Seconds between the first and the last Binding among the pods whose names begin with ``prefix``."""
        times = [at for at, pod in self.bound.values() if pod["metadata"]["name"].startswith(prefix)]
        return max(times) - min(times)

    def first_states(self) -> list[Manifest]:
        """The pods as they were first seen bound."""
        return [pod for _, pod in self.bound.values()]


class _Follower:
    """Feeds a history from a watch, which goes on where it was when the API server ends it, as for slow readers."""

    def __init__(self, namespace: Namespace, history: History) -> None:
        self._api = namespace.api
        self._path = f"/api/v1/namespaces/{namespace.name}/pods"
        self._history = history
        self._ended = threading.Event()
        self._version = self._list()
        self._watch = self._api.watch(self._path, self._version)

    def run(self) -> None:
        """Follow until `close`."""
        while not self._ended.is_set():
            for event in self._watch:
                if event["type"] == "ERROR":
                    # An API server that was started anew may not remember so much.
                    self._version = ""
                    break
                self._version = str(event["object"]["metadata"]["resourceVersion"])
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._history.take(event["object"])
            if not self._ended.wait(0.1):
                with suppress(ApiError):
                    self._version = self._version or self._list()
                    self._watch = self._api.watch(self._path, self._version)

    def _list(self) -> str:
        listed = self._api.get(self._path)
        for pod in listed["items"]:
            self._history.take(pod)
        return str(listed["metadata"]["resourceVersion"])

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._watch.close()


@contextmanager
def recorded(namespace: Namespace) -> Iterator[History]:
    """Records from now on until the end of the block."""
    history = History()
    follower = _Follower(namespace, history)
    thread = threading.Thread(target=follower.run, name="history", daemon=True)
    thread.start()

    def ended() -> bool:
        # Asked again and again: a watch may just have been opened anew.
        follower.close()
        return not thread.is_alive()

    try:
        yield history
    finally:
        wait_for(ended, what="the watch to end")
    assert not history.moved
