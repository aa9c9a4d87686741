"""Hand a compact graph with its jobs over to a walker.

The walker loads every vertex and edge, statuses included. Children stand in the order in which their edges were added,
because that order decides ties. Then it gets the shares of all jobs and the weights of edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluence_extender.matcher.counted.graph import CompactGraph
from fluence_extender.matcher.counted.table import NodeRow, Pool, Share
from fluence_extender.matcher.counted.tree import TreeLevel
from fluence_extender.matcher.expansion import MOST_WALKED, TooManyVertices
from fluence_extender.matcher.port import Jgf
from fluence_extender.matcher.walker.graph import DOWN, UP, GraphVertex


def plain_document(graph: CompactGraph) -> Jgf:
    """Return the graph with a vertex for each unit; document ids are paths. Raises `TooManyVertices`."""
    state = graph.state
    units = sum(int(column.total.sum()) for column in state.table.columns.values())
    virtual = sum(1 + len(graph.skeleton.paths_below(top)) for top in graph.tops)
    total = units + len(state.by_path) + len(state.tree.by_path) + virtual
    if total > MOST_WALKED:
        raise TooManyVertices(total)
    writer = _Writer(graph)
    writer.write_level(state.tree.root)
    return {"graph": {"nodes": writer.nodes, "edges": writer.edges}}


def paths_of(shares: Iterable[Share]) -> Iterator[str]:
    """Yield the paths of the leaves that a job holds."""
    for share in shares:
        pools = {pool.type: pool for pool in share.node.pools}
        for name, units in share.taken:
            pool = pools[name]
            stem = f"{share.node.path}/{pool.basename}"
            for low, high in units:
                yield from (f"{stem}{pool.id + unit}" for unit in range(low, high))


def weights_of(graph: CompactGraph) -> dict[str, int | None]:
    """Return path -> weight of the edge to it, None if no job came through; empty if the policy has no weights."""
    state = graph.state
    found: dict[str, int | None] = {}
    for level in state.tree.levels:
        if level.alive and level.siblings is not None:
            for reference in level.children:
                path = (
                    state.table.node(reference).path
                    if reference >= 0
                    else state.tree.level(reference).entry.path
                )
                found[path] = level.siblings.weight(reference)
    if found:
        for top in graph.tops:
            found |= graph.skeleton.weights((top, *graph.skeleton.paths_below(top)))
    return found


class _Writer:
    """The walk over both halves that lists every vertex, parents first."""

    def __init__(self, graph: CompactGraph) -> None:
        self.nodes: list[Jgf] = []
        self.edges: list[Jgf] = []
        self._state = graph.state
        self._skeleton = graph.skeleton
        self._tops: dict[str, list[tuple[int, str]]] = {}
        for top, turn in graph.tops.items():
            self._tops.setdefault(top.rpartition("/")[0], []).append((turn, top))

    def write_level(self, level: TreeLevel) -> None:
        """Write a level and all below it."""
        entry = level.entry
        self._add(
            entry.path,
            up=level.up,
            type=entry.type,
            basename=entry.basename,
            name=entry.name,
            id=entry.id,
            uniq_id=entry.uniq_id,
            rank=entry.metadata.rank,
            properties=entry.metadata.properties,
            paths=entry.metadata.paths,
        )
        for _, child in self._children(level):
            if isinstance(child, TreeLevel):
                self._join(entry.path, child.entry.path)
                self.write_level(child)
            elif isinstance(child, int):
                node = self._state.table.node(child)
                self._join(entry.path, node.path)
                self._write_node(node, up=bool(self._state.table.up[child]))
            else:
                self._join(entry.path, child)
                self._write_virtual(self._skeleton.vertex(child))

    def _children(self, level: TreeLevel) -> list[tuple[int, TreeLevel | int | str]]:
        children: list[tuple[int, TreeLevel | int | str]] = [*self._tops.get(level.entry.path, ())]
        for reference in level.children:
            if reference >= 0:
                children.append((self._state.table.node(reference).turn, reference))
            else:
                below = self._state.tree.level(reference)
                children.append((below.turn, below))
        return sorted(children, key=lambda child: child[0])

    def _write_node(self, node: NodeRow, *, up: bool) -> None:
        self._add(
            node.path,
            up=up,
            type=node.type,
            basename=node.basename,
            name=node.name,
            id=node.id,
            uniq_id=node.uniq_id,
            rank=node.rank,
            properties=node.properties,
            paths={"containment": node.path},
        )
        for pool in node.pools:
            self._write_leaves(node, pool)
        for _, top in sorted(self._tops.get(node.path, ())):
            self._join(node.path, top)
            self._write_virtual(self._skeleton.vertex(top))

    def _write_leaves(self, node: NodeRow, pool: Pool) -> None:
        for unit in range(pool.count):
            name = f"{pool.basename}{pool.id + unit}"
            path = f"{node.path}/{name}"
            self._add(
                path,
                up=True,
                type=pool.type,
                basename=pool.basename,
                name=name,
                id=pool.id + unit,
                uniq_id=pool.uniq_id + unit,
                rank=node.rank,
                properties=pool.properties,
                paths={"containment": path},
            )
            self._join(node.path, path)

    def _write_virtual(self, vertex: GraphVertex) -> None:
        self._add(
            vertex.path,
            up=vertex.status == UP,
            type=vertex.type,
            basename=vertex.basename,
            name=vertex.name,
            id=vertex.id,
            uniq_id=vertex.uniq_id,
            rank=vertex.rank,
            properties=vertex.properties,
            paths=vertex.paths,
            size=vertex.size,
        )
        for edge in vertex.out:
            self._join(vertex.path, edge.target.path)
            self._write_virtual(edge.target)

    def _join(self, path: str, child: str) -> None:
        self.edges.append({"source": path, "target": child})

    def _add(self, path: str, *, up: bool, **metadata: str | int | Mapping[str, Any]) -> None:
        self.nodes.append({"id": path, "metadata": {**metadata, "status": UP if up else DOWN}})
