"""The registration says which pods are sent and where, and edits are corrected."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fluence_extender.identity.registration import OWNER, OWNER_LABEL, is_ours
from fluence_extender.webhook.registration import (
    DEVICES,
    PODS,
    ServiceTarget,
    UrlTarget,
    corrected,
    registered_bundle,
    registration,
)

SERVICE = ServiceTarget("fluence-system", "fluence-webhook")
BUNDLE = b"-----BEGIN CERTIFICATE-----\n"
WANTED = registration(SERVICE, BUNDLE)


def webhooks(
    target: ServiceTarget | UrlTarget = SERVICE, bundle: bytes = BUNDLE
) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in registration(target, bundle)["webhooks"]}


def test_only_new_pods_of_our_scheduler_are_sent() -> None:
    for one in webhooks().values():
        (rule,) = one["rules"]
        assert (rule["operations"], rule["resources"], rule["scope"]) == (["CREATE"], ["pods"], "Namespaced")
        ours = next(c["expression"] for c in one["matchConditions"] if c["name"] == "for-our-scheduler")
        assert (
            ours
            == "has(object.spec.schedulerName) && object.spec.schedulerName in ['fluence', 'fluence-direct']"
        )


def test_each_pod_is_sent_once() -> None:
    asks = webhooks()[DEVICES]["matchConditions"][1]["expression"]
    assert webhooks()[PODS]["matchConditions"][1]["expression"] == f"!({asks})"


def test_outage_refuses_pods_with_devices_and_admits_others() -> None:
    assert webhooks()[DEVICES]["failurePolicy"] == "Fail"
    assert webhooks()[PODS]["failurePolicy"] == "Ignore"
    assert webhooks()[PODS]["timeoutSeconds"] < webhooks()[DEVICES]["timeoutSeconds"] <= 10


def test_dry_runs_are_sent_too() -> None:
    assert {one["sideEffects"] for one in webhooks().values()} == {"NoneOnDryRun"}


def test_service_or_url_is_called() -> None:
    for one in webhooks().values():
        assert one["clientConfig"]["service"] == {
            "namespace": "fluence-system",
            "name": "fluence-webhook",
            "path": "/mutate",
            "port": 443,
        }
    for one in webhooks(UrlTarget("https://10.0.0.1:8443/mutate")).values():
        assert one["clientConfig"]["url"] == "https://10.0.0.1:8443/mutate"
        assert "service" not in one["clientConfig"]


def test_hosts_are_the_names_by_which_the_webhook_is_called() -> None:
    assert SERVICE.hosts[0] == "fluence-webhook.fluence-system.svc"
    assert UrlTarget("https://10.0.0.1:8443/mutate").hosts == ("10.0.0.1",)


def test_registration_without_a_bundle_has_none() -> None:
    for one in webhooks(bundle=b"").values():
        assert "caBundle" not in one["clientConfig"]


def test_correct_registration_is_not_written() -> None:
    assert corrected(copy.deepcopy(WANTED), WANTED) is None


@pytest.mark.parametrize(
    "edit",
    [
        lambda one: one["clientConfig"].pop("caBundle"),
        lambda one: one["clientConfig"].update(caBundle="eA=="),
        lambda one: one.update(failurePolicy="Ignore" if one["name"] == DEVICES else "Fail"),
        lambda one: one.update(timeoutSeconds=30),
        lambda one: one["matchConditions"].pop(0),
        lambda one: one["rules"][0].update(operations=["*"]),
        lambda one: one.update(reinvocationPolicy="Never"),
        lambda one: one["clientConfig"]["service"].update(name="elsewhere"),
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_each_edit_is_corrected(edit: Any, number: int) -> None:
    stored = {**copy.deepcopy(WANTED), "metadata": {"resourceVersion": "7"}}
    edit(stored["webhooks"][number])
    correction = corrected(stored, WANTED)
    assert correction is not None
    assert correction["webhooks"] == WANTED["webhooks"]
    assert correction["metadata"] == {"resourceVersion": "7"}


def test_missing_and_foreign_entries_are_corrected() -> None:
    stored = copy.deepcopy(WANTED)
    stored["webhooks"].pop()
    stored["webhooks"].append({"name": "others.example.com"})
    correction = corrected(stored, WANTED)
    assert correction is not None
    assert correction["webhooks"] == WANTED["webhooks"]


@pytest.mark.parametrize("webhooks", [None, [], [{"name": "half"}], [{}]])
def test_object_without_proper_entries_is_corrected(webhooks: Any) -> None:
    correction = corrected({"metadata": {}, "webhooks": webhooks}, WANTED)
    assert correction is not None
    assert correction["webhooks"] == WANTED["webhooks"]


def test_exemptions_by_selectors_stay() -> None:
    exempt = {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}
    stored = copy.deepcopy(WANTED)
    stored["webhooks"][0]["namespaceSelector"] = exempt
    assert corrected(stored, WANTED) is None
    stored["webhooks"][0]["timeoutSeconds"] = 1
    correction = corrected(stored, WANTED)
    assert correction is not None
    assert correction["webhooks"][0]["namespaceSelector"] == exempt
    assert correction["webhooks"][0]["timeoutSeconds"] == 10
    assert WANTED["webhooks"][0]["namespaceSelector"] == {}


def test_object_with_our_label_is_ours() -> None:
    assert is_ours(WANTED)
    for labels in (None, {}, {OWNER_LABEL: "helm"}, {"app": OWNER}):
        assert not is_ours({"metadata": {"labels": labels}})


def test_bundle_is_read_back_if_all_entries_agree() -> None:
    assert registered_bundle(WANTED) == BUNDLE
    stored = copy.deepcopy(WANTED)
    stored["webhooks"][1]["clientConfig"]["caBundle"] = "eA=="
    assert registered_bundle(stored) == b""
    for nothing in (None, {}, {"webhooks": None}, registration(SERVICE), {"webhooks": [{"name": "x"}]}):
        assert registered_bundle(nothing) == b""
