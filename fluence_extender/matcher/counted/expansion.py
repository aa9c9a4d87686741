"""Write counts out: one vertex a unit, as the walker and libreapi_cli read a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.matcher.counted.document import NODE, parse_json
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.embedded.jgf import read_document
from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec
from fluence_extender.matcher.port import Jgf

MOST_VERTICES = 1_500_000
"""The most vertices that are walked one by one."""


class TooManyVertices(Uncountable):
    """The graph has more units than can be walked one by one."""

    def __init__(self, total: int) -> None:
        super().__init__(
            f"{shown(total)} vertices: at most {MOST_VERTICES} can be matched one by one; choose larger units"
        )


def expanded(document: Any) -> Any:
    """The document with each counted entry as the vertices it stands for.

    What isn't a graph is left for the walker to refuse. Raises `InvalidGraph` for a count that isn't one, and
    `TooManyVertices`.
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
        read_document(document)  # Refuses with the places of this document, which differ in the expanded one.
        total = len(nodes) - len(counts) + sum(counts.values())
        if total > MOST_VERTICES:
            raise TooManyVertices(total)
        return {
            **document,
            "graph": {
                **graph,
                "nodes": [unit for entry in nodes for unit in _units(entry)],
                "edges": [one for edge in edges for one in _edges(edge, counts)],
            },
        }
    except (KeyError, TypeError, AttributeError):
        return document


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


def unit_entries(key: str, metadata: Mapping[str, Any], count: int) -> Iterator[Jgf]:
    """``count`` entries that follow one another, of which ``metadata`` is the first's. Raises `InvalidGraph`."""
    uniq_id = metadata.get("uniq_id", key)
    first_uniq = _whole(uniq_id, f"{key}: uniq_id")
    first = _whole(metadata.get("id", first_uniq), f"{key}: id")
    basename = metadata.get("basename", metadata["type"])
    parent = metadata["paths"]["containment"].rpartition("/")[0]
    for index in range(count):
        name = f"{basename}{first + index}"
        paths = {**metadata["paths"], "containment": f"{parent}/{name}"}
        own = {"name": name, "id": first + index, "uniq_id": first_uniq + index, "paths": paths}
        yield {"id": unit_key(key, index), "metadata": {**metadata, **own}}


def unit_key(key: str, index: int) -> str:
    """The document id of one of the units of an entry."""
    return f"{key}+{index}" if index else key


def _whole(value: Any, where: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidGraph(f"{where} must be a whole number, and is {shown(value)}") from None


def _edges(edge: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[Mapping[str, Any]]:
    target = edge["target"]
    count = counts.get(target, 1)
    if count == 1:
        yield edge
        return
    for index in range(count):
        yield {**edge, "target": unit_key(target, index)}


def leaf_types_of(document: Any) -> frozenset[str]:
    """The types of the childless entries, nodes left out; none for what isn't a graph."""
    try:
        graph = document["graph"]
        parents = {edge["source"] for edge in graph["edges"]}
        types = {entry["metadata"]["type"] for entry in graph["nodes"] if entry["id"] not in parents}
    except (KeyError, TypeError, AttributeError):
        return frozenset()
    return frozenset(types - {NODE})


def expanded_r(text: Jgf | str | bytes) -> Any:
    """An R, JGF or RFC 20 with JGF under ``scheduling``, with counts written out.

    Raises `InvalidJobspec`, `TooManyVertices`.
    """
    try:
        document = parse_json(text)
        if isinstance(document, Mapping) and isinstance(document.get("scheduling"), Mapping):
            return {**document, "scheduling": expanded(document["scheduling"])}
        return expanded(document)
    except InvalidGraph as error:
        raise InvalidJobspec(f"R: {error}") from None
