"""The submitted objects: the same for all contenders, except for the scheduler's name and what makes pods a gang.

They are pods without an owner, pods which a Job controls that nobody manages, or Jobs whose pods the Job controller
creates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULER_NAME

STOCK = "default-scheduler"
Manifest = dict[str, Any]


def _alone(pod: Manifest, gang: str, size: int) -> None:
    """Leave the pod as it is: gangs mean nothing to this contender."""


def _unchanged(job: Manifest) -> None:
    """Leave the Job as it is."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the users of a contender submit pods: ``scheduler`` is what the pods name.

    ``member`` adds to a pod what makes it one of the ``size`` members of a gang (a single pod is a gang of one).
    ``group`` returns the object that users create before a gang's pods. ``submitted`` adds to a Job what its users add.
    ``reports`` is the collection, as GROUP/VERSION/PLURAL, of the objects that stand for gangs, in whose conditions
    users read about them.
    """

    scheduler: str
    member: Callable[[Manifest, str, int], None] = _alone
    group: Callable[[str, int], Manifest] | None = None
    reports: str = ""
    submitted: Callable[[Manifest], None] = _unchanged

    def collection(self, namespace: str) -> str:
        """Return the path of ``reports`` in a namespace, "" where there is none."""
        group, version, plural = self.reports.split("/") if self.reports else ("", "", "")
        return f"/apis/{group}/{version}/namespaces/{namespace}/{plural}" if plural else ""


LOOSE = Form(STOCK)


def _labelled(pod: Manifest, gang: str, size: int) -> None:
    if size > 1:
        pod["metadata"]["labels"][GROUP_LABEL] = gang
        pod["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = str(size)


LABELLED = Form(SCHEDULER_NAME, _labelled)


@dataclass(frozen=True, slots=True)
class Workload:
    """``gangs`` gangs of ``size`` pods; pods that ``foreign`` selects always have the stock scheduler.

    With ``jobs`` an Indexed Job is submitted for each gang instead of its pods. ``shapes`` are the cores that members
    request, as pairs of a number of members and their cores; other members request one core. With ``alternate`` the
    gangs' pods are created in turn. ``owned`` pods have a controller.
    """

    name: str
    title: str
    gangs: int
    size: int
    foreign_every: int = 0
    jobs: bool = False
    shapes: tuple[tuple[int, int], ...] = ()
    alternate: bool = False
    owned: bool = True

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.gangs * self.size

    def part(self, share: float) -> Workload:
        """Return this share of it, at least one gang."""
        return replace(self, gangs=max(1, round(self.gangs * share)))

    def groups(self, form: Form) -> list[Manifest]:
        """Return the objects that are created before the pods."""
        if form.group is None or self.size == 1:
            return []
        return [form.group(self.gang(number), self.size) for number in range(self.gangs)]

    def manifests(self, form: Form, owner: Manifest) -> list[Manifest]:
        """Return what is submitted in this form, in order; ``owner`` is the controller of pods."""
        if self.jobs:
            return [job(self.gang(number), self.size, form) for number in range(self.gangs)]
        places = [(gang, member) for gang in range(self.gangs) for member in range(self.size)]
        if self.alternate:
            places.sort(key=lambda place: place[1])
        made = [self._pod(gang, member, form) for gang, member in places]
        for one in made if self.owned else ():
            one["metadata"]["ownerReferences"] = [reference(owner)]
        return made

    def gang(self, number: int) -> str:
        """Return the name of a gang."""
        return f"{self.name}-{number}"

    def submitted_as(self, pod: str) -> str:
        """Return the name of the submitted object to which the pod of that name belongs."""
        # The Job controller calls a pod JOB-INDEX-RANDOM.
        return pod.rsplit("-", 2)[0] if self.jobs else pod

    def _pod(self, gang: int, member: int, form: Form) -> Manifest:
        if self.foreign_every and gang % self.foreign_every == self.foreign_every - 1:
            form = LOOSE
        made = pod(f"{self.gang(gang)}-{member}", form.scheduler, self._cores(member))
        form.member(made, self.gang(gang), self.size)
        return made

    def _cores(self, member: int) -> int:
        for count, cores in self.shapes:
            if member < count:
                return cores
            member -= count
        return 1


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


def job(name: str, size: int, form: Form) -> Manifest:
    """Return an Indexed Job all of whose pods run at once, each as `pod` makes it.

    Its pods say that they are a gang where that takes an object of its own; elsewhere the Job says so.
    """
    template = pod(name, form.scheduler)
    if form.group is not None:
        form.member(template, name, size)
    metadata = {key: value for key, value in template["metadata"].items() if key != "name"}
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }
    form.submitted(made)
    return made


def reference(owner: Manifest) -> Manifest:
    """Return the ownerReference of a pod that ``owner`` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def pod(name: str, scheduler: str, cores: int = 1) -> Manifest:
    """Return a pod of one container that requests so many cores and one GiB."""
    requests = {"cpu": str(cores), "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
            "restartPolicy": "Never",
        },
    }


WORKLOADS = (
    Workload("single", "2,000 single pods", 2000, 1),
    Workload("loose", "2,000 single pods without an owner", 2000, 1, owned=False),
    Workload("loose50", "40 gangs of 50 without an owner", 40, 50, owned=False),
    Workload("gang512", "one gang of 512", 1, 512),
    Workload("gangs50", "40 gangs of 50", 40, 50),
    Workload("gangs3", "1,000 gangs of 3", 1000, 3),
    Workload("jobs50", "40 Jobs of 50, by the Job controller", 40, 50, jobs=True),
    Workload("job512", "one Job of 512, by the Job controller", 1, 512, jobs=True),
    Workload("mixed", "2,000 single pods, every fifth of another scheduler", 2000, 1, foreign_every=5),
)

STREAM = Workload("stream", "1,000 single pods, 50 a second", 1000, 1)
