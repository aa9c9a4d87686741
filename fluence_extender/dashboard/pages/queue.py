"""The page of the queue: the queues, a timeline, and the line."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.overview import queue_table
from fluence_extender.dashboard.pages.parts import (
    MOST_WRITTEN,
    ago,
    command_button,
    filter_form,
    framed_table,
    heading,
    pager,
    select_field,
    table_row,
    until,
    written,
)
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.queue import LineRow, QueueView, TimelineSpan, TimelineView, queue_view

WIDTH, ROW = 1000, 26
COLUMNS = (
    "Gang",
    "Place",
    "Queue",
    "User",
    "Priority",
    "Waits since",
    "Starts",
    "Kept free",
    "Reason",
    "Command",
)
KINDS = {
    "running": "runs",
    "ahead": "backfill: ahead of an older gang",
    "reserved": "nodes are reserved for it",
    "expected": "is expected to start",
    "closed": "reserved by an administrator",
}


def queue_page(state: ClusterState, filters: Filters) -> PageContent:
    """Return the line that the filters let through."""
    found = queue_view(state, filters)
    controls = filter_form(
        links.QUEUE,
        filters,
        select_field("Queue", "queue", found.names, filters),
        select_field("Namespace", "namespace", found.namespaces, filters),
    )
    live = [
        h.section[heading("Queues", commands.queues()), queue_table(found.queues)],
        h.section[heading("Timeline"), _timeline(found.timeline)],
        _line(found, filters),
    ]
    return PageContent("Queue", links.QUEUE, live, controls)


def _line(found: QueueView, filters: Filters) -> Element:
    return h.section[
        heading(f"In line: {found.rows.total:,}", found.command),
        framed_table(
            "The line",
            COLUMNS,
            [_row(row) for row in found.rows.rows],
            "Nobody waits here. What is submitted starts at once where there is room.",
        ),
        pager(found.rows, links.QUEUE, filters),
    ]


@lru_cache(MOST_WRITTEN)
def _row(row: LineRow) -> Markup:
    cells = (
        h.a(href=row.link)[f"{row.namespace}/{row.name}"],
        f"{row.position:,}",
        row.queue or "-",
        row.user,
        str(row.priority),
        ago(row.created),
        until(row.starts),
        row.kept or "-",
        row.reason or "about to be placed",
        command_button(row.command),
    )
    return written(table_row(COLUMNS, cells))


def _timeline(found: TimelineView) -> Element:
    if not found.spans:
        return h.p(".empty")["Nothing runs, and nothing has a start that is known."]
    return h.div(".timeline")[
        h.p(".legend")[(h.span(class_=["key", kind])[text] for kind, text in KINDS.items())],
        h.ol[(h.li[_span(span, found.now)] for span in found.spans)],
        h.p(".axis")[
            h.span[_clock(found.begin)],
            h.span["the upright line is now"],
            h.span[_clock(found.end)],
        ],
        h.p[f"{found.left_out:,} more are in the table."] if found.left_out else None,
    ]


def _span(span: TimelineSpan, now: float) -> list[Node]:
    left, width = span.left * WIDTH, max((span.right - span.left) * WIDTH, 6)
    text = ", ".join(
        filter(
            None,
            (KINDS[span.kind], span.text, "end unknown" if span.open and span.kind == "reserved" else ""),
        )
    )
    return [
        h.a(href=span.link)[span.name],
        h.svg(
            viewBox=f"0 0 {WIDTH} {ROW}",
            preserveAspectRatio="none",
            role="img",
            aria_label=f"{span.name}: {text}",
        )[
            h.title[text],
            h.rect(".track", x="0", y="0", width=str(WIDTH), height=str(ROW)),
            h.rect(class_=span.kind, x=f"{left:.0f}", y="4", width=f"{width:.0f}", height=str(ROW - 8)),
            h.line(".now", x1=f"{now * WIDTH:.0f}", x2=f"{now * WIDTH:.0f}", y1="0", y2=str(ROW)),
        ],
        h.span(".what")[text],
    ]


def _clock(moment: datetime) -> str:
    return f"{moment:%b %d %H:%M} UTC"
