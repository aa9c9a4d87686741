"""Whether a part of a job can be freed soundly.

libreapi_cli frees first and corrects the totals above afterwards, rank by rank, above one vertex of each rank: the
topmost one. Where that isn't right it fails half-way, counts wrongly, or forgets what is still held (fluxion reference
5.2). Both engines refuse such a release before anything is freed, by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fluence_extender.matcher.embedded.idset import Idset
from fluence_extender.matcher.errors import InvalidJobspec

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tree(Generic[V]):
    """How the rules see the graph: what is above a vertex, up to the root, its type and its path."""

    above: Callable[[V], Sequence[V]]
    type: Callable[[V], str]
    path: Callable[[V], str]
    totals: Callable[[V], Collection[str]]
    """The types counted at a vertex: it forgets a job of which none of them is left below."""
    unclaimed: Collection[V]
    """Vertices above others that were freed before: they can't be freed themselves any more."""


def check_release(
    tree: Tree[V], exclusive: Collection[V], freed: Mapping[int, Collection[V]], tops: Mapping[int, V]
) -> None:
    """Check the vertices to be ``freed``, by rank, of a job that holds ``exclusive`` ones.

    ``tops`` are the vertices above which each rank is counted out. Raises `InvalidJobspec`.
    """
    gone = {vertex for vertices in freed.values() for vertex in vertices}
    for rank, vertices in freed.items():
        if not any(vertex in exclusive for vertex in vertices):
            raise InvalidJobspec(f"R: the job holds nothing on rank {rank}")
        for vertex in vertices:
            _check_vertex(tree, vertex, tops[rank], gone)
    reduced = {above for top in tops.values() for above in tree.above(top)}
    remembering: dict[V, bool] = {}
    for vertex in exclusive:
        if vertex in gone:
            continue
        if vertex in reduced and tree.totals(vertex):
            remembering.setdefault(vertex, False)
        for above in tree.above(vertex):
            if above in gone:
                raise InvalidJobspec(
                    f"R: {tree.path(vertex)!r}, which the job keeps, is below what would be freed"
                )
            if above in reduced and (totals := tree.totals(above)):
                remembering[above] = remembering.get(above, False) or tree.type(vertex) in totals
    for vertex, remembers in remembering.items():
        if not remembers:
            raise InvalidJobspec(
                f"R: of what the job keeps below {tree.path(vertex)!r} no total is kept there; cancel the job"
            )


def _check_vertex(tree: Tree[V], vertex: V, top: V, gone: Collection[V]) -> None:
    if not tree.above(vertex):
        raise InvalidJobspec(f"R: {tree.path(vertex)!r} is the root; cancel the job")
    if vertex in tree.unclaimed:
        raise InvalidJobspec(f"R: below {tree.path(vertex)!r} a part was freed before; cancel the job")
    if _staying(tree, vertex, gone) != _staying(tree, top, gone):
        raise InvalidJobspec(
            f"R: {tree.path(vertex)!r} and {tree.path(top)!r} can't be freed by one call, because the job keeps "
            f"different vertices above them"
        )


def read_ranks(execution: Mapping[str, Any]) -> list[int]:
    """The ranks of an ``execution`` object, each named once. Raises ValueError."""
    entries = execution.get("R_lite")
    if not isinstance(entries, list) or not entries:
        raise ValueError("execution.R_lite must be a list that isn't empty")
    ranks: dict[int, None] = {}
    for index, entry in enumerate(entries):
        where = f"execution.R_lite[{index}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("rank"), str):
            raise ValueError(f"{where} must be an object with a 'rank' that is a string")
        if not isinstance(entry.get("children", {}), Mapping):
            raise ValueError(f"{where}.children must be an object")
        for rank in Idset([entry["rank"]]).numbers():
            if rank in ranks:
                raise ValueError(f"{where}.rank: {rank} is listed twice")
            ranks[rank] = None
    if not ranks:
        raise ValueError("no rank is given")
    return list(ranks)


def parts_of(top: Any) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """The ``execution`` and ``scheduling`` of an R that frees. Raises ValueError."""
    execution = top.get("execution") if isinstance(top, Mapping) else None
    if not isinstance(execution, Mapping) or top.get("version") != 1 or isinstance(top["version"], bool):
        raise ValueError("it must have version 1 and an 'execution'")
    scheduling = top.get("scheduling")
    if scheduling is not None and not isinstance(scheduling, Mapping):
        raise ValueError("'scheduling' must be an object")
    return execution, scheduling


def truly_listed(
    granted: Mapping[str, Any], execution: Mapping[str, Any], vertices_of: Callable[[int], int]
) -> frozenset[str]:
    """The paths of what a replay of ranks and ids alone took, and of the root, out of what was answered to it.

    The answer calls exclusive all nodes, and under a policy of whole nodes all that is on them. Taken are the ids that
    ``execution`` names, and a node if they are all that is on its rank. ``vertices_of`` counts the vertices of a rank.
    """
    named: set[tuple[int, str, int]] = set()
    for entry in execution["R_lite"]:
        for rank in Idset([entry["rank"]]).numbers():
            for kind, ids in entry["children"].items():
                named |= {(rank, kind, number) for number in Idset([ids]).numbers()}
    on_rank = Counter(rank for rank, _, _ in named)
    truly: set[str] = set()
    for entry in granted["graph"]["nodes"]:
        vertex = entry["metadata"]
        rank, path = vertex["rank"], vertex["paths"]["containment"]
        whole = vertex["type"] == "node" and on_rank[rank] == vertices_of(rank) - 1
        if whole or (rank, vertex["type"], vertex["id"]) in named or path.count("/") == 1:
            truly.add(path)
    return frozenset(truly)


def _staying(tree: Tree[V], vertex: V, gone: Collection[V]) -> list[V]:
    return [above for above in tree.above(vertex) if above not in gone]
