"""Scalars of a jobspec, read as libreapi_cli reads them.

libreapi_cli parses the jobspec as YAML, where a scalar is a text that is converted on access. So the JSON string "4" is
as good a count as the number 4, and a number is as good a label as a string. The one exception
is null, which is no scalar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.oracle.errors import InvalidJobspec

MAX_DEPTH = 100
"""The most levels of nesting in a jobspec's resources and constraints."""

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|\d+)\s*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_SPECIAL = {
    ".inf": "inf",
    ".Inf": "inf",
    ".INF": "inf",
    "+.inf": "inf",
    "+.Inf": "inf",
    "+.INF": "inf",
    "-.inf": "-inf",
    "-.Inf": "-inf",
    "-.INF": "-inf",
    ".nan": "nan",
    ".NaN": "nan",
    ".NAN": "nan",
}
_LONGEST_INTEGER = 20


def text_of(value: Any, where: str) -> str:
    """Return the scalar as text. Raises `InvalidJobspec` for null, arrays and objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        try:
            return str(value) if type(value) is int else json.dumps(value)
        except ValueError:
            raise InvalidJobspec(f"{where} is too long a number") from None
    raise InvalidJobspec(f"{where} must be a scalar, not {kind_of(value)}")


def text_or_null(value: Any, where: str) -> str:
    """Return the scalar as text; null is the text "null"."""
    return "null" if value is None else text_of(value, where)


def integer_of(value: Any, where: str, low: int, high: int) -> int:
    """Return the scalar as an integer of [low, high], decimal, octal (0...) or hexadecimal (0x...)."""
    text = text_of(value, where)
    match = _INTEGER.fullmatch(text)
    if match is None or len(match[2].lstrip("0")) > _LONGEST_INTEGER:
        raise InvalidJobspec(f"{where} must be an integer, and is {text[:40]!r}")
    digits = match[2]
    try:
        number = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10)
    except ValueError:
        raise InvalidJobspec(f"{where} must be an integer, and is {text[:40]!r}") from None
    if match[1] == "-":
        number = -number
    if not low <= number <= high or (low == 0 and match[1] == "-"):
        raise InvalidJobspec(f"{where} must be from {low} to {high}, and is {number}")
    return number


def number_of(value: Any, where: str) -> float:
    """Return the scalar as a floating-point number."""
    text = text_of(value, where)
    if text in _SPECIAL:
        return float(_SPECIAL[text])
    if _NUMBER.fullmatch(text) is None:
        raise InvalidJobspec(f"{where} must be a number, and is {text[:40]!r}")
    return float(text)


def mapping_of(value: Any, where: str) -> Mapping[str, Any]:
    """Return the value as an object with string keys."""
    if not isinstance(value, Mapping):
        raise InvalidJobspec(f"{where} must be a mapping, not {kind_of(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InvalidJobspec(f"{where} must have strings for keys, not {kind_of(key)}")
    return value


def members_of(value: Any, where: str) -> Mapping[str, Any]:
    """Return the members of an object; as in libreapi_cli, a scalar or an empty array has none."""
    if value is None or isinstance(value, (str, bool, int, float)) or value in ([], ()):
        return {}
    return mapping_of(value, where)


def sequence_of(value: Any, where: str) -> list[Any]:
    """Return the value as an array."""
    if not isinstance(value, (list, tuple)):
        raise InvalidJobspec(f"{where} must be a sequence, not {kind_of(value)}")
    return list(value)


def member(value: Mapping[str, Any], key: str, where: str) -> Any:
    """Return the value under ``key``, which must be there."""
    if key not in value:
        raise InvalidJobspec(f"{where}: key {key!r} is missing")
    return value[key]


def kind_of(value: Any) -> str:
    """Return the JSON type of the value."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a sequence"
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
