"""The pools of devices that drivers publish, slice by slice, and which of their devices nodes can use.

A pool is shared if several nodes can use a device of it, or if devices of several nodes take from its counters. Its
devices belong to no node, because nothing is planned with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fluence_extender.devices.allocator import choices
from fluence_extender.devices.selectors import selects
from fluence_extender.model.claims import Claims
from fluence_extender.model.devices import CounterId, DeviceId, Holder, NodeDevice
from fluence_extender.model.multimap import Multimap
from fluence_extender.objects.devices import ResourceSlice

MOST_REMEMBERED = 4096
"""The most claims for which the service caches whether they could get a shared device."""

Pool = tuple[str, str]
"""Driver and name."""

Held = Mapping[DeviceId, Mapping[str, Holder]]
"""The claims that have each device, by their uid."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """The newest slices of a pool. ``problem`` says why none of its devices can be allocated, "" for most pools."""

    slices: tuple[ResourceSlice, ...]
    problem: str
    counters: Mapping[CounterId, int] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether its devices can't be counted node by node."""
        nodes = {one.node for one in self.slices if one.devices}
        return "" in nodes or bool(self.counters and len(nodes) > 1)


class Pools:
    """All slices, by pool and by node."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self._pools_of: Multimap[str, Pool] = Multimap()
        self._slices_in: Multimap[Pool, str] = Multimap()
        self._newest: dict[Pool, _Pool] = {}
        self.shared: set[Pool] = set()
        self._unplannable: dict[Claims, str] = {}

    def changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
        """Record that a slice in ``slices`` has changed, and return the nodes that this touches."""
        self._unplannable.clear()
        touched: set[str] = set()
        for one in (old, new):
            if one is None:
                continue
            pool = one.driver, one.pool
            if one is old:
                self._slices_in.discard(pool, one.name)
            else:
                self._slices_in.add(pool, one.name)
            self._newest.pop(pool, None)
            nodes = {self.slices[name].node for name in self._slices_in.of(pool)}
            touched |= {one.node, *nodes}
            is_shared = pool in self._slices_in and self._pool(pool).shared
            (self.shared.add if is_shared else self.shared.discard)(pool)
            for node in {one.node, *nodes}:
                if node in nodes and not is_shared:
                    self._pools_of.add(node, pool)
                else:
                    self._pools_of.discard(node, pool)
        return touched

    def serves(self, node: str) -> bool:
        """Return whether a node has slices."""
        return node in self._pools_of

    def nodes(self) -> set[str]:
        """Return the nodes that have slices."""
        return set(self._pools_of)

    def devices(self, node: str, held: Held) -> Iterator[NodeDevice]:
        """Yield the devices of a node in the order in which kube-scheduler goes through them."""
        yield from in_order(
            device
            for pool in self._pools_of.of(node)
            for at, device in self._devices(pool, held)
            if at == node
        )

    def unplannable(self, claims: Claims) -> str:
        """Return the problem of claims that could get a device which several nodes share, "" for most claims."""
        problem = self._unplannable.get(claims)
        if problem is None:
            if len(self._unplannable) >= MOST_REMEMBERED:
                self._unplannable.clear()
            problem = self._unplannable[claims] = self._could_share(claims) if self.shared else ""
        return problem

    def _could_share(self, claims: Claims) -> str:
        for device in self._shared_devices():
            for claim in claims:
                if any(selects(choice.selectors, device) is True for choice in choices((claim,))):
                    return (
                        f"its claim of {claim.text} could get device {device.name} of pool {device.pool} of "
                        f"{device.driver}, which several nodes share; such devices aren't planned: select devices "
                        "that belong to one node"
                    )
        return ""

    def _shared_devices(self) -> Iterator[NodeDevice]:
        """Yield the devices of shared pools, by the names of their pools."""
        for pool in sorted(self.shared):
            yield from (device for published in self._pool(pool).slices for device in published.devices)

    def _devices(self, pool: Pool, held: Held) -> Iterator[tuple[str, NodeDevice]]:
        """Yield the devices of a pool with the nodes of their slices."""
        read = self._pool(pool)
        problem = read.problem or self._overdrawn(read, held)
        for one in read.slices:
            for device in one.devices:
                claims = held.get(device.id)
                if claims:
                    used = _used(claims) if device.shareable else {}
                    device = replace(device, held=True, used=used, holders=tuple(claims.values()))
                yield one.node, replace(device, problem=device.problem or problem) if problem else device

    def counters(self, node: str) -> dict[CounterId, int]:
        """Return the counters from which devices of a node take."""
        return {
            counter: left
            for pool in self._pools_of.of(node)
            for counter, left in self._pool(pool).counters.items()
        }

    def _pool(self, pool: Pool) -> _Pool:
        found = self._newest.get(pool)
        if found is None:
            found = self._newest[pool] = _newest_slices(
                [self.slices[name] for name in sorted(self._slices_in.of(pool))]
            )
        return found

    @staticmethod
    def _overdrawn(pool: _Pool, held: Held) -> str:
        """Return the problem of a pool whose counters are overdrawn, so that none of its devices is free."""
        if not pool.counters:
            return ""
        left = Counter(pool.counters)
        for one in pool.slices:
            for device in one.devices:
                if device.id in held:
                    left.subtract(device.consumes)
        over = next((counter for counter, amount in left.items() if amount < 0), None)
        return f"more is in use of counter {over[3]} than there is" if over is not None else ""


def in_order(devices: Iterable[NodeDevice]) -> list[NodeDevice]:
    """Return devices in the order in which kube-scheduler goes through their pools; the order within a pool stays."""
    some = list(devices)
    late = {one.id[:2] for one in some if one.conditional}
    return sorted(some, key=lambda one: (one.id[:2] in late, one.driver, one.pool))


def _newest_slices(slices: list[ResourceSlice]) -> _Pool:
    """Return the newest slices of a pool, with the reason if they can't be used."""
    newest = max(one.generation for one in slices)
    present = tuple(one for one in slices if one.generation == newest)
    counters: dict[CounterId, int] = {}
    for one in present:
        counters.update(one.counters)
    name = f"pool {present[0].pool} of {present[0].driver}"
    if len(present) != present[0].slices:
        return _Pool(present, f"{name} is incomplete", counters)
    names = Counter(device.name for one in present for device in one.devices)
    twice = next((device for device, count in names.items() if count > 1), None)
    if twice is not None:
        return _Pool(present, f"{name} has device {twice} twice", counters)
    taken = (counter for one in present for device in one.devices for counter in device.consumes)
    unknown = next((counter for counter in taken if counter not in counters), None)
    if unknown is not None:
        return _Pool(present, f"{name} has no counter {unknown[3]} in set {unknown[2]}", counters)
    return _Pool(present, "", counters)


def _used(claims: Mapping[str, Holder]) -> Mapping[str, int]:
    used: Counter[str] = Counter()
    for one in claims.values():
        used.update(one.used)
    return used
