"""A graph as a document that can be changed: what a matcher is built from when its graph has changed.

Invariant: vertices are known by their containment path, and every one but the root has an edge to it from one that is
there. A document isn't changed in place, so whoever holds one may read it from another thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from errno import EINVAL
from typing import Any

from fluence_extender.graph.jgf import expand
from fluence_extender.matcher.embedded.jgf import Document, VertexEntry, parse_json, read_document
from fluence_extender.matcher.errors import InvalidGraph, MatcherError
from fluence_extender.matcher.port import Jgf

_CONTAINMENT = "containment"


@dataclass(frozen=True, slots=True)
class GraphDocument:
    """Vertices by path, in load order, and edges as pairs of paths, in theirs."""

    vertices: Mapping[str, VertexEntry]
    edges: Mapping[tuple[str, str], None]

    @classmethod
    def read(cls, jgf: Jgf | str | bytes) -> GraphDocument:
        """Read a whole graph; counted entries become the vertices they stand for. Raises `InvalidGraph`."""
        return cls({}, {})._joined(_parsed(jgf))

    def plus(self, jgf: Jgf | str | bytes) -> GraphDocument:
        """With what ``jgf`` adds. Raises `InvalidGraph` (EINVAL)."""
        try:
            return self._joined(_parsed(jgf))
        except InvalidGraph as error:
            error.errno = EINVAL
            raise

    def minus(self, path: str) -> GraphDocument:
        """Without the vertex at ``path`` and all below it. Raises `MatcherError`: no such vertex, the root,
        all that the root contains."""
        if path not in self.vertices:
            raise MatcherError(f"no vertex is at {path!r}", EINVAL)
        if path.count("/") == 1:
            raise MatcherError("the root can't be removed", EINVAL)
        below = f"{path}/"
        kept = {
            each: vertex
            for each, vertex in self.vertices.items()
            if each != path and not each.startswith(below)
        }
        if len(kept) == 1:
            raise MatcherError(f"without {path!r} the root would contain nothing", EINVAL)
        return GraphDocument(kept, {edge: None for edge in self.edges if edge[1] in kept})

    def jgf(self) -> Jgf:
        """The document as JGF, every vertex up."""
        keys = {path: str(index) for index, path in enumerate(self.vertices)}
        return {
            "graph": {
                "nodes": [_entry(keys[path], vertex) for path, vertex in self.vertices.items()],
                "edges": [{"source": keys[source], "target": keys[target]} for source, target in self.edges],
            }
        }

    def down(self) -> list[str]:
        """The paths of the vertices that the document says are down."""
        return [path for path, vertex in self.vertices.items() if vertex.status != 0]

    def topmost(self, rank: int) -> str | None:
        """The shortest path of a vertex of ``rank``, None where no vertex has it."""
        paths = (path for path, vertex in self.vertices.items() if vertex.rank == rank)
        return min(paths, key=len, default=None)

    def vertices_of(self, rank: int) -> int:
        """How many vertices have that rank."""
        return sum(vertex.rank == rank for vertex in self.vertices.values())

    def _joined(self, document: Document) -> GraphDocument:
        vertices, edges = dict(self.vertices), dict(self.edges)
        paths: dict[str, str] = {}
        for entry in document.vertices:
            path = _path_of(entry)
            if entry.key in paths:
                raise InvalidGraph(f"{entry.where}: the id appears twice")
            paths[entry.key] = path
            known = vertices.setdefault(path, replace(entry, status=_status(entry)))
            if known.rank != entry.rank:
                raise InvalidGraph(
                    f"{entry.where}: {path!r} has rank {known.rank} in the graph, not {entry.rank}"
                )
        for edge in document.edges:
            for key in (edge.source, edge.target):
                if key not in paths:
                    raise InvalidGraph(f"{edge.where}: no vertex of the document has the id {key!r}")
            edges.setdefault((paths[edge.source], paths[edge.target]))
        joined = {target for _, target in edges}
        for path in vertices:
            if path not in joined and path.count("/") > 1:
                raise InvalidGraph(f"graph.edges: none leads to {path!r}")
        return GraphDocument(vertices, edges)


def _parsed(jgf: Jgf | str | bytes) -> Document:
    top: Any = parse_json(jgf)
    try:
        counted = any("count" in node["metadata"] for node in top["graph"]["nodes"])
    except (KeyError, TypeError):
        counted = False
    if counted:
        try:
            top = expand(top)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidGraph(f"graph: a counted entry can't be expanded: {error}") from error
    return read_document(top)


def _path_of(entry: VertexEntry) -> str:
    if set(entry.paths) != {_CONTAINMENT}:
        raise InvalidGraph(f"{entry.where}: 'paths' must have the one key containment")
    return entry.paths[_CONTAINMENT]


def _status(entry: VertexEntry) -> int:
    if entry.status not in (0, 1):
        raise InvalidGraph(f"{entry.where}: 'status' must be 0 or 1, and is {entry.status}")
    return entry.status


def _entry(key: str, vertex: VertexEntry) -> Jgf:
    names = ("type", "basename", "name", "id", "uniq_id", "rank", "size")
    metadata = {name: getattr(vertex, name) for name in names}
    return {
        "id": key,
        "metadata": {**metadata, "properties": dict(vertex.properties), "paths": dict(vertex.paths)},
    }
