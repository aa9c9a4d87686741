"""Read an R back into shares, as after a restart (fluxion reference 5.3).

R is JGF, compact or with one vertex a leaf, or RFC 20 with JGF under ``scheduling``, which also brings the times.
Everything is checked before anything is booked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.document import NODE, Vertex, parse_json, read_tree
from fluence_extender.matcher.counted.jobs import Share
from fluence_extender.matcher.counted.loading import is_leaf, skeleton
from fluence_extender.matcher.counted.ranges import Ranges, contains, size, union
from fluence_extender.matcher.counted.request import GRAPH_END
from fluence_extender.matcher.counted.state import State
from fluence_extender.matcher.counted.table import Node
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.counted.view import View
from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec
from fluence_extender.matcher.port import Jgf

_WRITERS = ("fluxion", "fluxion:", "fluxion:jgf")
_LATEST = 2**62


@dataclass(frozen=True, slots=True)
class Replay:
    """The resources of an R as a tree, and when they are held, in seconds."""

    root: Vertex
    at: int
    duration: int


def read_replay(text: Jgf | str | bytes) -> Replay:
    """Raises `InvalidJobspec`."""
    try:
        top = parse_json(text)
        at, duration, document = _unwrap(top)
        return Replay(read_tree(document)[0], at, duration)
    except InvalidGraph as error:
        raise InvalidJobspec(f"R: {error}") from None


def _unwrap(top: Any) -> tuple[int, int, Any]:
    execution = top.get("execution") if isinstance(top, Mapping) else None
    if not isinstance(execution, Mapping) or type(top.get("version")) is not int or top["version"] != 1:
        return 0, GRAPH_END, top
    start, end = (_time(execution.get(key, 0), key) for key in ("starttime", "expiration"))
    scheduling = top.get("scheduling")
    if not isinstance(scheduling, Mapping):
        raise InvalidJobspec("R: there is no 'scheduling' in it that says which vertices are meant")
    if scheduling.get("writer", "fluxion") not in _WRITERS:
        raise InvalidJobspec(f"R: the scheduling writer {scheduling['writer']!r} isn't supported")
    return int(start), (int(end - start) if end > start else 0) or GRAPH_END, scheduling


def _time(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidJobspec(f"R: execution.{key} must be a time of 0 or later, and is {shown(value)}")
    return value


def physical_shares(state: State, replay: Replay, view: View) -> tuple[Share, ...]:
    """What the R holds of physical nodes, all of it free in ``view``. Raises `InvalidJobspec`."""
    shares: list[Share] = []
    for vertex in replay.root.walk():
        row = state.by_path.get(vertex.path)
        if row is None:
            continue
        node = state.table.node(row)
        _check_same(vertex, node)
        taken = _taken(vertex, node)
        whole = vertex.metadata.exclusive
        if view.held[row]:
            raise InvalidJobspec(f"R: {node.path} isn't free")
        for name, units in taken.items():
            if not contains(view.units(name, row), units):
                raise InvalidJobspec(f"R: {name} units {units} of {node.path} aren't free")
        if taken or whole:
            shares.append(Share(row, int(state.table.serial[row]), node, tuple(taken.items()), whole, False))
    return tuple(shares)


def plain_shares(state: State, replay: Replay, view: View) -> tuple[Share, ...]:
    """What an R of single vertices holds, where nothing about it is out of the ordinary. Raises `Uncountable`."""
    if replay.at:
        raise Uncountable("R starts later")
    for vertex in replay.root.walk():
        number = state.tree.by_path.get(vertex.path)
        if number is not None:
            _check_level(vertex, state.tree.levels[number].vertex)
        elif is_leaf(vertex) and not (vertex.metadata.exclusive and vertex.metadata.count == 1):
            raise Uncountable(f"R: {vertex.path} isn't held")
        elif vertex.metadata.size != 1 or len(vertex.metadata.paths) != 1:
            raise Uncountable(f"R: {vertex.path} has a size or another path")
    try:
        shares = physical_shares(state, replay, view)
    except InvalidJobspec as error:
        raise Uncountable(str(error)) from None
    listed = {share.node.path for share in shares}
    for vertex in replay.root.walk():
        if vertex.path in state.by_path and vertex.path not in listed:
            raise Uncountable(f"R: nothing of {vertex.path} is held")
    if state.policy.whole_nodes and any(
        sum(size(units) for _, units in share.taken) < sum(pool.count for pool in share.node.pools)
        for share in shares
    ):
        raise Uncountable("R: a node is held in part")
    return shares


def _check_level(vertex: Vertex, level: Vertex) -> None:
    own, given = (
        (
            each.type,
            each.basename,
            each.name,
            each.id,
            each.metadata.rank,
            each.metadata.size,
            each.metadata.paths,
        )
        for each in (level, vertex)
    )
    if own != given or vertex.metadata.exclusive:
        raise Uncountable(f"R: {vertex.path} is another vertex")


def _taken(vertex: Vertex, node: Node) -> dict[str, Ranges]:
    pools = {pool.type: pool for pool in node.pools}
    taken: dict[str, Ranges] = {}
    for leaf in vertex.children:
        if not is_leaf(leaf):
            continue
        pool = pools.get(leaf.type)
        if pool is None:
            raise InvalidJobspec(f"R: {leaf.path} isn't a leaf of {node.path}")
        low = leaf.id - pool.id
        expected = (pool.basename, f"{pool.basename}{leaf.id}", pool.uniq_id + low, node.rank, 1)
        given = (leaf.basename, leaf.name, leaf.uniq_id, leaf.metadata.rank, leaf.metadata.size)
        if given != expected or low < 0 or low + leaf.metadata.count > pool.count:
            raise InvalidJobspec(f"R: {leaf.path} isn't what the graph has there")
        if not leaf.metadata.exclusive:
            continue
        units = ((low, low + leaf.metadata.count),)
        before = taken.get(leaf.type, ())
        joined = union(before, units)
        if size(joined) != size(before) + leaf.metadata.count:
            raise InvalidJobspec(f"R: units of {leaf.type} of {node.path} appear twice")
        taken[leaf.type] = joined
    return taken


def _check_same(vertex: Vertex, node: Node) -> None:
    own = (node.type, node.basename, node.name, node.id, node.rank)
    given = (vertex.type, vertex.basename, vertex.name, vertex.id, vertex.metadata.rank)
    if own != given:
        raise InvalidJobspec(f"R: {vertex.path} is {own} in the graph, not {given}")


def walked_r(graph: CompactGraph, replay: Replay) -> Jgf | None:
    """The R of the walked vertices among what is listed, one vertex a leaf; None where there is none."""
    listed = list(replay.root.walk())
    state = graph.state
    levels = state.tree.by_path
    tops = [
        vertex
        for vertex in listed
        if vertex.path not in levels
        and vertex.path not in state.by_path
        and (vertex.parent is None or vertex.parent.path not in state.by_path or vertex.type == NODE)
    ]
    if not any(vertex.metadata.exclusive for vertex in listed if vertex.path in levels) and not tops:
        return None
    kept: dict[int, Vertex] = {}
    for top in tops:
        above: Vertex | None = top
        while above is not None:
            kept[id(above)] = above
            above = above.parent
    if not kept:
        raise Uncountable("R: a level above the nodes can't be held")
    try:
        return skeleton(vertex for vertex in listed if id(vertex) in kept)
    except InvalidGraph as error:
        raise InvalidJobspec(f"R: {error}") from None


def with_all_below(shares: Sequence[Share], below: Jgf) -> tuple[Share, ...]:
    """Shares of nodes that are held with the virtual vertices below them, which an R lists beside their leaves.

    Raises `InvalidJobspec` where virtual vertices of another node are listed, since both can't be in one job.
    """
    whole = {share.node.path for share in shares if share.whole}
    holders: set[str] = set()
    for entry in below["graph"]["nodes"]:
        path = entry["metadata"]["paths"]["containment"]
        if entry["metadata"].get("exclusive") and path not in whole:
            found = [holder for holder in whole if path.startswith(holder + "/")]
            if not found:
                raise Uncountable("R: it lists both leaves of physical nodes and virtual vertices")
            holders.update(found)
    return tuple(replace(share, entire=share.node.path in holders) for share in shares)
