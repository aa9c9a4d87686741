"""The first page."""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h
from htpy import Element

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import (
    ago,
    bar,
    command_button,
    heading,
    note,
    state_badge,
    table,
    until,
)
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.overview import Overview, QueueRow, overview


def overview_page(state: ClusterState) -> PageContent:
    """Return the overview."""
    found = overview(state)
    return PageContent(
        "Overview", links.OVERVIEW, [cluster_use(found), _states(found), _queues(found), _changes(found)]
    )


def queue_table(queues: Sequence[QueueRow]) -> Element:
    """Return the table of queues."""
    return table(
        "Queues",
        ("Queue", "Waiting", "Running", "Next to start", "Starts", "Oldest", "Limits", "State"),
        (
            (
                h.a(href=queue.link)[queue.name],
                f"{queue.waiting:,}",
                f"{queue.running:,}",
                h.a(href=queue.head_link)[queue.head] if queue.head else "-",
                until(queue.starts),
                ago(queue.oldest),
                queue.limits or "-",
                "; ".join(
                    filter(
                        None, ("open" if queue.stop == "None" else f"stopped: {queue.stop}", queue.problems)
                    )
                ),
            )
            for queue in queues
        ),
        [
            "There is no queue, so gangs start in the order of priority and age. An administrator adds one with ",
            h.code["kubectl apply -f QUEUE.yaml"],
            ".",
        ],
    )


def cluster_use(found: Overview) -> Element:
    """Return how much of each resource is used."""
    closed = f", {found.closed:,} closed to new pods" if found.closed else ""
    return h.section[
        heading("How full the cluster is", commands.tree()),
        h.ul(".gauges")[(h.li[h.a(href=one.link)[one.name], bar(one)] for one in found.resources)]
        if found.resources
        else note("No node is known.", "Join nodes to the cluster, or ask for the right to list nodes."),
        h.p(".legend")[
            h.span(".key.held")["held by gangs"],
            h.span(".key.others")["used by other pods"],
            h.a(href=links.NODES)[f"{found.nodes:,} nodes"],
            closed,
        ],
    ]


def _states(found: Overview) -> Element:
    return h.section[
        heading("Gangs", commands.jobs()),
        h.ul(".states")[
            (
                h.li[h.a(href=link)[h.span(".number")[f"{count:,}"], state_badge(state)]]
                for state, count, link in found.states
            )
        ],
    ]


def _queues(found: Overview) -> Element:
    return h.section[heading("Queues", commands.queues()), queue_table(found.queues)]


def _changes(found: Overview) -> Element:
    return h.section[
        h.div(".heading")[h.h2["What changed lately"], command_button("kubectl fluence jobs -A -w")],
        table(
            "What changed lately",
            ("Gang", "When", "Now", "Before", "Reason"),
            (
                (
                    h.a(href=one.link)[one.gang],
                    ago(one.at),
                    state_badge(one.after or "gone"),
                    state_badge(one.before) if one.before else "new",
                    one.reason or "-",
                )
                for one in found.changes
            ),
            "Nothing has changed since the dashboard was started. Changes appear here within a second.",
        ),
    ]
