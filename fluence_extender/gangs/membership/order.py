"""The order in which gangs are served.

Gangs that compete for capacity have a precedence: the higher priority first, then the older gang. It decides for which
preemptor nodes and devices are held. Waiting gangs are tried in turn: first those that were promised their places,
because they have to be completed, then by precedence. Members beyond a gang's size were promised nothing. A promise
doesn't count between preemptors. What is held for one of them is closed to every gang that could not preempt it,
promised or not.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangKey

Age = tuple[float, int]
"""The time of creation in whole seconds, and the resourceVersion that orders what was created in the same second."""

Precedence = tuple[float, Age, GangKey]
"""The negative priority, the age, and the key; the lowest comes first."""

Turn = tuple[bool, Precedence]
"""False for a gang that was promised its places, and the precedence; the lowest comes first."""

NEWEST: Age = (float("inf"), 0)
"""The age of a gang that doesn't exist yet."""


def precedence(gang: Gang) -> Precedence:
    """Return a key that sorts gangs by priority, then by age."""
    return (-gang.priority, gang.created, gang.key)


def turn(gang: Gang) -> Turn:
    """Return a key that sorts waiting gangs in the order in which they are tried."""
    return not gang.promised or _waits_beyond_size(gang), precedence(gang)


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait though the gang has all the places that it was promised."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and any(member.assignment is None for member in gang.pending())
