"""Decode ResourceSlices, DeviceClasses, ResourceClaims and ResourceClaimTemplates (resource.k8s.io/v1).

The service plans the constraints ``matchAttribute`` and ``distinctAttribute``. A claim with any other constraint gets a
``problem``, so that no pod with it is placed by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fluence_extender.model.claims import AttributeConstraint, Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import (
    Allocated,
    Attribute,
    Capacity,
    CounterId,
    DeviceClass,
    NodeDevice,
    RequestPolicy,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Version,
)
from fluence_extender.model.pod import NodeTerm, Requirement
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.objects.fields import Int64
from fluence_extender.objects.meta import Metadata, Unread, report_unreadable, tolerant_decoder

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
ALL, EXACT_COUNT = "All", "ExactCount"


class _Attribute(msgspec.Struct):
    number: Int64 | None = msgspec.field(name="int", default=None)
    truth: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class _Range(msgspec.Struct):
    least: Any = msgspec.field(name="min", default=None)
    most: Any = msgspec.field(name="max", default=None)
    step: Any = None


class _Policy(msgspec.Struct):
    default: Any = None
    values: list[Any] | None = msgspec.field(name="validValues", default=None)
    range: _Range | None = msgspec.field(name="validRange", default=None)


class _Capacity(msgspec.Struct):
    value: Any = 0
    policy: _Policy | None = msgspec.field(name="requestPolicy", default=None)


class _Counter(msgspec.Struct):
    value: Any = 0


class _Counters(msgspec.Struct):
    """A set of counters, or what a device consumes of one."""

    name: str = ""
    set: str = msgspec.field(name="counterSet", default="")
    counters: dict[str, _Counter] | None = None


class _Term(msgspec.Struct):
    expressions: tuple[Requirement, ...] | None = msgspec.field(name="matchExpressions", default=None)
    fields: tuple[Requirement, ...] | None = msgspec.field(name="matchFields", default=None)


class _NodeSelector(msgspec.Struct):
    terms: list[_Term] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class _Device(msgspec.Struct):
    name: str
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Capacity] | None = None
    taints: list[Taint] | None = None
    consumes: list[_Counters] | None = msgspec.field(name="consumesCounters", default=None)
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
    counters: list[_Counters] | None = msgspec.field(name="sharedCounters", default=None)


class _Cel(msgspec.Struct):
    expression: str = ""


class _Selector(msgspec.Struct):
    cel: _Cel | None = None


class _ClassSpec(msgspec.Struct):
    selectors: list[_Selector] | None = None
    extended_resource: str | None = msgspec.field(name="extendedResourceName", default=None)


class _Asked(msgspec.Struct):
    requests: dict[str, Any] | None = None


class _Choice(msgspec.Struct):
    name: str = ""
    device_class: str = msgspec.field(name="deviceClassName", default="")
    selectors: list[_Selector] | None = None
    mode: str | None = msgspec.field(name="allocationMode", default=None)
    count: Int64 | None = None
    admin: bool | None = msgspec.field(name="adminAccess", default=None)
    tolerations: list[Toleration] | None = None
    capacity: _Asked | None = None


class _Request(msgspec.Struct):
    name: str = ""
    exactly: _Choice | None = None
    first: list[_Choice] | None = msgspec.field(name="firstAvailable", default=None)


class _Constraint(msgspec.Struct):
    requests: list[str] | None = None
    match: str | None = msgspec.field(name="matchAttribute", default=None)
    distinct: str | None = msgspec.field(name="distinctAttribute", default=None)


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
    consumed: dict[str, Any] | None = msgspec.field(name="consumedCapacity", default=None)
    admin: bool | None = msgspec.field(name="adminAccess", default=None)


class _Results(msgspec.Struct):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct):
    devices: _Results | None = None
    nodes: _NodeSelector | None = msgspec.field(name="nodeSelector", default=None)


class _Consumer(msgspec.Struct):
    uid: str = ""


class _ClaimStatus(msgspec.Struct):
    reserved: list[_Consumer] | None = msgspec.field(name="reservedFor", default=None)
    allocation: _Allocation | None = None


class _TemplateSpec(msgspec.Struct):
    spec: _ClaimSpec | None = None


_slice = tolerant_decoder("ResourceSlice", _SliceSpec, Unread)
_class = tolerant_decoder("DeviceClass", _ClassSpec, Unread)
_claim = tolerant_decoder("ResourceClaim", _ClaimSpec, _ClaimStatus)
_template = tolerant_decoder("ResourceClaimTemplate", _TemplateSpec, Unread)


def decode_resource_slice(raw: bytes) -> ResourceSlice:
    """Decode a ResourceSlice."""
    meta, spec, _, _ = _slice(raw)
    devices = tuple(_device(meta, spec, one) for one in spec.devices or ())
    pool = spec.pool
    counters: dict[CounterId, int] = {}
    for one in spec.counters or ():
        try:
            counters.update(_counters(spec, one.name, one))
        except InvalidQuantity as error:
            report_unreadable("ResourceSlice", meta, f"counter set {one.name}: {error}")
    return ResourceSlice(
        meta.name, spec.driver, pool.name, pool.generation, pool.slices, spec.node or "", devices, counters
    )


def _counters(spec: _SliceSpec, name: str, some: _Counters) -> dict[CounterId, int]:
    """Return the amounts of the counters of a set. Raises `InvalidQuantity`."""
    return {
        (spec.driver, spec.pool.name, name, counter): nanos(one.value)
        for counter, one in (some.counters or {}).items()
    }


def _device(meta: Metadata, spec: _SliceSpec, one: _Device) -> NodeDevice:
    problem = ""
    capacity: dict[str, Capacity] = {}
    consumes: dict[CounterId, int] = {}
    try:
        capacity = {name: _capacity(amount) for name, amount in (one.capacity or {}).items()}
        for some in one.consumes or ():
            consumes.update(_counters(spec, some.set, some))
    except InvalidQuantity as error:
        problem = f"it can't be read: {error}"
        report_unreadable("ResourceSlice", meta, f"device {one.name}: {error}")
    return NodeDevice(
        spec.driver,
        spec.pool.name,
        one.name,
        {_full(spec.driver, name): value for name, value in _attributes(one.attributes or {})},
        capacity,
        tuple(one.taints or ()),
        problem=problem,
        consumes=consumes,
        shareable=bool(one.shareable),
        conditional=bool(one.conditions),
    )


def _capacity(one: _Capacity) -> Capacity:
    """Raises `InvalidQuantity`."""

    def amount(value: Any) -> int | None:
        return None if value is None else nanos(value)

    policy = one.policy
    if policy is None:
        return Capacity(nanos(one.value))
    within = policy.range or _Range()
    values = tuple(nanos(value) for value in policy.values or ())
    least, most, step = amount(within.least), amount(within.most), amount(within.step)
    return Capacity(nanos(one.value), RequestPolicy(amount(policy.default), values, least, most, step))


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
    return DeviceClass(meta.name, _expressions(spec.selectors), spec.extended_resource or "", meta.created)


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
            Allocated(one.request, (one.driver, one.pool, one.device), _consumed(meta, one))
            for one in results
            if not one.admin
        )
        nodes = _terms(allocation.nodes)
    return ResourceClaim(
        meta.namespace,
        meta.name,
        meta.uid,
        _claim_spec(spec, problem),
        devices,
        nodes,
        _extended_for(meta),
        meta.deletion_timestamp is not None,
        frozenset(one.uid for one in status.reserved or ()),
    )


def _terms(selector: _NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    if selector is None:
        return None
    return tuple(NodeTerm(one.expressions or (), one.fields or ()) for one in selector.terms or ())


def _consumed(meta: Metadata, one: _Result) -> dict[str, int]:
    try:
        return {name: nanos(amount) for name, amount in (one.consumed or {}).items()}
    except InvalidQuantity as error:
        report_unreadable("ResourceClaim", meta, f"device {one.device}: {error}")
        return {}


def _extended_for(meta: Metadata) -> str:
    """Return the pod, by uid, for whose extended resources kube-scheduler has made a claim; "" for other claims."""
    if (meta.annotations or {}).get(EXTENDED_CLAIM) != "true":
        return ""
    return next((one.uid for one in meta.owner_references or () if one.controller), "")


def decode_resource_claim_template(raw: bytes) -> ResourceClaimTemplate:
    """Decode a ResourceClaimTemplate."""
    meta, spec, _, problem = _template(raw)
    return ResourceClaimTemplate(meta.namespace, meta.name, _claim_spec(spec.spec, problem))


def _claim_spec(spec: _ClaimSpec | None, problem: str) -> ClaimSpec:
    claim = (spec.devices if spec is not None else None) or _DeviceClaim()
    requests, constraints = [], []
    for one in claim.requests or ():
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
    for constraint in claim.constraints or ():
        attribute = constraint.match or constraint.distinct
        if attribute is None:
            problem = problem or "it has a constraint other than matchAttribute and distinctAttribute"
        else:
            requests_of = frozenset(constraint.requests or ())
            constraints.append(AttributeConstraint(attribute, requests_of, constraint.match is None))
    return ClaimSpec(tuple(requests), tuple(constraints), problem)


def _unplanned(request: str, choice: _Choice) -> str:
    """Return why the service doesn't plan a choice, "" if it does."""
    try:
        _requested_capacity(choice)
    except InvalidQuantity as error:
        return f"request {request}: {error}"
    if choice.mode not in (None, ALL, EXACT_COUNT):
        return f"request {request} has the unknown allocation mode {choice.mode}"
    return ""


def _choice(one: _Choice, name: str) -> Choice:
    count = 0 if one.mode == ALL else max(one.count or 1, 1)
    try:
        capacity = _requested_capacity(one)
    except InvalidQuantity:
        capacity = ()
    return Choice(
        one.device_class,
        _expressions(one.selectors),
        count,
        tuple(one.tolerations or ()),
        name,
        capacity,
        admin=bool(one.admin),
    )


def _requested_capacity(one: _Choice) -> tuple[tuple[str, int], ...]:
    """Return what is asked of the capacity of each device. Raises `InvalidQuantity`."""
    requests = (one.capacity.requests if one.capacity is not None else None) or {}
    return tuple((name, nanos(amount)) for name, amount in sorted(requests.items()))
