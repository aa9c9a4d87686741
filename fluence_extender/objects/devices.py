"""Devices of dynamic resource allocation (resource.k8s.io/v1), as drivers publish them and as pods claim them.

A driver publishes devices in ResourceSlices. A claim asks for devices by class, CEL selectors and constraints. The
service plans the constraints ``matchAttribute`` and ``distinctAttribute``. A claim with any other constraint, or with
a field that can't be read, gets a ``problem``, so that no pod with it is placed by mistake. A list of devices, requests
or allocated devices is read in full or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from fluence_extender.model.claims import AttributeConstraint, Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import (
    Attribute,
    Capacity,
    CounterId,
    DeviceId,
    NodeDevice,
    RequestPolicy,
    Version,
)
from fluence_extender.model.pod import NodeTerm
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.objects.fields import Int64, Moment, NodeSelector
from fluence_extender.objects.reading import At, Reads, reader, report

CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the extended resource by which pods may request one of its devices (KEP-5004)."""

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
ALL, EXACT_COUNT = "All", "ExactCount"

# ResourceSlices.


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


class _Published(msgspec.Struct):
    """The spec of a ResourceSlice: what its devices and counters are named by."""

    driver: str = ""
    pool: _Pool = msgspec.field(default_factory=_Pool)

    def counters_of(self, set_name: str, stated: _Counters) -> dict[CounterId, int]:
        """Return the amounts of the counters of a set. Raises `InvalidQuantity`."""
        return {
            (self.driver, self.pool.name, set_name, name): nanos(counter.value)
            for name, counter in (stated.counters or {}).items()
        }


class _PublishedDevices(_Published):
    devices: list[_Device] | None = None


class _PublishedCounters(_Published):
    counters: list[_Counters] | None = msgspec.field(name="sharedCounters", default=None)


def _shared_counters(spec: _PublishedCounters) -> Mapping[CounterId, int]:
    counters: dict[CounterId, int] = {}
    for stated in spec.counters or ():
        try:
            counters.update(spec.counters_of(stated.name, stated))
        except InvalidQuantity as error:
            report("ResourceSlice", f"{spec.driver}/{spec.pool.name}", f"counter set {stated.name}: {error}")
    return counters


def _devices(spec: _PublishedDevices) -> tuple[NodeDevice, ...]:
    return tuple(_device(spec, device) for device in spec.devices or ())


def _device(spec: _Published, device: _Device) -> NodeDevice:
    problem = ""
    capacity: dict[str, Capacity] = {}
    consumes: dict[CounterId, int] = {}
    try:
        capacity = {name: _capacity(amount) for name, amount in (device.capacity or {}).items()}
        for stated in device.consumes or ():
            consumes.update(spec.counters_of(stated.set, stated))
    except InvalidQuantity as error:
        problem = f"it can't be read: {error}"
        report("ResourceSlice", f"{spec.driver}/{spec.pool.name}", f"device {device.name}: {error}")
    return NodeDevice(
        spec.driver,
        spec.pool.name,
        device.name,
        {_full(spec.driver, name): value for name, value in _attributes(device.attributes or {})},
        capacity,
        tuple(device.taints or ()),
        problem=problem,
        consumes=consumes,
        shareable=bool(device.shareable),
        conditional=bool(device.conditions),
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


class ResourceSlice(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of one pool, as a driver publishes them.

    ``node`` is the node of all its devices, "" if other nodes can use them, too. ``counters`` are those of the pool
    that this slice states. A pool is complete when it has as many slices of the newest ``generation`` as ``slices``
    says.
    """

    name: Annotated[str, At("metadata.name")]
    driver: str = ""
    pool: Annotated[str, At("spec.pool.name")] = ""
    generation: Annotated[Int64, At("spec.pool.generation")] = 1
    slices: Annotated[Int64, At("spec.pool.resourceSliceCount")] = 1
    node: Annotated[str, At("spec.nodeName")] = ""
    devices: Annotated[tuple[NodeDevice, ...], At("spec"), Reads(_devices, _PublishedDevices)] = ()
    counters: Annotated[Mapping[CounterId, int], At("spec"), Reads(_shared_counters, _PublishedCounters)] = {}


# DeviceClasses.


class _Cel(msgspec.Struct):
    expression: str = ""


class _Selector(msgspec.Struct):
    cel: _Cel | None = None


def _expressions(selectors: list[_Selector] | None) -> tuple[str, ...]:
    """Return the CEL expressions; "" for a selector of another kind, which then fails."""
    return tuple(one.cel.expression if one.cel is not None else "" for one in selectors or ())


class DeviceClass(msgspec.Struct, frozen=True, rename="camel"):
    """A class of devices: those for which all of its CEL ``selectors`` hold.

    It backs ``extended_resource``, "" for none. If several classes back the same resource, the last ``created`` counts.
    """

    name: Annotated[str, At("metadata.name")]
    selectors: Annotated[tuple[str, ...], Reads(_expressions, list[_Selector])] = ()
    extended_resource: Annotated[str, At("spec.extendedResourceName")] = ""
    created: Annotated[Moment, At("metadata.creationTimestamp")] = 0.0

    @property
    def own_resource(self) -> str:
        """The extended resource that only this class backs."""
        return f"{CLASS_RESOURCE_PREFIX}{self.name}"

    @property
    def resource(self) -> str:
        """The name by which accounts count its devices."""
        return self.extended_resource or self.own_resource


# Claims.


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


def _claim(devices: _DeviceClaim) -> ClaimSpec:
    requests, constraints, problem = [], [], ""
    for one in devices.requests or ():
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
    for constraint in devices.constraints or ():
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


class Allocated(msgspec.Struct, frozen=True):
    """One allocated device, and the claim's request that it serves, as ``request`` or ``request/choice``.

    ``consumed`` is the part of the device's capacity that the claim has, if several claims may have the device.
    """

    request: str
    device: DeviceId
    consumed: Mapping[str, int] = {}


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
    nodes: NodeSelector | None = msgspec.field(name="nodeSelector", default=None)


class _Consumer(msgspec.Struct):
    uid: str = ""


class _Owner(msgspec.Struct):
    uid: str
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None
    owners: list[_Owner] | None = msgspec.field(name="ownerReferences", default=None)


def _allocated(allocation: _Allocation) -> tuple[Allocated, ...]:
    """Return the devices that are held. Devices for administrators aren't."""
    results = (allocation.devices.results if allocation.devices is not None else None) or ()
    return tuple(
        Allocated(one.request, (one.driver, one.pool, one.device), _consumed(one))
        for one in results
        if not one.admin
    )


def _consumed(result: _Result) -> Mapping[str, int]:
    try:
        return {name: nanos(amount) for name, amount in (result.consumed or {}).items()}
    except InvalidQuantity as error:
        report("ResourceClaim", "/".join((result.driver, result.pool, result.device)), str(error))
        return {}


def _nodes(allocation: _Allocation) -> tuple[NodeTerm, ...] | None:
    return None if allocation.nodes is None else allocation.nodes.node_terms


def _extended_for(meta: _Metadata) -> str:
    if (meta.annotations or {}).get(EXTENDED_CLAIM) != "true":
        return ""
    return next((one.uid for one in meta.owners or () if one.controller), "")


def _uids(consumers: list[_Consumer]) -> frozenset[str]:
    return frozenset(one.uid for one in consumers)


class ResourceClaim(msgspec.Struct, frozen=True):
    """A claim. Until it is allocated, its ``devices`` are None; after that, ``nodes`` says where they can be used.

    It is ``reserved`` for these pods, by uid. If kube-scheduler has made it for the extended resources of a pod,
    ``extended_for`` is the uid of that pod; else it is "".
    """

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    uid: Annotated[str, At("metadata.uid")] = ""
    spec: Annotated[ClaimSpec, At("spec.devices"), Reads(_claim, _DeviceClaim)] = ClaimSpec()
    devices: Annotated[
        tuple[Allocated, ...] | None, At("status.allocation"), Reads(_allocated, _Allocation)
    ] = None
    nodes: Annotated[tuple[NodeTerm, ...] | None, At("status.allocation"), Reads(_nodes, _Allocation)] = None
    extended_for: Annotated[str, At("metadata"), Reads(_extended_for, _Metadata)] = ""
    deleting: Annotated[bool, At("metadata.deletionTimestamp"), Reads(bool)] = False
    reserved: Annotated[frozenset[str], At("status.reservedFor"), Reads(_uids, list[_Consumer])] = frozenset()
    problems: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The only node on which its devices can be used, "" if there is none or several."""
        if self.nodes is None or len(self.nodes) != 1:
            return ""
        named = [one.values for one in self.nodes[0].fields if one.operator == "In" and len(one.values) == 1]
        return named[0][0] if named else ""

    def class_of(self, request: str) -> str:
        """Return the class of a request, given as in an allocation."""
        name, _, sub = request.partition("/")
        for one in self.spec.requests:
            for choice in one.choices if one.name == name else ():
                if choice.name == sub:
                    return choice.device_class
        return ""


class ResourceClaimTemplate(msgspec.Struct, frozen=True):
    """The template from which each pod that names it gets a claim of its own."""

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    spec: Annotated[ClaimSpec, At("spec.spec.devices"), Reads(_claim, _DeviceClaim)] = ClaimSpec()
    problems: tuple[str, ...] = ()


DeviceObject = ResourceSlice | DeviceClass | ResourceClaim | ResourceClaimTemplate

read_resource_slice = reader(ResourceSlice)
read_device_class = reader(DeviceClass)
_read_claim = reader(ResourceClaim)
_read_template = reader(ResourceClaimTemplate)


def read_resource_claim(raw: bytes) -> ResourceClaim:
    """Read a ResourceClaim."""
    claim = _read_claim(raw)
    return msgspec.structs.replace(claim, spec=_with_problem(claim.spec, claim.problems))


def read_resource_claim_template(raw: bytes) -> ResourceClaimTemplate:
    """Read a ResourceClaimTemplate."""
    template = _read_template(raw)
    return msgspec.structs.replace(template, spec=_with_problem(template.spec, template.problems))


def _with_problem(spec: ClaimSpec, problems: Iterable[str]) -> ClaimSpec:
    """Return what an object with these problems claims."""
    return next((replace(spec, problem=problem) for problem in problems), spec)
