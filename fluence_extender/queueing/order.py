"""The order in which entries are served.

Entries that have begun come first, because they have to be completed. Then the higher priority comes first, then the
older entry; entries of the same second are ordered as they were created. The rank of an entry depends on nothing but
the entry, so entries are sorted once, when they are submitted.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Protocol

from fluence_extender.queueing.entry import Age, Entry

Rank = tuple[bool, int, Age, str]
"""Whether it has yet to begin, its negative priority, its age, its key; the lowest rank is served first."""


class Ranked(Protocol):
    """What the order depends on: an `Entry`, or what a caller knows of one before it makes it."""

    @property
    def begun(self) -> bool:
        """Whether a part of it has places already."""
        ...

    @property
    def priority(self) -> int:
        """Its priority."""
        ...

    @property
    def created(self) -> Age:
        """When it was submitted."""
        ...

    @property
    def key(self) -> str:
        """Its key."""
        ...


def rank(entry: Ranked) -> Rank:
    """Return a key that sorts entries in the order in which they are served."""
    return (not entry.begun, -entry.priority, entry.created, entry.key)


class WaitingEntries:
    """The entries that wait, in their order."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._ranks: list[Rank] = []

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entries by key."""
        return self._entries

    def __len__(self) -> int:
        return len(self._ranks)

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with the same key."""
        self.remove(entry.key)
        self._entries[entry.key] = entry
        bisect.insort(self._ranks, rank(entry))

    def remove(self, key: str) -> Entry | None:
        """Remove an entry and return it; None when there is none with this key."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            del self._ranks[bisect.bisect_left(self._ranks, rank(entry))]
        return entry

    def in_order(self, most: int | None = None) -> list[Entry]:
        """Return the first ``most`` entries in their order, all by default."""
        return [self._entries[place[-1]] for place in self._ranks[:most]]
