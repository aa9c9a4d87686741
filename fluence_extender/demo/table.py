"""Gangs as a table: one row a pod, with what a person asks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

COLOURS = {"bound": "green", "committed": "cyan", "planned": "cyan", "waiting": "yellow", "finished": "dim"}


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


def table(found: Sequence[Row], title: str) -> Table:
    """The rows as a rich table; a gang's name and reason stand beside its first pod only."""
    shown = Table(title=title, title_justify="left", expand=False)
    for column in ("Gang", "Pod", "State", "Phase", "Node", "Backend"):
        shown.add_column(column, no_wrap=True)
    shown.add_column("Reason", overflow="fold")
    last = ""
    for row in found:
        first = row.gang == "-" or row.gang != last
        state = Text(row.state, style=COLOURS.get(row.state, ""))
        shown.add_row(
            row.gang if first else "",
            row.pod,
            state,
            row.phase,
            row.node,
            row.backend,
            row.reason if first else "",
        )
        last = row.gang
    return shown
