"""The sidecar's account is made once, corrected if it is ours, and left alone if it isn't."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError, Conflict, Denied
from fluence_extender.model.coordination import SIDECAR_ACCOUNT
from fluence_extender.model.names import CREATED_BY_ANNOTATION
from fluence_extender.webhook.lookups import ACCOUNT_FRESH, ACCOUNT_RETRY, ApiLookups
from fluence_extender.webhook.sidecar_account import RULES, corrected, manifests

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
    accounts = ApiLookups(objects, clock, time.time)
    assert await accounts.has_account("ns")
    assert await accounts.has_account("ns")
    assert objects.writes == [ACCOUNT, ROLE, BINDING]
    assert objects.objects[ROLE]["rules"] == RULES
    assert objects.objects[BINDING]["subjects"] == [
        {"kind": "ServiceAccount", "name": SIDECAR_ACCOUNT, "namespace": "ns"}
    ]
    assert objects.objects[BINDING]["roleRef"]["name"] == SIDECAR_ACCOUNT


def test_role_grants_what_a_sidecar_calls_and_no_more() -> None:
    assert RULES == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]


async def test_burst_of_pods_makes_the_account_once(objects: Objects, clock: Clock) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    assert all(await asyncio.gather(*(accounts.has_account("ns") for _ in range(500))))
    assert objects.writes == [ACCOUNT, ROLE, BINDING]
    assert objects.reads == 4


async def test_two_replicas_that_make_it_at_once_agree(objects: Objects, clock: Clock) -> None:
    replicas = [ApiLookups(objects, clock, time.time) for _ in range(2)]
    assert all(await asyncio.gather(*(one.has_account("ns") for one in replicas)))
    assert sorted(objects.writes) == sorted([ACCOUNT, ROLE, BINDING])


async def test_each_namespace_has_its_own_account(objects: Objects, clock: Clock) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    await accounts.has_account("ns")
    await accounts.has_account("other")
    assert len(objects.objects) == 6


@pytest.mark.parametrize("path", [ACCOUNT, ROLE, BINDING])
async def test_deleted_object_is_made_again(objects: Objects, clock: Clock, path: str) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    await accounts.has_account("ns")
    del objects.objects[path]
    clock.now += ACCOUNT_FRESH
    assert await accounts.has_account("ns")
    assert objects.writes[-1] == path


async def test_changed_object_of_ours_is_corrected(objects: Objects, clock: Clock) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    await accounts.has_account("ns")
    objects.objects[ROLE]["rules"] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    clock.now += ACCOUNT_FRESH
    await accounts.has_account("ns")
    assert objects.objects[ROLE]["rules"] == RULES


async def test_role_that_is_not_ours_is_left_alone(objects: Objects, clock: Clock) -> None:
    theirs = {"metadata": {"name": SIDECAR_ACCOUNT, "resourceVersion": "1"}, "rules": []}
    objects.objects[ROLE] = copy.deepcopy(theirs)
    assert await ApiLookups(objects, clock, time.time).has_account("ns")
    assert objects.objects[ROLE] == theirs


async def test_account_that_a_user_bound_to_the_role_stays_bound(objects: Objects, clock: Clock) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    await accounts.has_account("ns")
    own = {"kind": "ServiceAccount", "name": "mine", "namespace": "ns"}
    objects.objects[BINDING]["subjects"] = [own]
    clock.now += ACCOUNT_FRESH
    await accounts.has_account("ns")
    assert own in objects.objects[BINDING]["subjects"]
    assert len(objects.objects[BINDING]["subjects"]) == 2
    clock.now += ACCOUNT_FRESH
    await accounts.has_account("ns")
    assert objects.writes.count(BINDING) == 2


async def test_account_has_the_pull_secrets_of_the_default_account(objects: Objects, clock: Clock) -> None:
    objects.objects[DEFAULT] = {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "registry"}]}
    accounts = ApiLookups(objects, clock, time.time)
    await accounts.has_account("ns")
    assert objects.objects[ACCOUNT]["imagePullSecrets"] == [{"name": "registry"}]
    objects.objects[DEFAULT]["imagePullSecrets"] = [{"name": "registry"}, {"name": "other"}]
    clock.now += ACCOUNT_FRESH
    await accounts.has_account("ns")
    assert objects.objects[ACCOUNT]["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}]


async def test_failure_is_remembered_for_seconds_only(objects: Objects, clock: Clock) -> None:
    accounts = ApiLookups(objects, clock, time.time)
    objects.refusal = Denied("create roles: forbidden", 403)
    assert not await accounts.has_account("ns")
    reads = objects.reads
    assert not await accounts.has_account("ns")
    assert objects.reads == reads, "pods of a burst don't try again each"
    objects.refusal = None
    clock.now += ACCOUNT_RETRY
    assert await accounts.has_account("ns")


def test_correct_object_needs_no_write() -> None:
    for _, body in manifests("ns", [{"name": "s"}]):
        assert corrected(copy.deepcopy(body), body) is None
        assert body["metadata"]["annotations"][CREATED_BY_ANNOTATION]
