"""Volcano: its scheduler with the configuration that its chart ships, and its controllers.

The controllers give each pod without a PodGroup one of its own. Its webhooks fill in what users leave out and refuse
what is wrong. What a measurement submits is complete, so none is registered, which saves Volcano that time.
"""

from __future__ import annotations

from benchmarks.peers.peer import Programs, define
from benchmarks.peers.programs import VOLCANO
from benchmarks.throughput.workloads import Form, Manifest
from tests.localcluster import ControlPlane
from tests.localcluster.stack import free_ports

SCHEDULER = "volcano"
GROUP = "scheduling.volcano.sh/v1beta1"
CHART = "installer/helm/chart/volcano"
UNLIMITED = ("--kube-api-qps=2000", "--kube-api-burst=4000")


def _member(pod: Manifest, gang: str, size: int) -> None:
    if size > 1:
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = gang


def _group(name: str, size: int) -> Manifest:
    return {
        "apiVersion": GROUP,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size, "queue": "default"},
    }


class Volcano:
    """Its scheduler and its controllers, without limits on their clients' rates."""

    name = "Volcano"
    form = Form(SCHEDULER, _member, _group, f"{GROUP}/podgroups")

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._programs = Programs(plane, self.name.lower())

    def start(self) -> None:
        """Define its resources, and start both programs. Raise `NotBuilt` or `StartFailed`."""
        for chart in (CHART, f"{CHART}/charts/jobflow"):
            define(self._plane, VOLCANO.manifests(f"{chart}/crd/bases/*.yaml"))
        config = VOLCANO.folder / CHART / "config" / "volcano-scheduler.conf"
        for shown, package, arguments in (
            ("controllers", "cmd/controller-manager", ()),
            ("scheduler", "cmd/scheduler", (f"--scheduler-conf={config}", "--cache-dumper=false")),
        ):
            probe, metrics = free_ports(2)
            command = [
                VOLCANO.program(package),
                *(f"--kubeconfig={self._plane.kubeconfig}", "--leader-elect=false", *UNLIMITED),
                *("--enable-healthz=true", f"--healthz-address=127.0.0.1:{probe}"),
                *(f"--listen-address=127.0.0.1:{metrics}", *arguments),
            ]
            self._programs.start(shown, command, f"http://127.0.0.1:{probe}/healthz")

    def stop(self) -> None:
        """Stop both programs."""
        self._programs.stop()

    @property
    def processes(self) -> dict[str, int]:
        """Return the processes of both programs and of the control plane."""
        return self._programs.processes
