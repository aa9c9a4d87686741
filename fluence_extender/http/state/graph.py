"""The resource graph in pieces, which are so small that look-ups don't wait for one.

Invariant: a document is the graph of one moment; it is built in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fluence_extender.gangs.controller import Controller
from fluence_extender.graph.current import GraphSource
from fluence_extender.graph.jgf import Jgf, sized_jgf, with_parents
from fluence_extender.http.state.listings import GraphExport, Pieces
from fluence_extender.http.state.nodes import cluster_revision

SLICE = 250
"""Vertices per piece; one takes a few microseconds."""


def graph(controller: Controller) -> GraphExport:
    """Return the graph of the cluster as it is when it is read."""
    return GraphExport(cluster_revision(controller), lambda: pieces_of(controller.ledger.graph.source()))


async def pieces_of(source: GraphSource) -> Pieces:
    """Return the graph in whole cores and GiB; equal leaves are one vertex with a size."""
    vertices = await asyncio.to_thread(lambda: list(with_parents(source.build())))

    async def pieces(part: str) -> AsyncIterator[list[Jgf]]:
        for first in range(0, len(vertices), SLICE):
            yield sized_jgf(vertices[first : first + SLICE])["graph"][part]

    return Pieces(lambda: pieces("nodes"), lambda: pieces("edges"))
