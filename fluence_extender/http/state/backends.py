"""Virtual devices: what there is, what of it can be had, who holds the rest.

A device with parts is taken whole, so a pool below a device that is taken has nothing free, and a device of which a
part is taken isn't free either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fluence_extender.gangs.controller import Controller
from fluence_extender.graph.catalogue import Device
from fluence_extender.graph.cluster_graph import check_against_cluster
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.http.state.gangs import gang_name
from fluence_extender.http.state.nodes import cluster_revision, why_closed
from fluence_extender.http.state.state import DeviceView, HolderView, Items, Key, Listing
from fluence_extender.ledger.accounts import Allocation
from fluence_extender.model.assignment import DeviceShare

REMOVED = "no longer in resources.yaml: who holds it finishes first, nobody new gets it"


@dataclass(slots=True)
class _Use:
    """Who holds what of the devices: directly by path, and through a part of it."""

    direct: dict[str, list[HolderView]] = field(default_factory=dict)
    parts: dict[str, list[HolderView]] = field(default_factory=dict)
    shares: dict[str, DeviceShare] = field(default_factory=dict)


def device_listing(controller: Controller) -> Listing[DeviceView]:
    """All virtual devices by backend and path: those that can be asked for, those that can't be now, those removed."""
    return Listing(cluster_revision(controller), lambda: _items(controller))


def _items(controller: Controller) -> Items[DeviceView]:
    ledger = controller.ledger
    devices = {device.path: device for device in ledger.graph.catalogue.devices}
    use = _use(controller, devices)
    strained = ledger.overcommitted
    others = [_removed(path, share, use) for path, share in use.shares.items() if path not in devices]
    others.extend(_left_out(controller, devices.values()))
    made: dict[Key, DeviceView] = {(view.backend, view.path): view for view in others}
    keys = sorted({*made, *((device.backend, device.path) for device in devices.values())})

    def make_one(key: Key) -> DeviceView | None:
        device = devices.get(key[1])
        return made.get(key) if device is None else _view(controller, device, devices, use, strained)

    return Items(keys, make_one)


def _use(controller: Controller, devices: Mapping[str, Device]) -> _Use:
    use = _Use()
    for held in controller.ledger.allocations.values():
        for share in held.assignment.devices:
            holder = _holder(controller, held, share)
            use.shares.setdefault(share.path, share)
            use.direct.setdefault(share.path, []).append(holder)
            for above in _above(share.path, devices):
                use.parts.setdefault(above, []).append(holder)
    return use


def _above(path: str, devices: Mapping[str, Device]) -> Iterator[str]:
    """The devices that the one at ``path`` is a part of."""
    above = path.rpartition("/")[0]
    while above in devices:
        yield above
        above = above.rpartition("/")[0]


def _view(
    controller: Controller,
    device: Device,
    devices: Mapping[str, Device],
    use: _Use,
    strained: Collection[str],
) -> DeviceView:
    direct = use.direct.get(device.path, [])
    whole = [holder for above in _above(device.path, devices) for holder in use.direct.get(above, ())]
    parts = use.parts.get(device.path, [])
    total = device.count
    free = 0 if whole or parts else max(total - sum(holder.amount for holder in direct), 0)
    problems: tuple[str, ...] = ()
    if device.node:
        node = controller.eligibility.nodes.get(device.node)
        closed = why_closed(node, controller.ledger, strained)
        problems = tuple(f"its node {device.node}: {why}" for why in closed)
    holders = sorted((*direct, *whole, *parts), key=lambda one: (one.namespace, one.pod, one.path))
    return DeviceView(
        device.backend,
        device.name,
        device.path,
        device.type,
        device.node,
        device.attributes,
        total,
        total - free,
        free,
        tuple(holders),
        not problems,
        problems,
    )


def _removed(path: str, share: DeviceShare, use: _Use) -> DeviceView:
    """A device that is held and isn't there any more."""
    holders = tuple(use.direct[path])
    held = sum(holder.amount for holder in holders)
    name = path.rpartition("/")[2]
    return DeviceView(
        share.backend, name, path, share.type, "", share.attributes, 0, held, 0, holders, False, (REMOVED,)
    )


def _left_out(controller: Controller, devices: Iterable[Device]) -> Iterator[DeviceView]:
    """What resources.yaml declares and the cluster, as it is now, doesn't allow."""
    present = {device.backend for device in devices}
    declared = controller.ledger.graph.resources
    for one in declared.resources:
        if present.issuperset(one.names):
            continue
        problems = check_against_cluster(
            VirtualResources(declared.source, (one,)),
            controller.ledger.graph.shown.nodes,
            controller.ledger.graph.shown.levels,
        )
        for name in one.names:
            if name not in present:
                yield _absent(one, name, tuple(problem.message for problem in problems))


def _absent(one: VirtualResource, name: str, problems: tuple[str, ...]) -> DeviceView:
    node = "" if one.parent == CLUSTER_PARENT else one.parent
    path = f"/{CLUSTER_PARENT}/{node}/{name}" if node else f"/{CLUSTER_PARENT}/{name}"
    return DeviceView(name, name, path, one.type, node, one.attributes, 0, 0, 0, (), False, problems)


def _holder(controller: Controller, held: Allocation, share: DeviceShare) -> HolderView:
    return HolderView(
        held.namespace,
        held.name,
        held.uid,
        gang_name(controller, held.uid),
        share.path,
        share.amount,
        held.strength.name.lower(),
    )
