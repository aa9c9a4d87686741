"""Virtual devices in the state API: what exists, how much of it is free, and what holds the rest.

A device with parts is allocated whole. So a pool below an allocated device has nothing free, and a device isn't free
either while a part of it is allocated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fluence_extender.api.nodes import Backend, Holder
from fluence_extender.gangs.controller import Controller
from fluence_extender.graph.catalogue import Device
from fluence_extender.graph.cluster_graph import check_against_cluster
from fluence_extender.graph.containment import paths_above
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.http.state.gangs import firmness, gang_name
from fluence_extender.http.state.listings import Items, Key, Listing
from fluence_extender.http.state.nodes import cluster_revision, why_closed
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.room.holdings import Holding

REMOVED = "no longer in resources.yaml: pods that hold it may finish, no other pod gets it"


@dataclass(slots=True)
class _Use:
    """The holders of each device by path: of the device itself (``direct``), and of one of its ``parts``."""

    direct: dict[str, list[Holder]] = field(default_factory=dict)
    parts: dict[str, list[Holder]] = field(default_factory=dict)
    shares: dict[str, DeviceShare] = field(default_factory=dict)


def backend_listing(controller: Controller) -> Listing[Backend]:
    """Return all virtual devices by backend and path: usable ones, unusable ones, and removed ones still held."""
    return Listing(cluster_revision(controller), lambda: _items(controller))


def _items(controller: Controller) -> Items[Backend]:
    ledger = controller.ledger
    devices = {device.path: device for device in ledger.graph.catalogue.devices}
    use = _use(controller, devices)
    overcommitted = ledger.overcommitted
    absent = [_removed(path, share, use) for path, share in use.shares.items() if path not in devices]
    absent.extend(_left_out(controller, devices.values()))
    made: dict[Key, Backend] = {(one.backend, one.path): one for one in absent}
    keys = sorted({*made, *((device.backend, device.path) for device in devices.values())})

    def make_one(key: Key) -> Backend | None:
        device = devices.get(key[1])
        return made.get(key) if device is None else _present(controller, device, devices, use, overcommitted)

    return Items(keys, make_one)


def _use(controller: Controller, devices: Mapping[str, Device]) -> _Use:
    use = _Use()
    for held in controller.ledger.holdings.values():
        for share in held.assignment.devices:
            holder = _holder(controller, held, share)
            use.shares.setdefault(share.path, share)
            use.direct.setdefault(share.path, []).append(holder)
            for above in _above(share.path, devices):
                use.parts.setdefault(above, []).append(holder)
    return use


def _above(path: str, devices: Mapping[str, Device]) -> Iterator[str]:
    """Return the devices of which the one at ``path`` is a part."""
    return filter(devices.__contains__, paths_above(path))


def _present(
    controller: Controller,
    device: Device,
    devices: Mapping[str, Device],
    use: _Use,
    overcommitted: Collection[str],
) -> Backend:
    direct = use.direct.get(device.path, [])
    whole = [holder for above in _above(device.path, devices) for holder in use.direct.get(above, ())]
    parts = use.parts.get(device.path, [])
    free = 0 if whole or parts else max(device.count - sum(holder.amount for holder in direct), 0)
    problems: tuple[str, ...] = ()
    if device.node:
        node = controller.eligibility.nodes.get(device.node)
        closed = why_closed(node, controller.ledger, overcommitted)
        problems = tuple(f"its node {device.node}: {why}" for why in closed)
    holders = sorted((*direct, *whole, *parts), key=lambda one: (one.namespace, one.pod, one.path))
    return Backend(
        backend=device.backend,
        name=device.name,
        path=device.path,
        type=device.type,
        node=device.node,
        attributes=device.attributes,
        total=device.count,
        held=device.count - free,
        free=free,
        holders=tuple(holders),
        hidden=0,
        usable=not problems,
        problems=problems,
    )


def _removed(path: str, share: DeviceShare, use: _Use) -> Backend:
    """Return a device that pods still hold although it has been removed."""
    return _unusable(
        share.backend, path, share.type, "", share.attributes, (REMOVED,), tuple(use.direct[path])
    )


def _left_out(controller: Controller, devices: Iterable[Device]) -> Iterator[Backend]:
    """Yield the devices that resources.yaml declares but the present cluster doesn't allow."""
    present = {device.backend for device in devices}
    declared = controller.ledger.graph.declared
    for one in declared.resources:
        if present.issuperset(one.names):
            continue
        problems = check_against_cluster(
            VirtualResources(declared.source, (one,)),
            controller.eligibility.nodes.keys(),
            controller.ledger.graph.levels,
        )
        for name in one.names:
            if name not in present:
                yield _absent(one, name, tuple(problem.message for problem in problems))


def _absent(one: VirtualResource, name: str, problems: tuple[str, ...]) -> Backend:
    node = "" if one.parent == CLUSTER_PARENT else one.parent
    path = f"/{CLUSTER_PARENT}/{node}/{name}" if node else f"/{CLUSTER_PARENT}/{name}"
    return _unusable(name, path, one.type, node, one.attributes, problems, ())


def _unusable(
    backend: str,
    path: str,
    kind: str,
    node: str,
    attributes: Mapping[str, str],
    problems: tuple[str, ...],
    holders: tuple[Holder, ...],
) -> Backend:
    """Return a device that isn't in the graph; nothing of it is free."""
    return Backend(
        backend=backend,
        name=path.rpartition("/")[2],
        path=path,
        type=kind,
        node=node,
        attributes=attributes,
        total=0,
        held=sum(holder.amount for holder in holders),
        free=0,
        holders=holders,
        hidden=0,
        usable=False,
        problems=problems,
    )


def _holder(controller: Controller, held: Holding, share: DeviceShare) -> Holder:
    return Holder(
        namespace=held.namespace,
        pod=held.name,
        uid=held.uid,
        gang=gang_name(controller, held.uid),
        path=share.path,
        amount=share.amount,
        claim=firmness(held),
    )
