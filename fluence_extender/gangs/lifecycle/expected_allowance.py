"""Bounds how many pods are expected for each namespace: a Job of a few lines may announce thousands.

No quota counts pods that don't exist, but each takes memory and time of the service. So the number of a namespace's
expected pods is bounded, and so is the rate at which they are made. Invariant: whatever the other namespaces have
announced, a namespace without expected pods may have some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fluence_extender.model.pace import Pace

MOST_OF_NAMESPACE = 20_000
"""The most expected pods of a namespace. Further Jobs are resumed at once, because quotas count pods that exist."""

MOST_EXPECTED = 100_000
"""The most expected pods of all namespaces. A namespace may have at most half of what the others leave of them."""

MOST_AT_ONCE = 500
"""The most pods of one namespace that a step adds for waiting Jobs, and that it forgets for Jobs that are gone."""

AT_FIRST, A_SECOND = 4000, 500
"""For a namespace's waiting Jobs: the pods expected in one go after a quiet time, and more of them each second."""


class Allowance:
    """Counts the expected pods of each namespace; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._counts: Counter[str] = Counter()
        self._pace = Pace(AT_FIRST, A_SECOND, clock)

    def count(self, namespace: str, more: int) -> None:
        """Count expected pods that are new, or that are gone if ``more`` is negative."""
        self._counts[namespace] += more
        if not self._counts[namespace]:
            del self._counts[namespace]

    def room(self, namespace: str) -> int:
        """Return how many more pods of a namespace may be expected."""
        own = self._counts[namespace]
        others = self._counts.total() - own
        return min(MOST_OF_NAMESPACE, (MOST_EXPECTED - others) // 2) - own

    def now(self, namespace: str) -> int:
        """Return how many pods of waiting Jobs may be expected now: none, or at least `MOST_AT_ONCE`.

        Each time that pods join a gang, all of the gang is looked at.
        """
        left = int(self._pace.left(namespace))
        return left if left >= MOST_AT_ONCE else 0

    def spend(self, namespace: str, pods: int) -> None:
        """Count pods of waiting Jobs that are expected now."""
        self._pace.spend(namespace, pods)


def split(items: list[int], most: int) -> tuple[list[int], list[int]]:
    """Return at most the first ``most`` items, and the others."""
    return items[: max(most, 0)], items[max(most, 0) :]
