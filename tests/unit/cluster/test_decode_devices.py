"""Slices, classes, claims and templates as the API server sends them, with what isn't planned of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.cluster.decode.devices import (
    decode_device_class,
    decode_resource_claim,
    decode_resource_claim_template,
    decode_resource_slice,
)
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest, DeviceTaint, MatchAttribute
from fluence_extender.model.devices import Allocated, Version


def raw(spec: Any, status: Any = None, **meta: Any) -> bytes:
    return json.dumps(
        {"metadata": {"name": "x", "namespace": "ns", **meta}, "spec": spec, "status": status}
    ).encode()


def device(**fields: Any) -> Any:
    pool = {"name": "p", "generation": 3, "resourceSliceCount": 2}
    spec = {"driver": "d.example.com", "nodeName": "n0", "pool": pool, "devices": [{"name": "g", **fields}]}
    return decode_resource_slice(raw(spec)).devices[0]


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
    assert found.capacity == {"d.example.com/memory": 1024 * 10**9}
    assert found.taints == (DeviceTaint("sick", "NoSchedule"),)
    assert found.id == ("d.example.com", "p", "g")
    assert not found.problem


@pytest.mark.parametrize(
    "fields",
    [
        {"consumesCounters": [{"counterSet": "s", "counters": {}}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["ready"]},
        {"capacity": {"memory": {"value": "much"}}},
    ],
)
def test_device_that_is_not_planned_says_why(fields: dict[str, Any]) -> None:
    assert device(**fields).problem


def test_class_has_its_expressions_and_its_extended_resource() -> None:
    spec = {"selectors": [{"cel": {"expression": "true"}}, {}], "extendedResourceName": "nvidia.com/gpu"}
    found = decode_device_class(raw(spec))
    assert (found.selectors, found.extended_resource) == (("true", ""), "nvidia.com/gpu")


def test_template_has_choices_and_constraints() -> None:
    first = [
        {"name": "s", "deviceClassName": "c", "allocationMode": "All"},
        {"name": "t", "deviceClassName": "d"},
    ]
    devices = {
        "requests": [
            {"name": "r", "exactly": {"deviceClassName": "c", "count": 2}},
            {"name": "q", "firstAvailable": first},
        ],
        "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}],
    }
    assert decode_resource_claim_template(raw({"spec": {"devices": devices}})).spec == ClaimSpec(
        (
            DeviceRequest("r", (Choice("c", count=2),)),
            DeviceRequest("q", (Choice("c", count=0, name="s"), Choice("d", name="t"))),
        ),
        (MatchAttribute("a/b", frozenset({"r"})),),
    )


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ({"requests": [{"name": "r", "exactly": {"adminAccess": True}}]}, "administrators"),
        ({"requests": [{"name": "r", "exactly": {"capacity": {"requests": {"m": "1"}}}}]}, "capacity"),
        ({"requests": [{"name": "r", "exactly": {"allocationMode": "Most"}}]}, "Most"),
        ({"requests": [{"name": "r"}]}, "unknown kind"),
        ({"constraints": [{"distinctAttribute": "a/b"}]}, "matchAttribute"),
    ],
)
def test_claim_that_is_not_planned_says_why(devices: dict[str, Any], why: str) -> None:
    assert why in decode_resource_claim(raw({"devices": devices})).spec.problem


def test_allocation_names_devices_and_nodes() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "g"}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    allocation = {
        "devices": {"results": [result, {**result, "device": "h", "adminAccess": True}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    found = decode_resource_claim(raw({}, {"allocation": allocation}))
    assert found.devices == (Allocated("r", ("d", "p", "g")),)
    assert found.node == "n0"
    assert decode_resource_claim(raw({})).devices is None
