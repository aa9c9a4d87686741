"""kube-scheduler's own gangs: PodGroups of scheduling.k8s.io, an alpha API of Kubernetes 1.36 behind feature gates."""

from __future__ import annotations

from benchmarks.throughput.contenders import process_ids
from benchmarks.throughput.workloads import STOCK, Form, Manifest
from tests.localcluster import ControlPlane
from tests.localcluster.recipe import release

VERSION = release().pod_groups.rpartition("/")[2]
GATES = ("GenericWorkload", "GangScheduling")


def _member(pod: Manifest, gang: str, size: int) -> None:
    if size > 1:
        pod["spec"]["schedulingGroup"] = {"podGroupName": gang}


def _group(name: str, size: int) -> Manifest:
    return {
        "apiVersion": f"scheduling.k8s.io/{VERSION}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
    }


class NativeGangs:
    """kube-scheduler with its defaults and the feature gates of gangs, except for the rate limit of its client."""

    name = "kube-scheduler gangs"
    form = Form(STOCK, _member, _group, f"scheduling.k8s.io/{VERSION}/podgroups")

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> None:
        """Start it."""
        self._plane.start_scheduler(name="native-gangs", feature_gates=dict.fromkeys(GATES, True))

    def stop(self) -> None:
        """Stop it."""
        self._plane.component("native-gangs").stop()

    @property
    def processes(self) -> dict[str, int]:
        """Return the processes of kube-scheduler and of the control plane."""
        return process_ids(self._plane, {"kube-scheduler": "native-gangs"})
