"""The sidecar's account is made for pods that exist, corrected if it is ours, and left alone if it isn't."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import Denied
from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation
from fluence_extender.model.coordination import (
    CONSUMER,
    OBSERVE_LABEL,
    PRODUCER,
    ROLE_ANNOTATION,
    SIDECAR_ACCOUNT,
)
from fluence_extender.model.names import CREATED_BY_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.sidecar_account import (
    RENEW_BELOW,
    RULES,
    TOKEN_LASTS,
    SidecarAccountReconciler,
    corrected,
    manifests,
    seconds_left,
)
from tests.unit.webhook.stored_objects import StoredObjects, refusing

Json = dict[str, Any]
ACCOUNT, ROLE, BINDING = (path for path, _ in manifests("ns"))
SECRET = "/api/v1/namespaces/ns/secrets/fluence-sidecar"
REQUEST = f"{ACCOUNT}/token"
LEAD = Pod("ns", "lead", "u-1", annotations={ROLE_ANNOTATION: PRODUCER}, devices={"qpu": 1})


def token(expires: float) -> str:
    """Return a token as the API server signs it, without a signature."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"


class Namespaces:
    """An API server, and a webhook of one replica that has seen ``pods``."""

    def __init__(self, *pods: Pod) -> None:
        self.now = 1_800_000_000.0
        self.objects = StoredObjects()
        self.objects.token = self._token
        self.requests: list[Json] = []
        self.replica = self.another(*pods)

    def another(self, *pods: Pod) -> SidecarAccountReconciler:
        replica = SidecarAccountReconciler(self.objects, lambda: self.now)
        replica.observe(Listed(Pod, pods))
        return replica

    async def seen(self, *seen: Observation) -> None:
        for one in seen:
            self.replica.observe(one)
        await self.replica.round()

    def held(self) -> bytes:
        return base64.b64decode(self.objects.objects[SECRET]["data"]["token"])

    def made(self) -> list[str]:
        return [path for verb, path in self.objects.writes() if verb == "create"]

    def _token(self, request: Json) -> str:
        self.requests.append(request)
        return token(self.now + request["spec"]["expirationSeconds"])


async def test_account_role_binding_and_token_are_made_once_the_pod_exists() -> None:
    cluster = Namespaces()
    await cluster.seen()
    assert cluster.objects.calls == []
    await cluster.seen(Changed(LEAD))
    assert cluster.made() == [ACCOUNT, ROLE, BINDING, SECRET]
    assert cluster.objects.objects[ROLE]["rules"] == RULES
    assert cluster.objects.objects[BINDING]["roleRef"]["name"] == SIDECAR_ACCOUNT
    assert cluster.objects.objects[BINDING]["subjects"] == [
        {"kind": "ServiceAccount", "name": SIDECAR_ACCOUNT, "namespace": "ns"}
    ]
    assert seconds_left(cluster.held(), cluster.now) == TOKEN_LASTS


async def test_token_ends_with_its_secret_and_after_an_hour() -> None:
    cluster = Namespaces(LEAD)
    await cluster.seen()
    (request,) = cluster.requests
    assert request["spec"]["expirationSeconds"] == 3600
    bound = request["spec"]["boundObjectRef"]
    uid = cluster.objects.objects[SECRET]["metadata"]["uid"]
    assert (bound["kind"], bound["name"], bound["uid"]) == ("Secret", "fluence-sidecar", uid)


def test_role_grants_what_a_sidecar_calls_and_no_more() -> None:
    assert RULES == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]


@pytest.mark.parametrize(
    "pod",
    [
        replace(LEAD, scheduler="default-scheduler"),
        replace(LEAD, phase="Succeeded"),
        replace(LEAD, devices={}),
        replace(LEAD, annotations={}),
        replace(LEAD, annotations={ROLE_ANNOTATION: CONSUMER}),
        replace(LEAD, annotations={}, labels={OBSERVE_LABEL: "false"}),
    ],
    ids=["another scheduler", "ended", "no qpu", "no role", "consumer", "not observed"],
)
async def test_pod_without_a_sidecar_brings_nothing_about(pod: Pod) -> None:
    cluster = Namespaces(pod)
    await cluster.seen(Changed(pod))
    assert cluster.objects.calls == []


async def test_observed_pod_has_a_sidecar_too() -> None:
    cluster = Namespaces(replace(LEAD, annotations={}, labels={OBSERVE_LABEL: "true"}))
    await cluster.seen()
    assert cluster.made() == [ACCOUNT, ROLE, BINDING, SECRET]


async def test_pod_that_is_gone_again_brings_nothing_about() -> None:
    cluster = Namespaces(LEAD)
    await cluster.seen(Deleted(LEAD))
    assert cluster.objects.calls == []


async def test_burst_of_pods_makes_the_account_once() -> None:
    cluster = Namespaces(*(replace(LEAD, uid=f"u-{number}") for number in range(500)))
    await cluster.seen()
    assert cluster.made() == [ACCOUNT, ROLE, BINDING, SECRET]
    assert len(cluster.requests) == 1


async def test_two_replicas_that_make_it_at_once_agree() -> None:
    cluster = Namespaces(LEAD)
    replicas = [cluster.replica, cluster.another(LEAD)]
    for _ in range(3):
        await asyncio.gather(*(one.round() for one in replicas))
        for one in replicas:
            one.enqueue(("ns",))
    assert cluster.objects.objects.keys() == {ACCOUNT, ROLE, BINDING, SECRET}
    assert seconds_left(cluster.held(), cluster.now) == TOKEN_LASTS


async def test_each_namespace_has_its_own_account() -> None:
    cluster = Namespaces(LEAD, replace(LEAD, uid="u-2", namespace="other"))
    await cluster.seen()
    assert len(cluster.objects.objects) == 8


@pytest.mark.parametrize("path", [ACCOUNT, ROLE, BINDING, SECRET])
async def test_deleted_object_is_made_again_for_the_next_pod(path: str) -> None:
    cluster = Namespaces(LEAD)
    await cluster.seen()
    del cluster.objects.objects[path]
    await cluster.seen(Changed(replace(LEAD, uid="u-2")))
    assert path in cluster.objects.objects
    assert seconds_left(cluster.held(), cluster.now) == TOKEN_LASTS


@pytest.mark.parametrize(("path", "field"), [(ROLE, "rules"), (BINDING, "subjects")])
async def test_changed_object_of_ours_is_corrected(path: str, field: str) -> None:
    cluster = Namespaces(LEAD)
    await cluster.seen()
    before = copy.deepcopy(cluster.objects.objects[path][field])
    cluster.objects.objects[path][field] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await cluster.seen(Changed(replace(LEAD, uid="u-2")))
    assert cluster.objects.objects[path][field] == before


@pytest.mark.parametrize("path", [ROLE, SECRET])
async def test_object_that_is_not_ours_is_left_alone(path: str) -> None:
    cluster = Namespaces(LEAD)
    theirs = cluster.objects.put(path, {"metadata": {"name": SIDECAR_ACCOUNT}, "rules": []})
    await cluster.seen()
    assert cluster.objects.objects[path] == theirs


async def test_token_is_renewed_at_half_its_life_while_there_is_a_sidecar() -> None:
    cluster = Namespaces(LEAD)
    assert await cluster.replica.reconcile("ns") == TOKEN_LASTS - RENEW_BELOW
    first = cluster.held()
    cluster.now += RENEW_BELOW - 1
    await cluster.replica.reconcile("ns")
    assert cluster.held() == first
    cluster.now += 2
    await cluster.replica.reconcile("ns")
    assert seconds_left(cluster.held(), cluster.now) == TOKEN_LASTS
    cluster.replica.observe(Changed(replace(LEAD, phase="Failed")))
    calls = len(cluster.objects.calls)
    assert await cluster.replica.reconcile("ns") is None
    assert len(cluster.objects.calls) == calls


async def test_token_of_a_short_life_is_looked_at_every_minute() -> None:
    cluster = Namespaces(LEAD)
    cluster.objects.token = lambda request: token(cluster.now + 600)
    assert await cluster.replica.reconcile("ns") == 60.0


@pytest.mark.parametrize("text", ["", "no token", "a.b.c", "a.e30.c", "a.bnVsbA.c", "a.eyJleHAiOiJ4In0.c"])
def test_token_that_can_not_be_read_is_due(text: str) -> None:
    assert seconds_left(text.encode(), 0.0) == 0.0


async def test_failure_is_tried_again() -> None:
    cluster = Namespaces(LEAD)
    cluster.objects.before = refusing("create", Denied("create roles: forbidden", 403))
    await cluster.seen()
    assert cluster.objects.objects == {}
    cluster.objects.before = lambda verb, path: None
    cluster.replica.enqueue(("ns",))
    await cluster.seen()
    assert cluster.objects.objects.keys() == {ACCOUNT, ROLE, BINDING, SECRET}


def test_correct_object_needs_no_write() -> None:
    for _, body in manifests("ns"):
        assert corrected(copy.deepcopy(body), body) is None
        assert body["metadata"]["annotations"][CREATED_BY_ANNOTATION]
