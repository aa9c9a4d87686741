"""The order in which people number things: ``node2`` before ``node10``.

Invariant: names that differ have keys that differ, so a sorted list doesn't depend on the order it came in.
"""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A sort key by which runs of digits count as numbers."""
    parts = _DIGITS.split(name)
    return [(1, int(part), part) if index % 2 else (0, 0, part) for index, part in enumerate(parts)]
