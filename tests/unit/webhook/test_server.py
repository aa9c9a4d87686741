"""The webhook over HTTP answers reviews, bad reviews, probes and metrics."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import jsonpatch
import pytest

from fluence_extender.http.listeners.gate import AccessGate, OpenGate, ReviewingGate
from fluence_extender.identity.authority import SharedAuthority
from fluence_extender.model.access import METRICS, Caller
from fluence_extender.model.names import WARNING_ANNOTATION
from fluence_extender.webhook import admission
from fluence_extender.webhook.admission import Admission
from fluence_extender.webhook.contract import Context, OwnedPods
from fluence_extender.webhook.limit_ranges import Bounds
from fluence_extender.webhook.metrics import WebhookMetrics
from fluence_extender.webhook.registration import PATH, RegistrationReconciler, UrlTarget
from fluence_extender.webhook.server import MAX_BODY, WebhookApp
from tests.unit.http.callers import KnownCallers
from tests.unit.webhook.reviews import UID, written
from tests.unit.webhook.stored_objects import StoredObjects

QPU = "fluxion.flux-framework.org/qpu"


def pod(scheduler: str = "fluence", **requested: str) -> dict[str, Any]:
    resources = {"requests": {QPU: "1"}, "limits": {QPU: "1"}, **requested}
    container = {"name": "main", "image": "python:3.12", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


@dataclass
class Lookups:
    """Answers lookups and records them."""

    requested: list[str] = field(default_factory=list)

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        self.requested.append(group)
        return True

    async def bounds(self, namespace: str) -> Bounds:
        return {}

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        self.requested.append(name)
        return None


class Service:
    """One webhook without a network."""

    def __init__(self, gate: AccessGate | None = None) -> None:
        self.gate = gate or OpenGate()
        self.objects = StoredObjects()
        self.missing = ""
        self.lookups = Lookups()
        target = UrlTarget("https://127.0.0.1:8443/mutate")
        source = SharedAuthority(self.objects, "fluence-system", target.hosts, lambda: datetime.now(UTC))
        self.registration = RegistrationReconciler(
            self.objects, source, target, lambda identity: None, lambda: not self.missing
        )
        self.context = Context()
        judge = Admission(("fluxion", "quantum", "gang"), lambda: self.context, self.lookups)
        app = WebhookApp(judge, self.registration, WebhookMetrics(), lambda: self.missing, self.gate)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://webhook")

    async def review(self, thing: object, **fields: Any) -> dict[str, Any]:
        answer = await self.post(written(thing, **fields))
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        response: dict[str, Any] = answer.json()["response"]
        assert (response["uid"], response["allowed"]) == (UID, True)
        return response

    async def post(self, body: bytes, **headers: str) -> httpx.Response:
        sent = {"content-type": "application/json", **headers}
        return await self.client.post("/mutate", content=body, headers=sent)

    async def metric(self, sample: str) -> float:
        text = (await self.client.get("/metrics")).text
        (line,) = (line for line in text.splitlines() if line.startswith(f"{sample} "))
        return float(line.rpartition(" ")[2])

    async def answers(self, outcome: str) -> float:
        return await self.metric(f'fluence_webhook_answers_total{{outcome="{outcome}"}}')


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    async with service.client:
        yield service


async def test_pod_of_ours_is_patched(service: Service) -> None:
    response = await service.review(pod())
    assert response["patchType"] == "JSONPatch"
    assert await service.answers("patched") == 1


@pytest.mark.parametrize("scheduler", ["default-scheduler", "other-scheduler", ""])
async def test_pods_of_other_schedulers_are_left_byte_identical(service: Service, scheduler: str) -> None:
    assert await service.review(pod(scheduler)) == {"uid": UID, "allowed": True}
    assert await service.answers("unchanged") == 1
    assert service.lookups.requested == []


async def test_object_of_another_group_is_left_as_it_is(service: Service) -> None:
    response = await service.review({}, kind={"group": "example.com", "version": "v1", "kind": "Job"})
    assert "not example.com/Job" in response["warnings"][0]


async def test_pod_without_a_scheduler_is_left_byte_identical(service: Service) -> None:
    unsaid = pod()
    del unsaid["spec"]["schedulerName"]
    assert await service.review(unsaid) == {"uid": UID, "allowed": True}


async def test_dry_run_gets_the_same_patch_and_nothing_is_made(service: Service) -> None:
    tried = await service.review(pod(), dryRun=True)
    assert service.lookups.requested == []
    assert "patch" in tried


@pytest.mark.parametrize("thing", [None, [], "pod", {}, {"spec": None}, {"spec": {"schedulerName": 7}}])
async def test_object_that_is_no_pod_is_allowed_as_it_is(service: Service, thing: object) -> None:
    assert "patch" not in await service.review(thing)


async def test_object_that_can_not_be_read_is_allowed_with_a_warning(service: Service) -> None:
    (warning,) = (await service.review([]))["warnings"]
    assert warning.startswith("fluence admitted the object as it is: the object isn't a pod")
    assert await service.answers("unreadable") == 1
    assert await service.metric("fluence_webhook_warnings_total") == 1


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b"[1]", written({}, uid="")])
async def test_review_that_can_not_be_read_is_refused(service: Service, body: bytes) -> None:
    answer = await service.post(body)
    assert answer.status_code == 400
    assert answer.text
    assert await service.answers("bad-request") == 1


async def test_other_methods_forms_and_sizes_are_refused(service: Service) -> None:
    assert (await service.client.get("/mutate")).status_code == 405
    plain = {"content-type": "text/plain"}
    assert (await service.client.post("/mutate", content=b"x", headers=plain)).status_code == 415
    assert (await service.post(b"x" * (MAX_BODY + 1))).status_code == 413
    packed = await service.post(written(pod()), **{"content-encoding": "gzip"})
    assert packed.status_code == 415


async def test_internal_error_allows_the_pod_as_it_is(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("details that users needn't see")

    monkeypatch.setattr(admission, "mutate", broken)
    body = pod()
    response = await service.review(body)
    (warning,) = response["warnings"]
    patched = jsonpatch.apply_patch(body, base64.b64decode(response["patch"]).decode())
    notes = {**body["metadata"].get("annotations", {}), WARNING_ANNOTATION: warning}
    assert patched == {**body, "metadata": {**body["metadata"], "annotations": notes}}
    assert "ZeroDivisionError" in warning
    assert "details" not in warning
    assert await service.answers("failed") == 1
    monkeypatch.setattr(admission, "with_note", broken)
    assert "patch" not in await service.review(body)


async def test_webhook_answers_503_before_it_knows_the_cluster(service: Service) -> None:
    service.missing = "resources.yaml isn't listed"
    answer = await service.post(written(pod()))
    assert (answer.status_code, answer.text) == (503, "not ready: resources.yaml isn't listed")
    assert await service.answers("not-ready") == 1
    ready = await service.client.get("/readyz")
    assert (ready.status_code, ready.text) == (503, "not ready: resources.yaml isn't listed\n")
    assert (await service.client.get("/healthz")).text == "ok\n"


async def test_webhook_is_ready_once_it_was_registered(service: Service) -> None:
    assert (await service.client.get("/readyz")).text == "not ready: not registered yet\n"
    assert await service.metric("fluence_webhook_registered") == 0
    await service.registration.reconcile("")
    assert (await service.client.get("/readyz")).text == "ok\n"
    assert await service.metric("fluence_webhook_registered") == 1
    expires = await service.metric("fluence_webhook_certificate_expiry_timestamp_seconds")
    assert expires - datetime.now(UTC).timestamp() > 29 * 24 * 3600
    service.objects.put(PATH, {"metadata": {"name": "another's"}})
    await service.registration.reconcile("")
    assert (await service.client.get("/readyz")).text == "ok\n"
    assert await service.metric("fluence_webhook_registered") == 0


async def test_other_paths_do_not_exist(service: Service) -> None:
    assert (await service.client.get("/")).status_code == 404
    assert (await service.client.post("/mutate/", content=b"{}")).status_code == 404


async def test_reviews_of_one_burst_are_all_answered(service: Service) -> None:
    body = json.loads(written(pod()))
    for number in range(200):
        body["request"]["uid"] = f"uid-{number}"
        answer = await service.post(json.dumps(body).encode())
        assert answer.json()["response"]["uid"] == f"uid-{number}"


async def test_metrics_need_the_right_to_get_them_and_probes_do_not() -> None:
    callers = KnownCallers(
        tokens={"prometheus": Caller("prometheus"), "others": Caller("other")},
        rights={"prometheus": {METRICS}},
    )
    service = Service(ReviewingGate(callers))
    async with service.client as client:
        statuses = [
            (await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})).status_code
            for token in ("prometheus", "others", "unknown")
        ]
        assert statuses == [200, 403, 401]
        assert (await client.get("/metrics", headers={"X-Remote-User": "prometheus"})).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
