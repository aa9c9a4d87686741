"""Decode ResourceSlices, DeviceClasses, ResourceClaims and ResourceClaimTemplates (resource.k8s.io/v1).

What the service doesn't plan becomes the ``problem`` of a device or a claim, so that nobody gets it by mistake: parts
of devices, devices for several claims at once, administrators' access, and constraints of other kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fluence_extender.cluster.decode.objects import (
    Int64,
    Metadata,
    Unread,
    report_unreadable,
    tolerant_decoder,
)
from fluence_extender.model.claims import (
    Choice,
    ClaimSpec,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    MatchAttribute,
)
from fluence_extender.model.devices import (
    Allocated,
    Attribute,
    DeviceClass,
    NodeDevice,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Version,
)
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.quantity import InvalidQuantity, nanos

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
ALL, EXACT_COUNT = "All", "ExactCount"


class _Attribute(msgspec.Struct):
    number: Int64 | None = msgspec.field(name="int", default=None)
    truth: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class _Capacity(msgspec.Struct):
    value: Any = 0


class _Device(msgspec.Struct):
    name: str
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Capacity] | None = None
    taints: list[DeviceTaint] | None = None
    counters: list[msgspec.Raw] | None = msgspec.field(name="consumesCounters", default=None)
    conditions: list[str] | None = msgspec.field(name="bindingConditions", default=None)
    shareable: bool | None = msgspec.field(name="allowMultipleAllocations", default=None)


class _Pool(msgspec.Struct):
    name: str = ""
    generation: Int64 = 0
    slices: Int64 = msgspec.field(name="resourceSliceCount", default=1)


class _SliceSpec(msgspec.Struct):
    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)
    node: str | None = msgspec.field(name="nodeName", default=None)
    devices: list[_Device] | None = None


class _Cel(msgspec.Struct):
    expression: str = ""


class _Selector(msgspec.Struct):
    cel: _Cel | None = None


class _ClassSpec(msgspec.Struct):
    selectors: list[_Selector] | None = None
    extended_resource: str | None = msgspec.field(name="extendedResourceName", default=None)


class _Choice(msgspec.Struct):
    name: str = ""
    device_class: str = msgspec.field(name="deviceClassName", default="")
    selectors: list[_Selector] | None = None
    mode: str | None = msgspec.field(name="allocationMode", default=None)
    count: Int64 | None = None
    admin: bool | None = msgspec.field(name="adminAccess", default=None)
    tolerations: list[DeviceToleration] | None = None
    capacity: dict[str, Any] | None = None


class _Request(msgspec.Struct):
    name: str = ""
    exactly: _Choice | None = None
    first: list[_Choice] | None = msgspec.field(name="firstAvailable", default=None)


class _Constraint(msgspec.Struct):
    requests: list[str] | None = None
    match: str | None = msgspec.field(name="matchAttribute", default=None)


class _DeviceClaim(msgspec.Struct):
    requests: list[_Request] | None = None
    constraints: list[_Constraint] | None = None


class _ClaimSpec(msgspec.Struct):
    devices: _DeviceClaim | None = None


class _Result(msgspec.Struct):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin: bool | None = msgspec.field(name="adminAccess", default=None)


class _Results(msgspec.Struct):
    results: list[_Result] | None = None


class _Term(msgspec.Struct):
    expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)
    fields: tuple[Requirement, ...] | None = msgspec.field(name="matchFields", default=None)


class _NodeSelector(msgspec.Struct):
    terms: list[_Term] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class _Allocation(msgspec.Struct):
    devices: _Results | None = None
    nodes: _NodeSelector | None = msgspec.field(name="nodeSelector", default=None)


class _ClaimStatus(msgspec.Struct):
    allocation: _Allocation | None = None


class _TemplateSpec(msgspec.Struct):
    spec: _ClaimSpec | None = None


_slice = tolerant_decoder("ResourceSlice", _SliceSpec, Unread)
_class = tolerant_decoder("DeviceClass", _ClassSpec, Unread)
_claim = tolerant_decoder("ResourceClaim", _ClaimSpec, _ClaimStatus)
_template = tolerant_decoder("ResourceClaimTemplate", _TemplateSpec, Unread)


def decode_resource_slice(raw: bytes) -> ResourceSlice:
    """Decode a ResourceSlice; devices that can be used on several nodes aren't those of a node."""
    meta, spec, _, _ = _slice(raw)
    devices = tuple(_device(meta, spec, one) for one in spec.devices or ())
    pool = spec.pool
    return ResourceSlice(
        meta.name, spec.driver, pool.name, pool.generation, pool.slices, spec.node or "", devices
    )


def _device(meta: Metadata, spec: _SliceSpec, one: _Device) -> NodeDevice:
    problem = ""
    capacity: dict[str, int] = {}
    for name, amount in (one.capacity or {}).items():
        try:
            capacity[_full(spec.driver, name)] = nanos(amount.value)
        except InvalidQuantity as error:
            problem = f"capacity {name}: {error}"
            report_unreadable("ResourceSlice", meta, f"device {one.name}: {problem}")
    if one.counters:
        problem = "it is a part of another device"
    elif one.shareable:
        problem = "several claims may share it"
    elif one.conditions:
        problem = "it has binding conditions"
    return NodeDevice(
        spec.driver,
        spec.pool.name,
        one.name,
        {_full(spec.driver, name): value for name, value in _attributes(one.attributes or {})},
        capacity,
        tuple(one.taints or ()),
        problem=problem,
    )


def _full(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _attributes(attributes: Mapping[str, _Attribute]) -> Iterable[tuple[str, Attribute]]:
    for name, one in attributes.items():
        if one.version is not None:
            yield name, Version(one.version)
        else:
            value = next((value for value in (one.number, one.truth, one.string) if value is not None), None)
            if value is not None:
                yield name, value


def decode_device_class(raw: bytes) -> DeviceClass:
    """Decode a DeviceClass."""
    meta, spec, _, _ = _class(raw)
    return DeviceClass(meta.name, _expressions(spec.selectors), spec.extended_resource or "")


def _expressions(selectors: list[_Selector] | None) -> tuple[str, ...]:
    """Return the CEL expressions; "" for a selector of another kind, which then fails."""
    return tuple(one.cel.expression if one.cel is not None else "" for one in selectors or ())


def decode_resource_claim(raw: bytes) -> ResourceClaim:
    """Decode a ResourceClaim. Devices for administrators aren't held by it."""
    meta, spec, status, problem = _claim(raw)
    allocation = status.allocation
    devices, nodes = None, None
    if allocation is not None:
        results = (allocation.devices.results if allocation.devices is not None else None) or ()
        devices = tuple(
            Allocated(one.request, (one.driver, one.pool, one.device)) for one in results if not one.admin
        )
        if allocation.nodes is not None:
            nodes = tuple(
                NodeTerm(one.expressions or (), one.fields or ()) for one in allocation.nodes.terms or ()
            )
    return ResourceClaim(
        meta.namespace,
        meta.name,
        meta.uid,
        _claim_spec(spec, problem),
        devices,
        nodes,
        EXTENDED_CLAIM in (meta.annotations or {}),
        meta.deletion_timestamp is not None,
    )


def decode_resource_claim_template(raw: bytes) -> ResourceClaimTemplate:
    """Decode a ResourceClaimTemplate."""
    meta, spec, _, problem = _template(raw)
    return ResourceClaimTemplate(meta.namespace, meta.name, _claim_spec(spec.spec, problem))


def _claim_spec(spec: _ClaimSpec | None, problem: str) -> ClaimSpec:
    asked = (spec.devices if spec is not None else None) or _DeviceClaim()
    requests, constraints = [], []
    for one in asked.requests or ():
        wanted = [one.exactly] if one.exactly is not None else one.first or []
        for choice in wanted:
            problem = problem or _unplanned(one.name, choice)
        if not wanted:
            problem = problem or f"request {one.name} is of an unknown kind"
        alternatives = one.exactly is None
        requests.append(
            DeviceRequest(
                one.name, tuple(_choice(each, each.name if alternatives else "") for each in wanted)
            )
        )
    for constraint in asked.constraints or ():
        if constraint.match is None:
            problem = problem or "it has a constraint other than matchAttribute"
        else:
            constraints.append(MatchAttribute(constraint.match, frozenset(constraint.requests or ())))
    return ClaimSpec(tuple(requests), tuple(constraints), problem)


def _unplanned(request: str, choice: _Choice) -> str:
    """Return why the service doesn't plan a choice, "" where it does."""
    if choice.admin:
        return f"request {request} asks for administrators' access, which isn't planned"
    if choice.capacity and choice.capacity.get("requests"):
        return f"request {request} asks for a part of a device's capacity, which isn't planned"
    if choice.mode not in (None, ALL, EXACT_COUNT):
        return f"request {request} has the unknown allocation mode {choice.mode}"
    return ""


def _choice(one: _Choice, name: str) -> Choice:
    count = 0 if one.mode == ALL else max(one.count or 1, 1)
    return Choice(one.device_class, _expressions(one.selectors), count, tuple(one.tolerations or ()), name)
