"""Gangs as a table: one row a pod, with what a person asks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

COLOURS = {"bound": "green", "committed": "cyan", "planned": "cyan", "waiting": "yellow", "finished": "dim"}

LEAST = 30
"""Columns of the terminal that reasons need beside the table."""

PADDING = 2
"""Columns between two of the table's."""

HEADINGS = ("Gang", "Pod", "State", "Phase", "Node", "Backend")


@dataclass(frozen=True, slots=True)
class Row:
    """One pod: ``phase`` is Kubernetes', ``state`` its gang's."""

    gang: str
    pod: str
    state: str
    phase: str
    node: str
    backend: str
    reason: str


def rows(gangs: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row for each member of each gang, then one for each pod of other schedulers."""
    known = {pod["metadata"]["uid"]: pod for pod in pods}
    found: list[Row] = []
    for gang in gangs:
        for member in gang["members"]:
            pod = known.pop(member["uid"], None)
            phase = pod["status"].get("phase", "") if pod else "gone"
            found.append(
                Row(
                    gang["name"],
                    member["pod"],
                    gang["state"],
                    phase,
                    member["node"],
                    member["backend"],
                    gang["reason"],
                )
            )
    for pod in known.values():
        scheduler = pod["spec"].get("schedulerName", "")
        node = pod["spec"].get("nodeName", "")
        name, phase = pod["metadata"]["name"], pod["status"].get("phase", "")
        found.append(Row("-", name, "", phase, node, "", f"placed by {scheduler}" if node else scheduler))
    return found


def picture(found: Sequence[Row], title: str, width: int) -> RenderableType:
    """The rows on a terminal ``width`` columns wide: where a table leaves reasons no room, they stand below it."""
    cells = [HEADINGS, *((row.gang, row.pod, row.state, row.phase, row.node, row.backend) for row in found)]
    taken = sum(max(map(len, column)) + PADDING for column in zip(*cells, strict=True))
    if width - taken >= LEAST:
        return table(found, title)
    return Group(table(found, title, reasons=False), *reasons(found))


def reasons(found: Sequence[Row]) -> list[Text]:
    """What there is to say of each gang, and of each pod of others, one line each."""
    said = {(row.gang, row.pod if row.gang == "-" else ""): row for row in reversed(found)}
    return [Text(f"{pod or gang}: {row.reason}") for (gang, pod), row in reversed(said.items()) if row.reason]


def table(found: Sequence[Row], title: str, reasons: bool = True) -> Table:
    """The rows as a rich table; a gang's name and reason stand beside its first pod only."""
    shown = Table(title=title, title_justify="left", expand=False, box=box.SIMPLE_HEAD, pad_edge=False)
    for column in HEADINGS:
        shown.add_column(column, no_wrap=reasons, overflow="fold")
    if reasons:
        shown.add_column("Reason", overflow="fold")
    last = ""
    for row in found:
        first = row.gang == "-" or row.gang != last
        cells = (row.pod, Text(row.state, style=COLOURS.get(row.state, "")), row.phase, row.node, row.backend)
        reason = (row.reason if first else "",) if reasons else ()
        shown.add_row(row.gang if first else "", *cells, *reason)
        last = row.gang
    return shown
