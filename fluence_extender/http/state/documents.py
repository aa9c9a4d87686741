"""Values as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def encoded(document: Any) -> bytes:
    """The JSON of ``document`` (dicts, lists, dataclasses, mappings)."""
    return _ENCODER.encode(document)
