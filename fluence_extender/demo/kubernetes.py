"""The demo on real Kubernetes: a control plane on loopback, with the product's processes and a default scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from fluence_extender.demo.manifests import devices, shipped
from fluence_extender.demo.site import NAMESPACE, NODE, PodView, Site
from fluence_extender.demo.stack import Stack, Webhook
from fluence_extender.localcluster import Component, ControlPlane, LocalClusterError, StartFailed

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubelets")
STOPPED = "the demo's control plane isn't running"


class KubernetesSite(Site):
    """Real Kubernetes with ``nodes`` nodes that no kubelet runs, and the extender with ``policy``."""

    def __init__(self, nodes: int, policy: str) -> None:
        self._nodes = nodes
        self._policy = policy
        self._cleanup = ExitStack()
        self._plane: ControlPlane | None = None
        self._stack: Stack | None = None
        self._upkeep = Upkeep(())

    def start(self) -> None:
        """Start everything. Raise `LocalClusterError`."""
        with ExitStack() as undo:
            self._plane = plane = undo.enter_context(ControlPlane())
            for manifest in (*shipped("namespace", "queues", "gate", "suspend", "groups"), devices()):
                plane.api.apply(manifest)
            plane.add_nodes(self._nodes, prefix="node", **NODE)
            default = plane.start_scheduler(name="kube-scheduler-default")
            webhook = Webhook(plane)
            arguments = ("--engine", "embedded", "--policy", self._policy)
            self._stack = stack = undo.enter_context(Stack(plane, arguments=arguments))
            undo.enter_context(webhook)
            of_plane = (plane.component(name) for name in CONTROL_PLANE)
            ours = filter(None, (stack.extender, stack.scheduler, webhook.process))
            self._upkeep = Upkeep([*of_plane, default, *ours])
            self._cleanup = undo.pop_all()

    def stop(self) -> None:
        """Stop everything, and remove its files."""
        self._cleanup.close()
        self._plane = self._stack = None

    @property
    def plane(self) -> ControlPlane:
        """The control plane. Raise `LocalClusterError` if it isn't running."""
        if self._plane is None:
            raise LocalClusterError(STOPPED)
        return self._plane

    @property
    def api_url(self) -> str:
        """See `Site`."""
        if self._stack is None:
            raise LocalClusterError(STOPPED)
        return self._stack.api_url

    def introduction(self) -> str:
        """See `Site`."""
        return (
            f"Real Kubernetes at {self.plane.url} with {self._nodes} nodes of 4 cpu and 16Gi: kube-scheduler calls the "
            f"extender, and the API server calls the webhook. State: {self.api_url}/v1/gangs"
        )

    def remark(self) -> str:
        """See `Site`."""
        return (
            "Nodes and containers are simulated. The service and the webhook run as processes beside this API server; "
            "deploy/ is for other clusters."
        )

    def apply(self, manifest: dict[str, Any]) -> None:
        """See `Site`."""
        self.plane.api.apply(manifest, NAMESPACE)

    def pods(self) -> Sequence[PodView]:
        """See `Site`."""
        return [_view(pod) for pod in self.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]]

    def commands(self) -> Sequence[str]:
        """See `Site`."""
        # The API server's proxy doesn't reach a service on loopback, so the plugin calls the service directly.
        return (f"export KUBECONFIG={self.plane.kubeconfig}", "kubectl get pods", *super().commands())

    def upkeep(self) -> Iterator[str]:
        """Start each ended process again; see `Site`."""
        return self._upkeep.check()


def _view(pod: dict[str, Any]) -> PodView:
    spec, status = pod["spec"], pod["status"]
    return PodView(
        pod["metadata"]["uid"],
        pod["metadata"]["name"],
        spec.get("schedulerName", ""),
        spec.get("nodeName", ""),
        status.get("phase", ""),
    )


class Upkeep:
    """Keeps ``processes`` running, as the kubelet does in a cluster.

    They are given in the order in which they need each other. A process that can't be started is tried again at every
    check until it runs, and is reported once.
    """

    def __init__(self, processes: Sequence[Component]) -> None:
        self._processes = processes
        self._failing: set[str] = set()

    def check(self) -> Iterator[str]:
        """Start each ended process again; yield a line for each thing that happens, as it happens."""
        for one in self._processes:
            if one.running:
                continue
            known = one.name in self._failing
            if not known:
                yield f"{one.name} has ended (log: {one.log}); starting it again"
            try:
                one.start()
            except StartFailed as error:
                self._failing.add(one.name)
                if not known:
                    yield f"{one.name} can't be started; it is tried again: {error}"
            else:
                self._failing.discard(one.name)
                yield f"{one.name} is up again"
