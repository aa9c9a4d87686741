"""Slices, classes, claims and templates as the API server sends them, with what isn't planned of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.model.claims import AttributeConstraint, Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import Capacity, RequestPolicy, Version
from fluence_extender.model.taints import Taint
from fluence_extender.objects.devices import (
    Allocated,
    read_device_class,
    read_resource_claim,
    read_resource_claim_template,
    read_resource_slice,
)


def raw(spec: Any, status: Any = None, **meta: Any) -> bytes:
    return json.dumps(
        {"metadata": {"name": "x", "namespace": "ns", **meta}, "spec": spec, "status": status}
    ).encode()


def device(**fields: Any) -> Any:
    pool = {"name": "p", "generation": 3, "resourceSliceCount": 2}
    spec = {"driver": "d.example.com", "nodeName": "n0", "pool": pool, "devices": [{"name": "g", **fields}]}
    return read_resource_slice(raw(spec)).devices[0]


def test_device_has_attributes_and_capacity_by_full_names() -> None:
    found = device(
        attributes={
            "model": {"string": "a"},
            "o.example.com/n": {"int": 0},
            "ok": {"bool": False},
            "v": {"version": "1.0.0"},
        },
        capacity={"memory": {"value": "1Ki"}},
        taints=[{"key": "sick", "effect": "NoSchedule"}],
    )
    assert found.attributes == {
        "d.example.com/model": "a",
        "o.example.com/n": 0,
        "d.example.com/ok": False,
        "d.example.com/v": Version("1.0.0"),
    }
    assert found.amounts == {"d.example.com/memory": 1024 * 10**9}
    assert found.taints == (Taint("sick", "NoSchedule"),)
    assert found.id == ("d.example.com", "p", "g")
    assert not found.problem


@pytest.mark.parametrize(
    "fields",
    [
        {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "much"}}}]},
        {"capacity": {"memory": {"value": "much"}}},
    ],
)
def test_device_that_is_not_planned_says_why(fields: dict[str, Any]) -> None:
    assert device(**fields).problem


def test_device_may_be_a_part_of_another_and_be_for_several_claims() -> None:
    found = device(
        consumesCounters=[{"counterSet": "s", "counters": {"slices": {"value": "3"}}}],
        allowMultipleAllocations=True,
        capacity={
            "memory": {
                "value": "8",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "6", "step": "2"}},
            },
            "cores": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "4"]}},
        },
    )
    assert found.consumes == {("d.example.com", "p", "s", "slices"): 3 * 10**9}
    assert found.shareable
    assert found.capacity == {
        "memory": Capacity(8 * 10**9, RequestPolicy(10**9, (), 10**9, 6 * 10**9, 2 * 10**9)),
        "cores": Capacity(4 * 10**9, RequestPolicy(10**9, (10**9, 4 * 10**9))),
    }


def test_slice_has_the_counters_of_its_pool() -> None:
    spec = {
        "driver": "d.example.com",
        "nodeName": "n0",
        "pool": {"name": "p", "resourceSliceCount": 2},
        "sharedCounters": [{"name": "s", "counters": {"slices": {"value": "7"}, "bad": {"value": "much"}}}],
    }
    assert read_resource_slice(raw(spec)).counters == {}
    del spec["sharedCounters"][0]["counters"]["bad"]  # type: ignore[index]
    assert read_resource_slice(raw(spec)).counters == {("d.example.com", "p", "s", "slices"): 7 * 10**9}


def test_class_has_its_expressions_and_its_extended_resource() -> None:
    spec = {"selectors": [{"cel": {"expression": "true"}}, {}], "extendedResourceName": "nvidia.com/gpu"}
    found = read_device_class(raw(spec))
    assert (found.selectors, found.extended_resource) == (("true", ""), "nvidia.com/gpu")


def test_template_has_choices_and_constraints() -> None:
    first = [
        {"name": "s", "deviceClassName": "c", "allocationMode": "All"},
        {"name": "t", "deviceClassName": "d"},
    ]
    exactly = {"deviceClassName": "c", "count": 2, "capacity": {"requests": {"m": "1"}}}
    devices = {
        "requests": [
            {"name": "r", "exactly": exactly},
            {"name": "q", "firstAvailable": first},
        ],
        "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}, {"distinctAttribute": "a/c"}],
    }
    assert read_resource_claim_template(raw({"spec": {"devices": devices}})).spec == ClaimSpec(
        (
            DeviceRequest("r", (Choice("c", count=2, capacity=(("m", 10**9),)),)),
            DeviceRequest("q", (Choice("c", count=0, name="s"), Choice("d", name="t"))),
        ),
        (AttributeConstraint("a/b", frozenset({"r"})), AttributeConstraint("a/c", distinct=True)),
    )


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ({"requests": [{"name": "r", "exactly": {"capacity": {"requests": {"m": "x"}}}}]}, "quantity"),
        ({"requests": [{"name": "r", "exactly": {"allocationMode": "Most"}}]}, "Most"),
        ({"requests": [{"name": "r"}]}, "unknown kind"),
        ({"constraints": [{"otherAttribute": "a/b"}]}, "matchAttribute"),
    ],
)
def test_claim_that_is_not_planned_says_why(devices: dict[str, Any], why: str) -> None:
    assert why in read_resource_claim(raw({"devices": devices})).spec.problem


def test_allocation_names_devices_and_nodes() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "g", "consumedCapacity": {"m": "1"}}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    allocation = {
        "devices": {"results": [result, {**result, "device": "h", "adminAccess": True}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    found = read_resource_claim(raw({}, {"allocation": allocation}))
    assert found.devices == (Allocated("r", ("d", "p", "g"), {"m": 10**9}),)
    assert found.node == "n0"
    assert read_resource_claim(raw({})).devices is None


def test_claim_of_extended_resources_names_its_pod() -> None:
    owners = [{"kind": "Pod", "name": "p", "uid": "u", "controller": True}]
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert read_resource_claim(raw({}, annotations=marked, ownerReferences=owners)).extended_for == "u"
    assert read_resource_claim(raw({}, ownerReferences=owners)).extended_for == ""


@pytest.mark.parametrize(
    ("where", "node"),
    [
        ({"nodeName": "n0"}, "n0"),
        ({"allNodes": True}, ""),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": []}]}}, ""),
        ({"perDeviceNodeSelection": True}, ""),
    ],
)
def test_slice_says_whether_its_devices_belong_to_one_node(where: dict[str, object], node: str) -> None:
    devices = [{"name": "a", "nodeName": "n0"}] if "perDeviceNodeSelection" in where else [{"name": "a"}]
    spec = {"driver": "d.example.com", "pool": {"name": "p"}, "devices": devices, **where}
    assert read_resource_slice(raw(spec)).node == node


def test_binding_conditions_and_access_for_administrators_are_read() -> None:
    assert device(bindingConditions=["ready"]).conditional
    assert not device().conditional
    claim = read_resource_claim(
        raw({"devices": {"requests": [{"name": "r", "exactly": {"adminAccess": True}}]}})
    )
    assert claim.spec.requests[0].choices[0].admin


def test_allocated_claim_is_reserved_for_pods() -> None:
    status = {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    assert read_resource_claim(raw({}, status)).reserved == {"u"}
