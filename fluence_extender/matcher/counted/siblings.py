"""The order in which the ``first`` policies visit children: heaviest edge first, then highest uniq_id.

An edge weighs 2^64-1 until something is granted below it. Then its weight is its child's free units of one tracked
type. A visit reads a prefix and a grant moves a few children, so the order is kept as one sorted array of integers:
``-(weight << shift | place)``, where places number the children by uniq_id. Invariant: ``_keys[:n]`` ascends and holds
exactly one key for each child.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_BITS = 62
_NO_CHILD = -1
"""No child has this reference: it would mean the root."""
_FEW = 16


class Siblings:
    """The children of one vertex, each under a reference that the caller chooses (an int)."""

    __slots__ = ("_count", "_keys", "_places", "_references", "_shift", "_uniq", "_weights")

    def __init__(self, children: Sequence[tuple[int, int]] = ()) -> None:
        """``children`` are (reference, uniq_id) pairs; all edges are new."""
        self._number(sorted((uniq, reference, -1) for reference, uniq in children))

    def _number(self, ordered: list[tuple[int, int, int]]) -> None:
        """Number (uniq_id, reference, weight or -1) triples anew, with space to append."""
        length = max(16, 2 * len(ordered))
        self._shift = length.bit_length()
        self._references: Ints = np.full(length, _NO_CHILD, np.int64)
        self._uniq: Ints = np.zeros(length, np.int64)
        self._weights: Ints = np.full(length, self._heaviest, np.int64)
        self._places: dict[int, int] = {}
        self._count = len(ordered)
        for place, (uniq, reference, weight) in enumerate(ordered):
            self._references[place] = reference
            self._uniq[place] = uniq
            self._places[reference] = place
            if weight >= 0:
                self._weights[place] = min(weight, self._heaviest - 1)
        self._sort()

    @property
    def _heaviest(self) -> int:
        return (1 << (_BITS - self._shift)) - 1

    def _sort(self) -> None:
        places = np.flatnonzero(self._references[: self._count] != _NO_CHILD)
        self._keys: Ints = np.full(len(self._references), 1, np.int64)
        self._keys[: len(places)] = np.sort(-((self._weights[places] << self._shift) | places))

    def __len__(self) -> int:
        return len(self._places)

    def add(self, reference: int, uniq: int) -> None:
        """Append a child with a new edge. The caller has checked that ``uniq`` is new here."""
        if self._count == len(self._references) or (self._count and uniq < int(self._uniq[self._count - 1])):
            self._number(sorted([*self._triples(), (uniq, reference, -1)]))
            return
        place = self._count
        self._count += 1
        self._references[place] = reference
        self._uniq[place] = uniq
        self._weights[place] = self._heaviest
        self._insert(self._key(place), len(self._places))
        self._places[reference] = place

    def remove(self, reference: int) -> None:
        """Remove a child."""
        live = len(self._places)
        place = self._places.pop(reference)
        position = int(np.searchsorted(self._keys[:live], self._key(place)))
        self._keys[position : live - 1] = self._keys[position + 1 : live]
        self._references[place] = _NO_CHILD

    def reweigh(self, references: Sequence[int], weights: Sequence[int]) -> None:
        """Set the weights of children's edges."""
        live = len(self._places)
        few = len(references) <= _FEW
        for reference, weight in zip(references, weights, strict=True):
            place = self._places[reference]
            capped = min(weight, self._heaviest - 1)
            if few:
                old = self._key(place)
                self._weights[place] = capped
                self._move(old, self._key(place), live)
            else:
                self._weights[place] = capped
        if not few:
            self._sort()

    def weight(self, reference: int) -> int | None:
        """Return the weight of a child's edge, None for one that never changed."""
        weight = int(self._weights[self._places[reference]])
        return None if weight == self._heaviest else weight

    def batches(self) -> Iterator[Ints]:
        """Yield references in visiting order, in batches that grow; don't change weights meanwhile."""
        live = len(self._places)
        mask = (1 << self._shift) - 1
        start, length = 0, 64
        while start < live:
            yield self._references[(-self._keys[start : min(start + length, live)]) & mask]
            start += length
            length *= 4

    def _key(self, place: int) -> int:
        return -((int(self._weights[place]) << self._shift) | place)

    def _insert(self, key: int, live: int) -> None:
        position = int(np.searchsorted(self._keys[:live], key))
        self._keys[position + 1 : live + 1] = self._keys[position:live]
        self._keys[position] = key

    def _move(self, old: int, new: int, live: int) -> None:
        keys = self._keys
        source = int(np.searchsorted(keys[:live], old))
        target = int(np.searchsorted(keys[:live], new))
        if target > source:
            target -= 1
            keys[source:target] = keys[source + 1 : target + 1]
        else:
            keys[target + 1 : source + 1] = keys[target:source]
        keys[target] = new

    def _triples(self) -> list[tuple[int, int, int]]:
        heaviest = self._heaviest
        return [
            (
                int(self._uniq[place]),
                reference,
                -1 if (weight := int(self._weights[place])) == heaviest else weight,
            )
            for reference, place in self._places.items()
        ]
