"""Write counts out: a vertex for each unit, as the walker and libreapi_cli read a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec, MatcherError, shown
from fluence_extender.matcher.port import Jgf
from fluence_extender.matcher.walker.reader import parse_json, read_document

MOST_WALKED = 1_500_000
"""The most vertices that are walked one by one."""


class TooManyVertices(MatcherError):
    """The graph has more units than can be matched one by one."""

    errno = EINVAL

    def __init__(self, total: int, most: int = MOST_WALKED) -> None:
        super().__init__(
            f"{shown(total)} vertices: at most {most} can be matched one by one; choose larger units"
        )


def expanded(document: Any, most: int = MOST_WALKED) -> Any:
    """Return the document with each counted entry as the vertices it stands for.

    What isn't a graph is returned as it is, to be refused by whatever reads it. Raises `InvalidGraph` for a count that
    isn't one, and `TooManyVertices`.
    """
    try:
        graph = document["graph"]
        nodes, edges = graph["nodes"], graph["edges"]
        counts = {
            entry["id"]: _count(place, entry["metadata"]["count"])
            for place, entry in enumerate(nodes)
            if "count" in entry["metadata"]
        }
        if not counts:
            return document
        # The places in the messages of this check are those of the compact document.
        read_document(document)
        total = len(nodes) - len(counts) + sum(counts.values())
        if total > most:
            raise TooManyVertices(total, most)
        units = [unit for entry in nodes for unit in _units(entry)]
        expanded_edges = [one for edge in edges for one in _edges(edge, counts)]
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
        yield {"id": unit_key(key, index), "metadata": {**metadata, **own}}


def unit_key(key: str, index: int) -> str:
    """Return the document id of one of the units of an entry."""
    return f"{key}+{index}" if index else key


def leaf_types_of(document: Any) -> set[str]:
    """Return the types of the childless entries, nodes excepted; none for what isn't a graph."""
    try:
        graph = document["graph"]
        parents = {edge["source"] for edge in graph["edges"]}
        types = {entry["metadata"]["type"] for entry in graph["nodes"] if entry["id"] not in parents}
    except (KeyError, TypeError, AttributeError):
        return set()
    return types - {"node"}


def _count(place: int, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InvalidGraph(
            f"graph.nodes[{place}].metadata.count must be a whole number from 1 on, and is {shown(value)}"
        )
    return value


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


def _edges(edge: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[Mapping[str, Any]]:
    count = counts.get(edge["target"], 1)
    for index in range(count):
        yield {**edge, "target": unit_key(edge["target"], index)} if count > 1 else edge
