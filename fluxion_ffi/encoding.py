"""Text for C: UTF-8 without NUL, which would end the string, and JSON that jansson and yaml-cpp read alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fluxion_ffi.errors import InvalidRequest, Refusal, shown
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
    """Write a JSON object as text for C. Raises ``refusal`` for what JSON can't express."""
    try:
        # Not ASCII only: yaml-cpp reads an escaped surrogate pair as two characters.
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        encoded = text.encode()
    except RecursionError:
        raise refusal(f"{place}: is nested too deeply or holds itself") from None
    except (TypeError, ValueError) as error:
        with suppress(RecursionError):
            _refuse_unwritable(document, place, refusal)
        raise refusal(f"{place}: can't be written as JSON: {error}") from None
    if "\\u0000" in text:
        _refuse_unwritable(document, place, refusal)
    return encoded


def check_integers(value: Any, place: str, refusal: Refusal = InvalidRequest) -> None:
    """Raise ``refusal`` for an integer beyond 64 bits, which jansson doesn't read; ``value`` can be written as JSON."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            check_integers(member, f"{place}.{key}", refusal)
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            check_integers(member, f"{place}[{index}]", refusal)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise refusal(f"{place}: {shown(value)} doesn't fit 64 bits")


def check_depth(jobspec: Any) -> None:
    """Raise `InvalidRequest` if a jobspec nests deeper than the C parsers may recurse."""
    level = [jobspec]
    for _ in range(_DEEPEST):
        level = [
            member
            for item in level
            if isinstance(item, (Mapping, list, tuple))
            for member in (item.values() if isinstance(item, Mapping) else item)
        ]
        if not level:
            return
    raise InvalidRequest(f"jobspec: is nested deeper than {_DEEPEST} levels")


def _refuse_unwritable(value: Any, place: str, refusal: Refusal) -> None:
    """Raise ``refusal`` with the first place that C or JSON can't take."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            _refuse_text(str(key), f"{place}: a key", refusal)
            _refuse_unwritable(member, f"{place}.{key}", refusal)
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _refuse_unwritable(member, f"{place}[{index}]", refusal)
    elif isinstance(value, str):
        _refuse_text(value, f"{place}:", refusal)
    elif value is not None:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise refusal(f"{place}: can't be written as JSON: {error}") from None


def _refuse_text(text: str, subject: str, refusal: Refusal) -> None:
    if "\0" in text:
        raise refusal(f"{subject} holds a NUL character, where C would end the string")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise refusal(f"{subject} holds a lone surrogate, which UTF-8 can't express")


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
