"""What users do: workloads come and go. A request that the API server doesn't accept is repeated until it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.chaos.agenda import AGAIN, Agenda
from tests.chaos.deeds import Create, Delete
from tests.chaos.workloads import WORKLOAD, manifests
from tests.e2e.harness import Manifest
from tests.localcluster import Api, ApiError
from tests.localcluster.recipe import release

PODS = "/api/v1/namespaces/{}/pods"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
GROUPS = f"/apis/{release().pod_groups}/namespaces/{{}}/podgroups"


@dataclass(slots=True)
class Users:
    """``wanted`` are the workloads that users want now, ``homes`` the namespaces of all that they ever wanted."""

    api: Api
    agenda: Agenda
    wanted: dict[str, Create] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)

    def create(self, what: Create) -> None:
        """Submit all objects of a workload."""
        self.wanted[what.name] = what
        self.homes[what.name] = what.namespace
        for manifest in manifests(what):
            told = f"created {manifest['metadata']['name']} late"
            self._until_done(what.name, told, self._creation(manifest, what.namespace))

    def delete(self, what: Delete) -> None:
        """Delete a workload or one pod of it, once all its objects have been created."""
        self.agenda.await_free(_target(what.name))
        if not what.one:
            self.wanted.pop(what.name, None)
        grace = {"gracePeriodSeconds": "0"} if what.force else {}
        work = self._first_pod(what.name, grace) if what.one else self._whole(what.name, grace)
        self._until_done(what.name, f"deleted {what.name} late", work)

    def lose(self, namespace: str) -> None:
        """Stop wanting what is in a namespace, because the namespace will be deleted."""
        for name in [one.name for one in self.wanted.values() if one.namespace == namespace]:
            self.agenda.await_free(_target(name))
            del self.wanted[name]

    def _until_done(self, name: str, told: str, work: Callable[[], None]) -> None:
        try:
            work()
        except ApiError:
            self.agenda.later(AGAIN, _target(name), told, work)

    def _creation(self, manifest: Manifest, namespace: str) -> Callable[[], None]:
        # An answer that was lost may have been a yes.
        return lambda: unless(409, lambda: self.api.create(manifest, namespace))

    def _whole(self, name: str, grace: dict[str, str]) -> Callable[[], None]:
        home = self.homes[name]

        def delete() -> None:
            unless(
                404, lambda: self.api.delete(f"{JOBS.format(home)}/{name}", propagationPolicy="Background")
            )
            self.api.delete(PODS.format(home), labelSelector=f"{WORKLOAD}={name}", **grace)
            unless(404, lambda: self.api.delete(f"{GROUPS.format(home)}/{name}"))

        return delete

    def _first_pod(self, name: str, grace: dict[str, str]) -> Callable[[], None]:
        path = PODS.format(self.homes[name])

        def delete() -> None:
            pods = self.api.get(path, labelSelector=f"{WORKLOAD}={name}")["items"]
            for first in sorted(str(one["metadata"]["name"]) for one in pods)[:1]:
                unless(404, partial(self.api.delete, f"{path}/{first}", **grace))

        return delete


def unless(status: int, work: Callable[[], object]) -> None:
    """Do ``work``; an `ApiError` with this status counts as success."""
    try:
        work()
    except ApiError as error:
        if error.status != status:
            raise


def _target(name: str) -> str:
    return f"workload {name}"
