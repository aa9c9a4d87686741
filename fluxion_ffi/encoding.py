"""Text on its way into C: UTF-8, no NUL (C would read a shorter string), JSON that jansson and yaml-cpp read alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fluxion_ffi.errors import InvalidRequest, Refusal
from fluxion_ffi.values import Document

_DEEPEST = 100
"""Levels of nesting; a jobspec takes two for each resource. Both parsers recurse on the C stack."""


def c_string(value: str, place: str) -> bytes:
    """Encode a string argument. Raises `InvalidRequest`."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}: must be a string, not {type(value).__name__}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{place}: holds a lone surrogate, which UTF-8 can't express") from None
    if b"\0" in encoded:
        raise InvalidRequest(f"{place}: holds a NUL character, where C would end the string")
    return encoded


def parse(document: Document, place: str, refusal: Refusal = InvalidRequest) -> dict[str, Any]:
    """Read a JSON object, given as a mapping or as text. Raises ``refusal``."""
    parsed: Any = document
    if isinstance(document, (str, bytes, bytearray)):
        try:
            parsed = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise refusal(f"{place}: isn't JSON: {error}") from None
    if not isinstance(parsed, Mapping):
        raise refusal(f"{place}: must be a JSON object, not {_kind(parsed)}")
    return dict(parsed)


def dump(document: Mapping[str, Any], place: str, refusal: Refusal = InvalidRequest) -> bytes:
    """Write a JSON object as text for C. Raises ``refusal`` where it can't be carried over whole."""
    try:
        # Not ASCII only: yaml-cpp reads an escaped surrogate pair as two characters.
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        encoded = text.encode()
    except UnicodeEncodeError:
        raise refusal(f"{place}: holds a lone surrogate, which UTF-8 can't express") from None
    except RecursionError:
        raise refusal(f"{place}: is nested too deeply or holds itself") from None
    except (TypeError, ValueError) as error:
        raise refusal(f"{place}: can't be written as JSON: {error}") from None
    if "\\u0000" in text:
        _refuse_nul(document, place, refusal)
    return encoded


def check_depth(value: Any, place: str, refusal: Refusal = InvalidRequest) -> None:
    """Raise ``refusal`` if ``value`` nests deeper than the C side should be asked to recurse."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            member
            for item in level
            if isinstance(item, (Mapping, list, tuple))
            for member in (item.values() if isinstance(item, Mapping) else item)
        ]
        if not level:
            return
    raise refusal(f"{place}: is nested deeper than {_DEEPEST} levels")


def _refuse_nul(value: Any, place: str, refusal: Refusal) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise refusal(f"{place}: holds a NUL character, where C would end the string")
    elif isinstance(value, Mapping):
        for key, member in value.items():
            if "\0" in str(key):
                raise refusal(f"{place}: a key holds a NUL character, where C would end the string")
            _refuse_nul(member, f"{place}.{key}", refusal)
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _refuse_nul(member, f"{place}[{index}]", refusal)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
