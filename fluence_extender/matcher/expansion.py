"""Expand counts: make a vertex for each unit, because the walker and libreapi_cli read such graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec, MatcherError, shown
from fluence_extender.matcher.port import Jgf
from fluence_extender.matcher.walker.reader import parse_json, read_document

MOST_WALKED = 1_500_000
"""The most vertices that are walked one by one."""

MOST_WRITTEN = 5_000_000
"""The most vertices of a document for another engine."""


class TooManyVertices(MatcherError):
    """The graph has more units than can be matched one by one."""

    errno = EINVAL

    def __init__(self, total: int, most: int = MOST_WALKED) -> None:
        super().__init__(
            f"{shown(total)} vertices: at most {most} can be matched one by one; choose larger units"
        )


def expanded(document: Any, most: int = MOST_WALKED) -> Any:
    """Return the document with each counted entry as the vertices it stands for.

    A document that isn't a graph is returned unchanged; its reader refuses it. Raises `InvalidGraph` for an invalid
    count, and `TooManyVertices`.
    """
    try:
        graph = document["graph"]
        nodes, edges = graph["nodes"], graph["edges"]
        counted = {}
        for place, entry in enumerate(nodes):
            if "count" in entry["metadata"]:
                _check_count(place, entry["metadata"]["count"])
                counted[entry["id"]] = entry["metadata"]
        if not counted:
            return document
        # The places in the messages of this check are those of the compact document.
        read_document(document)
        total = len(nodes) - len(counted) + sum(one["count"] for one in counted.values())
        if total > most:
            raise TooManyVertices(total, most)
        units = [unit for entry in nodes for unit in _units(entry)]
        expanded_edges = [one for edge in edges for one in _edges(edge, counted)]
        return {**document, "graph": {**graph, "nodes": units, "edges": expanded_edges}}
    except (KeyError, TypeError, AttributeError):
        return document


def expanded_resources(text: Jgf | str | bytes) -> Any:
    """Return an R, JGF or RFC 20 with JGF under ``scheduling``, with its counts written out.

    Raises `InvalidJobspec`, `TooManyVertices`.
    """
    try:
        document = parse_json(text)
        if isinstance(document, Mapping) and isinstance(document.get("scheduling"), Mapping):
            return {**document, "scheduling": expanded(document["scheduling"])}
        return expanded(document)
    except InvalidGraph as error:
        raise InvalidJobspec(f"R: {error}") from None


def unit_entries(key: str, metadata: Mapping[str, Any], count: int) -> Iterator[Jgf]:
    """Yield ``count`` entries whose ids follow one another; ``metadata`` is that of the first.

    Raises `InvalidGraph` for an id that isn't a number.
    """
    first_uniq_id = _whole(metadata.get("uniq_id", key), f"{key}: uniq_id")
    first_id = _whole(metadata.get("id", first_uniq_id), f"{key}: id")
    basename = metadata.get("basename", metadata["type"])
    parent = metadata["paths"]["containment"].rpartition("/")[0]
    for index in range(count):
        name = f"{basename}{first_id + index}"
        paths = {**metadata["paths"], "containment": f"{parent}/{name}"}
        own = {"name": name, "id": first_id + index, "uniq_id": first_uniq_id + index, "paths": paths}
        yield {"id": _unit_key(key, metadata, index), "metadata": {**metadata, **own}}


def _unit_key(key: str, metadata: Mapping[str, Any], index: int) -> str:
    """Return the document id of one of the units of an entry, which is its uniq_id if that is so for the entry."""
    if not index:
        return key
    uniq_id: Any = metadata.get("uniq_id")
    return str(uniq_id + index) if key == str(uniq_id) else f"{key}+{index}"


def leaf_types_of(document: Any) -> set[str]:
    """Return the types of the childless entries, nodes excepted; none for what isn't a graph."""
    try:
        graph = document["graph"]
        parents = {edge["source"] for edge in graph["edges"]}
        types = {entry["metadata"]["type"] for entry in graph["nodes"] if entry["id"] not in parents}
    except (KeyError, TypeError, AttributeError):
        return set()
    return types - {"node"}


def _check_count(place: int, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise InvalidGraph(
            f"graph.nodes[{place}].metadata.count must be a whole number from 1 on, and is {shown(value)}"
        )


def _units(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    metadata = entry["metadata"]
    if "count" not in metadata:
        yield entry
        return
    rest = {key: value for key, value in metadata.items() if key != "count"}
    if metadata["count"] == 1:
        yield {**entry, "metadata": rest}
        return
    yield from unit_entries(entry["id"], rest, metadata["count"])


def _whole(value: Any, where: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidGraph(f"{where} must be a whole number, and is {shown(value)}") from None


def _edges(edge: Mapping[str, Any], counted: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    target = edge["target"]
    metadata = counted.get(target)
    if metadata is None or metadata["count"] == 1:
        yield edge
    else:
        yield from (
            {**edge, "target": _unit_key(target, metadata, index)} for index in range(metadata["count"])
        )
