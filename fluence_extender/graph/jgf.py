"""The graph as a JSON Graph Format document in compact form.

An entry for N equal sibling leaves has ``"count": N`` in its metadata, even when N is 1. Its ``id``, ``uniq_id``, name
and path are those of the first leaf; each further leaf is one higher. libreapi_cli reads documents with one vertex for
each leaf only; `matcher.expansion` makes them.

Invariant: no two ``uniq_id`` values are equal, also with one vertex for each leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.growth import Addition
from fluence_extender.graph.vertex import NO_RANK, NODE_TYPE, Vertex

Jgf = dict[str, Any]


def to_jgf(containment: Containment) -> Jgf:
    """Return the whole graph in compact form, parents before children."""
    vertices: dict[str, Vertex] = {path: entry["vertex"] for path, entry in containment.tree.nodes.items()}
    paths = list(containment.walk())
    edges = [(vertices[path], vertices[child]) for path in paths for child in containment.children(path)]
    return _document([vertices[path] for path in paths], edges)


def vertices_jgf(vertices: Iterable[tuple[Vertex, Vertex | None]]) -> Jgf:
    """Return vertices and the edges to them in compact form; each is given with its parent, None for the root."""
    taken = list(vertices)
    edges = [(above, below) for below, above in taken if above is not None]
    return _document([below for below, _ in taken], edges)


def addition_jgf(containment: Containment, addition: Addition) -> Jgf:
    """Return ``addition`` in compact form, with the path from the root down to it.

    A matcher adds a subgraph in this form. Call this before the addition is applied.
    """
    added = {vertex.path: vertex for _, vertex in addition.vertices}
    replaced = {vertex.path: vertex for vertex in addition.replaced}
    above: dict[str, Vertex] = {}
    edges: list[tuple[Vertex, Vertex]] = []
    for parent, _ in addition.vertices:
        if parent in added or parent in above:
            continue
        chain = [*reversed(list(containment.ancestors(parent))), parent]
        for path in chain:
            if path not in above:
                above[path] = replaced.get(path) or containment.vertex(path)
                if path != chain[0]:
                    edges.append((above[chain[chain.index(path) - 1]], above[path]))
    known = {**above, **added}
    edges.extend((known[parent], vertex) for parent, vertex in addition.vertices)
    return _document(known.values(), edges)


def _document(vertices: Iterable[Vertex], edges: Iterable[tuple[Vertex, Vertex]]) -> Jgf:
    return {
        "graph": {
            "nodes": [{"id": str(vertex.uniq_id), "metadata": _metadata(vertex)} for vertex in vertices],
            "edges": [{"source": str(above.uniq_id), "target": str(below.uniq_id)} for above, below in edges],
        }
    }


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
    if vertex.count != 1 or _is_leaf(vertex):
        metadata["count"] = vertex.count
    return metadata


def _is_leaf(vertex: Vertex) -> bool:
    """Return whether the entry stands for leaves: it has a count even if that is 1, so that the form is certain."""
    return vertex.rank != NO_RANK and vertex.type != NODE_TYPE


def sized(document: Jgf) -> Jgf:
    """Write each entry's count as the ``size`` of one vertex, which every JGF reader understands."""
    nodes = []
    for vertex in document["graph"]["nodes"]:
        metadata = dict(vertex["metadata"])
        count = metadata.pop("count", 1)
        if count != 1:
            metadata["size"] = count
        nodes.append({**vertex, "metadata": metadata})
    return {"graph": {"nodes": nodes, "edges": document["graph"]["edges"]}}
