"""The page of what a search found."""

from __future__ import annotations

import htpy as h

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.parts import table
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import links
from fluence_extender.dashboard.views.search import MOST_HITS, search


def search_page(state: ClusterState, text: str) -> PageContent:
    """Return what has ``text`` in its name."""
    live = [
        h.p[f"At most {MOST_HITS} of each kind are shown."],
        table(
            "What was found",
            ("Name", "Kind", "More"),
            ((h.a(href=hit.link)[hit.name], hit.kind, hit.detail or "-") for hit in search(state, text)),
            "Nothing has this in its name. Gangs, pods, nodes, devices, queues and users are searched."
            if text.strip()
            else "Type a part of a name: of a gang, a pod, a node, a device, a queue or a user.",
        ),
    ]
    return PageContent(f"Search: {text}" if text.strip() else "Search", links.SEARCH, live)
