"""Split a compact document into its physical half, which arithmetic takes, and the rest, which is walked.

Physical are the `node` vertices below the root or a level that aren't virtual, with their childless leaves. All else
is small and goes into the skeleton: a plain graph document with the root, the levels, the virtual vertices with each
unit a vertex, and those physical nodes (without their leaves) that have virtual vertices below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fluence_extender.matcher.counted.document import NODE, Vertex
from fluence_extender.matcher.counted.policy import Policy
from fluence_extender.matcher.counted.table import Node, Pool
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.embedded.graph import DOWN, UP
from fluence_extender.matcher.embedded.policy import perf_class
from fluence_extender.matcher.errors import InvalidGraph
from fluence_extender.matcher.port import Jgf

MOST_WALKED = 500_000
"""The most vertices that the skeleton may have."""


@dataclass(slots=True)
class Halves:
    """A document, split.

    ``counted`` are the levels and the physical nodes, parents first, children in edge order; ``walked`` the tops of
    the subtrees that are walked; ``rest`` all vertices of the skeleton, parents first.
    """

    counted: list[Vertex] = field(default_factory=list)
    walked: list[Vertex] = field(default_factory=list)
    rest: list[Vertex] = field(default_factory=list)


def split(root: Vertex) -> Halves:
    """Raises `Uncountable` where a physical node has something below it that can't be counted."""
    halves = Halves()
    stack = [root]
    turn = 0
    while stack:
        vertex = stack.pop()
        vertex.turn = turn
        turn += 1
        if is_physical(vertex) and vertex is not root:
            _check_single(vertex)
            halves.counted.append(vertex)
            inner = [child for child in vertex.children if not is_leaf(child)]
            if inner:
                halves.rest.append(vertex)
            for child in inner:
                _check_below_node(child)
                child.turn = turn
                turn += 1
                halves.walked.append(child)
                halves.rest.extend(child.walk())
        elif vertex is root or (vertex.children and vertex.type != NODE):
            _check_single(vertex)
            halves.counted.append(vertex)
            halves.rest.append(vertex)
            stack.extend(reversed(vertex.children))
        else:
            halves.walked.append(vertex)
            halves.rest.extend(vertex.walk())
    return halves


def _check_single(vertex: Vertex) -> None:
    metadata = vertex.metadata
    if metadata.size != 1 or metadata.count != 1 or metadata.status not in (UP, DOWN):
        raise Uncountable(f"{vertex.path}: what holds leaves must be one vertex of size 1, up or down")


def is_physical(vertex: Vertex) -> bool:
    """Whether the vertex is a node with a machine behind it."""
    return vertex.type == NODE and not vertex.is_virtual


def is_leaf(vertex: Vertex) -> bool:
    """Whether a child of a physical node is a leaf entry of it."""
    return not vertex.children and vertex.type != NODE


def _check_below_node(vertex: Vertex) -> None:
    if vertex.type != NODE:
        raise Uncountable(f"{vertex.path}: leaves must be right below their node in a graph with counts")


def node_of(vertex: Vertex, level: int, policy: Policy, turns: int = 0) -> Node:
    """A physical node with its pools. Raises `Uncountable`."""
    pools: dict[str, Pool] = {}
    for child in vertex.children:
        if is_leaf(child):
            pools[child.type] = _joined(pools.get(child.type), child, policy)
    return Node(
        path=vertex.path,
        name=vertex.name,
        basename=vertex.basename,
        type=vertex.type,
        id=vertex.id,
        uniq_id=vertex.uniq_id,
        rank=vertex.metadata.rank,
        properties=vertex.metadata.properties,
        level=level,
        pools=tuple(pools.values()),
        score=_class(vertex) if policy.by_class else 2 + vertex.id,
        has_children=bool(vertex.children),
        turn=turns + vertex.turn,
    )


def _joined(before: Pool | None, leaf: Vertex, policy: Policy) -> Pool:
    """The pool of a leaf entry, or of one that goes on where the entry before ended."""
    if leaf.metadata.size != 1 or leaf.metadata.status != 0:
        raise Uncountable(f"{leaf.path}: leaves of a graph with counts must have size 1 and be up")
    if leaf.name != f"{leaf.basename}{leaf.id}":
        raise Uncountable(f"{leaf.path}: the first leaf of an entry must be named {leaf.basename}{leaf.id}")
    score = _class(leaf) if policy.by_class else 0
    count = leaf.metadata.count
    properties = leaf.metadata.properties
    if before is None:
        return Pool(leaf.type, leaf.basename, leaf.id, leaf.uniq_id, count, score, properties)
    follows = (before.basename, before.id + before.count, before.uniq_id + before.count, before.properties)
    if follows != (leaf.basename, leaf.id, leaf.uniq_id, properties):
        raise Uncountable(f"{leaf.path}: its ids don't follow those of the {leaf.type} entry before it")
    return Pool(leaf.type, leaf.basename, before.id, before.uniq_id, before.count + count, score, properties)


def _class(vertex: Vertex) -> int:
    return 1 + perf_class(vertex.metadata.properties)


def skeleton(rest: Iterable[Vertex]) -> Jgf:
    """The plain document of the vertices that are walked. Raises `InvalidGraph` if they are too many."""
    vertices = list(rest)
    total = sum(vertex.metadata.count for vertex in vertices)
    if total > MOST_WALKED:
        raise InvalidGraph(
            f"{total} virtual vertices: at most {MOST_WALKED} can be matched one by one; choose larger units"
        )
    kept = {id(vertex) for vertex in vertices}
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for vertex in vertices:
        for key, metadata in _units(vertex):
            nodes.append({"id": key, "metadata": metadata})
        for child in vertex.children:
            if id(child) in kept:
                edges.extend({"source": _key(vertex, 0), "target": key} for key, _ in _units(child))
    return {"graph": {"nodes": nodes, "edges": edges}}


def _key(vertex: Vertex, index: int) -> str:
    return vertex.key if vertex.metadata.count == 1 else f"{vertex.key}+{index}"


def _units(vertex: Vertex) -> Iterator[tuple[str, dict[str, Any]]]:
    metadata = msgspec.to_builtins(vertex.metadata)
    metadata.pop("count", None)
    metadata |= {"basename": vertex.basename, "name": vertex.name, "id": vertex.id, "uniq_id": vertex.uniq_id}
    parent = vertex.path.rpartition("/")[0]
    for index in range(vertex.metadata.count):
        if vertex.metadata.count == 1:
            yield _key(vertex, 0), metadata
            return
        number = vertex.id + index
        name = f"{vertex.basename}{number}"
        paths = {**vertex.metadata.paths, "containment": f"{parent}/{name}"}
        own = {"name": name, "id": number, "uniq_id": vertex.uniq_id + index, "paths": paths}
        yield _key(vertex, index), metadata | own
