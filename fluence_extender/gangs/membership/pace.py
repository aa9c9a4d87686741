"""Limits how much each namespace may have: an amount at once, and then more each second."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Allows each namespace ``at_first`` at once after a quiet time, and ``a_second`` more each second of ``clock``."""

    def __init__(self, at_first: int, a_second: int, clock: Callable[[], float]) -> None:
        self._at_first = at_first
        self._a_second = a_second
        self._clock = clock
        self._owed: dict[str, tuple[float, float]] = {}
        """By namespace: how much of what it has had still counts, and when that was computed."""

    def left(self, namespace: str) -> int:
        """Return how much a namespace may have now; negative if it has had too much."""
        return int(self._at_first - self._owed_now(namespace))

    def spend(self, namespace: str, amount: int) -> None:
        """Count what a namespace has now."""
        if amount:
            self._owed[namespace] = self._owed_now(namespace) + amount, self._clock()
            for name in [one for one in self._owed if not self._owed_now(one)]:
                del self._owed[name]

    def _owed_now(self, namespace: str) -> float:
        owed, since = self._owed.get(namespace, (0.0, 0.0))
        return max(owed - self._a_second * (self._clock() - since), 0.0)
