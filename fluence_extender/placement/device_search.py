"""Choosing the devices of a whole gang together.

A device on a node decides its pod's node, and a device that one member could do without may be the only one that
another can use. So this is a depth-first search over the members that ask for devices, those with the fewest choices
first. It counts what is left of devices and of pinned nodes. The caller checks each result against the rest of the
gang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from fluence_extender.graph.catalogue import Device, DeviceCatalogue
from fluence_extender.model.pod import Pod
from fluence_extender.room.capacity import Amounts, CapacityTable
from fluence_extender.room.devices import (
    Chosen,
    DeviceUse,
    from_one_place,
    from_several_places,
    most_served,
    node_of,
    usable_devices,
)
from fluence_extender.room.holdings import ports_clash

BUDGET = 20_000
"""The most choices of a device that a search makes."""

DEVICES_PER_CHOICE = 16
"""To look at so many devices, or to take them, counts as one more choice."""

PORTS_PER_CHOICE = 32
"""To compare a pod's host ports with so many of a node counts as one more choice."""


@dataclass(frozen=True, slots=True)
class DevicePod:
    """A pod that asks for devices, and the nodes on which it may run."""

    pod: Pod
    nodes: Set[str]


@dataclass(frozen=True, slots=True)
class _Request:
    """One kind of device that one pod asks for."""

    owner: DevicePod
    kind: str
    amount: int
    devices: tuple[Device, ...]
    like_before: int = -1
    """The position of the same request of the preceding equal pod, -1 for none.

    Equal pods choose in the order of the devices.
    """


class DeviceSearch:
    """The ways to give all pods their devices, each way with the nodes to which it pins pods."""

    def __init__(self, pods: Sequence[DevicePod], use: DeviceUse, table: CapacityTable) -> None:
        """Prepare a search; ``use`` is changed by it."""
        self._use = use
        self._table = table
        self._requests = _in_order(pods, use.catalogue)
        self._free: dict[str, Amounts] = {}
        self._ports = {table.names[row]: ports for row, ports in table.ports.items()}
        self._pins: dict[str, str] = {}
        self._chosen: list[Chosen] = []
        self.budget = BUDGET

    def ways(self) -> Iterator[tuple[dict[str, list[Chosen]], dict[str, str]]]:
        """Yield each way as the devices and the pinned node by pod uid, until the budget is spent.

        Of several ways that differ only by an exchange of equal pods or equal devices, one is yielded.
        """
        if self._too_few():
            return
        stack = [self._choices(0)]
        while stack:
            if next(stack[-1], None) is None:
                stack.pop()
                continue
            if len(stack) == len(self._requests):
                yield self._way(), dict(self._pins)
                continue
            stack.append(self._choices(len(stack)))

    def _way(self) -> dict[str, list[Chosen]]:
        way: dict[str, list[Chosen]] = {}
        for request, chosen in zip(self._requests, self._chosen, strict=True):
            way.setdefault(request.owner.pod.uid, []).append(chosen)
        return way

    def _too_few(self) -> bool:
        """Return whether the free devices don't suffice for all equal requests, wherever the pods run."""
        # Equal requests have the same tuple of devices.
        alike = Counter((request.amount, id(request.devices)) for request in self._requests)
        devices = {id(request.devices): request.devices for request in self._requests}
        return any(
            most_served(devices[which], amount, self._use) < count for (amount, which), count in alike.items()
        )

    def _choices(self, at: int) -> Iterator[bool]:
        """Make one choice for the request at ``at`` each time it is advanced, after undoing the previous one."""
        request = self._requests[at]
        uid = request.owner.pod.uid
        tried: set[object] = set()
        same_pod = at > 0 and self._requests[at - 1].owner is request.owner
        backend = self._chosen[at - 1][0][0].backend if same_pod else ""
        for chosen in self._candidates(request, backend):
            self.budget -= 1 + len(chosen) // DEVICES_PER_CHOICE
            if self.budget < 0:
                return
            node = node_of(chosen)
            pinned = self._pins.get(uid, "")
            alike = tuple((device.kind, self._use.free(device)) for device, _ in chosen)
            if alike in tried or (node and pinned not in ("", node)):
                continue
            tried.add(alike)
            if node and not pinned and not self._pin(request.owner, node):
                continue
            self._chosen.append(chosen)
            for device, amount in chosen:
                self._use.take(device, amount)
            yield True
            for device, amount in chosen:
                self._use.take(device, -amount)
            self._chosen.pop()
            if node and not pinned:
                self._unpin(request.owner, node)

    def _candidates(self, request: _Request, backend: str) -> Iterator[Chosen]:
        """Yield the ways to meet a request.

        Equal pods choose in the order of the devices if each gets its own from one place, because any other way is a
        repetition.
        """
        devices = request.devices
        first = 0 if request.like_before < 0 else devices.index(self._chosen[request.like_before][0][0])
        yield from from_one_place(devices[first:] if first else devices, request.amount, self._use, backend)
        if request.amount > 1:
            self.budget -= len(devices) // DEVICES_PER_CHOICE
            yield from from_several_places(devices, request.amount, self._use, backend)

    def _pin(self, one: DevicePod, node: str) -> bool:
        """Subtract the pod's share from ``node``; return False when it doesn't fit."""
        pod = one.pod
        size = self._table.row_of(pod.requests)
        free = self._free.get(node)
        if free is None:
            # A table of a later time has only the nodes on which something is free then.
            row = self._table.rows.get(node)
            if row is None:
                return False
            free = self._table.free[row].copy()
        needed = size > 0
        ports = self._ports.get(node, ())
        if pod.host_ports:
            self.budget -= (len(ports) + len(pod.host_ports)) // PORTS_PER_CHOICE
        if (free[needed] < size[needed]).any() or ports_clash(pod.host_ports, ports):
            return False
        self._free[node] = free - size
        self._ports[node] = ports + pod.host_ports
        self._pins[pod.uid] = node
        return True

    def _unpin(self, one: DevicePod, node: str) -> None:
        pod = one.pod
        self._free[node] = self._free[node] + self._table.row_of(pod.requests)
        self._ports[node] = self._ports[node][: len(self._ports[node]) - len(pod.host_ports)]
        del self._pins[pod.uid]


def _in_order(pods: Sequence[DevicePod], catalogue: DeviceCatalogue) -> list[_Request]:
    """Return the requests of all pods, those of pods with the fewest choices first.

    The list keeps the requests of one pod together, and puts equal pods side by side.
    """
    known: dict[object, tuple[int, list[_Request]]] = {}
    by_pod: list[tuple[tuple[int, int], list[_Request]]] = []
    for one in pods:
        pod = one.pod
        key = (
            tuple(sorted(pod.devices.items())),
            tuple(pod.requires.items()),
            id(one.nodes),
            pod.requests,
            pod.host_ports,
        )
        if key not in known:
            requests = [
                _Request(one, kind, amount, _usable(one, kind, catalogue))
                for kind, amount in sorted(pod.devices.items())
            ]
            known[key] = len(known), sorted(requests, key=lambda request: len(request.devices))
        kind, alike = known[key]
        again = [replace(request, owner=one) for request in alike]
        by_pod.append(((len(again[0].devices), kind), again))
    by_pod.sort(key=lambda one: one[0])
    ordered: list[_Request] = []
    for number, (place, requests) in enumerate(by_pod):
        if number and by_pod[number - 1][0] == place:
            requests[0] = replace(requests[0], like_before=len(ordered) - len(requests))
        ordered.extend(requests)
    return ordered


def _usable(owner: DevicePod, kind: str, catalogue: DeviceCatalogue) -> tuple[Device, ...]:
    devices = usable_devices(catalogue, kind, owner.pod)
    return tuple(device for device in devices if not device.node or device.node in owner.nodes)
