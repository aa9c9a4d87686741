"""The virtual devices of a graph, and which of them a request may take.

Invariant: the text of an explanation depends only on the devices and the request, so it is stable while they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fluence_extender.graph.containment import Containment, without_levels
from fluence_extender.graph.vertex import NODE_TYPE
from fluence_extender.graph.virtual import VirtualResource
from fluence_extender.model.assignment import DeviceShare

BACKEND = "backend"
"""The attribute with which a request names the backend itself."""

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Device:
    """One node-typed vertex of a virtual resource.

    ``depth`` is the number of node-typed vertices above it, and ``ancestors`` are their ranks. ``leaf`` says that it is
    a pool of ``count`` units. ``backend`` is the name of its top-level vertex, ``node`` the name of the physical node
    above it ("" for none). Two devices of equal ``kind`` are interchangeable if they have as many free units.
    """

    path: str
    name: str
    rank: int
    type: str
    depth: int
    leaf: bool
    count: int
    backend: str
    node: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    ancestors: tuple[int, ...] = ()
    kind: tuple[object, ...] = ()

    @property
    def place(self) -> str:
        """The path without topology levels, which doesn't change if its node moves in the topology."""
        return without_levels(self.path)

    def attribute(self, key: str) -> str | None:
        """Return an attribute's value; that of ``backend`` is the backend's name."""
        return self.backend if key == BACKEND else self.attributes.get(key)

    def share(self, amount: int) -> DeviceShare:
        """Return ``amount`` units of the device, as a pod holds them."""
        return DeviceShare(self.path, self.type, amount, self.backend, dict(self.attributes))


class DeviceCatalogue:
    """All virtual devices of a graph, in the order in which the policy takes them."""

    __slots__ = ("_by_place", "devices")

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        self.devices = tuple(devices)
        self._by_place = {device.place: device for device in self.devices}

    def at(self, path: str) -> Device | None:
        """Return the device that had ``path``, even if its node has moved in the topology since."""
        return self._by_place.get(without_levels(path))

    def nodes(self) -> frozenset[str]:
        """Return the nodes that have devices."""
        return frozenset(device.node for device in self.devices if device.node)

    @property
    def types(self) -> tuple[str, ...]:
        """Every type that can be requested, sorted."""
        return tuple(sorted({device.type for device in self.devices}))


def device_catalogue(containment: Containment, descending: bool = False) -> DeviceCatalogue:
    """List the virtual devices of a graph in the order of their branches, or the reverse if ``descending``."""
    devices = [_device(containment, path) for path in containment.devices]
    devices.sort(key=lambda device: (*device.ancestors, device.rank), reverse=descending)
    return DeviceCatalogue(tuple(devices))


def eligible(catalogue: DeviceCatalogue, kind: str, requires: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices of type ``kind`` with the attributes in ``requires``, whose key ``backend`` is the name."""
    return tuple(
        device
        for device in catalogue.devices
        if device.type == kind and all(device.attribute(key) == value for key, value in requires.items())
    )


def choice(catalogue: DeviceCatalogue, kinds: Iterable[str], requires: Mapping[str, str]) -> int:
    """Return from how many devices a pod may choose. A pod with fewer should choose earlier."""
    return min((len(eligible(catalogue, kind, requires)) for kind in kinds), default=0)


def why_none(catalogue: DeviceCatalogue, kind: str, requires: Mapping[str, str]) -> str | None:
    """Return why no device is eligible: an unknown type, or the requirement that leaves none.

    Return None when some device is eligible.
    """
    left = eligible(catalogue, kind, {})
    if not left:
        known = ", ".join(catalogue.types)
        return f"no resource of type {kind} is configured; " + (
            f"known types: {known}" if known else "none are"
        )
    met: list[str] = []
    for key in sorted(requires):
        wanted = requires[key]
        matching = tuple(device for device in left if device.attribute(key) == wanted)
        if not matching:
            return _excluded(left, key, wanted, met)
        left = matching
        met.append(f"require-{key}={wanted}")
    return None


def _excluded(left: Iterable[Device], key: str, wanted: str, met: Sequence[str]) -> str:
    backends: dict[str, set[str]] = {}
    for device in left:
        value = device.attribute(key)
        backends.setdefault(device.backend, set()).update([value] if value else [])
    values = sorted(set().union(*backends.values()))
    shown = ", ".join(values[:_MOST_SHOWN]) + (", ..." if len(values) > _MOST_SHOWN else "")
    number = f"{len(backends)} backend" + ("" if len(backends) == 1 else "s")
    among = f" with {', '.join(met)}" if met else ""
    return f"require-{key}={wanted} matches none of {number}{among} ({key}: {shown or 'not set'})"


def _device(containment: Containment, path: str) -> Device:
    vertex = containment.vertex(path)
    resource = vertex.resource
    assert resource is not None, f"{path} is listed as a device but has no resource"
    above = [containment.vertex(one) for one in containment.ancestors(path)]
    nodes = [one for one in above if one.type == NODE_TYPE]
    physical = [one.name for one in nodes if one.resource is None]
    return Device(
        path=path,
        name=vertex.name,
        rank=vertex.rank,
        type=resource.type,
        depth=len(nodes),
        leaf=resource.is_leaf,
        count=resource.count if resource.is_leaf else 1,
        backend=vertex.backend,
        node=physical[0] if physical else "",
        attributes=resource.attributes,
        ancestors=tuple(one.rank for one in reversed(nodes)),
        kind=(path.rpartition("/")[0], vertex.backend, _content(resource)),
    )


def _content(resource: VirtualResource) -> tuple[object, ...]:
    """Return what a device is and what it contains, without its name."""
    parts = tuple((child.count, _content(child)) for child in resource.children)
    units = resource.count if resource.is_leaf else 1
    return resource.type, units, tuple(sorted(resource.attributes.items())), parts
