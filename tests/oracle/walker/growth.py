"""Adding a JGF document to a graph: a whole graph to an empty one, or a subtree with the path that leads to it.

The document is checked against the graph in full before anything is attached, so a refused document leaves no trace
(libreapi_cli keeps what came before the fault).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.errors import InvalidGraph
from tests.oracle.walker.graph import CONTAINMENT, MAX_DEPTH, Graph, GraphVertex
from tests.oracle.walker.reader import Document, VertexEntry


@dataclass(slots=True)
class _Growth:
    """What a document adds: new vertices, new edges, and where each of its ids points."""

    vertices: list[GraphVertex] = field(default_factory=list)
    edges: list[tuple[GraphVertex, GraphVertex, str]] = field(default_factory=list)
    by_key: dict[str, GraphVertex] = field(default_factory=dict)
    by_path: dict[str, list[GraphVertex]] = field(default_factory=dict)
    roots: dict[str, GraphVertex] = field(default_factory=dict)


def grow(graph: Graph, document: Document) -> None:
    """Attach the vertices that the graph doesn't have. Raises `InvalidGraph`, and then changes nothing."""
    growth = _Growth()
    for entry in document.vertices:
        _plan_vertex(graph, growth, entry)
    _plan_edges(growth, document)
    root = graph.roots.get(CONTAINMENT) or growth.roots.get(CONTAINMENT)
    if root is None:
        raise InvalidGraph("graph.nodes: no vertex is a containment root, one whose path has a single '/'")
    _check_shape(root, growth)
    for vertex in growth.vertices:
        graph.attach(vertex)
    for source, target, subsystem in growth.edges:
        graph.connect(source, target, subsystem)


def _plan_vertex(graph: Graph, growth: _Growth, entry: VertexEntry) -> None:
    if entry.key in growth.by_key:
        raise InvalidGraph(f"{entry.where}.id appears twice: {entry.key[:80]!r}")
    vertex = _existing(graph, growth, entry)
    if vertex is None:
        vertex = GraphVertex(
            type=entry.type,
            basename=entry.basename,
            name=entry.name,
            id=entry.id,
            uniq_id=entry.uniq_id,
            rank=entry.rank,
            status=entry.status,
            size=entry.size,
            properties=entry.properties,
            paths=entry.paths,
        )
        growth.vertices.append(vertex)
        for subsystem, path in entry.paths.items():
            if path.count("/") == 1:
                if subsystem in graph.roots or subsystem in growth.roots:
                    raise InvalidGraph(
                        f"{entry.where}.metadata.paths.{subsystem}: {path[:80]!r} is a second root"
                    )
                growth.roots[subsystem] = vertex
            growth.by_path.setdefault(path, []).append(vertex)
    growth.by_key[entry.key] = vertex


def _existing(graph: Graph, growth: _Growth, entry: VertexEntry) -> GraphVertex | None:
    """Return the vertex that has one of the entry's paths and its rank already."""
    for path in entry.paths.values():
        for by_path in (graph.by_path, growth.by_path):
            for vertex in by_path.get(path, ()):
                if vertex.rank == entry.rank:
                    return vertex
    return None


def _plan_edges(growth: _Growth, document: Document) -> None:
    """Plan the edges with a new vertex at one end; the children of a parent differ in their uniq_id."""
    new = set(growth.vertices)
    children: dict[GraphVertex, set[int]] = {}
    for entry in document.edges:
        source = growth.by_key.get(entry.source)
        target = growth.by_key.get(entry.target)
        if source is None or target is None:
            end, missing = ("source", entry.source) if source is None else ("target", entry.target)
            raise InvalidGraph(f"{entry.where}.{end}: no vertex of the document has the id {missing[:80]!r}")
        if source not in new and target not in new:
            continue
        taken = children.get(source)
        if taken is None:
            taken = children[source] = {edge.target.uniq_id for edge in source.out}
        if target.uniq_id in taken:
            raise InvalidGraph(
                f"{entry.where}: {source.name!r} already has a child of uniq_id {target.uniq_id}"
            )
        taken.add(target.uniq_id)
        growth.edges.append((source, target, entry.subsystem))


def _check_shape(root: GraphVertex, growth: _Growth) -> None:
    """Raise `InvalidGraph` for a cycle, below the root or not, and for more than MAX_DEPTH levels."""
    added: dict[GraphVertex, list[GraphVertex]] = {}
    for source, target, subsystem in growth.edges:
        if subsystem == CONTAINMENT:
            added.setdefault(source, []).append(target)
    heights: dict[GraphVertex, int] = {}
    open_vertices: set[GraphVertex] = set()
    stack = [*growth.vertices, root]
    while stack:
        vertex = stack[-1]
        children = [edge.target for edge in vertex.out] + added.get(vertex, [])
        if vertex in heights:
            stack.pop()
        elif vertex in open_vertices:
            open_vertices.remove(vertex)
            heights[vertex] = 1 + max((heights[child] for child in children), default=0)
            stack.pop()
        else:
            open_vertices.add(vertex)
            if not open_vertices.isdisjoint(children):
                raise InvalidGraph(f"graph.edges: the containment edges close a cycle at {vertex.name!r}")
            stack.extend(child for child in children if child not in heights)
    if heights[root] > MAX_DEPTH:
        raise InvalidGraph(
            f"graph.edges: the graph is {heights[root]} levels deep; at most {MAX_DEPTH} are walked"
        )
