"""The frame of every page: navigation, search, notices about the service, and the part that keeps itself new.

The browser replaces what is inside ``#live`` by the same part of a newer answer, element by element, so that focus,
scrolling and open details stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import htpy as h
from htpy import Element, Node

from fluence_extender import __version__
from fluence_extender.dashboard.pages.parts import note
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links

NAVIGATION = (
    ("Overview", links.OVERVIEW),
    ("Queue", links.QUEUE),
    ("Gangs", links.GANGS),
    ("Nodes", links.NODES),
    ("Devices", links.DEVICES),
    ("Usage", links.USAGE),
    ("What if", links.WHAT_IF),
)


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a page; ``controls`` don't change by themselves, ``live`` does."""

    title: str
    path: str
    live: Node
    controls: Node = None
    status: int = 200


def framed(page: PageContent, state: ClusterState | None, search: str = "") -> str:
    """Return a page as a document. ``state`` is None if no state is shown."""
    return "".join(h.html(lang="en")[_head(page.title), _body(page, state, search)].iter_chunks())


def _head(title: str) -> Element:
    return h.head[
        h.meta(charset="utf-8"),
        h.meta(name="viewport", content="width=device-width, initial-scale=1"),
        h.meta(name="color-scheme", content="light dark"),
        h.title[f"{title} · Fluence"],
        h.link(rel="stylesheet", href="/static/dashboard.css"),
        h.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        h.script(src="/static/dashboard.js", defer=True),
    ]


def _body(page: PageContent, state: ClusterState | None, search: str) -> Element:
    return h.body[
        h.a(".skip", href="#main")["To the content"],
        h.header[
            h.a(".brand", href=links.OVERVIEW)["Fluence"],
            h.nav(aria_label="Pages")[
                (
                    h.a(href=path, aria_current="page" if _is_current(path, page.path) else None)[name]
                    for name, path in NAVIGATION
                )
            ],
            h.form("#search", method="get", action=links.SEARCH, role="search", aria_label="Everything")[
                h.input(
                    type="search",
                    name="q",
                    value=search,
                    placeholder="Search ( / )",
                    aria_label="Search everything",
                    maxlength="200",
                )
            ],
            h.button("#theme", type="button", aria_label="Change between dark and light")["◐"],
        ],
        h.div("#lost.notice.trouble", hidden=True, role="alert")[
            h.p[h.strong["The dashboard itself doesn't answer."]],
            h.p[
                "What you see is old. If kubectl fluence dashboard shows it, start that again and open the address"
                " that it prints. In a cluster the page goes on by itself."
            ],
        ],
        h.main("#main", tabindex="-1")[
            h.h1[page.title],
            page.controls,
            h.div("#live")[_notices(state) if state is not None else None, page.live],
        ],
        h.footer[f"Fluence {__version__}"],
    ]


def _is_current(path: str, current: str) -> bool:
    return current == path or (path != links.OVERVIEW and current.startswith(f"{path}/"))


def _notices(state: ClusterState) -> Node:
    """Return what keeps the page from being whole and new."""
    found: list[Node] = []
    if state.trouble is not None:
        found.append(note(state.trouble.text, state.trouble.advice, "trouble"))
    elif state.version == 0:
        found.append(note("Nothing has been read yet.", "The page goes on by itself.", "trouble"))
    elif not state.leading:
        found.append(
            note(
                "A standby replica answers: it shows what it sees of the cluster.",
                "Once a leader is elected, the page shows its plan. kubectl fluence doctor says who leads.",
            )
        )
    if state.hidden:
        found.append(note(f"{state.hidden:,} more gangs are in namespaces whose pods you may not list."))
    if state.withheld:
        rights = "; ".join(dict.fromkeys(state.withheld.values()))
        found.append(
            note(
                f"You may not see: {', '.join(state.withheld)}.", f"{rights}. An administrator can allow it."
            )
        )
    return found
