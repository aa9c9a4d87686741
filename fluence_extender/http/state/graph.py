"""The resource graph in pieces, which are so small that look-ups don't wait for one.

Invariant: a document is the graph of one moment. The vertices are gathered in slices, and again from the start if the
graph has changed in between; a gathered vertex never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

from fluence_extender.gangs.controller import Controller
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import Jgf, sized, vertices_jgf
from fluence_extender.graph.units import COARSE, CORE_LEAF, MEMORY_LEAF
from fluence_extender.graph.vertex import Vertex
from fluence_extender.http.state.listings import GraphExport, Pieces
from fluence_extender.http.state.nodes import cluster_revision

SLICE = 250
"""Vertices per slice; one takes a few microseconds."""

TRIES = 5
"""The number of times to gather in slices before a graph that keeps changing is gathered at once."""

Gathered = list[tuple[Vertex, Vertex | None]]


def graph(controller: Controller) -> GraphExport:
    """Return the graph on which gangs are placed."""

    def now() -> Containment:
        return controller.ledger.graph.shown

    return GraphExport(cluster_revision(controller), lambda: pieces_of(now))


async def pieces_of(now: Callable[[], Containment]) -> Pieces:
    """Return the graph that ``now`` returns, in whole cores and GiB; equal leaves are one vertex with a size."""
    gathered = await _gathered(now)

    async def pieces(part: str) -> AsyncIterator[list[Jgf]]:
        for first in range(0, len(gathered), SLICE):
            yield sized(vertices_jgf(gathered[first : first + SLICE]))["graph"][part]

    return Pieces(lambda: pieces("nodes"), lambda: pieces("edges"))


async def _gathered(now: Callable[[], Containment]) -> Gathered:
    for _ in range(TRIES):
        containment = now()
        revision = containment.revision
        gathered: Gathered = []
        for number, one in enumerate(_vertices(containment), start=1):
            gathered.append(one)
            if number % SLICE == 0:
                await asyncio.sleep(0)
                if now() is not containment or containment.revision != revision:
                    break
        else:
            return gathered
    return list(_vertices(now()))


def _vertices(containment: Containment) -> Iterator[tuple[Vertex, Vertex | None]]:
    """Yield each vertex with its parent; leaves that don't make a whole core or GiB are left out."""
    units = containment.units
    sizes = {
        CORE_LEAF: (units.cpu_millicores, COARSE.cpu_millicores),
        MEMORY_LEAF: (units.memory_bytes, COARSE.memory_bytes),
    }
    for path in containment.walk():
        vertex = containment.vertex(path)
        if vertex.type in sizes:
            present, wanted = sizes[vertex.type]
            vertex = replace(vertex, count=vertex.count * present // wanted)
        if vertex.count:
            above = containment.parent(path)
            yield vertex, None if above is None else containment.vertex(above)
