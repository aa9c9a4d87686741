"""The vertices of a JGF document, read as libreapi_cli reads them.

The library often can't distinguish a wrong key from a missing one, and it aborts on some values: a path or property
that isn't a string, a number that doesn't fit. Here each is refused with its place in the
document.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fluxion_ffi.errors import InvalidGraph, Refusal, shown

DEEPEST_PATH = 256
"""Levels of containment; the walks recurse on the C stack once a level."""

_LONGEST_NAME = 1024
"""Characters; the expression that looks for digits at a name's end recurses over them."""

_LEADING_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_TRAILING_DIGITS = re.compile(r"[0-9]+$", re.ASCII)
_STRINGS = ("basename", "name", "unit")
_RANGES = {
    "id": (-(2**63), 2**63 - 1),
    "uniq_id": (-(2**63), 2**63 - 1),
    "rank": (-1, 2**31 - 1),
    "size": (0, 2**32 - 1),
    "status": (0, 1),
}


class Vertex(NamedTuple):
    """One entry of ``graph.nodes``: ``key`` is its id in the document, ``rank`` -1 where it has none."""

    key: str
    type: str
    path: str
    rank: int
    uniq_id: int
    size: int
    exclusive: bool


def read_vertex(entry: Any, place: str, refusal: Refusal = InvalidGraph) -> Vertex:
    """Check one entry of ``graph.nodes``. Raises ``refusal``, naming the key at ``place``."""
    if not isinstance(entry, dict):
        raise refusal(f"{place}: must be an object")
    key, metadata = entry.get("id"), entry.get("metadata")
    if not isinstance(key, str):
        raise refusal(f"{place}.id: must be a string")
    if not isinstance(metadata, dict):
        raise refusal(f"{place}.metadata: must be an object")
    where = f"{place}.metadata"
    kind = metadata.get("type")
    if not isinstance(kind, str) or not kind:
        raise refusal(f"{where}.type: must be a string that isn't empty")
    _check_optional(metadata, where, refusal)
    path = _containment(metadata.get("paths"), where, refusal)
    uniq_id = _uniq_id(key, metadata, place, refusal)
    _check_name(kind, metadata, where, refusal)
    return Vertex(
        key,
        kind,
        path,
        metadata.get("rank", -1),
        uniq_id,
        metadata.get("size", 1),
        metadata.get("exclusive", False),
    )


def _check_optional(metadata: dict[str, Any], where: str, refusal: Refusal) -> None:
    for name in _STRINGS:
        if name in metadata and not isinstance(metadata[name], str):
            raise refusal(f"{where}.{name}: must be a string")
    for name, (least, greatest) in _RANGES.items():
        if name in metadata:
            value = metadata[name]
            if type(value) is not int or not least <= value <= greatest:
                raise refusal(
                    f"{where}.{name}: must be an integer from {least} to {greatest}, not {shown(value)}"
                )
    if "exclusive" in metadata and not isinstance(metadata["exclusive"], bool):
        raise refusal(f"{where}.exclusive: must be true or false")
    if "properties" in metadata:
        properties = metadata["properties"]
        if not isinstance(properties, dict):
            raise refusal(f"{where}.properties: must be an object")
        for name, value in properties.items():
            if not isinstance(value, str):
                raise refusal(f"{where}.properties.{name}: must be a string, not {shown(value)}")


def _containment(paths: Any, where: str, refusal: Refusal) -> str:
    if not isinstance(paths, dict) or set(paths) != {"containment"}:
        raise refusal(f"{where}.paths: must be an object with the one key containment")
    path = paths["containment"]
    if not isinstance(path, str):
        raise refusal(f"{where}.paths.containment: must be a string, not {shown(path)}")
    if not path.startswith("/") or "//" in path or path.endswith("/"):
        raise refusal(f"{where}.paths.containment: {shown(path)} isn't of the form /root/…/name")
    if path.count("/") > DEEPEST_PATH:
        raise refusal(f"{where}.paths.containment: deeper than {DEEPEST_PATH} levels")
    return path


def _uniq_id(key: str, metadata: dict[str, Any], place: str, refusal: Refusal) -> int:
    given: int = metadata.get("uniq_id", -1)
    if given != -1:
        return given
    number = _LEADING_INTEGER.match(key)
    if number is None:
        raise refusal(
            f"{place}.id: {shown(key)} doesn't begin with a number, so metadata.uniq_id is required"
        )
    if len(number[1]) > 20 or not -(2**63) <= int(number[1]) < 2**63:
        raise refusal(f"{place}.id: {shown(key)} doesn't fit 64 bits, so metadata.uniq_id is required")
    return int(number[1])


def _check_name(kind: str, metadata: dict[str, Any], where: str, refusal: Refusal) -> None:
    """Check the digits at the end of a node's name: without an id they are the id, and too many abort the process."""
    if kind != "node" or metadata.get("id", -2) != -2 or "name" not in metadata:
        return
    if len(metadata["name"]) > _LONGEST_NAME:
        raise refusal(f"{where}.name: longer than {_LONGEST_NAME} characters, so metadata.id is required")
    digits = _TRAILING_DIGITS.search(metadata["name"])
    number = digits[0].lstrip("0") if digits else ""
    if len(number) > 19 or int(number or "0") >= 2**63:
        raise refusal(f"{where}.name: ends in a number beyond 64 bits, so metadata.id is required")
