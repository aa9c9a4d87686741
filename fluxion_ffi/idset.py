"""Sets of ranks as RFC 22 idsets: ``0-3,7``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fluxion_ffi.errors import InvalidRequest, shown

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_MOST = 2**20
"""Ids in one set; far above any cluster, far below what would exhaust memory."""


def decode(text: str, place: str) -> set[int]:
    """Read an idset, with or without brackets. Raises `InvalidRequest`, for an id listed twice too."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{place}: must be an idset in a string, not {shown(text)}")
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    ids: set[int] = set()
    for item in inner.split(","):
        parts = _RANGE.fullmatch(item)
        first = int(parts[1]) if parts else 0
        last = int(parts[2] or first) if parts else -1
        if last < first or last - first >= _MOST or len(ids) >= _MOST:
            raise InvalidRequest(f"{place}: {shown(text)} isn't an idset such as 0-3,7")
        ids_here = set(range(first, last + 1))
        if ids & ids_here:
            raise InvalidRequest(f"{place}: {min(ids & ids_here)} is listed twice")
        ids |= ids_here
    return ids


def encode(ids: Iterable[int]) -> str:
    """Write an idset, runs folded."""
    runs: list[list[int]] = []
    for number in sorted(set(ids)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
