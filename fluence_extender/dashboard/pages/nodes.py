"""The pages of nodes: the map with the table, and one node."""

from __future__ import annotations

from functools import lru_cache

import htpy as h
from htpy import Element
from markupsafe import Markup

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import (
    MOST_WRITTEN,
    bar,
    command_button,
    filter_form,
    framed_table,
    heading,
    note,
    pager,
    select_field,
    table,
    table_row,
    written,
)
from fluence_extender.dashboard.service import Item
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.filters import Filters
from fluence_extender.dashboard.views.nodes import (
    STEPS,
    MapPlace,
    NodeLine,
    NodeStory,
    NodesView,
    Tile,
    node_story,
    nodes_view,
)

COLUMNS = ("Node", "Place", "CPU", "Memory", "More", "Gangs", "Problems", "Command")
SHOWN = ("open", "closed", "free")


def nodes_page(state: ClusterState, filters: Filters) -> PageContent:
    """Return the map and the table of the nodes that the filters let through."""
    found = nodes_view(state, filters)
    controls = filter_form(links.NODES, filters, select_field("Show", "show", SHOWN, filters), kept=("in",))
    live = [
        h.nav(".way", aria_label="Place")[
            h.a(href=filters.address(links.NODES, **{"in": "", "page": ""}))["cluster"],
            ([" / ", h.a(href=link)[name]] for name, link in found.within),
        ]
        if found.within
        else None,
        h.section[heading("Map", commands.tree()), _map(found)],
        _table(found, filters),
    ]
    return PageContent("Nodes", links.NODES, live, controls)


def node_page(name: str, item: Item | None, state: ClusterState) -> PageContent:
    """Return the page of one node, which says so if there is none."""
    title = f"Node {name}"
    if item is None:
        advice = ["It has left the cluster, or never was in it. ", h.a(href=links.NODES)["All nodes"]]
        return PageContent(title, links.node(name), note("No node has this name.", advice), status=404)
    story = node_story(item, state.reservations)
    return PageContent(title, links.node(name), [_story(story), _pods(story)])


def _map(found: NodesView) -> Element:
    if not found.rows.total:
        return h.p(".empty")["No node is like this. Change the filters, or join nodes to the cluster."]
    colors = ("empty", "below 25%", "below 50%", "below 75%", "75% or more", "full")
    return h.div(".map")[
        (_place(place) for place in found.places if place.tiles or place.depth),
        h.p(".legend")[
            (h.span(class_=["key", f"step-{step}"])[colors[step]] for step in range(STEPS + 1)),
            h.span(".key.closed")["✕ closed to new pods"],
        ],
    ]


def _place(place: MapPlace) -> Element:
    return h.section(class_=["place", f"depth-{min(place.depth, 3)}"])[
        h.h3[h.a(href=place.link)[place.name], h.small[f" {place.nodes:,} nodes, {place.percent} used"]],
        h.ul(".tiles")[(h.li[_tile(tile)] for tile in place.tiles)] if place.tiles else None,
    ]


@lru_cache(MOST_WRITTEN)
def _tile(tile: Tile) -> Markup:
    closed = tile.step < 0
    kind = "closed" if closed else f"step-{tile.step}"
    shown = h.a(class_=["tile", kind], href=tile.link, title=tile.title)[
        h.span(".name")[tile.name],
        h.span(".percent")[f"✕ {tile.percent}" if closed else tile.percent],
    ]
    return written(shown)


@lru_cache(MOST_WRITTEN)
def _row(row: NodeLine) -> Markup:
    cells = (
        h.a(href=row.link)[row.name],
        row.place or "-",
        bar(row.cpu),
        bar(row.memory),
        row.more or "-",
        f"{row.gangs:,}",
        row.problems or "-",
        command_button(row.command),
    )
    return written(table_row(COLUMNS, cells))


def _table(found: NodesView, filters: Filters) -> Element:
    return h.section[
        heading(f"{found.rows.total:,} nodes", found.command),
        framed_table(
            "Nodes",
            COLUMNS,
            [_row(row) for row in found.rows.rows],
            "No node is like this. Change the filters.",
        ),
        pager(found.rows, links.NODES, filters),
    ]


def _story(story: NodeStory) -> Element:
    return h.section[
        h.div(".heading")[h.h2["What it has"], command_button(story.command)],
        h.p[story.place] if story.place else None,
        h.ul(".gauges")[(h.li[h.span[one.name], bar(one)] for one in story.use)],
        h.h3["Why nothing new lands here" if not story.open else "What keeps new pods away"],
        h.ul(".lines")[(h.li[why] for why in story.why_closed)]
        if story.why_closed
        else h.p["Nothing: it is open, and it has room."],
    ]


def _pods(story: NodeStory) -> Element:
    hidden = f"{story.hidden:,} more pods are in namespaces that you may not see." if story.hidden else None
    return h.section[
        heading("Who holds what", commands.nodes()),
        table(
            "Pods on the node",
            ("Pod", "Gang", "User", "Claim", "Holds", "Command"),
            (
                (
                    f"{one.namespace}/{one.pod}",
                    h.a(href=one.link)[one.gang] if one.gang else "-",
                    one.user or "-",
                    "of another scheduler" if one.claim == "other" else one.claim,
                    one.requests or "a pod slot only",
                    command_button(one.command),
                )
                for one in story.pods
            ),
            "No pod uses this node.",
        ),
        h.p[hidden] if hidden else None,
    ]
