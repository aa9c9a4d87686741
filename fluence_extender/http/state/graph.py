"""The resource graph in pieces, each small enough that look-ups don't wait for it.

Invariant: a document is the graph of one moment. The vertices are gathered in slices, and again from the start if the
graph has changed in between; a gathered vertex never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from fluence_extender.gangs.controller import Controller
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.errors import GraphTooLarge
from fluence_extender.graph.jgf import MOST_VERTICES, Jgf, expand, in_units, sized, vertices_jgf
from fluence_extender.graph.units import COARSE, Units
from fluence_extender.graph.vertex import Vertex
from fluence_extender.http.state.listings import GraphExport, Pieces
from fluence_extender.http.state.nodes import cluster_revision

SLICE = 250
"""Vertices per slice; one takes a few microseconds."""

LEAVES = 500
"""Single leaves per slice."""

TRIES = 5
"""How often to gather in slices before a graph that keeps changing is gathered in one go."""

Gathered = list[tuple[Vertex, Vertex | None]]
Scale = Mapping[str, tuple[int, int]]


def graph(controller: Controller, expanded: bool) -> GraphExport:
    """Return the graph that gangs are placed on."""

    def now() -> Containment:
        return controller.ledger.graph.shown

    return GraphExport(cluster_revision(controller), lambda: pieces_of(now, expanded))


async def pieces_of(now: Callable[[], Containment], expanded: bool) -> Pieces:
    """Return the graph that ``now`` returns, in whole cores and GiB.

    ``expanded`` makes one vertex for each leaf; otherwise equal leaves are one vertex with a size. Raises
    `GraphTooLarge`.
    """
    gathered, units = await _gathered(now)
    scale = scale_of(units)
    if expanded:
        total = await _all_leaves(gathered, scale)
        if total > MOST_VERTICES:
            raise GraphTooLarge(total, MOST_VERTICES)

    async def pieces(part: str) -> AsyncIterator[list[Jgf]]:
        for slice_ in _slices(gathered, scale, expanded):
            document = in_units(vertices_jgf(slice_), scale)
            shown = expand(document) if expanded else sized(document)
            yield shown["graph"][part]

    return Pieces(lambda: pieces("nodes"), lambda: pieces("edges"))


def scale_of(units: Units) -> Scale:
    """Return how counts in ``units`` convert to whole cores and GiB."""
    return {
        "core": (units.cpu_millicores, COARSE.cpu_millicores),
        "memory": (units.memory_bytes, COARSE.memory_bytes),
    }


async def _gathered(now: Callable[[], Containment]) -> tuple[Gathered, Units]:
    for _ in range(TRIES):
        containment = now()
        revision = containment.revision
        gathered: Gathered = []
        for number, path in enumerate(containment.walk(), start=1):
            gathered.append(_with_parent(containment, path))
            if number % SLICE == 0:
                await asyncio.sleep(0)
                if now() is not containment or containment.revision != revision:
                    break
        else:
            return gathered, containment.units
    containment = now()
    return [_with_parent(containment, path) for path in containment.walk()], containment.units


def _with_parent(containment: Containment, path: str) -> tuple[Vertex, Vertex | None]:
    above = containment.parent(path)
    return containment.vertex(path), None if above is None else containment.vertex(above)


async def _all_leaves(gathered: Gathered, scale: Scale) -> int:
    """Return the number of vertices if each leaf is one."""
    total = 0
    for start in range(0, len(gathered), SLICE):
        total += sum(_leaves(vertex, scale) for vertex, _ in gathered[start : start + SLICE])
        await asyncio.sleep(0)
    return total


def _slices(gathered: Gathered, scale: Scale, expanded: bool) -> Iterator[Gathered]:
    """Yield ``gathered`` in slices of a bounded number of vertices as shown; a single huge one may exceed the bound."""
    first = size = 0
    for position, (vertex, _) in enumerate(gathered):
        leaves = _leaves(vertex, scale) if expanded else 1
        if size and size + leaves > (LEAVES if expanded else SLICE):
            yield gathered[first:position]
            first, size = position, 0
        size += leaves
    yield gathered[first:]


def _leaves(vertex: Vertex, scale: Scale) -> int:
    present, wanted = scale.get(vertex.type, (1, 1))
    return vertex.count * present // wanted
