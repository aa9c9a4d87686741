"""What the end-to-end tests are written with: a cluster, a namespace in it, manifests, and waiting.

Everything on the wire is a plain dict, as the API server sends it. A test reads like this:

    def test_three_pods_share_a_node(cluster, namespace, nodes):
        (node,) = nodes(1, cpu="4")
        namespace.create(*(pod(f"p{i}", cpu="1") for i in range(3)))
        pods = namespace.wait_until_bound(3)
        assert {node_of(pod) for pod in pods} == {node}

A wait that isn't fulfilled raises `TimedOut` with what was last seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.error import HTTPError

import yaml

from tests.e2e.judge import KubeletJudge
from tests.localcluster import Api, ApiError, ControlPlane, TimedOut
from tests.localcluster.recipe import release

Manifest = dict[str, Any]
T = TypeVar("T")

LONGEST = 90.0
"""Seconds that a test waits for what takes moments: after an outage that is a while, and machines are shared."""

NOT_YET = (0, 404, 429, 500, 502, 503)
"""Answers, and none at all, that may be others in a moment."""

RUN_FOR = "demo.fluence.flux-framework.org/run-for"
FAIL_AFTER = "demo.fluence.flux-framework.org/fail-after"
STOP_FOR = "demo.fluence.flux-framework.org/stop-for"
NODE_READY = "demo.fluence.flux-framework.org/ready"


def start_api_server(plane: ControlPlane) -> None:
    """Start the API server again, and the controllers anew: their watches wait up to a minute before they try again."""
    plane.component("kube-apiserver").start()
    manager = plane.component("kube-controller-manager")
    manager.stop()
    manager.start()


def wait_for(
    predicate: Callable[[], T | Literal[False] | None],
    timeout: float = LONGEST,
    what: str = "it",
    seen: Callable[[], object] | None = None,
) -> T:
    """The first truthy value of ``predicate()``, asked for up to ``timeout`` seconds, every 50 ms at most.

    A server that doesn't answer, or lacks the object, counts as not yet. ``seen()`` goes into the error.
    """
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        trouble = ""
        try:
            value = predicate()
        except (ApiError, OSError, HTTPException) as error:
            if not _may_pass(error):
                raise
            trouble = str(error) or type(error).__name__
        else:
            if value:
                return value
        answered = time.monotonic()
        if answered >= deadline:
            raise TimedOut(what, timeout, "; ".join(filter(None, (trouble, _shown(seen) if seen else ""))))
        time.sleep(max(0.05, answered - asked))


def _shown(seen: Callable[[], object]) -> str:
    try:
        return str(seen())
    except (ApiError, OSError, HTTPException) as error:
        return str(error)


def _may_pass(error: Exception) -> bool:
    """Whether a server's answer may be another one in a moment."""
    if isinstance(error, HTTPError):
        error.close()
        return error.code in NOT_YET
    return not isinstance(error, ApiError) or error.status in NOT_YET


def pod(
    name: str,
    *,
    cpu: str | int | None = None,
    memory: str | int | None = None,
    requests: Mapping[str, str | int] | None = None,
    scheduler: str = "default-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    run_for: str | None = None,
    **spec: Any,
) -> Manifest:
    """A pod of one container.

    ``requests`` (beside cpu and memory) are also its limits where they are extended resources; ``run_for`` is
    how long it runs before it succeeds (a Go duration; only where kubelets are played), for ever when None; ``spec``
    adds to or replaces fields of its spec (``nodeSelector=...``, ``schedulingGates=...``).
    """
    plain = {"cpu": cpu, "memory": memory}
    asked = {key: str(value) for key, value in {**plain, **(requests or {})}.items() if value is not None}
    limits = {key: value for key, value in asked.items() if "/" in key}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": asked, "limits": limits},
    }
    notes = dict(annotations or {}) | ({RUN_FOR: run_for} if run_for else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": notes},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def job(
    name: str, template: Manifest, *, parallelism: int = 1, completions: int | None = None, **spec: Any
) -> Manifest:
    """A batch/v1 Job whose pods are made from ``template`` (see `pod`); completions default to
    parallelism.
    """
    metadata = {key: template["metadata"][key] for key in ("labels", "annotations")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism if completions is None else completions,
            "template": {"metadata": metadata, "spec": {"restartPolicy": "Never", **template["spec"]}},
            **spec,
        },
    }


def node_of(pod: Manifest) -> str:
    """The node a pod is bound to; empty while it isn't."""
    return str(pod["spec"].get("nodeName", ""))


def phase_of(pod: Manifest) -> str:
    """Pending, Running, Succeeded or Failed."""
    return str(pod["status"].get("phase", ""))


def annotations_of(pod: Manifest) -> dict[str, str]:
    """A pod's annotations."""
    return dict(pod["metadata"].get("annotations") or {})


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster under test; ``plane`` is None when it isn't a local one."""

    api: Api
    kubeconfig: Path
    judge: KubeletJudge
    plane: ControlPlane | None = None

    def nodes(self) -> dict[str, Manifest]:
        """All nodes by name."""
        return {node["metadata"]["name"]: node for node in self.api.get("/api/v1/nodes")["items"]}

    def pods(self) -> list[Manifest]:
        """The pods of all namespaces."""
        found: list[Manifest] = self.api.get("/api/v1/pods")["items"]
        return found

    def apply(self, *manifests: Manifest | str | Path) -> list[Manifest]:
        """Server-side apply: dicts, YAML text or YAML files, in order."""
        return [self.api.apply(document) for document in documents(*manifests)]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of one test; gone after it, with all that is in it."""

    name: str
    api: Api

    def create(self, *manifests: Manifest | str | Path) -> list[Manifest]:
        """Create objects (dicts, YAML text or YAML files), in order; they come back as the API server
        stores them.
        """
        return [self.api.create(document, self.name) for document in documents(*manifests)]

    def create_in_the_end(self, *manifests: Manifest) -> None:
        """Create objects through an outage: each once, though the answer to the first attempt may be lost."""
        for manifest in manifests:
            wait_for(partial(self._created, manifest), what="writes to be taken")

    def _created(self, manifest: Manifest) -> bool:
        try:
            self.api.create(manifest, self.name)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        return True

    def pods(self, **labels: str) -> list[Manifest]:
        """Its pods with these labels, by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self.api.get(self._pods, labelSelector=selector)["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def pod(self, name: str) -> Manifest:
        """One pod as it is now. Raises `ApiError` (404)."""
        return self.api.get(f"{self._pods}/{name}")

    def delete_pod(self, name: str, grace: int = 0) -> None:
        """Delete one pod."""
        self.api.delete(f"{self._pods}/{name}", gracePeriodSeconds=str(grace))

    def bind(self, name: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind a pod to a node, past every scheduler."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.api.request("POST", f"{self._pods}/{name}/binding", body)

    def wait_until_bound(self, count: int, timeout: float = LONGEST) -> list[Manifest]:
        """All pods of the namespace once exactly ``count`` of them are bound."""

        def bound(pods: Sequence[Manifest]) -> bool:
            return sum(bool(node_of(pod)) for pod in pods) == count

        return self.wait_for_pods(bound, f"{count} pods bound", timeout)

    def wait_for_phase(self, name: str, phase: str, timeout: float = LONGEST) -> Manifest:
        """The pod ``name`` once it is in ``phase``."""

        def reached(pods: Sequence[Manifest]) -> bool:
            return any(pod["metadata"]["name"] == name and phase_of(pod) == phase for pod in pods)

        pods = self.wait_for_pods(reached, f"pod {self.name}/{name} to be {phase}", timeout)
        return next(pod for pod in pods if pod["metadata"]["name"] == name)

    def wait_for_pods(
        self, predicate: Callable[[Sequence[Manifest]], bool], what: str, timeout: float = LONGEST
    ) -> list[Manifest]:
        """The namespace's pods as soon as ``predicate(pods)`` holds."""
        last: list[Manifest] = []

        def fulfilled() -> bool:
            last[:] = self.pods()
            return predicate(last)

        wait_for(fulfilled, timeout, what, lambda: [summary(pod) for pod in last])
        return last

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"


def summary(pod: Manifest) -> str:
    """One line on where a pod stands, with what its scheduler last said."""
    said = [
        f"{entry.get('reason', '')}: {entry.get('message', '')}"
        for entry in pod["status"].get("conditions") or ()
        if entry["type"] == "PodScheduled" and entry["status"] != "True"
    ]
    where = node_of(pod) or "no node"
    return " ".join([pod["metadata"]["name"], phase_of(pod), "on", where, *said])


def documents(*manifests: Manifest | str | Path) -> list[Manifest]:
    """All documents in ``manifests``: dicts, YAML text, or YAML files.

    Native PodGroups get the version that the cluster under test serves.
    """
    found: list[Manifest] = []
    for manifest in manifests:
        if isinstance(manifest, dict):
            found.append(manifest)
        else:
            text = manifest.read_text() if isinstance(manifest, Path) else manifest
            found += [document for document in yaml.safe_load_all(text) if document]
    for document in found:
        if (
            str(document.get("apiVersion")).startswith("scheduling.k8s.io/v1")
            and document["kind"] == "PodGroup"
        ):
            document["apiVersion"] = release().pod_groups
    return found
