"""Resource sets that go back into the library: to replay an allocation, or to free a part of one by ranks.

A replayed R is a bare JGF document, or RFC 20 with one under ``scheduling``; a released R is RFC 20 with ranks alone.
The library reads both as it reads graph documents, where some values abort the process, and a replay that meets a wrong
edge keeps what it took before. So both are checked first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from fluxion_ffi.containment import Containment
from fluxion_ffi.encoding import check_integers, dump, parse
from fluxion_ffi.errors import InvalidRequest, shown
from fluxion_ffi.values import Document
from fluxion_ffi.vertices import Vertex, read_vertex

_WRITERS = ("fluxion", "fluxion:", "fluxion:jgf")

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_MOST_IDS = 2**20
"""Ids in one set; far above any cluster, far below what would exhaust memory."""

RankCheck = Callable[[Collection[object], str], None]
"""Raises `InvalidRequest` for ranks that the graph doesn't have; takes the place to name."""


def encode_replay(R: Document, tree: Containment) -> bytes:  # noqa: N803
    """Check and write an R for update_allocate on the graph of ``tree``. Raises `InvalidRequest` with the place."""
    document = parse(R, "R")
    if "execution" not in document:
        _check_edges(document.get("graph"), "R.graph", tree)
        return _written(document)
    execution = _execution(document)
    for key in ("starttime", "expiration"):
        _check_time(execution.get(key, 0), f"R.execution.{key}")
    _check_edges(_scheduling(document.get("scheduling")).get("graph"), "R.scheduling.graph", tree)
    return _written(document)


def encode_release(R: Document, check_ranks: RankCheck) -> bytes:  # noqa: N803
    """Check and write an R for partial_cancel, which frees everything on the ranks of ``R_lite``.

    Raises `InvalidRequest` with the place.
    """
    document = parse(R, "R")
    execution = _execution(document)
    if "scheduling" in document:
        raise InvalidRequest("R.scheduling: only whole ranks can be freed")
    _check_r_lite(execution, check_ranks)
    return _written(document)


def encode_ranks(ranks: Iterable[int]) -> str:
    """Write ranks as an RFC 22 idset such as ``0-3,7``."""
    runs: list[list[int]] = []
    for number in sorted(set(ranks)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


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
        raise InvalidRequest("R.scheduling: must be an object that lists the vertices")
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


def _check_edges(
    graph: Any,
    place: str,
    tree: Containment,
) -> None:
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
    if tree.root not in parents:
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
        ranks = _decode_ids(entry.get("rank", ""), f"{place}.rank")
        if seen & ranks:
            raise InvalidRequest(f"{place}.rank: {min(seen & ranks)} is listed twice")
        check_ranks(ranks, f"{place}.rank")
        seen |= ranks
        for kind, ids in entry.get("children", {}).items():
            _decode_ids(ids, f"{place}.children.{kind}")


def _decode_ids(text: str, place: str) -> set[int]:
    """Read an idset, with or without brackets. Raises `InvalidRequest`, for an id listed twice too."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{place}: must be an idset in a string, not {shown(text)}")
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    ids: set[int] = set()
    for item in inner.split(","):
        parts = _RANGE.fullmatch(item)
        first = int(parts[1]) if parts else 0
        last = int(parts[2] or first) if parts else -1
        if last < first or last - first >= _MOST_IDS or len(ids) >= _MOST_IDS:
            raise InvalidRequest(f"{place}: {shown(text)} isn't an idset such as 0-3,7")
        ids_here = set(range(first, last + 1))
        if ids & ids_here:
            raise InvalidRequest(f"{place}: {min(ids & ids_here)} is listed twice")
        ids |= ids_here
    return ids
