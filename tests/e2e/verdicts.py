"""What kube-scheduler's filters say about random pods on random nodes, asked of a stock kube-scheduler.

Its profile calls an extender of ours, whose filter is told the names of the nodes that passed all plugins and lets none
pass, so that no pod is ever bound. A pod for which no node passes never reaches the extender; its condition says so.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

from tests.e2e.harness import Manifest, wait_for
from tests.localcluster import Api, ControlPlane
from tests.localcluster.nodes import node_manifest

SCHEDULER = "verdicts"
GPU = "example.com/gpu"
HOST, ZONE, RACK = "kubernetes.io/hostname", "example.com/zone", "example.com/rack"

CORES = (
    *("8", "16", "007", "0", "many", "1_000", "9223372036854775807", "9223372036854775808"),
    *("00000000000000000000012", "99999999999999999999999", "1.5", ""),
)
"""Values of a label that Gt and Lt read: numbers of 64 bits, also behind many zeros, and what isn't one."""

CPU = ("1", "1500m", "0.7", "1999.9m", "2.0005", "2", "2500001u", "3e0", "2001m")
MEMORY = ("1Gi", "1.5Gi", "1000000000", "1073741825", "3G", "2048M", "1e9", "2147483648.5", "0.001Ti")
ASKED_CPU = ("1m", "0.1", "100.5m", "700m", "701m", "1", "1501m", "2001m", "2", "3", "1n")
ASKED_MEMORY = ("1Ki", "64Mi", "976562Ki", "976563Ki", "1Gi", "1.5Gi", "2Gi", "2097153Ki")
"""In whole KiB, in which the service counts what its own pods take."""

STORAGE = (None, None, None, None, "1Gi", "10Gi", "10737418241")
TAINTS = ("d1", "d2", "d3")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
NAMESPACES = ("red", "blue", "green", "grey")
FEATURE = "RestartAllContainersOnContainerExits"
ADDRESSES = (None, "0.0.0.0", "10.0.0.1", "127.0.0.1", "::")


REFUSALS = (
    *("Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", f"Insufficient {GPU}"),
    *("Insufficient hugepages-2Mi", "Too many pods", "free ports", "untolerated taint", "were unschedulable"),
    *("node affinity/selector", "required features", "existing pods anti-affinity rules"),
)
"""What kube-scheduler says of nodes that each of its filters refuses."""


class Draw:
    """Random objects; equal seeds give equal objects."""

    def __init__(self, seed: int, prefix: str) -> None:
        self._random = Random(seed)
        self.prefix = prefix
        self.namespaces = [f"{prefix}-{name}" for name in NAMESPACES]

    def namespace(self, name: str) -> Manifest:
        """Return a namespace with random labels."""
        labels = {key: self._one("a", "b") for key in ("team", "floor") if self._likely(0.7)}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

    def node(self, number: int) -> Manifest:
        """Return a node with random labels, taints, amounts and features."""
        labels = {}
        for key, values in ((ZONE, "abc"), (RACK, "012345"), ("cores", CORES), ("disk", ("ssd", "hdd", ""))):
            if self._likely(0.8):
                labels[key] = self._one(*values)
        amounts = {
            "cpu": self._one(*CPU),
            "memory": self._one(*MEMORY),
            "ephemeral-storage": self._one("1Gi", "10Gi", "100Gi"),
            "pods": self._one("1", "2", "3", *["110"] * 6),
        }
        if self._likely(0.6):
            amounts[GPU] = self._one("0", "1", "2", "4")
        if self._likely(0.3):
            amounts["hugepages-2Mi"] = self._one("0", "2Mi", "64Mi")
        taints = {
            (key, effect): {"key": key, "effect": effect, "value": self._one("", "x", "y")}
            for key in TAINTS
            for effect in EFFECTS
            if self._likely(0.03)
        }
        made = node_manifest(f"{self.prefix}-{number}", amounts, labels, [*taints.values()])
        if self._likely(0.1):
            made["spec"]["unschedulable"] = True
        if self._likely(0.6):
            made["status"]["declaredFeatures"] = ["GuaranteedQoSPodCPUResize", FEATURE][self._pick(2) :]
        return made

    def pod(self, name: str, **spec: Any) -> Manifest:
        """Return a pod in a random namespace, with random labels."""
        labels = {key: self._one("a", "b", "c") for key in ("app", "tier", "run") if self._likely(0.7)}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self._one(*self.namespaces), "labels": labels},
            "spec": {"terminationGracePeriodSeconds": 0, **spec},
        }

    def new(self, number: int) -> Manifest:
        """Return a pod that waits for the stock kube-scheduler, decided by its node alone."""
        spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": self._containers()}
        if self._likely(0.2):
            spec["initContainers"] = [self._container("sidecar", restartPolicy="Always")]
        elif self._likely(0.2):
            spec["initContainers"] = [self._container("init")]
        if self._likely(0.1):
            # Pod-level requests have to be at least those of the containers together, so there are two at most.
            spec["containers"] = spec["containers"][:1]
            spec["resources"] = {"requests": {"cpu": self._one("7", "8001m"), "memory": "8Gi"}}
        if self._likely(0.2):
            values = {ZONE: "abc", RACK: "0123", "disk": ("ssd", "hdd", "")}
            key = self._one(*values)
            spec["nodeSelector"] = {key: self._one(*values[key])}
        if self._likely(0.4):
            terms = [self._term() for _ in range(self._one(1, 1, 2, 3))]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        spec["tolerations"] = [self._toleration() for _ in range(self._one(0, 0, 1, 2, 3))]
        if self._likely(0.12):
            rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
            spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        return self.pod(f"new-{number}", **spec)

    def existing(self, number: int, node: str) -> Manifest:
        """Return a small pod with a node, which may keep others away from its domain or hold ports there."""
        container: dict[str, Any] = {"name": "main", "image": "none"}
        asked = {"cpu": self._one(None, "1m", "0.1", "33.3m"), "memory": self._one(None, "1", "64Mi")}
        container["resources"] = {"requests": {key: value for key, value in asked.items() if value}}
        if self._likely(0.3):
            container["ports"] = [self._port()]
        spec: dict[str, Any] = {
            "nodeName": node,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
        }
        if self._likely(0.2):
            terms = [self._apart() for _ in range(self._one(1, 1, 2))]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            spec["affinity"] = {"podAntiAffinity": required}
        return self.pod(f"old-{number}", **spec)

    # Parts.

    def _containers(self) -> list[Manifest]:
        return [self._container(f"c{number}") for number in range(self._one(1, 1, 1, 2))]

    def _container(self, name: str, **more: Any) -> Manifest:
        asked = {
            "cpu": self._one(*ASKED_CPU) if self._likely(0.4) else None,
            "memory": self._one(*ASKED_MEMORY) if self._likely(0.4) else None,
            "ephemeral-storage": self._one(*STORAGE),
            GPU: self._one("0", "1", "2") if self._likely(0.15) else None,
        }
        if self._likely(0.05):
            asked |= {"hugepages-2Mi": "4Mi", "cpu": asked["cpu"] or "1m"}
        requests = {key: value for key, value in asked.items() if value is not None}
        limits = {key: value for key, value in requests.items() if key in (GPU, "hugepages-2Mi")}
        made = {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}, **more}
        if self._likely(0.2):
            made["ports"] = [self._port()]
        return made

    def _port(self) -> Manifest:
        number = self._one(8080, 8081, 9090)
        port = {"containerPort": number, "hostPort": number, "protocol": self._one("TCP", "TCP", "UDP")}
        address = self._one(*ADDRESSES)
        return port | ({"hostIP": address} if address else {})

    def _term(self) -> Manifest:
        term: dict[str, Any] = {}
        if self._likely(0.9):
            term["matchExpressions"] = [self._expression() for _ in range(self._one(1, 1, 2))]
        if self._likely(0.15):
            name = f"{self.prefix}-{self._pick(100)}"
            operator = self._one("In", "NotIn", "NotIn")
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
        return term

    def _expression(self) -> Manifest:
        operator = self._one("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        if operator in ("Gt", "Lt"):
            value = self._one("7", "0", "0000000000000000000000008", "9223372036854775806", "15")
            return {"key": self._one("cores", "cores", RACK), "operator": operator, "values": [value]}
        values = {ZONE: "abcd", RACK: "01234", "disk": ("ssd", "hdd", ""), "cores": ("8", "16", "")}
        key = self._one(*values)
        found: dict[str, Any] = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = sorted({self._one(*values[key]) for _ in range(2)})
        return found

    def _toleration(self) -> Manifest:
        effect = self._one("", *EFFECTS)
        found = {"effect": effect} if effect else {}
        key = self._one("", *TAINTS, "node.kubernetes.io/unschedulable")
        if not key or self._likely(0.4):
            return found | {"operator": "Exists"} | ({"key": key} if key else {})
        return found | {"key": key, "operator": "Equal", "value": self._one("", "x", "y")}

    def _apart(self) -> Manifest:
        term: dict[str, Any] = {"topologyKey": self._one(HOST, HOST, HOST, RACK, "disk", "unknown")}
        if self._likely(0.95):
            term["labelSelector"] = self._selector(("app", "tier", "run"), "abc")
        if self._likely(0.3):
            term["namespaces"] = [self._one(*self.namespaces) for _ in range(2)]
        if self._likely(0.3):
            term["namespaceSelector"] = self._selector(("team", "floor"), "ab")
        if "labelSelector" in term and self._likely(0.15):
            term[self._one("matchLabelKeys", "mismatchLabelKeys")] = ["other"]
        return term

    def _selector(self, keys: Sequence[str], values: Sequence[str]) -> Manifest:
        rules: list[Manifest] = []
        for _ in range(self._one(0, 1, 2, 2)):
            operator = self._one("In", "In", "NotIn", "Exists", "DoesNotExist")
            rule: dict[str, Any] = {"key": self._one(*keys), "operator": operator}
            if operator in ("In", "NotIn"):
                rule["values"] = [self._one(*values)]
            rules.append(rule)
        labels = {self._one(*keys): self._one(*values)} if self._likely(0.4) else {}
        return {"matchLabels": labels, "matchExpressions": rules}

    def _one(self, *values: Any) -> Any:
        return self._random.choice(values)

    def _likely(self, chance: float) -> bool:
        return self._random.random() < chance

    def _pick(self, count: int) -> int:
        return self._random.randrange(count)


class Offered(ThreadingHTTPServer):
    """An extender that keeps by pod uid the nodes that kube-scheduler's plugins passed, and lets none pass."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Filter)
        self.nodes: dict[str, frozenset[str]] = {}

    @property
    def url(self) -> str:
        """Where kube-scheduler finds it."""
        return f"http://127.0.0.1:{self.server_port}"


class _Filter(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Offered)
        self.server.nodes[asked["Pod"]["metadata"]["uid"]] = frozenset(asked["NodeNames"])
        body = json.dumps({"NodeNames": [], "FailedNodes": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def stock_filters(plane: ControlPlane) -> Iterator[Offered]:
    """A stock kube-scheduler for the pods of `SCHEDULER`, and what its filters pass."""
    offered = Offered()
    threading.Thread(target=offered.serve_forever, daemon=True).start()
    extender = {"urlPrefix": offered.url, "filterVerb": "filter", "nodeCacheCapable": True}
    no_preemption = {"postFilter": {"disabled": [{"name": "*"}]}}
    scheduler = plane.start_scheduler(
        {
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": SCHEDULER, "plugins": no_preemption}],
            "extenders": [extender | {"enableHTTPS": False, "httpTimeout": "30s", "ignorable": False}],
        },
        name=SCHEDULER,
    )
    try:
        yield offered
    finally:
        scheduler.stop()
        offered.shutdown()
        offered.server_close()


def wait_until_judged(api: Api, namespaces: Sequence[str]) -> dict[str, str]:
    """Return by uid what kube-scheduler says of each waiting pod, once it has tried all of them."""

    def judged() -> dict[str, str] | None:
        pods = [one for name in namespaces for one in api.get(f"/api/v1/namespaces/{name}/pods")["items"]]
        waiting = {one["metadata"]["uid"]: _told(one) for one in pods if not one["spec"].get("nodeName")}
        return waiting if all(waiting.values()) else None

    return wait_for(judged, what="kube-scheduler to try all pods")


def _told(pod: Manifest) -> str:
    conditions = pod["status"].get("conditions") or ()
    unscheduled = (one for one in conditions if one.get("reason") == "Unschedulable")
    return next((str(one["message"]) for one in unscheduled), "")
