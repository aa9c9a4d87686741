"""The page of the devices, and of the quantum jobs that use them."""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h
from htpy import Node

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import (
    bar,
    command_button,
    filter_form,
    heading,
    pager,
    select_field,
    state_badge,
    table,
)
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.devices import DeviceRow, devices_view
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.quantum import QuantumRow, quantum_rows

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
        _jobs(quantum_rows(state, filters)),
    ]
    return PageContent("Devices", links.DEVICES, live, controls)


def _jobs(rows: Sequence[QuantumRow]) -> Node:
    """Return the quantum jobs, nothing where there are none."""
    if not rows:
        return None
    columns = (
        "Gang",
        "State",
        "Backend",
        "Task",
        "In its vendor's queue",
        "Consumers",
        "Their state",
        "Command",
    )
    return h.section[
        heading("Quantum jobs"),
        table("Quantum jobs", columns, (_job(row) for row in rows), None),
    ]


def _job(row: QuantumRow) -> tuple[Node, ...]:
    return (
        h.a(href=row.link)[row.name],
        state_badge(row.state),
        row.backends or "-",
        row.task or "-",
        row.status,
        h.a(href=row.consumers_link)[row.consumers] if row.consumers else "-",
        h.span[state_badge(row.consumers_state), f": {row.consumers_status}"] if row.consumers else "-",
        command_button(row.command),
    )


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
