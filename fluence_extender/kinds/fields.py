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
    raw = files("fluence_extender.kinds").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, dict[str, str]])
