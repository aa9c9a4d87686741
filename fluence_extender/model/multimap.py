"""A map from keys to any number of values. A key with one value, as most have, needs no set."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class Multimap(Generic[K, V]):
    """Maps each key to distinct values, which are neither None nor sets."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[K, V | set[V]] = {}

    def __len__(self) -> int:
        """Return how many keys have values."""
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        """Return the keys that have values."""
        return iter(self._values)

    def __contains__(self, key: object) -> bool:
        """Return whether a key has a value."""
        return key in self._values

    def of(self, key: K) -> AbstractSet[V]:
        """Return the values of a key; treat them as read-only, and as gone after the next change."""
        found = self._values.get(key)
        if isinstance(found, set):
            return found
        return frozenset() if found is None else frozenset((found,))

    def add(self, key: K, value: V) -> None:
        """Give a key a value."""
        found = self._values.setdefault(key, value)
        if isinstance(found, set):
            found.add(value)
        elif found != value:
            self._values[key] = {found, value}

    def discard(self, key: K, value: V) -> None:
        """Take a value from a key that may have it."""
        found = self._values.get(key)
        if isinstance(found, set):
            found.discard(value)
            if len(found) == 1:
                self._values[key] = found.pop()
        elif found == value:
            del self._values[key]
