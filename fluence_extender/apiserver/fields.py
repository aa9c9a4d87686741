"""The fields of Kubernetes' own kinds and their types, and what is wrong with those of a manifest.

The API server refuses a field that doesn't exist (as kubectl asks it to) and a value of another type. The table
``fields.json`` has the fields of the official client's models, which take half a second and 36 MiB to import. A test
compares both.

A type is ``text``, ``integer``, ``number``, ``truth``, ``quantity``, ``any`` or the name of a model. A list of it
begins with ``[``, and a mapping to it with ``{``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "truth": (bool,),
    "quantity": (str, int, float),
}

WORDS = {
    "text": "a string (put it in quotes)",
    "integer": "an integer",
    "number": "a number",
    "truth": "true or false",
    "quantity": "a quantity",
}

ZEROS: Mapping[str, Any] = {
    "text": "",
    "integer": 0,
    "number": 0,
    "truth": False,
    "quantity": "0",
    "any": None,
}
"""What the API server reads for null in a list or a mapping of these."""

LARGEST_INTEGER = 2**63


def as_sent(value: Any, kind: str) -> Any:
    """Return a value of this type as kubectl sends it and the API server reads it; ``any`` stands for other kinds.

    A field that is null isn't set, and a whole number is an integer. Null in a list or a mapping is an empty value.
    """
    if isinstance(value, dict):
        if kind[0] == "{":
            return {key: _element(inner, kind[1:]) for key, inner in value.items()}
        fields = _table().get(kind, {})
        return {
            key: as_sent(inner, fields.get(key, "any")) for key, inner in value.items() if inner is not None
        }
    if isinstance(value, list):
        return [_element(inner, kind[1:] if kind[0] == "[" else "any") for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_INTEGER:
        return int(value)
    return value


def _element(value: Any, kind: str) -> Any:
    if value is not None:
        return as_sent(value, kind)
    return [] if kind[0] == "[" else ZEROS.get(kind, {})


def field_faults(value: Mapping[str, Any], model: str, at: str) -> Iterator[str]:
    """Yield what is wrong with the fields of an object of this model, whose path is ``at``."""
    fields = _table()[model]
    for name, inner in value.items():
        path = f"{at}.{name}" if at else name
        kind = fields.get(name)
        if kind is None:
            yield f'unknown field "{path}"'
        else:
            yield from _value_faults(inner, kind, path)


def _value_faults(value: Any, kind: str, at: str) -> Iterator[str]:
    # The API server takes null as if the field weren't there.
    if value is None or kind == "any":
        return
    if kind[0] == "[":
        if not isinstance(value, list):
            yield _mistyped(at, "a list", value)
            return
        for number, item in enumerate(value):
            if item is None:
                yield _mistyped(f"{at}[{number}]", WORDS.get(kind[1:], "a mapping"), item)
            yield from _value_faults(item, kind[1:], f"{at}[{number}]")
    elif kind[0] == "{":
        if not isinstance(value, dict):
            yield _mistyped(at, "a mapping", value)
            return
        for key, item in value.items():
            yield from _value_faults(item, kind[1:], f"{at}[{key}]")
    elif kind in JSON_TYPES:
        # In Python true and false are integers.
        if not isinstance(value, JSON_TYPES[kind]) or (isinstance(value, bool) and kind != "truth"):
            yield _mistyped(at, WORDS[kind], value)
    elif isinstance(value, dict):
        yield from field_faults(value, kind, at)
    else:
        yield _mistyped(at, "a mapping", value)


def _mistyped(at: str, wanted: str, value: Any) -> str:
    return f"{at}: Invalid value: {msgspec.json.encode(value).decode():.80}: must be {wanted}"


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    raw = files("fluence_extender.apiserver").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, dict[str, str]])
