"""The page of the devices."""

from __future__ import annotations

import htpy as h
from htpy import Node

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import bar, filter_form, heading, pager, select_field, table
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.devices import DeviceRow, devices_view
from fluence_extender.dashboard.views.filters import Filters

SHOWN = ("free", "held", "unusable")


def devices_page(state: ClusterState, filters: Filters) -> PageContent:
    """Return the devices that the filters let through."""
    found = devices_view(state, filters)
    controls = filter_form(
        links.DEVICES,
        filters,
        select_field("Type", "type", found.types, filters),
        select_field("Backend", "backend", found.backends, filters),
        select_field("Show", "show", SHOWN, filters),
    )
    live = [
        heading(f"{found.rows.total:,} devices", found.command),
        table(
            "Devices",
            ("Device", "Type", "Backend", "Held", "Held by", "Node", "Attributes", "Problems"),
            (_cells(row) for row in found.rows.rows),
            [
                "No device is like this. An administrator describes devices in the ConfigMap ",
                h.code["fluence-resources"],
                ".",
            ],
        ),
        pager(found.rows, links.DEVICES, filters),
    ]
    return PageContent("Devices", links.DEVICES, live, controls)


def _cells(row: DeviceRow) -> tuple[Node, ...]:
    holders: list[Node] = [
        h.li[h.a(href=holder.link)[holder.text] if holder.link else holder.text] for holder in row.holders
    ]
    if row.hidden:
        holders.append(h.li[f"{row.hidden:,} of other namespaces"])
    return (
        h.span(class_=f"depth-{min(row.depth, 3)}")[row.name],
        row.type,
        row.backend,
        bar(row.use),
        h.ul[holders] if holders else "-",
        h.a(href=row.node_link)[row.node] if row.node else "-",
        h.ul(".attributes")[(h.li[f"{name}={value}"] for name, value in row.attributes)]
        if row.attributes
        else "-",
        row.problems or "-",
    )
