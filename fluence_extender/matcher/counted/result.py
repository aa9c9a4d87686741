"""A grant in the form for callers: the placement, and R as compact JGF.

R lists leaves before their node and nodes before their levels, as libreapi_cli emits them. One entry stands for a run
of units and has the length of the run as its ``count``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fluence_extender.matcher.counted.document import CompactEntry
from fluence_extender.matcher.counted.ranges import size
from fluence_extender.matcher.counted.table import NodeRow, Pool, Share
from fluence_extender.matcher.counted.tree import TreeLevel
from fluence_extender.matcher.port import Jgf


def placement_of(shares: Sequence[Share], levels: Sequence[TreeLevel]) -> dict[str, dict[str, int]]:
    """Return holder path -> {leaf type: units}; the levels above the nodes hold nothing themselves."""
    placement = {share.node.path: {name: size(units) for name, units in share.taken} for share in shares}
    if len(shares) == 1:
        number = shares[0].node.level
        while number >= 0:
            placement[levels[number].entry.path] = {}
            number = levels[number].parent
        return placement
    for level in _levels_of(shares, levels):
        placement[level.entry.path] = {}
    return placement


def jgf_of(shares: Sequence[Share], levels: Sequence[TreeLevel]) -> Jgf:
    """Return the grant as a compact document."""
    return _Listing(shares, levels).document()


class _Listing:
    """The walk that lists held vertices, children before their parent, in the order of their edges."""

    def __init__(self, shares: Sequence[Share], levels: Sequence[TreeLevel]) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, str]] = []
        self._root = levels[0]
        self._below: dict[int, list[tuple[int, Share | TreeLevel]]] = {}
        for share in shares:
            self._below.setdefault(share.node.level, []).append((share.node.turn, share))
        for level in _levels_of(shares, levels):
            if level.parent >= 0:
                self._below.setdefault(level.parent, []).append((level.turn, level))

    def document(self) -> Jgf:
        self._list_level(self._root)
        return {"graph": {"nodes": self._nodes, "edges": self._edges}}

    def _list_level(self, level: TreeLevel) -> None:
        uniq_id = str(level.entry.uniq_id)
        for _, child in sorted(self._below[level.number], key=lambda child: child[0]):
            if isinstance(child, TreeLevel):
                self._list_level(child)
                target = child.entry.uniq_id
            else:
                self._list_share(child)
                target = child.node.uniq_id
            self._edges.append({"source": uniq_id, "target": str(target)})
        entry = level.entry
        metadata = _metadata(entry, entry.metadata.rank, entry.metadata.properties)
        self._nodes.append({"id": uniq_id, "metadata": metadata})

    def _list_share(self, share: Share) -> None:
        node = share.node
        uniq_id = str(node.uniq_id)
        taken = dict(share.taken)
        for pool in node.pools:
            for low, high in taken.get(pool.type, ()):
                entry = _leaf(node, pool, low, high - low)
                self._nodes.append(entry)
                self._edges.append({"source": uniq_id, "target": entry["id"]})
        self._nodes.append({"id": uniq_id, "metadata": _metadata(node, node.rank, node.properties)})


def _levels_of(shares: Sequence[Share], levels: Sequence[TreeLevel]) -> Iterator[TreeLevel]:
    """Yield the levels above the shares, inner ones first: a level's number is higher than its parent's."""
    numbers: set[int] = set()
    for number in {share.node.level for share in shares}:
        while number >= 0 and number not in numbers:
            numbers.add(number)
            number = levels[number].parent
    return (levels[number] for number in sorted(numbers, reverse=True))


def _leaf(node: NodeRow, pool: Pool, unit: int, count: int) -> dict[str, Any]:
    number = pool.id + unit
    metadata: dict[str, Any] = {"type": pool.type}
    if pool.basename != pool.type:
        metadata["basename"] = pool.basename
    metadata |= {"id": number, "rank": node.rank}
    if pool.properties:
        metadata["properties"] = dict(sorted(pool.properties.items()))
    metadata["exclusive"] = True
    if count > 1:
        metadata["count"] = count
    metadata["paths"] = {"containment": f"{node.path}/{pool.basename}{number}"}
    return {"id": str(pool.uniq_id + unit), "metadata": metadata}


def _metadata(holder: NodeRow | CompactEntry, rank: int, properties: Mapping[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"type": holder.type}
    if holder.basename != holder.type:
        metadata["basename"] = holder.basename
    if holder.name != f"{holder.basename}{holder.id}":
        metadata["name"] = holder.name
    metadata |= {"id": holder.id, "rank": rank}
    if properties:
        metadata["properties"] = dict(sorted(properties.items()))
    metadata["paths"] = {"containment": holder.path}
    return metadata


def compact_placement(listed: Jgf, leaf_types: Collection[str]) -> dict[str, dict[str, int]]:
    """Return the placement of an R that lists each leaf, with the leaves counted below their holder."""
    placement: dict[str, dict[str, int]] = {}
    for entry in listed["graph"]["nodes"]:
        metadata = entry["metadata"]
        path = metadata["paths"].get("containment", "")
        if metadata["type"] not in leaf_types:
            placement.setdefault(path, {})
            continue
        amounts = placement.setdefault(path.rpartition("/")[0], {})
        amounts[metadata["type"]] = amounts.get(metadata["type"], 0) + metadata.get("size", 1)
    return placement


def compact_r(listed: Jgf, leaf_types: Collection[str]) -> Jgf:
    """Return an R that lists each leaf with its runs of leaves joined into entries with a count."""
    nodes: list[dict[str, Any]] = []
    joined: set[str] = set()
    for entry in listed["graph"]["nodes"]:
        if nodes and entry["metadata"]["type"] in leaf_types and _continues(nodes[-1], entry):
            last = nodes[-1]["metadata"]
            nodes[-1] = {**nodes[-1], "metadata": {**last, "count": last.get("count", 1) + 1}}
            joined.add(entry["id"])
        else:
            nodes.append(entry)
    edges = [edge for edge in listed["graph"]["edges"] if edge["target"] not in joined]
    return {"graph": {"nodes": nodes, "edges": edges}}


def _continues(before: Jgf, entry: Jgf) -> bool:
    """Whether a leaf follows the last leaf of the entry before it."""
    first, count = before["metadata"], before["metadata"].get("count", 1)
    metadata = entry["metadata"]
    parent, _, name = metadata["paths"].get("containment", "").rpartition("/")
    same = all(
        first.get(key) == metadata.get(key) for key in ("type", "basename", "rank", "exclusive", "properties")
    )
    return (
        same
        and "size" not in metadata
        and "name" not in metadata
        and "size" not in first
        and parent == first["paths"].get("containment", "").rpartition("/")[0]
        and int(entry["id"]) == int(before["id"]) + count
        and metadata["id"] == first["id"] + count
        and name == f"{metadata.get('basename', metadata['type'])}{metadata['id']}"
    )
