"""The graph as a JSON Graph Format document.

Equal sibling leaves are one vertex with a ``size``, or one vertex each, as libreapi_cli reads them. The ``id``,
``uniq_id``, name and path of an entry are those of its first leaf; each further leaf is one higher.

Invariant: no two ``uniq_id`` values are equal, also with one vertex for each leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.vertex import NO_RANK, NODE_TYPE, Vertex

Jgf = dict[str, Any]

MOST_VERTICES = 5_000_000
"""The most vertices of a document with one vertex for each leaf."""


class TooManyVertices(ValueError):
    """The graph has more leaves than a document with one vertex for each may have."""


def with_parents(containment: Containment) -> Iterator[tuple[Vertex, Vertex | None]]:
    """Yield each vertex with its parent, None for the root; parents come before children."""
    vertices: dict[str, Vertex] = {path: entry["vertex"] for path, entry in containment.tree.nodes.items()}
    for path in containment.walk():
        above = containment.parent(path)
        yield vertices[path], None if above is None else vertices[above]


def sized_jgf(vertices: Iterable[tuple[Vertex, Vertex | None]]) -> Jgf:
    """Return vertices and the edges to them, each vertex given with its parent; equal leaves have a ``size``."""
    return _document(vertices)


def unit_jgf(containment: Containment, most: int = MOST_VERTICES) -> Jgf:
    """Return the whole graph with one vertex for each leaf. Raises `TooManyVertices`."""
    total = sum(entry["vertex"].count for entry in containment.tree.nodes.values())
    if total > most:
        raise TooManyVertices(f"the graph has {total} vertices, and at most {most} can be written one by one")
    return _document((unit, above) for vertex, above in with_parents(containment) for unit in _units(vertex))


def _units(vertex: Vertex) -> Iterator[Vertex]:
    if not _is_leaf(vertex):
        yield vertex
        return
    parent = vertex.path.rpartition("/")[0]
    for number in range(vertex.count):
        name = f"{vertex.basename}{vertex.id + number}"
        yield replace(
            vertex,
            path=f"{parent}/{name}",
            name=name,
            id=vertex.id + number,
            uniq_id=vertex.uniq_id + number,
            count=1,
        )


def _is_leaf(vertex: Vertex) -> bool:
    return vertex.rank != NO_RANK and vertex.type != NODE_TYPE


def _document(vertices: Iterable[tuple[Vertex, Vertex | None]]) -> Jgf:
    nodes: list[Jgf] = []
    edges: list[Jgf] = []
    for vertex, above in vertices:
        nodes.append({"id": str(vertex.uniq_id), "metadata": _metadata(vertex)})
        if above is not None:
            edges.append({"source": str(above.uniq_id), "target": str(vertex.uniq_id)})
    return {"graph": {"nodes": nodes, "edges": edges}}


def _metadata(vertex: Vertex) -> Jgf:
    metadata: Jgf = {
        "type": vertex.type,
        "basename": vertex.basename,
        "name": vertex.name,
        "id": vertex.id,
        "uniq_id": vertex.uniq_id,
        "rank": vertex.rank,
        "paths": {"containment": vertex.path},
    }
    if vertex.properties:
        metadata["properties"] = dict(vertex.properties)
    if vertex.count != 1:
        metadata["size"] = vertex.count
    return metadata
