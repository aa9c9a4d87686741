"""Idsets (RFC 22): sets of non-negative integers such as ``0-3,7`` or ``[2,5-9]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ELEMENT = re.compile(r"(0|[1-9]\d*)(?:-(0|[1-9]\d*))?", re.ASCII)
_LARGEST = 2**32 - 2
_MOST_LISTED = 2**20


class Idset:
    """A set of ids read from idset strings; ``rank in idset`` asks for membership."""

    __slots__ = ("_ranges",)

    def __init__(self, texts: Iterable[str]) -> None:
        """Read ``texts``. Raises ValueError where one isn't an idset."""
        self._ranges: list[tuple[int, int]] = []
        for text in texts:
            self._ranges.extend(_ranges(text))

    def numbers(self) -> list[int]:
        """All ids, ascending within each text. Raises ValueError where they are too many to be meant."""
        if sum(high - low + 1 for low, high in self._ranges) > _MOST_LISTED:
            raise ValueError(f"an idset of more than {_MOST_LISTED} ids")
        return [number for low, high in self._ranges for number in range(low, high + 1)]

    def __contains__(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self._ranges)


def _ranges(text: str) -> list[tuple[int, int]]:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") and len(text) > 1 else text
    ranges: list[tuple[int, int]] = []
    last = -1
    for element in inner.split(","):
        if not element:
            continue
        match = _ELEMENT.fullmatch(element)
        if match is None:
            raise ValueError(f"{element!r} isn't an id or a range of ids")
        low = int(match[1])
        high = int(match[2]) if match[2] else low
        if low <= last or (match[2] and high <= low) or high > _LARGEST:
            raise ValueError(f"{element!r} is out of order or out of range")
        ranges.append((low, high))
        last = high
    return ranges
