"""The submitted pods: the same for both contenders, except for the scheduler's name; a Job controls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULER_NAME

STOCK = "default-scheduler"
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """``gangs`` gangs of ``size`` pods; pods that ``foreign`` selects always have the stock scheduler."""

    name: str
    title: str
    gangs: int
    size: int
    foreign_every: int = 0

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.gangs * self.size

    def part(self, share: float) -> Workload:
        """Return this share of it, at least one gang."""
        return replace(self, gangs=max(1, round(self.gangs * share)))

    def manifests(self, scheduler: str, owner: Manifest) -> list[Manifest]:
        """Return the pods for ``scheduler`` in the order of their creation; ``owner`` is their controller."""
        made = [
            self._pod(gang, member, scheduler) for gang in range(self.gangs) for member in range(self.size)
        ]
        for one in made:
            one["metadata"]["ownerReferences"] = [reference(owner)]
        return made

    def _pod(self, gang: int, member: int, scheduler: str) -> Manifest:
        if self.foreign_every and gang % self.foreign_every == self.foreign_every - 1:
            scheduler = STOCK
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        if self.size > 1 and scheduler == SCHEDULER_NAME:
            labels[GROUP_LABEL] = f"{self.name}-{gang}"
            annotations[GROUP_SIZE_ANNOTATION] = str(self.size)
        return pod(f"{self.name}-{gang}-{member}", scheduler, labels, annotations)


def controller(name: str) -> Manifest:
    """Return a Job that no controller manages, so that the created pods have an owner, as users' pods do."""
    container = {"name": "main", "image": "app"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "managedBy": "fluence.flux-framework.org/benchmark",
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    }


def reference(owner: Manifest) -> Manifest:
    """Return the ownerReference of a pod that ``owner`` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def pod(name: str, scheduler: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Manifest:
    """Return a pod of one container that requests one core and one GiB."""
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations)},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
            "restartPolicy": "Never",
        },
    }


WORKLOADS = (
    Workload("single", "2,000 single pods", 2000, 1),
    Workload("gang512", "one gang of 512", 1, 512),
    Workload("gangs50", "40 gangs of 50", 40, 50),
    Workload("gangs3", "1,000 gangs of 3", 1000, 3),
    Workload("mixed", "2,000 single pods, every fifth of another scheduler", 2000, 1, foreign_every=5),
)

STREAM = Workload("stream", "1,000 single pods, 50 a second", 1000, 1)
