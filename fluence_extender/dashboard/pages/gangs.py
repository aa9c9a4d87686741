"""The pages of gangs: all of them, and one."""

from __future__ import annotations

from functools import lru_cache

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import (
    MOST_WRITTEN,
    ago,
    command_button,
    filter_form,
    framed_table,
    heading,
    note,
    pager,
    select_field,
    state_badge,
    table,
    table_row,
    until,
    written,
)
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.gangs import STATES, GangRow, GangStory, gang_story, gangs_view

COLUMNS = (
    "Gang",
    "State",
    "Placed",
    "Age",
    "User",
    "Queue",
    "Nodes",
    "Backend",
    "Starts",
    "Reason",
    "Command",
)


def gangs_page(state: ClusterState, filters: Filters) -> PageContent:
    """Return the gangs that the filters let through."""
    found = gangs_view(state, filters)
    controls = filter_form(
        links.GANGS,
        filters,
        select_field("Namespace", "namespace", found.namespaces, filters),
        select_field("State", "state", STATES, filters),
        select_field("Queue", "queue", found.queues, filters),
    )
    live = [
        heading(f"{found.rows.total:,} gangs", found.command),
        framed_table(
            "Gangs",
            COLUMNS,
            [_row(row) for row in found.rows.rows],
            "No gang is like this. Submit a Job with schedulerName: fluence, or change the filters.",
        ),
        pager(found.rows, links.GANGS, filters),
    ]
    return PageContent("Gangs", links.GANGS, live, controls)


@lru_cache(MOST_WRITTEN)
def _row(row: GangRow) -> Markup:
    cells = (
        h.a(href=row.link)[f"{row.namespace}/{row.name}"],
        state_badge(row.state),
        row.placed,
        ago(row.created),
        row.user or "-",
        row.queue + (f", place {row.position}" if row.position else "") or "-",
        row.nodes or "-",
        row.backends or "-",
        until(row.starts),
        row.reason or "-",
        command_button(row.command),
    )
    return written(table_row(COLUMNS, cells))


def gang_page(namespace: str, name: str, item: Item | None, state: ClusterState) -> PageContent:
    """Return the page of one gang, which says so if there is none."""
    title = f"Gang {namespace}/{name}"
    path = links.gang(namespace, name)
    if item is None:
        advice = ["It never was, or it ended more than an hour ago. ", h.a(href=links.GANGS)["All gangs"]]
        return PageContent(title, path, note("No gang has this name.", advice), status=404)
    story = gang_story(item, state)
    return PageContent(title, path, [_summary(story), _members(story, namespace), _history(story)])


def _summary(story: GangStory) -> Element:
    row = story.row
    return h.section[
        h.div(".heading")[h.h2["Where it stands"], command_button(row.command)],
        h.dl(".facts")[
            _fact("State", state_badge(row.state)),
            h.div(".wide")[h.dt["Reason"], h.dd[row.reason]] if row.reason else None,
            _fact("Placed", row.placed),
            _fact("Created", ago(row.created)),
            _fact("Submitted by", row.user) if row.user else None,
            _fact("Queue", h.a(href=links.queue(row.queue))[row.queue]) if row.queue else None,
            _fact("Place in line", row.position) if row.position else None,
            _fact("Expected start", until(row.starts)) if row.starts else None,
        ],
        [h.h3["What it asks for, and what there is"], h.p(".words")["\n".join(story.facts)]]
        if story.facts
        else None,
    ]


def _fact(name: str, value: Node) -> Element:
    return h.div[h.dt[name], h.dd[value]]


def _members(story: GangStory, namespace: str) -> Element:
    former = f"Its pods are gone: {', '.join(story.former)}." if story.former else "No member exists yet."
    return h.section[
        heading("Members", commands.jobs(namespace)),
        table(
            "Members",
            ("Pod", "Node", "Backend", "Command"),
            (
                (
                    member.pod,
                    h.a(href=member.node_link)[member.node] if member.node else "-",
                    member.backend or "-",
                    command_button(member.command),
                )
                for member in story.members
            ),
            former,
        ),
    ]


def _history(story: GangStory) -> Element:
    forgotten = f"{story.forgotten:,} entries in between are forgotten." if story.forgotten else None
    return h.section[
        heading("What happened", story.row.command),
        h.ol(".history")[
            (
                h.li[
                    ago(one.at),
                    h.strong[f" {one.what} "],
                    h.span[one.pod] if one.pod else None,
                    f" ({one.count} times)" if one.count > 1 else None,
                    h.span(".detail")[f" {one.detail}"] if one.detail else None,
                ]
                for one in story.history
            )
        ],
        h.p[forgotten] if forgotten else None,
    ]
