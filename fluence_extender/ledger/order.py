"""The nodes of a graph in the order of their ranks, kept as nodes come and go.

Invariant: a change costs no sorting; the whole order is copied at most once between two changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class NodeOrder:
    """Names by rank, from the lowest."""

    def __init__(self, ranked: Iterable[tuple[int, str]] = ()) -> None:
        pairs = sorted(ranked)
        self._ranks = [rank for rank, _ in pairs]
        self._names = [name for _, name in pairs]
        self._copies: dict[bool, tuple[str, ...]] = {}

    def add(self, rank: int, name: str) -> None:
        """Put a name in its place."""
        index = bisect_left(self._ranks, rank)
        self._ranks.insert(index, rank)
        self._names.insert(index, name)
        self._copies.clear()

    def remove(self, rank: int) -> None:
        """Take out the name that has ``rank``."""
        index = bisect_left(self._ranks, rank)
        del self._ranks[index], self._names[index]
        self._copies.clear()

    def names(self, descending: bool) -> tuple[str, ...]:
        """All names in order."""
        if descending not in self._copies:
            self._copies[descending] = tuple(reversed(self._names) if descending else self._names)
        return self._copies[descending]
