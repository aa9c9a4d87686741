"""The sidecar's account: made once, whoever is first; mended where it is ours, left alone where it isn't."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from fluence_extender.cluster.port import ClusterError, Conflict, Denied
from fluence_extender.coordination.rights import FRESH, REFUSED, RULES, SidecarAccounts, corrected, manifests
from fluence_extender.model.coordination import SIDECAR_ACCOUNT
from fluence_extender.model.names import CREATED_BY_ANNOTATION

Json = dict[str, Any]
ACCOUNT, ROLE, BINDING = (path for path, _ in manifests("ns", []))
DEFAULT = "/api/v1/namespaces/ns/serviceaccounts/default"


@dataclass
class Objects:
    """The API server's objects by path; a write of an old version is refused."""

    objects: dict[str, Json] = field(default_factory=dict)
    version: int = 0
    writes: list[str] = field(default_factory=list)
    reads: int = 0
    refusal: ClusterError | None = None

    async def read(self, path: str) -> Json | None:
        self.reads += 1
        await asyncio.sleep(0)
        self._refuse()
        return copy.deepcopy(self.objects.get(path))

    async def create(self, path: str, body: Json) -> Json:
        await asyncio.sleep(0)
        self._refuse()
        if path in self.objects:
            raise Conflict(f"{path} exists", 409)
        return self._write(path, body)

    async def replace(self, path: str, body: Json) -> Json:
        await asyncio.sleep(0)
        self._refuse()
        if self.objects[path]["metadata"].get("resourceVersion") != body["metadata"].get("resourceVersion"):
            raise Conflict(f"{path} has changed", 409)
        return self._write(path, body)

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def _write(self, path: str, body: Json) -> Json:
        self.version += 1
        self.writes.append(path)
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = stored
        return stored


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_account_role_and_binding_are_made_once(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    assert await accounts.ensure("ns")
    assert await accounts.ensure("ns")
    assert objects.writes == [ACCOUNT, ROLE, BINDING]
    assert objects.objects[ROLE]["rules"] == RULES
    assert objects.objects[BINDING]["subjects"] == [
        {"kind": "ServiceAccount", "name": SIDECAR_ACCOUNT, "namespace": "ns"}
    ]
    assert objects.objects[BINDING]["roleRef"]["name"] == SIDECAR_ACCOUNT


def test_the_role_grants_what_a_sidecar_calls_and_no_more() -> None:
    assert RULES == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]


async def test_a_burst_of_pods_makes_it_once(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    assert all(await asyncio.gather(*(accounts.ensure("ns") for _ in range(500))))
    assert objects.writes == [ACCOUNT, ROLE, BINDING]
    assert objects.reads == 4


async def test_two_replicas_at_once_agree(objects: Objects, clock: Clock) -> None:
    replicas = [SidecarAccounts(objects, clock) for _ in range(2)]
    assert all(await asyncio.gather(*(one.ensure("ns") for one in replicas)))
    assert sorted(objects.writes) == sorted([ACCOUNT, ROLE, BINDING])


async def test_namespaces_have_their_own(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    await accounts.ensure("ns")
    await accounts.ensure("other")
    assert len(objects.objects) == 6


@pytest.mark.parametrize("path", [ACCOUNT, ROLE, BINDING])
async def test_what_somebody_deletes_is_made_again(objects: Objects, clock: Clock, path: str) -> None:
    accounts = SidecarAccounts(objects, clock)
    await accounts.ensure("ns")
    del objects.objects[path]
    clock.now += FRESH
    assert await accounts.ensure("ns")
    assert objects.writes[-1] == path


async def test_what_somebody_changes_of_ours_is_put_right(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    await accounts.ensure("ns")
    objects.objects[ROLE]["rules"] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    clock.now += FRESH
    await accounts.ensure("ns")
    assert objects.objects[ROLE]["rules"] == RULES


async def test_a_role_of_somebody_elses_is_left_alone(objects: Objects, clock: Clock) -> None:
    theirs = {"metadata": {"name": SIDECAR_ACCOUNT, "resourceVersion": "1"}, "rules": []}
    objects.objects[ROLE] = copy.deepcopy(theirs)
    assert await SidecarAccounts(objects, clock).ensure("ns")
    assert objects.objects[ROLE] == theirs


async def test_an_account_of_ones_own_stays_bound_to_the_role(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    await accounts.ensure("ns")
    own = {"kind": "ServiceAccount", "name": "mine", "namespace": "ns"}
    objects.objects[BINDING]["subjects"] = [own]
    clock.now += FRESH
    await accounts.ensure("ns")
    assert own in objects.objects[BINDING]["subjects"]
    assert len(objects.objects[BINDING]["subjects"]) == 2
    clock.now += FRESH
    await accounts.ensure("ns")
    assert objects.writes.count(BINDING) == 2


async def test_pull_secrets_of_the_default_account_are_taken_over(objects: Objects, clock: Clock) -> None:
    objects.objects[DEFAULT] = {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "registry"}]}
    accounts = SidecarAccounts(objects, clock)
    await accounts.ensure("ns")
    assert objects.objects[ACCOUNT]["imagePullSecrets"] == [{"name": "registry"}]
    objects.objects[DEFAULT]["imagePullSecrets"] = [{"name": "registry"}, {"name": "other"}]
    clock.now += FRESH
    await accounts.ensure("ns")
    assert objects.objects[ACCOUNT]["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}]


async def test_a_refusal_is_told_and_remembered_for_moments_only(objects: Objects, clock: Clock) -> None:
    accounts = SidecarAccounts(objects, clock)
    objects.refusal = Denied("create roles: forbidden", 403)
    assert not await accounts.ensure("ns")
    reads = objects.reads
    assert not await accounts.ensure("ns")
    assert objects.reads == reads, "five thousand pods don't ask again each"
    objects.refusal = None
    clock.now += REFUSED
    assert await accounts.ensure("ns")


def test_what_is_as_it_should_be_isnt_written() -> None:
    for _, body in manifests("ns", [{"name": "s"}]):
        assert corrected(copy.deepcopy(body), body) is None
        assert body["metadata"]["annotations"][CREATED_BY_ANNOTATION]
