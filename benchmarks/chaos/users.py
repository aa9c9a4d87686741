"""What users do: workloads come and go; what the API server doesn't take now is asked for again until it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from benchmarks.chaos.agenda import AGAIN, Agenda
from benchmarks.chaos.deeds import Create, Delete
from benchmarks.chaos.stage import NAMESPACE, PODS
from benchmarks.chaos.workloads import WORKLOAD, manifests
from fluence_extender.localcluster import Api, ApiError
from tests.e2e.harness import Manifest

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
GROUPS = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"


@dataclass(slots=True)
class Users:
    """``wanted`` are the workloads asked for and not deleted; ``reduced`` those that lost a pod to a user."""

    api: Api
    agenda: Agenda
    wanted: dict[str, Create] = field(default_factory=dict)
    reduced: set[str] = field(default_factory=set)

    def create(self, what: Create) -> None:
        """Submit all objects of a workload."""
        self.wanted[what.name] = what
        for manifest in manifests(what):
            self._until_done(
                what.name, f"created {manifest['metadata']['name']} late", self._creation(manifest)
            )

    def delete(self, what: Delete) -> None:
        """Delete a workload or one pod of it, after what of it is still to be created."""
        self.agenda.await_free(_target(what.name))
        if what.one:
            self.reduced.add(what.name)
        else:
            self.wanted.pop(what.name, None)
        grace = {"gracePeriodSeconds": "0"} if what.force else {}
        work = self._first_pod(what.name, grace) if what.one else self._whole(what.name, grace)
        self._until_done(what.name, f"deleted {what.name} late", work)

    def _until_done(self, name: str, told: str, work: Callable[[], None]) -> None:
        try:
            work()
        except ApiError:
            self.agenda.later(AGAIN, _target(name), told, work)

    def _creation(self, manifest: Manifest) -> Callable[[], None]:
        # An answer that was lost may have been a yes.
        return lambda: unless(409, lambda: self.api.create(manifest, NAMESPACE))

    def _whole(self, name: str, grace: dict[str, str]) -> Callable[[], None]:
        def delete() -> None:
            unless(404, lambda: self.api.delete(f"{JOBS}/{name}", propagationPolicy="Background"))
            self.api.delete(PODS, labelSelector=f"{WORKLOAD}={name}", **grace)
            unless(404, lambda: self.api.delete(f"{GROUPS}/{name}"))

        return delete

    def _first_pod(self, name: str, grace: dict[str, str]) -> Callable[[], None]:
        def delete() -> None:
            pods = self.api.get(PODS, labelSelector=f"{WORKLOAD}={name}")["items"]
            for first in sorted(str(one["metadata"]["name"]) for one in pods)[:1]:
                unless(404, partial(self.api.delete, f"{PODS}/{first}", **grace))

        return delete


def unless(status: int, work: Callable[[], object]) -> None:
    """Do ``work``; an `ApiError` with this status is as good as success."""
    try:
        work()
    except ApiError as error:
        if error.status != status:
            raise


def _target(name: str) -> str:
    return f"workload {name}"
