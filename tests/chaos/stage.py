"""The real cluster on which a script is performed: a control plane, the service under its own rights, and relays.

Every replica of the service and its kube-scheduler reach the API server through a relay of their own, so that either
can lose it alone. The verbs keep their port through restarts, as in a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos.deeds import NAMESPACES, Process
from tests.chaos.script import NODE_CORES, NODES, POOLS, pool_of
from tests.chaos.workloads import POOL
from tests.e2e.harness import Cluster, Manifest
from tests.e2e.installation import Installation
from tests.e2e.judge import KubeletJudge
from tests.e2e.service import Fluence, over_http
from tests.localcluster import Api, Component, ControlPlane
from tests.localcluster.stack import Stack
from tests.network.relay import Relay

PODS = "/api/v1/pods"
COMPLETION_LIMIT = 12.0
LEASE = "fluence-system/fluence"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}".format(*LEASE.split("/"))


class HastyApi(Api):
    """The admin's client with a short time limit, because one thread does everything, even what ends an outage."""

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = 2.0,
    ) -> Manifest:
        """Do as `Api.request`, for two seconds at most."""
        return super().request(method, path, body, query=query, content_type=content_type, timeout=timeout)


@dataclass(frozen=True, slots=True)
class Replica:
    """One extender, its kube-scheduler, and the relays through which the two reach the API server."""

    stack: Stack
    relays: dict[Process, Relay]

    @property
    def scheduler(self) -> Component:
        """Return its kube-scheduler."""
        assert self.stack.scheduler is not None, "the stage isn't set up"
        return self.stack.scheduler

    @property
    def fluence(self) -> Fluence:
        """Return its state API."""
        return Fluence(over_http(lambda: self.stack.api_url))


class Stage:
    """A context manager; the logs are in ``folder``. With several ``replicas`` a leader is elected."""

    def __init__(self, folder: Path, engine: str, replicas: int = 1) -> None:
        self.folder = folder
        self._arguments = ("--engine", engine, "--completion-limit", f"{COMPLETION_LIMIT:g}")
        self._count = replicas
        self._cleanup = ExitStack()
        self.plane = ControlPlane(folder)
        self.replicas: list[Replica] = []
        self.api: Api
        self.judge: KubeletJudge

    def __enter__(self) -> Self:
        try:
            self._cleanup.enter_context(self.plane)
            self._set_up()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def cluster(self) -> Cluster:
        """Return the cluster as the checks see it."""
        return Cluster(self.api, self.plane.kubeconfig, self.judge, self.plane)

    def component(self, process: Process, replica: int = 0) -> Component:
        """Return the process that a disturbance names."""
        match process:
            case Process.EXTENDER:
                return self.replicas[replica].stack.extender
            case Process.SCHEDULER:
                return self.replicas[replica].scheduler
        return self.plane.component(process.value)

    def delete_pods(self, **query: str) -> None:
        """Delete all pods of workloads that ``query`` selects, without a grace period. Raise `ApiError`."""
        for name in NAMESPACES:
            self.api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0", **query)

    def leader(self) -> int:
        """Return the replica that holds the Lease, 0 if there is only one. Raise `ApiError`."""
        if len(self.replicas) == 1:
            return 0
        holder = str(self.api.get(LEASE_PATH)["spec"].get("holderIdentity") or "")
        names = [_hostname(number) for number in range(len(self.replicas))]
        return next((number for number, name in enumerate(names) if holder.startswith(f"{name}_")), 0)

    def components(self) -> list[Component]:
        """Return every process of the stage."""
        plane = [Process.ETCD, Process.API_SERVER, Process.MANAGER, Process.KUBELETS, Process.OTHER_SCHEDULER]
        own = [one for replica in self.replicas for one in (replica.stack.extender, replica.scheduler)]
        return [self.plane.component(one.value) for one in plane] + own

    def revive(self) -> list[str]:
        """Start the processes again that ended by themselves, as a kubelet would do; return their names."""
        ended = [one for one in self.components() if not one.running]
        for one in ended:
            one.launch()
        return [one.name for one in ended]

    def _set_up(self) -> None:
        self.api = HastyApi(self.plane.kubeconfig)
        self.judge = self._cleanup.enter_context(KubeletJudge(self.plane.kubeconfig))
        kubeconfig = Installation(self.plane).kubeconfig
        for name in NAMESPACES:
            self.plane.api.create(namespace(name))
        for pool in POOLS:
            names = [name for name in NODES if pool_of(name) == pool]
            self.plane.add_nodes(names=names, cpu=NODE_CORES, labels={POOL: pool})
        self.plane.start_scheduler(name=Process.OTHER_SCHEDULER.value)
        for number in range(self._count):
            replica = self._replica(number, kubeconfig)
            self.replicas.append(replica)
            self._cleanup.enter_context(replica.stack)

    def _replica(self, number: int, kubeconfig: Path) -> Replica:
        relays: dict[Process, Relay] = {}
        copies: dict[Process, Path] = {}
        for process in (Process.EXTENDER, Process.SCHEDULER):
            relays[process] = self._cleanup.enter_context(Relay(self.plane.url))
            copy = self.folder / f"{process.value}-{number}.kubeconfig"
            copies[process] = relays[process].kubeconfig(kubeconfig, copy)
        several = self._count > 1
        stack = Stack(
            self.plane,
            kubeconfig=copies[Process.EXTENDER],
            scheduler_kubeconfig=copies[Process.SCHEDULER],
            arguments=self._arguments,
            hostname=_hostname(number) if several else "",
            lease=LEASE if several else "",
        )
        return Replica(stack, relays)


def namespace(name: str) -> Manifest:
    """Return the manifest of a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _hostname(replica: int) -> str:
    return f"replica-{replica}"
