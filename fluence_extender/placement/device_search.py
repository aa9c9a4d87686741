"""Choosing the devices of a whole gang together, where choosing pod by pod strands somebody.

A device that hangs on a node decides its pod's node, and a device that one member could do without may be the only one
that another can use. So this is a depth-first search over the members that ask for devices, the least choice first,
which counts what devices and pinned nodes have left; the caller checks what is found against the rest of the gang.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible
from fluence_extender.ledger.accounts import ports_clash
from fluence_extender.ledger.capacity import Amounts, CapacityTable
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.pod import Pod

BUDGET = 20_000
"""Choices of a device that a search makes at most."""

Chosen = tuple[tuple[Device, int], ...]
"""Devices and how many units of each."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A pod that asks for devices, and the nodes that it may run on."""

    pod: Pod
    nodes: Set[str]


class DeviceUse:
    """How much of each device is in use. A device with parts is free when neither it nor a part of it is in use."""

    def __init__(self, catalogue: DeviceCatalogue, shares: Sequence[DeviceShare]) -> None:
        self._used: dict[str, int] = {}
        self._below: dict[str, int] = {}
        for share in shares:
            device = catalogue.at(share.path)
            if device is not None:
                self.take(device, share.amount)

    def take(self, device: Device, amount: int) -> None:
        """Count ``amount`` units of the device as in use, or fewer again when it is negative."""
        self._used[device.path] = self._used.get(device.path, 0) + amount
        for path in _above(device.path):
            self._below[path] = self._below.get(path, 0) + amount

    def free(self, device: Device) -> int:
        """How many units of the device are free."""
        if any(self._used.get(path) for path in _above(device.path)):
            return 0
        used = self._used.get(device.path, 0)
        if device.leaf:
            return device.count - used
        return 0 if used or self._below.get(device.path) else 1


def _above(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


@dataclass(frozen=True, slots=True)
class _Ask:
    """One kind of device that one pod asks for."""

    asker: Asker
    kind: str
    amount: int
    devices: tuple[Device, ...]
    like_before: int = -1
    """Where the same ask of an equal pod is, which comes before: equal pods choose in the order of the devices."""


class DeviceSearch:
    """Ways to give every asker its devices, one after the other, each way with the nodes that it pins pods to."""

    def __init__(
        self, askers: Sequence[Asker], catalogue: DeviceCatalogue, use: DeviceUse, table: CapacityTable
    ) -> None:
        self._use = use
        self._table = table
        self._asks = _in_order(askers, catalogue)
        self._free: dict[str, Amounts] = {}
        self._ports = {table.names[row]: ports for row, ports in table.ports.items()}
        self._pins: dict[str, str] = {}
        self._chosen: list[Chosen] = []
        self.budget = BUDGET

    def ways(self) -> Iterator[tuple[dict[str, list[Chosen]], dict[str, str]]]:
        """Each way as the devices by pod uid and the pinned node by pod uid, until the budget is spent.

        Ways that differ only in which of two equal pods goes where, or which of two equal devices is taken, are one.
        """
        stack = [self._choices(0)]
        while stack:
            if next(stack[-1], None) is None:
                stack.pop()
                continue
            if len(stack) == len(self._asks):
                yield self._way(), dict(self._pins)
                continue
            stack.append(self._choices(len(stack)))

    def release(self) -> None:
        """Count what the last way has chosen as free again, when no other way is wanted."""
        for chosen in self._chosen:
            for device, amount in chosen:
                self._use.take(device, -amount)
        self._chosen.clear()

    def _way(self) -> dict[str, list[Chosen]]:
        way: dict[str, list[Chosen]] = {}
        for ask, chosen in zip(self._asks, self._chosen, strict=True):
            way.setdefault(ask.asker.pod.uid, []).append(chosen)
        return way

    def _choices(self, at: int) -> Iterator[bool]:
        """Make one choice after the other for the ask at ``at``; each is taken back when the next is wanted."""
        ask = self._asks[at]
        uid = ask.asker.pod.uid
        tried: set[object] = set()
        for chosen in self._candidates(ask):
            self.budget -= 1
            if self.budget < 0:
                return
            node = chosen[0][0].node
            pinned = self._pins.get(uid, "")
            alike = tuple((_kind(one), self._use.free(one)) for one, _ in chosen)
            if alike in tried or (node and pinned not in ("", node)) or self._too_early(ask, chosen):
                continue
            tried.add(alike)
            if node and not pinned and not self._pin(ask.asker, node):
                continue
            self._chosen.append(chosen)
            for device, amount in chosen:
                self._use.take(device, amount)
            yield True
            for device, amount in chosen:
                self._use.take(device, -amount)
            self._chosen.pop()
            if node and not pinned:
                self._unpin(ask.asker, node)

    def _too_early(self, ask: _Ask, chosen: Chosen) -> bool:
        if ask.like_before < 0:
            return False
        before = self._chosen[ask.like_before]
        return ask.devices.index(chosen[0][0]) < ask.devices.index(before[0][0])

    def _candidates(self, ask: _Ask) -> Iterator[Chosen]:
        siblings: dict[str, list[Device]] = {}
        for device in ask.devices:
            free = self._use.free(device)
            if device.leaf and free >= ask.amount:
                yield ((device, ask.amount),)
            elif not device.leaf and free:
                siblings.setdefault(device.path.rpartition("/")[0], []).append(device)
        for together in siblings.values():
            if len({_kind(device) for device in together}) == 1:
                together = together[: ask.amount]
            for some in combinations(together, ask.amount):
                yield tuple((device, 1) for device in some)

    def _pin(self, asker: Asker, node: str) -> bool:
        """Let the pod take its share of ``node``; False when there is no room for it."""
        pod = asker.pod
        size = self._table.size(pod.requests)
        free = self._free.get(node)
        if free is None:
            free = self._table.free[self._table.rows[node]].copy()
        asked = size > 0
        ports = self._ports.get(node, ())
        if (free[asked] < size[asked]).any() or ports_clash(pod.host_ports, ports):
            return False
        self._free[node] = free - size
        self._ports[node] = ports + pod.host_ports
        self._pins[pod.uid] = node
        return True

    def _unpin(self, asker: Asker, node: str) -> None:
        pod = asker.pod
        self._free[node] = self._free[node] + self._table.size(pod.requests)
        self._ports[node] = self._ports[node][: len(self._ports[node]) - len(pod.host_ports)]
        del self._pins[pod.uid]


def _kind(device: Device) -> tuple[object, ...]:
    """Devices of one kind can stand for each other while they are as free as each other."""
    parent = device.path.rpartition("/")[0]
    return (parent, device.backend, device.type, device.count, tuple(sorted(device.attributes.items())))


def _in_order(askers: Sequence[Asker], catalogue: DeviceCatalogue) -> list[_Ask]:
    """The asks, those of pods with the least choice first, those of one pod together, equal pods in a row."""
    known: dict[object, list[_Ask]] = {}
    by_pod: list[tuple[tuple[int, int], list[_Ask]]] = []
    for asker in askers:
        pod = asker.pod
        key = (
            tuple(sorted(pod.devices.items())),
            tuple(pod.requires.items()),
            id(asker.nodes),
            pod.requests,
            pod.host_ports,
        )
        if key not in known:
            asks = [
                _Ask(asker, kind, amount, _usable(asker, kind, catalogue))
                for kind, amount in sorted(pod.devices.items())
            ]
            known[key] = sorted(asks, key=lambda ask: len(ask.devices))
        again = [replace(ask, asker=asker) for ask in known[key]]
        by_pod.append(((len(again[0].devices), list(known).index(key)), again))
    by_pod.sort(key=lambda one: one[0])
    ordered: list[_Ask] = []
    for number, (place, asks) in enumerate(by_pod):
        if number and by_pod[number - 1][0] == place:
            asks[0] = replace(asks[0], like_before=len(ordered) - len(asks))
        ordered.extend(asks)
    return ordered


def _usable(asker: Asker, kind: str, catalogue: DeviceCatalogue) -> tuple[Device, ...]:
    found = eligible(catalogue, kind, asker.pod.requires)
    return tuple(device for device in found if not device.node or device.node in asker.nodes)
