"""Which units of virtual devices are in use, and which free ones can serve a request.

All devices of a pod come from one place if possible, and otherwise from as few backends as possible. Devices on one
node and devices outside of nodes may be mixed, because both leave the pod a node to run on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible
from fluence_extender.graph.containment import paths_above, without_levels
from fluence_extender.model.assignment import DeviceShare, recorded_devices
from fluence_extender.model.pod import Pod

Chosen = tuple[tuple[Device, int], ...]
"""Devices, with the number of units of each."""


class DeviceUse:
    """The units of each device in use. A device with parts is free if neither it nor any part is in use."""

    def __init__(self, catalogue: DeviceCatalogue, shares: Iterable[DeviceShare] = ()) -> None:
        self.catalogue = catalogue
        self._used: dict[str, int] = {}
        self._below: dict[str, int] = {}
        self._over: set[str] = set()
        self.add(shares)

    @property
    def over(self) -> Set[str]:
        """The paths of the devices that are overused: pods hold more units than exist."""
        return self._over

    def copy(self) -> DeviceUse:
        """Return an independent copy."""
        copied = DeviceUse(self.catalogue)
        copied._used, copied._below, copied._over = dict(self._used), dict(self._below), set(self._over)
        return copied

    def with_shares(self, shares: Iterable[DeviceShare], sign: int = 1) -> DeviceUse:
        """Return the use with further shares in use (``sign`` is 1), or without these (-1)."""
        changed = self.copy()
        changed.add(shares, sign)
        return changed

    def add(self, shares: Iterable[DeviceShare], sign: int = 1) -> None:
        """Count shares as in use (``sign`` is 1), or as free again (-1), except those of devices that don't exist."""
        for share in shares:
            device = self.catalogue.at(share.path)
            if device is not None and device.type == share.type:
                self.take(device, sign * share.amount)

    def take(self, device: Device, amount: int) -> None:
        """Count ``amount`` units of the device as in use; a negative amount frees units."""
        used = self._used[device.path] = self._used.get(device.path, 0) + amount
        (self._over.add if used > device.count else self._over.discard)(device.path)
        for path in paths_above(device.path):
            self._below[path] = self._below.get(path, 0) + amount

    def free(self, device: Device) -> int:
        """Return how many units of the device are free."""
        if any(self._used.get(path) for path in paths_above(device.path)):
            return 0
        used = self._used.get(device.path, 0)
        if device.leaf:
            return max(device.count - used, 0)
        return 0 if used or self._below.get(device.path) else 1


def usable_devices(catalogue: DeviceCatalogue, kind: str, pod: Pod) -> tuple[Device, ...]:
    """Return the devices of a kind that a pod may have in the order in which they are taken: whole ones, then pools."""
    devices = eligible(catalogue, kind, pod.requires)
    return tuple(sorted(devices, key=lambda device: (device.leaf, 0 if device.leaf else device.depth)))


def ways_to_serve(
    devices: Sequence[Device], amount: int, use: DeviceUse, backend: str = ""
) -> Iterator[Chosen]:
    """Yield the ways to take ``amount`` units that are free: from one place first, and from ``backend`` first."""
    yield from from_one_place(devices, amount, use, backend)
    yield from from_several_places(devices, amount, use, backend)


def from_one_place(
    devices: Sequence[Device], amount: int, use: DeviceUse, preferred: str = ""
) -> Iterator[Chosen]:
    """Yield the ways to take all units from one pool, or as whole devices below one vertex."""
    if preferred:
        yield from _from_one_place([device for device in devices if device.backend == preferred], amount, use)
        devices = [device for device in devices if device.backend != preferred]
    yield from _from_one_place(devices, amount, use)


def _from_one_place(devices: Sequence[Device], amount: int, use: DeviceUse) -> Iterator[Chosen]:
    """Yield one pool at a time, or whole devices below one vertex."""
    siblings: dict[str, list[Device]] = {}
    for device in devices:
        free = use.free(device)
        if device.leaf and free >= amount:
            yield from _from_siblings(siblings, amount)
            siblings.clear()
            yield ((device, amount),)
        elif not device.leaf and free:
            siblings.setdefault(_parent(device), []).append(device)
    yield from _from_siblings(siblings, amount)


def _from_siblings(siblings: dict[str, list[Device]], amount: int) -> Iterator[Chosen]:
    for together in siblings.values():
        if len({device.kind for device in together}) == 1:
            together = together[:amount]
        for some in combinations(together, amount):
            yield tuple((device, 1) for device in some)


def from_several_places(
    devices: Sequence[Device], amount: int, use: DeviceUse, preferred: str = ""
) -> Iterator[Chosen]:
    """Yield ways for devices outside of nodes, and for each node together with these.

    The first has the fewest backends. Each of the others begins with another device, so that all are tried.
    """
    free = {device.path: units for device in devices if (units := use.free(device))}
    if amount < 2 or sum(free.values()) < amount:
        return
    by_node: dict[str, list[Device]] = {"": []}
    for device in devices:
        if device.path in free:
            by_node.setdefault(device.node, []).append(device)
    outside = by_node[""]
    groups = [[*own, *outside] if node else outside for node, own in by_node.items()]
    enough = [
        _by_backend(group, free, preferred)
        for group in groups
        if sum(free[device.path] for device in group) >= amount
    ]
    for first in range(max(map(len, enough), default=0)):
        for group in enough:
            chosen = _greedy([*group[first : first + 1], *group[:first], *group[first + 1 :]], free, amount)
            if first < len(group) and len({_place(device) for device, _ in chosen}) > 1:
                yield chosen


def _by_backend(devices: Sequence[Device], free: Mapping[str, int], preferred: str) -> list[Device]:
    """Return devices of the preferred backend first and then those of the backends with the most units."""
    totals: Counter[str] = Counter()
    for device in devices:
        totals[device.backend] += free[device.path]
    return sorted(devices, key=lambda device: (device.backend != preferred, -totals[device.backend]))


def _greedy(devices: Iterable[Device], free: Mapping[str, int], amount: int) -> Chosen:
    """Return the first ``amount`` units of devices."""
    chosen: list[tuple[Device, int]] = []
    for device in devices:
        units = min(free[device.path], amount)
        if units:
            chosen.append((device, units))
            amount -= units
    return tuple(chosen)


def most_served(devices: Iterable[Device], amount: int, use: DeviceUse | None = None) -> int:
    """Return how many pods get ``amount`` of ``devices`` each at most. Without ``use``, all devices are free."""
    totals: Counter[str] = Counter()
    for device in devices:
        totals[device.node] += device.count if use is None else use.free(device)
    everywhere = totals.pop("", 0) + sum(units % amount for units in totals.values())
    return everywhere // amount + sum(units // amount for units in totals.values())


def _parent(device: Device) -> str:
    return device.path.rpartition("/")[0]


def _place(device: Device) -> str:
    return device.path if device.leaf else _parent(device)


def shares_of(chosen: Iterable[Chosen]) -> tuple[DeviceShare, ...]:
    """Return chosen devices as a pod holds them."""
    return tuple(device.share(amount) for devices in chosen for device, amount in devices)


def serve(pod: Pod, use: DeviceUse, nodes: Container[str]) -> list[Chosen] | str:
    """Choose free devices for all that one pod asks for, so that it can run on one of ``nodes``.

    Return them, counted as taken in ``use``, or the first kind that can't be served.
    """
    served: list[Chosen] = []
    node = backend = ""
    for kind, amount in sorted(pod.devices.items()):
        usable = [
            device
            for device in usable_devices(use.catalogue, kind, pod)
            if not device.node or (device.node in nodes and node in ("", device.node))
        ]
        chosen = next(ways_to_serve(usable, amount, use, backend), None)
        if chosen is None:
            use.add(shares_of(served), -1)
            return kind
        use.add(shares_of([chosen]))
        served.append(chosen)
        node = node or node_of(chosen)
        backend = backend or chosen[0][0].backend
    return served


def node_of(chosen: Chosen) -> str:
    """Return the node to which devices tie their pod, "" for none."""
    return next((device.node for device, _ in chosen if device.node), "")


# Pods that are bound already.


def shares_of_bound(pod: Pod, use: DeviceUse) -> tuple[tuple[DeviceShare, ...], bool]:
    """Return what a bound pod holds: the devices that its stamp names, otherwise any that match, otherwise none.

    A stamp only chooses among free devices that the pod may use, so a forged stamp gains nothing. Also return
    whether this is final: the pod holds all that it asks for, and every device that its stamp names exists.
    ``use`` doesn't change.
    """
    use = use.copy() if len(pod.devices) > 1 else use
    shares: list[DeviceShare] = []
    final = True
    named = recorded_devices(pod.annotations)
    for kind, amount in sorted(pod.devices.items()):
        paths = [device.path for device in named if device.type == kind]
        usable = [
            device for device in usable_devices(use.catalogue, kind, pod) if device.node in ("", pod.node)
        ]
        places = set(map(without_levels, paths))
        stamped = [device for device in usable if device.place in places]
        chosen = next(ways_to_serve(stamped, amount, use), None) or next(
            ways_to_serve(usable, amount, use), None
        )
        if chosen is not None:
            taken = shares_of([chosen])
            shares.extend(taken)
            if len(pod.devices) > 1:
                use.add(taken)
        exist = all(use.catalogue.at(path) is not None for path in paths)
        final = final and chosen is not None and exist
    return tuple(shares), final


def match_request(catalogue: DeviceCatalogue, pod: Pod, shares: Iterable[DeviceShare]) -> bool:
    """Return whether the devices that a pod holds still exist and meet its requirements."""
    return all(
        any(
            device.place == without_levels(share.path)
            and (device.backend, device.attributes) == (share.backend, share.attributes)
            for device in eligible(catalogue, share.type, pod.requires)
        )
        for share in shares
    )


def all_recorded_exist(catalogue: DeviceCatalogue, pod: Pod) -> bool:
    """Return whether the pod's stamp names devices and all of them exist."""
    named = recorded_devices(pod.annotations)
    return bool(named) and all(catalogue.at(device.path) is not None for device in named)
