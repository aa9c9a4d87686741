"""The judge plays the kubelet's admission for nodes that have no kubelet.

Every pod that is bound to such a node runs (kubelets.go), so a scheduler that overcommits a node would go unnoticed.
The judge watches pods and nodes with its own client, and checks the pods of a node in the order of their arrival, as
the kubelet would. It fails and records a pod that doesn't fit, as the kubelet fails it. Against real kubelets
(``enforce=False``) it writes nothing and records the pods that they rejected.

Invariants: a pod is judged once, at its arrival, against the pods that were admitted there before and haven't ended; it
is rejected only after the node was read again, so that a late node event doesn't count against it; a rejected pod stays
Failed even if it is written Running at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.kubelet_admission import Amounts, Rejection, admit, amounts, effective_requests
from tests.localcluster.api import STRATEGIC_PATCH, Api, Manifest, Watch
from tests.localcluster.errors import ApiError
from tests.localcluster.process import Startable, poll

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
BOUND = "spec.nodeName!="
RETRY_SECONDS = 0.2
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Violation:
    """One pod for which its node had no capacity."""

    pod: str
    uid: str
    node: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.pod} on {self.node}: {self.reason}: {self.message}"


class KubeletJudge(Startable):
    """Judges all bound pods of the cluster that ``kubeconfig`` names, from `start` to `stop`."""

    def __init__(self, kubeconfig: Path, *, enforce: bool = True) -> None:
        self._api = Api(kubeconfig)
        self._enforce = enforce
        self._lock = threading.RLock()
        self._nodes: dict[str, Amounts] = {}
        self._admitted: dict[str, dict[str, Amounts]] = {}
        self._judged: dict[str, str] = {}
        self._failures: dict[str, Manifest] = {}
        self._violations: list[Violation] = []
        self._stopping = threading.Event()
        self._watches: dict[str, Watch] = {}
        self._threads: list[threading.Thread] = []

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All rejected pods so far, in order."""
        with self._lock:
            return tuple(self._violations)

    def start(self) -> None:
        """Begin to watch."""
        for path, query, replace, change in (
            (NODES, {}, self._replace_nodes, self._change_node),
            (PODS, {"fieldSelector": BOUND}, self._replace_pods, self._change_pod),
        ):
            thread = threading.Thread(
                target=self._follow, args=(path, query, replace, change), name=f"judge {path}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the watches."""
        self._stopping.set()

        def ended() -> bool:
            for watch in list(self._watches.values()):
                watch.close()
            return not any(thread.is_alive() for thread in self._threads)

        poll(ended, 10)
        self._api.close()

    def settle(self, timeout: float = 30) -> bool:
        """Wait until every pod that is bound now has been judged.

        Return whether that took at most ``timeout`` seconds.
        """

        def caught_up() -> bool:
            with suppress(ApiError):
                bound = self._api.get(PODS, fieldSelector=BOUND)["items"]
                with self._lock:
                    return all(pod["metadata"]["uid"] in self._judged for pod in bound if not _finished(pod))
            return False

        return poll(caught_up, timeout, 0.1)

    def _follow(
        self,
        path: str,
        query: dict[str, str],
        replace: Callable[[list[Manifest]], None],
        change: Callable[[str, Manifest], None],
    ) -> None:
        version = ""
        while not self._stopping.is_set():
            try:
                if not version:
                    listed = self._api.get(path, **query)
                    replace(listed["items"])
                    version = listed["metadata"]["resourceVersion"]
                watch = self._watches[path] = self._api.watch(path, version, **query)
                version = self._consume(watch, version, change)
            except ApiError as error:
                if error.status not in (0, 429):
                    version = ""
            # Wait first: an API server that ends may reset a new connection before TLS begins, and CPython's ssl module
            # then leaves the socket open.
            self._stopping.wait(RETRY_SECONDS)

    def _consume(self, watch: Watch, version: str, change: Callable[[str, Manifest], None]) -> str:
        for event in watch:
            if self._stopping.is_set():
                break
            if event["type"] == "ERROR":
                return ""
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                change(event["type"], event["object"])
        return version

    def _replace_nodes(self, nodes: list[Manifest]) -> None:
        with self._lock:
            self._nodes = {
                node["metadata"]["name"]: amounts(node["status"].get("allocatable")) for node in nodes
            }

    def _change_node(self, kind: str, node: Manifest) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            if kind == "DELETED":
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = amounts(node["status"].get("allocatable"))

    def _replace_pods(self, pods: list[Manifest]) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        with self._lock:
            for uid in set(self._judged) - present:
                self._forget(uid)
        for pod in sorted(pods, key=_arrival):
            self._change_pod("ADDED", pod)

    def _change_pod(self, kind: str, pod: Manifest) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            with self._lock:
                self._forget(uid)
        elif _finished(pod):
            self._leave(pod)
        elif uid in self._failures:
            self._fail(pod)
        elif uid not in self._judged:
            self._arrive(pod)

    def _arrive(self, pod: Manifest) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        requests = effective_requests(pod["spec"])
        rejection = self._verdict(node, requests)
        if rejection:
            self._read_node(node)
            rejection = self._verdict(node, requests)
        if rejection and self._enforce:
            self._reject(pod, rejection)
        else:
            with self._lock:
                self._admitted.setdefault(node, {})[uid] = requests
        with self._lock:
            self._judged[uid] = node

    def _verdict(self, node: str, requests: Amounts) -> Rejection | None:
        with self._lock:
            others = list(self._admitted.get(node, {}).values())
            return admit(requests, others, self._nodes.get(node, {}))

    def _read_node(self, name: str) -> None:
        with suppress(ApiError):
            self._change_node("MODIFIED", self._api.get(f"{NODES}/{name}"))

    def _reject(self, pod: Manifest, rejection: Rejection) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": kind, "status": "False", "reason": "PodFailed", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        status: dict[str, Any] = {"phase": "Failed", "reason": rejection.reason, "message": rejection.message}
        with self._lock:
            self._failures[pod["metadata"]["uid"]] = {"status": status | {"conditions": conditions}}
        self._record(pod, rejection.reason, rejection.message)
        self._fail(pod)

    def _fail(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        failure = {"metadata": {"uid": metadata["uid"]}, **self._failures[metadata["uid"]]}
        while not self._stopping.is_set():
            try:
                self._api.patch(path, failure, STRATEGIC_PATCH)
            except ApiError as error:
                if error.status in (404, 409):
                    return
                self._stopping.wait(RETRY_SECONDS)
            else:
                return

    def _leave(self, pod: Manifest) -> None:
        uid, status = pod["metadata"]["uid"], pod["status"]
        refused = str(status.get("reason", "")).startswith("OutOf")
        with self._lock:
            known = any(violation.uid == uid for violation in self._violations)
            self._admitted.get(pod["spec"].get("nodeName", ""), {}).pop(uid, None)
            self._judged[uid] = pod["spec"].get("nodeName", "")
        if refused and not known and not self._enforce:
            self._record(pod, status["reason"], status.get("message", ""))

    def _record(self, pod: Manifest, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        with self._lock:
            self._violations.append(
                Violation(
                    f"{metadata['namespace']}/{metadata['name']}",
                    metadata["uid"],
                    pod["spec"]["nodeName"],
                    reason,
                    message,
                )
            )

    def _forget(self, uid: str) -> None:
        self._admitted.get(self._judged.pop(uid, ""), {}).pop(uid, None)
        self._failures.pop(uid, None)


def _finished(pod: Manifest) -> bool:
    return pod["status"].get("phase") in FINISHED


def _arrival(pod: Manifest) -> tuple[str, int]:
    """Return a sort key for the order in which pods arrived on their nodes, as far as their status shows it."""
    conditions = pod["status"].get("conditions") or ()
    bound = [entry.get("lastTransitionTime") or "" for entry in conditions if entry["type"] == "PodScheduled"]
    return (bound[0] if bound else "", int(pod["metadata"]["resourceVersion"]))
