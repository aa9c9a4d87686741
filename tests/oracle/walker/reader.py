"""Reading JSON Graph Format documents.

A document comes from outside: each mistake in it is an `InvalidGraph` that names the place. Nothing here touches a
graph. The rules are those of libreapi_cli's jgf reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tests.oracle.errors import InvalidGraph, shown

_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)
_LEADING_INTEGER = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_TRAILING_DIGITS = re.compile(r"\d+\Z", re.ASCII)
_LONGEST_INTEGER = 19


@dataclass(frozen=True, slots=True)
class VertexEntry:
    """One entry of ``graph.nodes`` with the defaults filled in; ``key`` is its id in the document."""

    key: str
    where: str
    type: str
    basename: str
    name: str
    id: int
    uniq_id: int
    rank: int
    status: int
    exclusive: bool
    size: int
    properties: Mapping[str, str]
    paths: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EdgeEntry:
    """One entry of ``graph.edges``: the ids of its ends."""

    where: str
    source: str
    target: str
    subsystem: str


@dataclass(frozen=True, slots=True)
class Document:
    """A whole document."""

    vertices: list[VertexEntry]
    edges: list[EdgeEntry]


def parse_json(text: Mapping[str, Any] | str | bytes) -> Any:
    """Return the document as parsed JSON. Raises `InvalidGraph` for text that isn't JSON."""
    if not isinstance(text, (str, bytes, bytearray)):
        return text
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidGraph(f"the graph isn't JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't a JSON value")


def read_document(text: Mapping[str, Any] | str | bytes) -> Document:
    """Read a JGF document. Raises `InvalidGraph`."""
    top = parse_json(text)
    graph = _object(_object(top, "the document").get("graph"), "graph")
    nodes, edges = (_array(graph, key) for key in ("nodes", "edges"))
    return Document(
        vertices=[_read_vertex(item, f"graph.nodes[{index}]") for index, item in enumerate(nodes)],
        edges=[_read_edge(item, f"graph.edges[{index}]") for index, item in enumerate(edges)],
    )


def _array(graph: Mapping[str, Any], key: str) -> list[Any]:
    if key not in graph:
        raise InvalidGraph(f"graph.{key} is missing")
    value = graph[key]
    if not isinstance(value, (list, tuple)):
        raise InvalidGraph(f"graph.{key} must be an array, not {_kind(value)}")
    return list(value)


def _read_edge(item: Any, where: str) -> EdgeEntry:
    fields = _object(item, where)
    source = _required_string(fields, "source", where)
    target = _required_string(fields, "target", where)
    metadata = _object(fields.get("metadata", {}), f"{where}.metadata")
    subsystem = _string(metadata, "subsystem", f"{where}.metadata")
    return EdgeEntry(where, source, target, "containment" if subsystem is None else subsystem)


def _read_vertex(item: Any, where: str) -> VertexEntry:
    fields = _object(item, where)
    key = _required_string(fields, "id", where)
    place = where
    meta = _object(_member(fields, "metadata", where), f"{where}.metadata")
    where = f"{where}.metadata"
    kind = _required_string(meta, "type", where)
    paths = _strings(_member(meta, "paths", where), f"{where}.paths")
    basename = _string(meta, "basename", where)
    if basename is None:
        basename = kind
    name = _string(meta, "name", where)
    uniq_id = _uniq_id(meta, key, place)
    number = _vertex_id(meta, kind, name, uniq_id, where)
    _string(meta, "unit", where)
    exclusive = meta.get("exclusive", False)
    if not isinstance(exclusive, bool):
        raise InvalidGraph(f"{where}.exclusive must be true or false, not {_kind(exclusive)}")
    return VertexEntry(
        key=key,
        where=place,
        type=kind,
        basename=basename,
        name=f"{basename}{number}" if name is None else name,
        id=number,
        uniq_id=uniq_id,
        rank=_integer(meta, "rank", where, -1, _INT32),
        status=_integer(meta, "status", where, 0, _INT32),
        exclusive=exclusive,
        size=_size(meta, where),
        properties=_strings(meta.get("properties", {}), f"{where}.properties"),
        paths=paths,
    )


def _uniq_id(meta: Mapping[str, Any], key: str, where: str) -> int:
    uniq_id = _integer(meta, "uniq_id", f"{where}.metadata", -1, _INT64)
    if uniq_id != -1:
        return uniq_id
    match = _LEADING_INTEGER.match(key)
    if match is None or len(match[1]) > _LONGEST_INTEGER + 1 or int(match[1]) not in _INT64:
        raise InvalidGraph(
            f"{where}.metadata.uniq_id is missing, and {shown(key)}, the id, begins with no number that could be it"
        )
    return int(match[1])


def _vertex_id(meta: Mapping[str, Any], kind: str, name: str | None, uniq_id: int, where: str) -> int:
    """Return the given id, for a named node without id the digits at the end of its name, else the uniq_id."""
    number = _integer(meta, "id", where, -2, _INT64)
    if number != -2:
        return number
    digits = _TRAILING_DIGITS.search(name) if kind == "node" and name is not None else None
    if digits is None:
        return uniq_id
    if len(digits[0].lstrip("0")) > _LONGEST_INTEGER or int(digits[0]) not in _INT64:
        raise InvalidGraph(f"{where}.name ends in a number too large for an id: {shown(name or '')}")
    return int(digits[0])


def _size(meta: Mapping[str, Any], where: str) -> int:
    size = _integer(meta, "size", where, -1, _INT64)
    if size < -1:
        raise InvalidGraph(f"{where}.size can't be negative, and is {size}")
    return 1 if size == -1 else size


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidGraph(f"{where} must be an object, not {_kind(value)}")
    return value


def _member(fields: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in fields:
        raise InvalidGraph(f"{where}.{key} is missing")
    return fields[key]


def _required_string(fields: Mapping[str, Any], key: str, where: str) -> str:
    _member(fields, key, where)
    return _string(fields, key, where) or ""


def _string(fields: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return the text under ``key``, None if there is no such key; null isn't a text."""
    if key not in fields:
        return None
    value = fields[key]
    if not isinstance(value, str):
        raise InvalidGraph(f"{where}.{key} must be a string, not {_kind(value)}")
    return value


def _integer(fields: Mapping[str, Any], key: str, where: str, default: int, within: range) -> int:
    if key not in fields:
        return default
    value = fields[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidGraph(f"{where}.{key} must be an integer, not {_kind(value)}")
    if value not in within:
        raise InvalidGraph(f"{where}.{key} is out of range")
    return value


def _strings(value: Any, where: str) -> Mapping[str, str]:
    members = _object(value, where)
    for name, text in members.items():
        if not isinstance(name, str):
            raise InvalidGraph(f"{where} must have strings for keys, not {_kind(name)}")
        if not isinstance(text, str):
            raise InvalidGraph(f"{where}.{name[:80]} must be a string, not {_kind(text)}")
    return dict(members)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", int: "an integer", float: "a number", list: "an array"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else type(value).__name__)
