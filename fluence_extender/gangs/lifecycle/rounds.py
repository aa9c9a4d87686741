"""The gangs in line that a pass hasn't tried yet. A pass takes several steps.

Each step takes the first gangs in order, and then further gangs, for which the namespaces take turns. So the first
gangs are tried in every pass, and a namespace with few gangs has its turn after one gang of each other namespace. The
further gangs of a namespace come after the last that was reached, so all are reached, even if passes are cut short
because capacity is freed. Those that came or changed during the pass come before them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from fluence_extender.gangs.queue.turns import RANK, InLine, Turns
from fluence_extender.model.gang import GangKey

MOST_PASSED = 1024
"""The list of a pass is shortened only after so many of its gangs have been passed."""


class Round:
    """The gangs of ``turns`` that a pass hasn't tried yet."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._first, self._at = list(turns.ready), 0
        self._taken: set[GangKey] = set()
        self._namespaces = OrderedDict.fromkeys(turns.namespaces)
        self._further: dict[str, Iterator[InLine]] = {}
        self._changed: dict[str, list[InLine]] = {}

    @property
    def unfinished(self) -> bool:
        """Whether gangs are left."""
        while self._at < len(self._first) and not self._is_left(self._first[self._at]):
            self._at += 1
        return self._at < len(self._first)

    def left(self) -> Iterator[InLine]:
        """Return the gangs that are left, in order."""
        return filter(self._is_left, islice(self._first, self._at, None))

    def add(self, place: InLine) -> None:
        """Have the pass try a gang, even if the gang was tried already."""
        if self._at > max(MOST_PASSED, len(self._first) // 2):
            del self._first[: self._at]
            self._at = 0
        self._taken.discard(place.gang.key)
        insort(self._first, place, lo=self._at, key=RANK)
        namespace = place.gang.key.namespace
        insort(self._changed.setdefault(namespace, []), place, key=RANK)
        self._namespaces.setdefault(namespace)

    def first(self) -> InLine | None:
        """Take the first gang in order, None if none is left."""
        if not self.unfinished:
            return None
        return self._take(self._first[self._at])

    def further(self) -> InLine | None:
        """Take a gang of the namespace whose turn it is, None if none is left."""
        while self._namespaces:
            namespace, _ = self._namespaces.popitem(last=False)
            place = self._next_of(namespace)
            if place is not None:
                self._namespaces[namespace] = None
                self._turns.namespaces.move_to_end(namespace)
                return self._take(place)
        return None

    def _next_of(self, namespace: str) -> InLine | None:
        """Return the next gang of a namespace: the first that has changed, or the one after the last reached."""
        changed = self._changed.get(namespace, [])
        while changed:
            place = changed.pop(0)
            if self._is_left(place):
                return place
        part = self._turns.namespaces.get(namespace)
        if part is None:
            return None
        if namespace not in self._further:
            at = 0 if part.reached is None else bisect_right(part.line, part.reached, key=RANK)
            self._further[namespace] = iter(part.line[at:] + part.line[:at])
        for place in self._further[namespace]:
            if self._is_left(place):
                part.reached = place.rank
                return place
        return None

    def _take(self, place: InLine) -> InLine | None:
        """Return where a gang stands now: its rank may have changed since the pass began."""
        self._taken.add(place.gang.key)
        return self._turns.find(place.gang.key)

    def _is_left(self, place: InLine) -> bool:
        key = place.gang.key
        if key in self._taken:
            return False
        present = self._turns.find(key)
        return present is not None and present.gang is place.gang
