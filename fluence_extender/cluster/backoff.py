"""Waiting between tries: longer after each failure, capped, and jittered so that replicas don't come back in step."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from ``first`` to ``cap`` seconds, each drawn from the upper half of its range."""

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._next = first

    def delay(self) -> float:
        """Seconds to wait before the next try."""
        limit = self._next
        self._next = min(limit * 2, self._cap)
        return random.uniform(limit / 2, limit)

    def reset(self) -> None:
        """After a success: start over."""
        self._next = self._first


def jittered(seconds: float) -> float:
    """``seconds`` plus or minus a quarter."""
    return random.uniform(0.75 * seconds, 1.25 * seconds)
