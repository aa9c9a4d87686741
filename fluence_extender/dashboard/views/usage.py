"""Past work added up: the rows of ``/v1/usage`` with the heaviest users first, and what they are of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.usage import BY, columns
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Cut, Filters, choices, cut
from fluence_extender.dashboard.views.overview import Utilization, share

FIGURES = columns("name")[1:]
"""The columns of the command, which the page shows, too."""


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one queue, user, namespace, account or day has used. ``share`` is its part of all core-hours."""

    name: str
    link: str
    share: Utilization
    figures: Sequence[str]


@dataclass(frozen=True, slots=True)
class UsageView:
    """The page of past work."""

    by: str
    rows: Cut[UsageLine]
    titles: Sequence[str]
    total: Sequence[tuple[str, str]]
    restricted: bool
    command: str


def question(filters: Filters) -> dict[str, str]:
    """Return the question of the filters, in the parameters of ``/v1/usage``; by queue unless they say otherwise."""
    given = {"by": filters["by"] or BY[0], "since": filters["since"], "namespace": filters["namespace"]}
    return {name: value for name, value in given.items() if value}


def usage_view(answer: Item, filters: Filters) -> UsageView:
    """Return what the answer to `question` has for the names that the filters let through."""
    by = question(filters)["by"]
    items = answer.get("items", [])
    kept = [one for one in items if filters.finds(one["name"])]
    if by != "day":
        kept.sort(key=_cores, reverse=True)
    whole = sum(map(_cores, items))
    return UsageView(
        by,
        cut(kept, lambda one: _line(by, dict(one), whole), filters.page),
        [column.heading.capitalize().replace("Gib", "GiB").replace("Gpu", "GPU") for column in FIGURES],
        _total(kept),
        bool(answer.get("metadata", {}).get("restricted")),
        usage_command(filters),
    )


def usage_command(filters: Filters) -> str:
    """Return the command that says what the filters ask for."""
    given = question(filters)
    return commands.usage(given["by"], given.get("since", ""), given.get("namespace", ""))


def namespaces(state: ClusterState) -> list[str]:
    """Return the namespaces to choose from."""
    return choices(gang["namespace"] for gang in state.gangs)


def _line(by: str, one: Item, whole: float) -> UsageLine:
    part = share(_cores(one), whole)
    name = one["name"]
    link = {
        "queue": links.queue(name),
        "user": links.with_filters(links.QUEUE, {"text": name}),
        "namespace": links.gangs(namespace=name),
    }.get(by, "")
    figures = [column.cell(one) or "-" for column in FIGURES]
    return UsageLine(name, link if name else "", Utilization("", part, 0.0, f"{part:.0%}", ""), figures)


def _total(items: Sequence[Item]) -> list[tuple[str, str]]:
    """Return the sums of all rows by the names of the columns."""
    seconds: dict[str, float] = {}
    devices: dict[tuple[str, str], int] = {}
    for one in items:
        for resource, amount in one["seconds"].items():
            seconds[resource] = seconds.get(resource, 0.0) + amount
        for used in one["devices"]:
            key = used["type"], used["backend"]
            devices[key] = devices.get(key, 0) + used["seconds"]
    together: Item = {
        "seconds": seconds,
        "devices": [{"type": a, "backend": b, "seconds": n} for (a, b), n in sorted(devices.items())],
    }
    return [(column.heading, column.cell(together)) for column in FIGURES]


def _cores(one: Item) -> float:
    return float(one["seconds"].get("cpu", 0.0))
