"""Split a compact document into physical nodes, which are counted, and the skeleton, which is walked.

Physical are the `node` vertices below the root or a level that aren't virtual, with their childless leaves. Everything
else is small and goes into the skeleton: a plain graph with the root, the levels, the virtual vertices with each unit a
vertex, and those physical nodes (without their leaves) that have virtual vertices below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fluence_extender.matcher.counted.document import NODE, CompactEntry, Uncountable
from fluence_extender.matcher.counted.policy import CountedPolicy
from fluence_extender.matcher.counted.table import NodeRow, Pool
from fluence_extender.matcher.errors import InvalidGraph
from fluence_extender.matcher.expansion import unit_entries
from fluence_extender.matcher.port import Jgf
from fluence_extender.matcher.walker.graph import DOWN, UP
from fluence_extender.matcher.walker.policy import perf_class

MOST_WALKED = 500_000
"""The most vertices that the skeleton may have."""


@dataclass(slots=True)
class Halves:
    """A document in two halves.

    ``counted`` are the levels and the physical nodes, parents first, children in edge order; ``tops`` the topmost
    virtual vertices; ``skeleton`` all entries of the skeleton, parents first.
    """

    counted: list[CompactEntry] = field(default_factory=list)
    tops: list[CompactEntry] = field(default_factory=list)
    skeleton: list[CompactEntry] = field(default_factory=list)

    @property
    def virtual_types(self) -> set[str]:
        """The types at and below ``tops``, nodes excepted."""
        return {entry.type for top in self.tops for entry in top.walk()} - {NODE}


def split(root: CompactEntry) -> Halves:
    """Split a tree. Raises `Uncountable` where a physical node has something below it that can't be counted."""
    halves = Halves()
    stack = [root]
    turn = 0
    while stack:
        entry = stack.pop()
        entry.turn = turn
        turn += 1
        if entry.is_physical:
            _check_single(entry)
            halves.counted.append(entry)
            inner = [child for child in entry.children if not child.is_leaf]
            if inner:
                halves.skeleton.append(entry)
            for child in inner:
                if child.type != NODE:
                    raise Uncountable(f"{child.path}: leaves must be right below their node to be counted")
                child.turn = turn
                turn += 1
                halves.tops.append(child)
                halves.skeleton.extend(child.walk())
        elif entry is root or (entry.children and entry.type != NODE):
            _check_single(entry)
            halves.counted.append(entry)
            halves.skeleton.append(entry)
            stack.extend(reversed(entry.children))
        else:
            halves.tops.append(entry)
            halves.skeleton.extend(entry.walk())
    return halves


def _check_single(entry: CompactEntry) -> None:
    metadata = entry.metadata
    if metadata.size != 1 or metadata.count != 1 or metadata.status not in (UP, DOWN):
        raise Uncountable(f"{entry.path}: what holds leaves must be one vertex of size 1, up or down")


def node_of(entry: CompactEntry, level: int, policy: CountedPolicy, first_turn: int) -> NodeRow:
    """Return a physical node with its pools. Raises `Uncountable`."""
    pools: dict[str, Pool] = {}
    for child in entry.children:
        if child.is_leaf:
            pools[child.type] = _joined(pools.get(child.type), child, policy)
    return NodeRow(
        path=entry.path,
        name=entry.name,
        basename=entry.basename,
        type=entry.type,
        id=entry.id,
        uniq_id=entry.uniq_id,
        rank=entry.metadata.rank,
        properties=entry.metadata.properties,
        level=level,
        pools=tuple(pools.values()),
        turn=first_turn + entry.turn,
    )


def _joined(before: Pool | None, leaf: CompactEntry, policy: CountedPolicy) -> Pool:
    """Return the pool of a leaf entry, joined to the pool before it if its numbers go on where that one ends."""
    if leaf.metadata.size != 1 or leaf.metadata.status != UP:
        raise Uncountable(f"{leaf.path}: a counted leaf must have size 1 and be up")
    if leaf.name != f"{leaf.basename}{leaf.id}":
        raise Uncountable(f"{leaf.path}: the first leaf of an entry must be named {leaf.basename}{leaf.id}")
    score = 1 + perf_class(leaf.metadata.properties) if policy.by_class else 0
    count = leaf.metadata.count
    properties = leaf.metadata.properties
    if before is None:
        return Pool(leaf.type, leaf.basename, leaf.id, leaf.uniq_id, count, score, properties)
    follows = (before.basename, before.id + before.count, before.uniq_id + before.count, before.properties)
    if follows != (leaf.basename, leaf.id, leaf.uniq_id, properties):
        raise Uncountable(f"{leaf.path}: its ids don't follow those of the {leaf.type} entry before it")
    return Pool(leaf.type, leaf.basename, before.id, before.uniq_id, before.count + count, score, properties)


def skeleton_document(entries: Iterable[CompactEntry]) -> Jgf:
    """Return the plain document of the skeleton. Raises `InvalidGraph` if it has too many vertices."""
    kept = list(entries)
    total = sum(entry.metadata.count for entry in kept)
    if total > MOST_WALKED:
        raise InvalidGraph(
            f"{total} virtual vertices: at most {MOST_WALKED} can be matched one by one; choose larger units"
        )
    keys = {entry.key for entry in kept}
    nodes: list[Jgf] = []
    edges: list[Jgf] = []
    for entry in kept:
        nodes.extend({"id": key, "metadata": metadata} for key, metadata in _units(entry))
        for child in entry.children:
            if child.key in keys:
                edges.extend({"source": entry.key, "target": key} for key, _ in _units(child))
    return {"graph": {"nodes": nodes, "edges": edges}}


def _units(entry: CompactEntry) -> Iterator[tuple[str, dict[str, Any]]]:
    metadata = msgspec.to_builtins(entry.metadata)
    count = metadata.pop("count", 1)
    metadata |= {"basename": entry.basename, "name": entry.name, "id": entry.id, "uniq_id": entry.uniq_id}
    if count == 1:
        yield entry.key, metadata
        return
    for unit in unit_entries(entry.key, metadata, count):
        yield unit["id"], unit["metadata"]
