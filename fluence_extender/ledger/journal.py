"""Which nodes' accounts have changed since somebody last looked, so that what is derived from them can follow."""

from __future__ import annotations

from collections import deque
from itertools import islice


class Journal:
    """The names of changed nodes, in order; the oldest are forgotten, and who missed them has to look at all."""

    MOST = 20_000

    def __init__(self) -> None:
        self._names: deque[str] = deque(maxlen=self.MOST)
        self._noted = 0

    def note(self, name: str) -> None:
        """Say that a node's account has changed, appeared or gone."""
        self._names.append(name)
        self._noted += 1

    @property
    def now(self) -> int:
        """The place in the journal up to which somebody who looks at all accounts has read."""
        return self._noted

    def since(self, mark: int) -> set[str] | None:
        """The nodes noted after ``mark``, an earlier `now`; None when they aren't all remembered."""
        missed = self._noted - mark
        if missed > len(self._names):
            return None
        return set(islice(reversed(self._names), missed))
