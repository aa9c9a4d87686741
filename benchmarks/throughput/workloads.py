"""The submitted objects: the same for both contenders, except for the scheduler's name.

They are pods, which a Job controls that nobody manages, or Jobs whose pods the Job controller creates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULER_NAME

STOCK = "default-scheduler"
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """``gangs`` gangs of ``size`` pods; pods that ``foreign`` selects always have the stock scheduler.

    With ``jobs`` an Indexed Job is submitted for each gang instead of its pods.
    """

    name: str
    title: str
    gangs: int
    size: int
    foreign_every: int = 0
    jobs: bool = False

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.gangs * self.size

    def part(self, share: float) -> Workload:
        """Return this share of it, at least one gang."""
        return replace(self, gangs=max(1, round(self.gangs * share)))

    def manifests(self, scheduler: str, owner: Manifest) -> list[Manifest]:
        """Return what is submitted for ``scheduler``, in order; ``owner`` is the controller of pods."""
        if self.jobs:
            return [job(f"{self.name}-{gang}", self.size, scheduler) for gang in range(self.gangs)]
        made = [
            self._pod(gang, member, scheduler) for gang in range(self.gangs) for member in range(self.size)
        ]
        for one in made:
            one["metadata"]["ownerReferences"] = [reference(owner)]
        return made

    def submitted_as(self, pod: str) -> str:
        """Return the name of the submitted object to which the pod of that name belongs."""
        # The Job controller calls a pod JOB-INDEX-RANDOM.
        return pod.rsplit("-", 2)[0] if self.jobs else pod

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


def job(name: str, size: int, scheduler: str) -> Manifest:
    """Return an Indexed Job all of whose pods run at once, each as `pod` makes it."""
    template = pod(name, scheduler, {}, {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            "template": {"spec": template["spec"]},
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
    Workload("jobs50", "40 Jobs of 50, by the Job controller", 40, 50, jobs=True),
    Workload("job512", "one Job of 512, by the Job controller", 1, 512, jobs=True),
    Workload("mixed", "2,000 single pods, every fifth of another scheduler", 2000, 1, foreign_every=5),
)

STREAM = Workload("stream", "1,000 single pods, 50 a second", 1000, 1)
