"""Resource sets that go back into the library: to replay an allocation, or to free a part of one.

An R is RFC 20 (``version``, ``execution``, perhaps ``scheduling`` with a graph in it) or a bare JGF document.
The readers behind are those of graph documents, with the same values that abort the process, and a partial
cancel that meets a shared vertex stops half-way (fluxion reference 5.2, 5.3). So both are checked first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from fluxion_ffi import idset
from fluxion_ffi.containment import Containment
from fluxion_ffi.encoding import check_integers, dump, parse
from fluxion_ffi.errors import InvalidRequest, shown
from fluxion_ffi.values import Document
from fluxion_ffi.vertices import Vertex, read_vertex

_SHORTHAND = "fluxion:jgf_shorthand"
_WRITERS = ("fluxion", "fluxion:", "fluxion:jgf", _SHORTHAND)

RankCheck = Callable[[Collection[object], str], None]
"""Raises `InvalidRequest` for ranks that the graph doesn't have; given the place to name."""


def encode_replay(R: Document, tree: Containment) -> bytes:  # noqa: N803
    """Check and write an R for update_allocate on the graph of ``tree``. Raises `InvalidRequest` with the place.

    Its edges are checked too: at a wrong one the library keeps what it took before (fluxion reference 5.3).
    """
    document = parse(R, "R")
    if "execution" not in document:
        _check_edges(document.get("graph"), "R.graph", tree)
        return _written(document)
    execution = _execution(document)
    for key in ("starttime", "expiration"):
        _check_time(execution.get(key, 0), f"R.execution.{key}")
    scheduling = document.get("scheduling")
    if scheduling is None:
        _check_r_lite(execution, tree.check_ranks)
        _check_nodelist(execution)
    else:
        whole = _scheduling(scheduling).get("writer") != _SHORTHAND
        _check_edges(scheduling.get("graph"), "R.scheduling.graph", tree, to_root=whole)
    return _written(document)


def encode_release(R: Document, check_ranks: RankCheck) -> bytes:  # noqa: N803
    """Check and write an R for partial_cancel. Raises `InvalidRequest` with the place.

    Without ``scheduling`` all that the job holds on the ranks of ``R_lite`` is freed. With it every vertex
    listed must be exclusive; one that isn't (a shared node, the root) is refused here, because the library would
    free those before it.
    """
    document = parse(R, "R")
    scheduling = document.get("scheduling")
    if scheduling is None:
        _check_r_lite(_execution(document), check_ranks)
    else:
        graph = _scheduling(scheduling).get("graph")
        for index, vertex in enumerate(_read_graph(graph, "R.scheduling.graph")):
            if not vertex.exclusive:
                raise InvalidRequest(
                    f"R.scheduling.graph.nodes[{index}]: {vertex.path} isn't exclusive, so it can't be freed"
                )
    return _written(document)


def _written(document: dict[str, Any]) -> bytes:
    text = dump(document, "R")
    check_integers(document, "R")
    return text


def _execution(document: dict[str, Any]) -> dict[str, Any]:
    if document.get("version") != 1 or isinstance(document["version"], bool):
        raise InvalidRequest("R.version: must be 1")
    execution = document.get("execution")
    if not isinstance(execution, dict):
        raise InvalidRequest("R.execution: must be an object")
    return execution


def _scheduling(scheduling: Any) -> dict[str, Any]:
    if not isinstance(scheduling, dict):
        raise InvalidRequest("R.scheduling: must be an object")
    if scheduling.get("writer", "fluxion") not in _WRITERS:
        raise InvalidRequest(
            f"R.scheduling.writer: {shown(scheduling['writer'])} isn't one of {', '.join(_WRITERS)}"
        )
    return scheduling


def _read_graph(graph: Any, place: str) -> list[Vertex]:
    if not isinstance(graph, dict):
        raise InvalidRequest(f"{place}: must be an object")
    for key in ("nodes", "edges"):
        if not isinstance(graph.get(key), list):
            raise InvalidRequest(f"{place}.{key}: must be a list")
    return [
        read_vertex(entry, f"{place}.nodes[{index}]", InvalidRequest)
        for index, entry in enumerate(graph["nodes"])
    ]


def _check_edges(graph: Any, place: str, tree: Containment, *, to_root: bool = True) -> None:
    """Check that each edge joins two listed vertices as the graph does, and that one begins at the root."""
    by_key = {vertex.key: vertex.path for vertex in _read_graph(graph, place)}
    parents: set[str] = set()
    for index, edge in enumerate(graph["edges"]):
        where = f"{place}.edges[{index}]"
        if not isinstance(edge, dict):
            raise InvalidRequest(f"{where}: must be an object")
        ends: list[str] = []
        for end in ("source", "target"):
            key = edge.get(end)
            if not isinstance(key, str) or key not in by_key:
                raise InvalidRequest(f"{where}.{end}: {shown(key)} isn't the id of a vertex of R")
            ends.append(by_key[key])
        if not tree.joins(*ends):
            raise InvalidRequest(f"{where}: {ends[1]} isn't a child of {ends[0]} in the graph")
        parents.add(ends[0])
    if to_root and tree.root not in parents:
        raise InvalidRequest(f"{place}.edges: none begins at the root {tree.root}")


def _check_time(value: Any, place: str) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < 2**62
        or math.isnan(value)
    ):
        raise InvalidRequest(f"{place}: must be a number of seconds, not {shown(value)}")


def _check_r_lite(execution: dict[str, Any], check_ranks: RankCheck) -> None:
    entries = execution.get("R_lite")
    if not isinstance(entries, list) or not entries:
        raise InvalidRequest("R.execution.R_lite: must be a list that isn't empty")
    seen: set[int] = set()
    for index, entry in enumerate(entries):
        place = f"R.execution.R_lite[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("children", {}), dict):
            raise InvalidRequest(f"{place}: must be an object with rank and children")
        ranks = idset.decode(entry.get("rank", ""), f"{place}.rank")
        if seen & ranks:
            raise InvalidRequest(f"{place}.rank: {min(seen & ranks)} is listed twice")
        check_ranks(ranks, f"{place}.rank")
        seen |= ranks
        for kind, ids in entry.get("children", {}).items():
            idset.decode(ids, f"{place}.children.{kind}")


def _check_nodelist(execution: dict[str, Any]) -> None:
    names = execution.get("nodelist")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidRequest("R.execution.nodelist: must be a list of strings")
    properties = execution.get("properties", {})
    if not isinstance(properties, dict):
        raise InvalidRequest("R.execution.properties: must be an object")
    for name, ranks in properties.items():
        idset.decode(ranks, f"R.execution.properties.{name}")
