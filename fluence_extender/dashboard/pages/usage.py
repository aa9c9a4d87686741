"""The page of past work: who used how much."""

from __future__ import annotations

import htpy as h
from htpy import Element, Node

from fluence_extender.apps.kubectl.usage import BY
from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import (
    bar,
    choice_field,
    filter_form,
    heading,
    input_field,
    note,
    pager,
    select_field,
    table,
)
from fluence_extender.dashboard.service import Item, Trouble
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.usage import UsageLine, UsageView, namespaces, usage_command, usage_view

TITLE = "Usage"
SINCE = "2026-11-01 or 30d"


def usage_page(state: ClusterState, filters: Filters, answer: Item | Trouble) -> PageContent:
    """Return what was used, or why that can't be said and what to do."""
    controls = filter_form(
        links.USAGE,
        filters,
        choice_field("By", "by", BY, filters),
        input_field("Since", "since", SINCE, filters),
        select_field("Namespace", "namespace", namespaces(state), filters),
    )
    if isinstance(answer, Trouble):
        live: Node = [
            note(answer.text, answer.advice, "trouble"),
            heading("The command that asks the same", usage_command(filters)),
        ]
        return PageContent(TITLE, links.USAGE, live, controls)
    return PageContent(TITLE, links.USAGE, _live(usage_view(answer, filters), filters), controls)


def _live(found: UsageView, filters: Filters) -> Node:
    since = f"since {filters['since']}" if filters["since"] else "since the first of this month (UTC)"
    limited = note(
        "Only namespaces whose pods you may list are counted, and your own work.",
        "An administrator can give you the right to list pods in more namespaces.",
    )
    return [
        limited if found.restricted else None,
        h.section[heading("In all", found.command), _total(found)],
        h.section[
            heading(f"By {found.by}, {since}"),
            table(
                "Usage",
                (found.by.capitalize(), "Share of core hours", *found.titles),
                (_cells(row) for row in found.rows.rows),
                "Nothing was used. Choose an earlier day, or fewer filters.",
            ),
            pager(found.rows, links.USAGE, filters),
        ],
    ]


def _total(found: UsageView) -> Element:
    return h.dl(".facts")[
        (
            h.div[h.dt[title], h.dd[text or "-"]]
            for title, (_, text) in zip(found.titles, found.total, strict=True)
        )
    ]


def _cells(row: UsageLine) -> tuple[Node, ...]:
    name = row.name or "(none)"
    return (h.a(href=row.link)[name] if row.link else name, bar(row.share), *row.figures)
