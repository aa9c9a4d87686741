"""The graph as a JSON Graph Format document.

Equal sibling leaves are one vertex with a ``size``, or one vertex each, as libreapi_cli reads them. The ``id``,
``uniq_id``, name and path of an entry are those of its first leaf; each further leaf is one higher.

Invariant: no two ``uniq_id`` values are equal, also with one vertex for each leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.vertex import Vertex

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
    nodes: list[Jgf] = []
    edges: list[Jgf] = []
    for vertex, above in vertices:
        metadata = _metadata(vertex)
        if vertex.count != 1:
            metadata["size"] = vertex.count
        nodes.append({"id": str(vertex.uniq_id), "metadata": metadata})
        if above is not None:
            edges.append({"source": str(above.uniq_id), "target": str(vertex.uniq_id)})
    return {"graph": {"nodes": nodes, "edges": edges}}


def unit_jgf(containment: Containment, most: int = MOST_VERTICES) -> Jgf:
    """Return the whole graph with one vertex for each leaf. Raises `TooManyVertices`."""
    total = sum(entry["vertex"].count for entry in containment.tree.nodes.values())
    if total > most:
        raise TooManyVertices(f"the graph has {total} vertices, and at most {most} can be written one by one")
    nodes: list[Jgf] = []
    edges: list[Jgf] = []
    for vertex, above in with_parents(containment):
        units = [_metadata(vertex)] if vertex.count == 1 else list(_units(vertex))
        nodes.extend({"id": str(metadata["uniq_id"]), "metadata": metadata} for metadata in units)
        if above is not None:
            source = str(above.uniq_id)
            edges.extend({"source": source, "target": str(metadata["uniq_id"])} for metadata in units)
    return {"graph": {"nodes": nodes, "edges": edges}}


def _units(vertex: Vertex) -> Iterator[Jgf]:
    """Yield the metadata of each of the leaves for which an entry stands."""
    first, parent = _metadata(vertex), vertex.path.rpartition("/")[0]
    for number in range(vertex.count):
        name = f"{vertex.basename}{vertex.id + number}"
        numbers = {"id": vertex.id + number, "uniq_id": vertex.uniq_id + number}
        yield {**first, **numbers, "name": name, "paths": {"containment": f"{parent}/{name}"}}


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
    return metadata
