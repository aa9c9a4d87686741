"""The coscheduling plugin of kubernetes-sigs/scheduler-plugins, in the kube-scheduler that this project builds.

The plugin holds the members of a gang at Permit until the gang's least number of them has a node each. The controller
keeps the status of PodGroups.
"""

from __future__ import annotations

from benchmarks.peers.peer import Programs, define
from benchmarks.peers.programs import COSCHEDULING
from benchmarks.throughput.workloads import Form, Manifest
from tests.localcluster import ControlPlane
from tests.localcluster.components import complete_scheduler_config
from tests.localcluster.stack import free_ports

SCHEDULER = "scheduler-plugins-scheduler"
GROUP = "scheduling.x-k8s.io"
CONFIG = {
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            },
        }
    ]
}


def _member(pod: Manifest, gang: str, size: int) -> None:
    if size > 1:
        pod["metadata"]["labels"][f"{GROUP}/pod-group"] = gang


def _group(name: str, size: int) -> Manifest:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }


class Coscheduling:
    """Its scheduler and its controller, without limits on their clients' rates."""

    name = "coscheduling"
    form = Form(SCHEDULER, _member, _group, f"{GROUP}/v1alpha1/podgroups")

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._programs = Programs(plane, self.name)

    def start(self) -> None:
        """Define its resources, and start both programs. Raise `NotBuilt` or `StartFailed`."""
        define(self._plane, COSCHEDULING.manifests("config/crd/bases/*.yaml"))
        config = self._plane.folder / "coscheduling.yaml"
        config.write_text(complete_scheduler_config(CONFIG, self._plane.kubeconfig))
        serving, metrics, probe = free_ports(3)
        self._programs.start(
            "controllers",
            [
                COSCHEDULING.program("cmd/controller"),
                *("--qps=2000", "--burst=4000"),
                *(f"--metricsAddr=127.0.0.1:{metrics}", f"--probeAddr=127.0.0.1:{probe}"),
            ],
            f"http://127.0.0.1:{probe}/readyz",
        )
        self._programs.start(
            "scheduler",
            [
                COSCHEDULING.program("cmd/scheduler"),
                f"--config={config}",
                *("--bind-address=127.0.0.1", f"--secure-port={serving}"),
                *(f"--authentication-kubeconfig={self._plane.kubeconfig}",),
                *(f"--authorization-kubeconfig={self._plane.kubeconfig}",),
            ],
            f"https://127.0.0.1:{serving}/readyz",
        )

    def stop(self) -> None:
        """Stop both programs."""
        self._programs.stop()

    @property
    def processes(self) -> dict[str, int]:
        """Return the processes of both programs and of the control plane."""
        return self._programs.processes
