"""The waiting gangs that a pass hasn't tried yet. A pass takes several steps.

Each step takes the first gangs in order, and then the same number of further gangs, which come after the last gang that
the previous pass reached. So the first gangs are tried in every pass. The others are reached as well, even if passes
are cut short because capacity is freed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from fluence_extender.gangs.queue.turns import RANK, InLine
from fluence_extender.queueing.order import Rank


class Round:
    """The gangs of ``line`` that a pass hasn't tried yet. The further ones come after the rank ``reached``."""

    def __init__(self, line: Sequence[InLine] = (), reached: Rank | None = None) -> None:
        at = 0 if reached is None else bisect_right(line, reached, key=RANK)
        self._border = reached
        self._first, self._further = list(line[:at]), list(line[at:])
        self._first_at = self._further_at = 0

    @property
    def unfinished(self) -> bool:
        """Whether gangs are left."""
        return self._first_at < len(self._first) or self._further_at < len(self._further)

    def add(self, place: InLine) -> None:
        """Have the pass try a gang, even if the gang was tried already."""
        if self._border is not None and place.rank <= self._border:
            insort(self._first, place, lo=self._first_at, key=RANK)
        else:
            insort(self._further, place, lo=self._further_at, key=RANK)

    def first(self) -> InLine | None:
        """Take the first gang in order, None if none is left."""
        if self._first_at < len(self._first):
            self._first_at += 1
            return self._first[self._first_at - 1]
        return self._take_further()

    def further(self) -> InLine | None:
        """Take the first of the further gangs, and after them the first in order; None if none is left."""
        return self._take_further() or self.first()

    def _take_further(self) -> InLine | None:
        if self._further_at < len(self._further):
            self._further_at += 1
            return self._further[self._further_at - 1]
        return None
