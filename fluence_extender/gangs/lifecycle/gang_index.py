"""Which gangs a step has to look at: the unsettled ones, and those whose timers are due.

These are few, while a walk through all gangs at each step would take time in proportion to the cluster. A gang in which
nothing happens costs nothing until its timer is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Set

from fluence_extender.gangs.lifecycle.deadlines import due
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import GangKey, GangState

SETTLED = (GangState.BOUND, GangState.FINISHED)

AT_ONCE = 32
"""The most gangs with due timers that one step looks at, which takes some milliseconds."""


class GangIndex:
    """The gangs of ``registry`` that steps have to look at.

    Each gang has one timer, the earliest that was requested. When it is due, a step looks at the gang.
    """

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits
        self._timers: list[tuple[float, GangKey]] = []
        self._due: dict[GangKey, float] = {}
        self.unfinished = False
        """Whether more timers may be due than were taken last."""

    def update(self, gang: Gang, now: float) -> None:
        """Set the gang's timer."""
        self.look_at(gang.key, due(gang, now, self._limits))

    def look_at(self, key: GangKey, when: float) -> None:
        """Look at the gang at ``when`` (on the controller's clock), or earlier if that was requested before."""
        if when < self._due.get(key, NEVER):
            self._due[key] = when
            heapq.heappush(self._timers, (when, key))

    def take_due(self, now: float) -> set[GangKey]:
        """Remove the first of the timers that are due, `AT_ONCE` of them at most, and return their gangs."""
        found: set[GangKey] = set()
        while self._timers and self._timers[0][0] <= now and len(found) < AT_ONCE:
            when, key = heapq.heappop(self._timers)
            if self._due.get(key) == when:
                del self._due[key]
                found.add(key)
        self.unfinished = len(found) == AT_ONCE
        return found

    def existing(self, keys: Set[GangKey]) -> list[Gang]:
        """Return the gangs of ``keys`` that still exist, in a stable order."""
        gangs = self._registry.gangs
        return [gangs[key] for key in sorted(keys) if key in gangs]

    def unsettled(self) -> list[Gang]:
        """Return the gangs for which something may still have to be done, in a stable order."""
        gangs = self._registry.gangs
        return self.existing(
            {key for key, one in gangs.items() if one.state not in SETTLED}.union(self._registry.dirty)
        )
