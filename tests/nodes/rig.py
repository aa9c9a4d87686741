"""Three real nodes with a control plane, and the product installed on them as deploy/ installs it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.e2e.test_own_namespace import program
from tests.localcluster import ApiError
from tests.localcluster.nodes import is_ready
from tests.localcluster.process import tail
from tests.nodes.controlplane import NodesControlPlane
from tests.nodes.dns import DnsServer
from tests.nodes.mounts import RIG
from tests.nodes.network import CONTROL, DNS_SERVICE, Address, set_up_bridge
from tests.nodes.node import CONTROL_PLANE_ROLE, Node

ROOT = Path(__file__).parents[2]
CONTROL_NODE = "control"
NAMES = (CONTROL_NODE, "worker-1", "worker-2")
"""Nodes as in deploy/kind-config.yaml: the first is the control plane's."""

TAINTS = ({"key": CONTROL_PLANE_ROLE, "effect": "NoSchedule"},)
READY_SECONDS = 300.0
PASSING = ("endpoints", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses")
"""Kinds of objects that come and go by themselves."""

PRODUCT = ("fluence", "fluence-webhook")
"""The Deployments of deploy/."""


class Rig:
    """The control plane and its nodes, as long as the context lasts.

    ``group`` is the control group of all nodes, ``kubelet`` the program of kubelet and kube-proxy. The nodes' images
    are in their folders already.
    """

    def __init__(self, group: str, kubelet: Path) -> None:
        self.addresses = [Address(number) for number in range(1, len(NAMES) + 1)]
        self.nodes = {
            name: Node(name, address, group, kubelet)
            for name, address in zip(NAMES, self.addresses, strict=True)
        }
        self._cleanup = ExitStack()
        self.plane: NodesControlPlane
        self.bare: set[str] = set()
        """The objects of the cluster before anything is installed."""

    def __enter__(self) -> Rig:
        with ExitStack() as cleanup:
            set_up_bridge(self.addresses)
            (RIG / "logs").mkdir()
            self.plane = cleanup.enter_context(NodesControlPlane(RIG / "controlplane"))
            self._set_up_dns(cleanup)
            self._set_up_proxies()
            with ThreadPoolExecutor(len(self.nodes)) as threads:
                for node in self.nodes.values():
                    cleanup.callback(node.switch_off)
                list(threads.map(self._first_start, self.nodes.values()))
            self.wait_until_ready()
            role = {"metadata": {"labels": {CONTROL_PLANE_ROLE: ""}}}
            self.plane.api.patch(f"/api/v1/nodes/{CONTROL_NODE}", role)
            self.bare = self.objects()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def switch_on(self, node: Node) -> None:
        """Start a node."""
        node.switch_on(self.addresses)

    def wait_until_ready(self) -> None:
        """Wait until all nodes are ready."""

        def ready() -> bool:
            nodes = {one["metadata"]["name"]: one for one in self.plane.api.get("/api/v1/nodes")["items"]}
            return all(name in nodes and is_ready(nodes[name]) for name in self.nodes)

        wait_until(ready, "the nodes to be ready")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the admin's programs."""
        return {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the admin, in the project's folder, and return what it prints. Raise `RuntimeError`."""
        command = [program(), *arguments]
        ended = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout

    def install(self) -> None:
        """Apply deploy/ as it is, and wait until it is ready."""
        self.kubectl("apply", "--kustomize", "deploy")
        for deployment in PRODUCT:
            self.kubectl(
                "rollout",
                "status",
                "--namespace=fluence-system",
                f"deployment/{deployment}",
                f"--timeout={READY_SECONDS:g}s",
            )

    def tell_logs(self, lines: int = 60) -> None:
        """Print the end of all logs: of the installation, and of the nodes' programs."""
        for deployment in PRODUCT:
            try:
                said = self.kubectl(
                    "logs", "--namespace=fluence-system", f"deployment/{deployment}", "--all-containers",
                    "--prefix", f"--tail={lines}", "--all-pods",
                )  # fmt: skip
            except RuntimeError as error:  # It may be removed already.
                said = str(error)
            print(said)
        for log in sorted((RIG / "logs").iterdir()):
            print(f"{log.name}:\n{tail(log, lines)}")

    def objects(self) -> set[str]:
        """Return the kinds, namespaces and names of all objects of the cluster, but of those that come and go."""
        kinds = self.kubectl("api-resources", "--verbs=list", "--cached=false", "--output=name").split()
        listed = ",".join(sorted(set(kinds) - set(PASSING)))
        form = "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
        return set(self.kubectl("get", listed, "--all-namespaces", "--output", form).splitlines())

    def _first_start(self, node: Node) -> None:
        plane = self.plane
        node.write(
            plane.authority_file.read_bytes(),
            plane.kubeconfig_of_node(node.name),
            plane.kubeconfig_of_proxy(),
            TAINTS if node.name == CONTROL_NODE else (),
        )
        self.switch_on(node)

    def _set_up_dns(self, cleanup: ExitStack) -> None:
        """Give the Service of cluster DNS the rig's own server as its endpoint."""
        cleanup.enter_context(DnsServer(CONTROL, self.plane.api))
        ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
        name = {"name": "kube-dns", "namespace": "kube-system"}
        self.plane.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": name,
                "spec": {"clusterIP": DNS_SERVICE, "ports": ports},
            }
        )
        self.plane.api.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": name | {"labels": {"kubernetes.io/service-name": "kube-dns"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [CONTROL]}],
                "ports": ports,
            }
        )

    def _set_up_proxies(self) -> None:
        subject = {"kind": "User", "name": "system:kube-proxy", "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": "system:node-proxier", "apiGroup": "rbac.authorization.k8s.io"}
        self.plane.api.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "kube-proxy"},
                "roleRef": role,
                "subjects": [subject],
            }
        )


def wait_until(done: Callable[[], Any], what: str, seconds: float = READY_SECONDS) -> None:
    """Wait until ``done()`` is true. Raise `TimeoutError`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except ApiError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.25)
