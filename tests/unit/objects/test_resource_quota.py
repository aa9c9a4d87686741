"""ResourceQuotas, and what a pod counts for in them, are read as the API server counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.decode.charge import decode_charge
from fluence_extender.model.pod import QuotaCharge
from fluence_extender.objects.resource_quota import ResourceQuota, read_resource_quota

MI = 2**20


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> ResourceQuota:
    body = {
        "metadata": {"name": "team", "namespace": "ns", "uid": "u"},
        "spec": spec,
        "status": {"hard": hard, "used": used or {}},
    }
    return read_resource_quota(json.dumps(body).encode())


def charge(*, qos: str = "Burstable", **spec: Any) -> QuotaCharge:
    found = decode_charge(json.dumps({"spec": spec, "status": {"qosClass": qos}}).encode())
    assert found is not None
    return found


def container(requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}, **more}


def test_room_is_what_is_not_used_in_the_units_of_accounts() -> None:
    found = quota({"requests.cpu": "2", "limits.memory": "1Gi", "pods": "10"}, {"requests.cpu": "500m"})
    assert found.room == {"requests.cpu": 1500, "limits.memory": 1024 * MI, "pods": 10}


def test_quota_that_is_not_counted_yet_limits_nothing_and_neither_does_what_cannot_be_read() -> None:
    assert read_resource_quota(b'{"metadata": {"name": "q", "namespace": "ns", "uid": "u"}}').room == {}
    assert quota({"pods": "many", "cpu": "1"}).room == {"cpu": 1000}


def test_pod_counts_its_requests_and_limits_under_all_their_names() -> None:
    amounts = charge(
        containers=[container({"cpu": "250m", "memory": "64Mi"}, {"cpu": "1", "memory": "128Mi"})],
        initContainers=[container({"cpu": "1"}, {"cpu": "2"})],
        overhead={"memory": "1Mi"},
    ).amounts
    assert dict(amounts) == {
        "pods": 1,
        "count/pods": 1,
        "cpu": 1000,
        "requests.cpu": 1000,
        "limits.cpu": 2000,
        "memory": 65 * MI,
        "requests.memory": 65 * MI,
        "limits.memory": 129 * MI,
    }


def test_extended_resources_and_virtual_devices_count_as_requests_alone() -> None:
    qpu = "fluxion.flux-framework.org/qpu"
    both = {"nvidia.com/gpu": "2", qpu: "1"}
    amounts = charge(containers=[container(both, both)]).amounts
    assert (amounts["requests.nvidia.com/gpu"], amounts[f"requests.{qpu}"]) == (2, 1)
    assert not [name for name in amounts if name.startswith("limits.") or name == "nvidia.com/gpu"]


def test_requests_that_cannot_be_read_count_for_nothing() -> None:
    assert decode_charge(json.dumps({"spec": {"containers": [container({"cpu": "x"})]}}).encode()) is None


NAMESPACED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["other"]}]}
PREFERRED: dict[str, Any] = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}]
}


@pytest.mark.parametrize(
    ("scopes", "pod", "counts"),
    [
        (["BestEffort"], {"qos": "BestEffort"}, True),
        (["BestEffort"], {}, False),
        (["NotBestEffort"], {}, True),
        (["NotBestEffort"], {"qos": "BestEffort"}, False),
        (["Terminating"], {"activeDeadlineSeconds": 0}, True),
        (["Terminating"], {}, False),
        (["NotTerminating"], {"activeDeadlineSeconds": 5}, False),
        (["NotTerminating", "NotBestEffort"], {}, True),
        (["PriorityClass"], {"priorityClassName": "high"}, True),
        (["PriorityClass"], {}, False),
        (["CrossNamespacePodAffinity"], {"affinity": {"podAffinity": NAMESPACED}}, True),
        (["CrossNamespacePodAffinity"], {"affinity": {"podAntiAffinity": PREFERRED}}, True),
        (["CrossNamespacePodAffinity"], {"affinity": {"podAffinity": {}}}, False),
    ],
)
def test_quota_counts_the_pods_in_all_its_scopes(
    scopes: list[str], pod: dict[str, Any], counts: bool
) -> None:
    assert quota({"pods": "1"}, scopes=scopes).covers(charge(containers=[], **pod)) is counts


@pytest.mark.parametrize(
    ("operator", "values", "named", "counts"),
    [
        ("In", ["high", "low"], "high", True),
        ("In", ["high"], "", False),
        ("NotIn", ["high"], "high", False),
        ("NotIn", ["high"], "", True),
        ("Exists", None, "low", True),
        ("Exists", None, "", False),
        ("DoesNotExist", None, "", True),
        ("DoesNotExist", None, "low", False),
    ],
)
def test_quota_counts_the_pods_of_the_priority_classes_that_it_selects(
    operator: str, values: list[str] | None, named: str, counts: bool
) -> None:
    scope = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    found = quota({"pods": "1"}, scopeSelector={"matchExpressions": [scope]})
    assert found.covers(charge(containers=[], priorityClassName=named)) is counts


def test_quota_is_exceeded_by_what_all_pods_ask_together() -> None:
    one = charge(containers=[container({"cpu": "500m"})])
    team = quota({"requests.cpu": "2", "pods": "5", "requests.storage": "0"}, {"pods": "2"})
    assert team.exceeded({one: 3}) == []
    assert team.exceeded({one: 4}) == ["pods"]
    assert team.exceeded({one: 5}) == ["pods", "requests.cpu"]


def test_quota_that_is_exceeded_already_lets_pods_pass_that_ask_nothing_of_it() -> None:
    over = quota({"requests.cpu": "1"}, {"requests.cpu": "2"})
    assert over.exceeded({charge(containers=[], qos="BestEffort"): 9}) == []
    assert over.exceeded({charge(containers=[container({"cpu": "1m"})]): 1}) == ["requests.cpu"]


@pytest.mark.parametrize(
    ("now", "more"),
    [
        (quota({"pods": "5"}, {"pods": "3"}), False),
        (quota({"pods": "5"}, {"pods": "1"}), True),
        (quota({"pods": "6"}, {"pods": "2"}), True),
        (quota({"cpu": "1"}), True),
        (quota({"pods": "5", "cpu": "1"}, {"pods": "2"}), False),
        (quota({"pods": "5"}, {"pods": "2"}, scopes=["BestEffort"]), True),
    ],
)
def test_more_room_or_other_scopes_may_let_refused_pods_pass(now: ResourceQuota, more: bool) -> None:
    before = quota({"pods": "5"}, {"pods": "2"})
    assert now.allows_more(before) is more
    assert not now.allows_more(None)
