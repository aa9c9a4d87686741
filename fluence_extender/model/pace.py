"""Limits how much each of many may have: an amount at once, and then more each second."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

SWEPT = 2
"""So many others are looked at each time that somebody spends, and forgotten if they may have the full amount again."""


class Pace:
    """Allows each key ``at_once`` after a quiet time, and ``a_second`` more each second of ``clock``.

    Only keys that may have less than the full amount are remembered, and those a moment longer: each time that one is
    added, two are looked at. So there are at most twice as many as have spent anything in the time in which one that
    has spent all becomes full again.
    """

    def __init__(self, at_once: float, a_second: float, clock: Callable[[], float]) -> None:
        self._at_once = at_once
        self._a_second = a_second
        self._clock = clock
        self._spent: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """By key: how much of what it has had still counts, and when that was computed."""

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._spent)

    def copy(self, now: float) -> Pace:
        """Return an independent copy at ``now``."""
        copied = Pace(self._at_once, self._a_second, lambda: now)
        copied._spent = OrderedDict(self._spent)
        return copied

    def left(self, key: Hashable) -> float:
        """Return how much a key may have now; negative if it has had too much."""
        return self._at_once - self._counting(key)

    def wait(self, key: Hashable) -> float:
        """Return in how many seconds a key that has had too much may have something again; 0 if it may now."""
        return max(-self.left(key) / self._a_second, 0.0)

    def spend(self, key: Hashable, amount: float) -> None:
        """Count what a key has now."""
        if not amount:
            return
        self._spent[key] = self._counting(key) + amount, self._clock()
        self._spent.move_to_end(key)
        for _ in range(min(SWEPT, len(self._spent))):
            oldest = next(iter(self._spent))
            if self._counting(oldest):
                self._spent.move_to_end(oldest)
            else:
                del self._spent[oldest]

    def _counting(self, key: Hashable) -> float:
        spent, since = self._spent.get(key, (0.0, 0.0))
        return max(spent - self._a_second * max(self._clock() - since, 0.0), 0.0)
