"""The virtual devices: the backends with their attributes, what is free, and the pods that hold the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Cut, Filters, choices, cut
from fluence_extender.dashboard.views.overview import Utilization, share


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A pod that holds a device."""

    text: str
    link: str


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device in the table; ``depth`` says how deep in its backend it is."""

    name: str
    depth: int
    type: str
    backend: str
    node: str
    node_link: str
    attributes: Sequence[tuple[str, str]]
    use: Utilization
    holders: Sequence[DeviceHolder]
    hidden: int
    problems: str


@dataclass(frozen=True, slots=True)
class DevicesView:
    """The page of the devices."""

    rows: Cut[DeviceRow]
    types: Sequence[str]
    backends: Sequence[str]
    command: str


def devices_view(state: ClusterState, filters: Filters) -> DevicesView:
    """Return the devices that the filters let through."""
    kept = [device for device in state.devices if _passes(device, filters)]
    return DevicesView(
        cut(kept, device_row, filters.page),
        choices(device["type"] for device in state.devices),
        choices(device["backend"] for device in state.devices),
        commands.devices(),
    )


def device_row(device: Mapping[str, object] | Item) -> DeviceRow:
    """Return the row of a device."""
    one: Item = dict(device)
    holders = {(held["namespace"], held["pod"]): held for held in one["holders"]}
    return DeviceRow(
        one["name"],
        max(one["path"].count("/") - 2, 0) if not one["node"] else 0,
        one["type"],
        one["backend"],
        one["node"],
        links.node(one["node"]) if one["node"] else "",
        sorted(one["attributes"].items()),
        Utilization(
            one["type"], share(one["held"], one["total"]), 0.0, f"{one['held']} of {one['total']}", ""
        ),
        [
            DeviceHolder(f"{namespace}/{pod}", links.gang(namespace, held["gang"]) if held["gang"] else "")
            for (namespace, pod), held in holders.items()
        ],
        one["hidden"],
        "; ".join(one["problems"]),
    )


def _passes(device: Item, filters: Filters) -> bool:
    kinds = {"free": device["free"] > 0, "held": device["held"] > 0, "unusable": not device["usable"]}
    texts = (
        device["name"],
        device["backend"],
        *(f"{name}={value}" for name, value in device["attributes"].items()),
    )
    return (
        kinds.get(filters["show"], True)
        and filters.matches(("type", device["type"]), ("backend", device["backend"]))
        and filters.finds(*texts, *(held["pod"] for held in device["holders"]))
    )
