"""Show gangs as a table with one row for each pod: live on a terminal, and once at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fluence_extender.demo import DemoError

SETTLED = 7.0
"""Seconds without a change after which the rows are final: more than between the ends of two of the examples."""
LONGEST = 90.0
"""Seconds after which the live view ends in any case."""
PERIOD = 0.25

COLOURS = {"bound": "green", "committed": "cyan", "planned": "cyan", "waiting": "yellow", "finished": "dim"}

LEAST_FOR_REASONS = 30
"""Columns that reasons need beside the other columns; otherwise they are listed below the table."""

PADDING = 2
"""Terminal columns between two columns of the table."""

HEADINGS = ("Gang", "Pod", "State", "Phase", "Node", "Backend")


@dataclass(frozen=True, slots=True)
class PodView:
    """What the demo shows of one pod."""

    uid: str
    name: str
    scheduler: str
    node: str
    phase: str


@dataclass(frozen=True, slots=True)
class Row:
    """One pod; ``phase`` is the pod's, ``state`` its gang's."""

    gang: str
    pod: str
    state: str
    phase: str
    node: str
    backend: str
    reason: str


def rows(gangs: Sequence[Mapping[str, Any]], pods: Sequence[PodView]) -> list[Row]:
    """Return a row for each member of each gang, then a row for each pod of other schedulers."""
    known = {pod.uid: pod for pod in pods}
    found: list[Row] = []
    for gang in gangs:
        for member in gang["members"]:
            pod = known.pop(member["uid"], None)
            phase = pod.phase if pod else "gone"
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
        reason = f"placed by {pod.scheduler}" if pod.node else pod.scheduler
        found.append(Row("-", pod.name, "", pod.phase, pod.node, "", reason))
    return found


def picture(found: Sequence[Row], title: str, width: int) -> RenderableType:
    """Return the rows as a table for ``width`` columns; reasons that don't fit beside it are listed below it."""
    cells = [HEADINGS, *((row.gang, row.pod, row.state, row.phase, row.node, row.backend) for row in found)]
    taken = sum(max(map(len, column)) + PADDING for column in zip(*cells, strict=True))
    if width - taken >= LEAST_FOR_REASONS:
        return table(found, title)
    return Group(table(found, title, reasons=False), *reasons(found))


def reasons(found: Sequence[Row]) -> list[Text]:
    """Return a line with the reason of each gang and of each pod of other schedulers."""
    by_gang = {(row.gang, row.pod if row.gang == "-" else ""): row for row in reversed(found)}
    return [
        Text(f"{pod or gang}: {row.reason}") for (gang, pod), row in reversed(by_gang.items()) if row.reason
    ]


def table(found: Sequence[Row], title: str, reasons: bool = True) -> Table:
    """Return the rows as a rich table; only the first row of a gang has its name and reason."""
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


def watch(console: Console, look: Callable[[], list[Row]]) -> list[Row]:
    """Show the rows live while they change; return the last ones once nothing has changed for `SETTLED` seconds.

    ``look`` returns the current rows; the last rows stay where it can't reach the services.
    """
    began = changed = time.monotonic()
    last: list[Row] = []
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while time.monotonic() - changed < SETTLED and time.monotonic() - began < LONGEST:
            try:
                found = look()
            except (DemoError, OSError):
                found = last
            if found != last:
                last, changed = found, time.monotonic()
                live.update(picture(found, f"after {changed - began:.1f} s", console.width))
            time.sleep(PERIOD)
    return last
