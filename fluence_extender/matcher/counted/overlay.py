"""A dictionary that forks at the cost of its latest changes, not of its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

_GONE: Final = object()
_FEW = 64


class Overlay(MutableMapping[K, V]):
    """Changes over a base that is shared with forks and never written to; insertion order is kept."""

    __slots__ = ("_base", "_changes", "_size")

    def __init__(self) -> None:
        self._base: Mapping[K, V] | None = None
        self._changes: dict[K, V | object] = {}
        self._size = 0

    def fork(self) -> Overlay[K, V]:
        """An independent copy."""
        self._fold()
        copy: Overlay[K, V] = Overlay()
        copy._base = self._base
        copy._changes = self._changes.copy()
        copy._size = self._size
        return copy

    def _fold(self) -> None:
        """Make a new base of everything, if the changes have become many."""
        if len(self._changes) > _FEW + (len(self._base) // _FEW if self._base is not None else 0):
            self._base = dict(self.items())
            self._changes = {}

    def __getitem__(self, key: K) -> V:
        value = self._changes.get(key, self)
        if value is self:
            if self._base is None:
                raise KeyError(key)
            return self._base[key]
        if value is _GONE:
            raise KeyError(key)
        return cast(V, value)

    def __setitem__(self, key: K, value: V) -> None:
        before = self._changes.get(key, self)
        if before is self:
            self._size += self._base is None or key not in self._base
        elif before is _GONE:
            # What was there before and comes anew stands last, as in a dictionary from which it was deleted meanwhile.
            self._size += 1
            del self._changes[key]
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        if self._base is not None and key in self._base:
            self._changes[key] = _GONE
            self._fold()
        else:
            del self._changes[key]

    def __contains__(self, key: object) -> bool:
        value = self._changes.get(cast(K, key), self)
        if value is self:
            return self._base is not None and key in self._base
        return value is not _GONE

    def __iter__(self) -> Iterator[K]:
        for key in self._base or ():
            if key not in self._changes:
                yield key
        for key, value in self._changes.items():
            if value is not _GONE:
                yield key

    def __len__(self) -> int:
        return self._size
