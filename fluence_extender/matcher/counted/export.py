"""A compact graph as a plain document, in its present state: what a walker over the same graph loads.

Children stand in the order in which their edges were added, because that order decides ties (fluxion reference 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.expansion import MOST_VERTICES, TooManyVertices, unit_entries
from fluence_extender.matcher.counted.table import Node, Pool
from fluence_extender.matcher.counted.tree import Level
from fluence_extender.matcher.embedded.graph import DOWN, UP, Vertex
from fluence_extender.matcher.port import Jgf


def plain_document(graph: CompactGraph) -> Jgf:
    """Every vertex and edge, statuses included; document ids are paths. Raises `TooManyVertices`."""
    total = vertices_of(graph)
    if total > MOST_VERTICES:
        raise TooManyVertices(total)
    export = _Export(graph)
    export.level(graph.state.tree.root)
    return {"graph": {"nodes": export.nodes, "edges": export.edges}}


def vertices_of(graph: CompactGraph) -> int:
    """How many vertices the graph has when each unit is one."""
    state = graph.state
    units = sum(int(column.total.sum()) for column in state.table.columns.values())
    rest = sum(1 + len(graph.walked.below(top)) for top in graph.tops)
    return units + len(state.by_path) + len(state.tree.by_path) + rest


_NAMED = ("type", "basename", "name", "id", "uniq_id", "rank")
_Named = tuple[str, str, str, int, int, int]


class _Export:
    def __init__(self, graph: CompactGraph) -> None:
        self.nodes: list[Jgf] = []
        self.edges: list[Jgf] = []
        self._graph = graph
        self._tops: dict[str, list[tuple[int, str]]] = {}
        for top, turn in graph.tops.items():
            self._tops.setdefault(top.rpartition("/")[0], []).append((turn, top))

    def level(self, level: Level) -> None:
        vertex = level.vertex
        metadata = vertex.metadata
        path = vertex.path
        named = (vertex.type, vertex.basename, vertex.name, vertex.id, vertex.uniq_id, metadata.rank)
        more = {"size": metadata.size, "properties": metadata.properties, "paths": metadata.paths}
        self._add(path, named, more, up=level.up)
        for _, child in self._children(level):
            if isinstance(child, Level):
                self._join(path, child.vertex.path)
                self.level(child)
            elif isinstance(child, int):
                node = self._graph.state.table.node(child)
                self._join(path, node.path)
                self._node(node, up=bool(self._graph.state.table.up[child]))
            else:
                self._join(path, child)
                self._walked(self._graph.walked.vertex(child))

    def _children(self, level: Level) -> list[tuple[int, Level | int | str]]:
        state = self._graph.state
        children: list[tuple[int, Level | int | str]] = [*self._tops.get(level.vertex.path, ())]
        for reference in level.children:
            if reference >= 0:
                children.append((state.table.node(reference).turn, reference))
            else:
                below = state.tree.levels[-1 - reference]
                children.append((below.turn, below))
        return sorted(children, key=lambda child: child[0])

    def _node(self, node: Node, *, up: bool) -> None:
        named = (node.type, node.basename, node.name, node.id, node.uniq_id, node.rank)
        more = {"properties": node.properties, "paths": {"containment": node.path}}
        self._add(node.path, named, more, up=up)
        for pool in node.pools:
            for entry in _leaves(node, pool):
                self.nodes.append(entry)
                self._join(node.path, entry["id"])
        for _, top in sorted(self._tops.get(node.path, ())):
            self._join(node.path, top)
            self._walked(self._graph.walked.vertex(top))

    def _walked(self, vertex: Vertex) -> None:
        named = (vertex.type, vertex.basename, vertex.name, vertex.id, vertex.uniq_id, vertex.rank)
        more = {"size": vertex.size, "properties": vertex.properties, "paths": vertex.paths}
        self._add(vertex.path, named, more, up=vertex.status == UP)
        for edge in vertex.out:
            self._join(vertex.path, edge.target.path)
            self._walked(edge.target)

    def _join(self, path: str, child: str) -> None:
        self.edges.append({"source": path, "target": child})

    def _add(self, path: str, named: _Named, more: Mapping[str, Any], *, up: bool) -> None:
        metadata = {**dict(zip(_NAMED, named, strict=True)), "status": UP if up else DOWN, **more}
        self.nodes.append({"id": path, "metadata": metadata})


def _leaves(node: Node, pool: Pool) -> Iterator[Jgf]:
    metadata = {
        "type": pool.type,
        "basename": pool.basename,
        "id": pool.id,
        "uniq_id": pool.uniq_id,
        "rank": node.rank,
        "properties": pool.properties,
        "paths": {"containment": f"{node.path}/{pool.basename}{pool.id}"},
    }
    for entry in unit_entries("", metadata, pool.count):
        yield {**entry, "id": entry["metadata"]["paths"]["containment"]}
