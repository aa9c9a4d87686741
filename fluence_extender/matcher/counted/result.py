"""A grant as the caller sees it: the placement, and R as compact JGF (fluxion reference 2.2).

R lists leaves before their node and nodes before their levels, as libreapi_cli emits them; one entry stands for a run
of units, with its length as ``count``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fluence_extender.matcher.counted.document import Vertex
from fluence_extender.matcher.counted.jobs import Share
from fluence_extender.matcher.counted.ranges import Ranges, size
from fluence_extender.matcher.counted.table import Node, Pool
from fluence_extender.matcher.counted.tree import Level
from fluence_extender.matcher.port import Jgf


def placement_of(shares: Sequence[Share], levels: Sequence[Level]) -> dict[str, dict[str, int]]:
    """Holder path -> {leaf type: units}; the levels above the nodes hold nothing themselves."""
    placement = {share.node.path: {name: size(units) for name, units in share.taken} for share in shares}
    if len(shares) == 1:
        number = shares[0].node.level
        while number >= 0:
            placement[levels[number].vertex.path] = {}
            number = levels[number].parent
        return placement
    for level in _levels_of(shares, levels):
        placement[level.vertex.path] = {}
    return placement


def jgf_of(
    shares: Sequence[Share], levels: Sequence[Level], labels: Mapping[str, str], *, by_unit: bool = False
) -> Jgf:
    """The grant as a compact document, or with an entry for each unit; ``labels`` are the jobspec's, by type."""
    return _Listing(shares, levels, labels, by_unit=by_unit).document()


class _Listing:
    """The walk that lists what is held, children before their parent, in the order of their edges."""

    def __init__(
        self,
        shares: Sequence[Share],
        levels: Sequence[Level],
        labels: Mapping[str, str],
        *,
        by_unit: bool,
    ) -> None:
        self._labels = labels
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, str]] = []
        self._by_unit = by_unit
        self._levels = levels
        self._below: dict[int, list[tuple[int, Share | Level]]] = {}
        for share in shares:
            self._below.setdefault(share.node.level, []).append((share.node.turn, share))
        for level in _levels_of(shares, levels):
            if level.parent >= 0:
                self._below.setdefault(level.parent, []).append((level.turn, level))

    def document(self) -> Jgf:
        if self._below:
            self._list_level(self._levels[0])
        for entry in self._nodes if self._labels else ():
            label = self._labels.get(entry["metadata"]["type"])
            if label is not None:
                entry["metadata"]["ephemeral"] = {"label": label}
        return {"graph": {"nodes": self._nodes, "edges": self._edges}}

    def _list_level(self, level: Level) -> None:
        uniq_id = str(level.vertex.uniq_id)
        for _, child in sorted(self._below[level.number], key=_turn):
            if isinstance(child, Level):
                self._list_level(child)
                target = child.vertex.uniq_id
            else:
                self._list_share(child)
                target = child.node.uniq_id
            self._edges.append({"source": uniq_id, "target": str(target)})
        self._nodes.append({"id": uniq_id, "metadata": _level(level.vertex)})

    def _list_share(self, share: Share) -> None:
        node = share.node
        uniq_id = str(node.uniq_id)
        taken = dict(share.taken)
        for pool in node.pools:
            for entry in _leaves(node, pool, taken.get(pool.type, ()), by_unit=self._by_unit):
                self._nodes.append(entry)
                self._edges.append({"source": uniq_id, "target": entry["id"]})
        self._nodes.append({"id": uniq_id, "metadata": _node(node, whole=share.whole)})


def _turn(child: tuple[int, object]) -> int:
    return child[0]


def _levels_of(shares: Sequence[Share], levels: Sequence[Level]) -> list[Level]:
    """The levels above the shares, inner ones first. A level's number is higher than its parent's."""
    numbers: set[int] = set()
    for number in {share.node.level for share in shares}:
        while number >= 0 and number not in numbers:
            numbers.add(number)
            number = levels[number].parent
    return [levels[number] for number in sorted(numbers, reverse=True)]


def _leaves(node: Node, pool: Pool, units: Ranges, *, by_unit: bool) -> Iterator[dict[str, Any]]:
    for low, high in units if not by_unit else _single(units):
        number = pool.id + low
        metadata: dict[str, Any] = {"type": pool.type}
        if pool.basename != pool.type:
            metadata["basename"] = pool.basename
        metadata |= {"id": number, "rank": node.rank}
        if pool.properties:
            metadata["properties"] = dict(sorted(pool.properties.items()))
        metadata["exclusive"] = True
        if high - low > 1:
            metadata["count"] = high - low
        metadata["paths"] = {"containment": f"{node.path}/{pool.basename}{number}"}
        yield {"id": str(pool.uniq_id + low), "metadata": metadata}


def _single(units: Ranges) -> Iterator[tuple[int, int]]:
    return ((unit, unit + 1) for low, high in units for unit in range(low, high))


def _node(node: Node, *, whole: bool) -> dict[str, Any]:
    metadata = _named(node.type, node.basename, node.name, node.id)
    metadata["rank"] = node.rank
    if node.properties:
        metadata["properties"] = dict(sorted(node.properties.items()))
    if whole:
        metadata["exclusive"] = True
    metadata["paths"] = {"containment": node.path}
    return metadata


def _level(vertex: Vertex) -> dict[str, Any]:
    metadata = _named(vertex.type, vertex.basename, vertex.name, vertex.id)
    metadata["rank"] = vertex.metadata.rank
    if vertex.metadata.properties:
        metadata["properties"] = dict(sorted(vertex.metadata.properties.items()))
    metadata["paths"] = {"containment": vertex.path}
    return metadata


def _named(kind: str, basename: str, name: str, number: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {"type": kind}
    if basename != kind:
        metadata["basename"] = basename
    if name != f"{basename}{number}":
        metadata["name"] = name
    metadata["id"] = number
    return metadata


def compact_placement(listed: Jgf, leaf_types: Collection[str]) -> dict[str, dict[str, int]]:
    """The placement of an R that lists each leaf, with leaves counted below their holder."""
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
    """An R that lists each leaf, with runs of leaves joined into entries with a count."""
    nodes: list[dict[str, Any]] = []
    absorbed: set[str] = set()
    for entry in listed["graph"]["nodes"]:
        if nodes and entry["metadata"]["type"] in leaf_types and _continues(nodes[-1], entry):
            last = nodes[-1]["metadata"]
            nodes[-1] = {**nodes[-1], "metadata": {**last, "count": last.get("count", 1) + 1}}
            absorbed.add(entry["id"])
        else:
            nodes.append(entry)
    edges = [edge for edge in listed["graph"]["edges"] if edge["target"] not in absorbed]
    return {"graph": {"nodes": nodes, "edges": edges}}


def _continues(before: Jgf, entry: Jgf) -> bool:
    """Whether a leaf is the one after those of the entry before it."""
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


def joined_r(one: Jgf, other: Jgf) -> Jgf:
    """Both documents in one."""
    first, second = one["graph"], other["graph"]
    return {"graph": {"nodes": second["nodes"] + first["nodes"], "edges": second["edges"] + first["edges"]}}
