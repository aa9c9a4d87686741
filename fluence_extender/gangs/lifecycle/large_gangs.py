"""Large gangs are looked at at the pace of their namespace, not each time that they or the cluster change.

A look takes some 30 µs for each member, and users may change a gang many times a second. A gang that isn't looked at
is put off: it counts as changed, and is looked at once its namespace has time again.
"""

from __future__ import annotations

from collections.abc import Callable

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangState
from fluence_extender.model.pace import Pace

LARGE = 500
"""The fewest members of such a gang."""

LOOKED_AT_FIRST, LOOKED_AT_A_SECOND = 10_000, 5_000
"""The members of a namespace's large waiting gangs that are looked at at once, and in each second after that."""


class LargeGangs:
    """Says when large gangs may be looked at; ``pace`` counts the members that were. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.pace = Pace(LOOKED_AT_FIRST, LOOKED_AT_A_SECOND, clock)

    def copy(self, now: float) -> LargeGangs:
        """Return an independent copy at ``now``."""
        copied = LargeGangs(lambda: now)
        copied.pace = self.pace.copy(now)
        return copied

    def may_look(self, gang: Gang) -> bool:
        """Return whether a gang may be looked at now, and count the look."""
        if len(gang.members) < LARGE or gang.state is not GangState.WAITING:
            return True
        if self.pace.left(gang.key.namespace) <= 0:
            return False
        self.pace.spend(gang.key.namespace, len(gang.members))
        return True
