"""Devices of dynamic resource allocation (resource.k8s.io/v1), and what pods claim of them.

A driver publishes devices in ResourceSlices. A claim asks for devices by class, CEL selectors and constraints.
kube-scheduler allocates them pod by pod; the service only has to know what there is, what is held, and what pods will
claim. Names of attributes and capacities are full: ``domain/id``, with the driver as the default domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fluence_extender.model.claims import ClaimSpec, DeviceTaint
from fluence_extender.model.pod import NodeTerm

CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the extended resource by which pods may request one of its devices (KEP-5004)."""

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version."""

    text: str


Attribute = bool | int | str | Version
"""The value of an attribute."""


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """One device of a node.

    ``capacity`` is in billionths. ``held`` says that a claim has it. ``problem`` is why the service never plans with
    it, "" for most.
    """

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    held: bool = False
    problem: str = ""

    @property
    def id(self) -> DeviceId:
        """What identifies it in the cluster."""
        return self.driver, self.pool, self.name


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool, as a driver publishes them.

    ``node`` is the node of all of them, "" where they can be reached from several. The pool is complete where
    ``slices`` of them have its newest ``generation``.
    """

    name: str
    driver: str
    pool: str
    generation: int = 1
    slices: int = 1
    node: str = ""
    devices: tuple[NodeDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of devices.

    All of its CEL expressions hold for them. It backs an extended resource, "" for none.
    """

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""

    @property
    def resource(self) -> str:
        """The name by which accounts count its devices."""
        return self.extended_resource or f"{CLASS_RESOURCE_PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class Allocated:
    """One allocated device, and the request of the claim that it serves, ``request`` or ``request/choice``."""

    request: str
    device: DeviceId


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim. ``devices`` are None before it is allocated; then ``nodes`` says where its devices can be used.

    ``for_extended`` is true for the claim that kube-scheduler makes of a pod's extended resources.
    """

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    devices: tuple[Allocated, ...] | None = None
    nodes: tuple[NodeTerm, ...] | None = None
    for_extended: bool = False
    deleting: bool = False

    @property
    def node(self) -> str:
        """The only node on which its devices can be used, "" where there is none or several."""
        if self.nodes is None or len(self.nodes) != 1:
            return ""
        named = [one.values for one in self.nodes[0].fields if one.operator == "In" and len(one.values) == 1]
        return named[0][0] if named else ""


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """The template from which each pod that names it gets a claim of its own."""

    namespace: str
    name: str
    spec: ClaimSpec


DeviceObject = ResourceSlice | DeviceClass | ResourceClaim | ResourceClaimTemplate
