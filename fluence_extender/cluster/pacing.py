"""How long to wait: between tries after a failure, and in the watches.

All times are in seconds. Waits that several replicas share are jittered, so that the replicas don't act in step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of the watches. The defaults suit any cluster; tests shorten them.

    ``watch`` is the lifetime of one watch that is requested from the API server (jittered). ``silence`` ends a watch on
    which not even a bookmark came: one is sent each minute (KEP-956), and a busy API server may drop one. ``retry`` and
    ``retry_cap`` bound the back-off, and ``denied`` bounds it while a right is missing. ``rediscover`` is the time
    between two checks for a kind that isn't served, ``heartbeat`` the time between two checks that the API server
    answers at all. ``page`` is the number of objects in a page of a list.
    """

    watch: float = 360.0
    silence: float = 150.0
    retry: float = 0.25
    retry_cap: float = 10.0
    denied: float = 20.0
    rediscover: float = 30.0
    heartbeat: float = 5.0
    page: int = 500


STANDARD = Timing()


class Backoff:
    """Delays that double from ``first`` to ``cap`` seconds.

    Each is drawn at random from the upper half of its range.
    """

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._next = first

    def delay(self) -> float:
        """Return the seconds to wait before the next try."""
        limit = self._next
        self._next = min(limit * 2, self._cap)
        return random.uniform(limit / 2, limit)

    def reset(self) -> None:
        """Start again at the first delay, after a success."""
        self._next = self._first


def jittered(seconds: float) -> float:
    """Return ``seconds`` plus or minus up to a quarter."""
    return random.uniform(0.75 * seconds, 1.25 * seconds)
