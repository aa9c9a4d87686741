"""When to look at a gang again although nothing was seen of it.

Looking costs its own size, so a cluster full of gangs that wait costs nothing until something is due.
"""

from __future__ import annotations

import heapq

from fluence_extender.model.gang import GangKey

NEVER = float("inf")
"""A time that doesn't come."""


class Agenda:
    """Gangs by the time at which they are due; each is noted once, for the earliest time asked for."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, GangKey]] = []
        self._due: dict[GangKey, float] = {}

    def note(self, key: GangKey, when: float) -> None:
        """Look at the gang at ``when`` (on the controller's clock), or earlier if that was asked before."""
        if when < self._due.get(key, NEVER):
            self._due[key] = when
            heapq.heappush(self._heap, (when, key))

    def take_due(self, now: float) -> list[GangKey]:
        """Hand out the gangs that are due, each once."""
        found: list[GangKey] = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                found.append(key)
        return found
