"""Where a gang stands in the queue.

`queueing.order.rank` is the only order there is. Waiting gangs are tried in it, and it decides for which preemptor
nodes and devices are held, who loses its place on a node that others have taken, and whose start is estimated after
whose. A gang that was promised its places has begun, because it has to be completed; members beyond a gang's size were
promised nothing. A promise doesn't count between preemptors: what is held for one of them is closed to every gang that
could not preempt it, promised or not.
"""

from __future__ import annotations

from typing import NamedTuple

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.model.gang import GangKey
from fluence_extender.queueing.entry import NEVER, Age
from fluence_extender.queueing.order import Rank, rank

NEWEST: Age = (NEVER, 0)
"""The age of a gang that doesn't exist yet."""


class Turn(NamedTuple):
    """What a gang's rank depends on."""

    begun: bool
    priority: int
    created: Age
    key: str


def turn(gang: Gang) -> Rank:
    """Return a key that sorts gangs in the order in which they are served."""
    begun = gang.promised and not _waits_beyond_size(gang)
    return rank(Turn(begun, gang.priority, gang.created, entry_key(gang.key)))


def precedence(gang: Gang) -> Rank:
    """Return a key that sorts preemptors: their turn, as if none had begun."""
    return newcomer(gang.key, gang.priority, gang.created)


def newcomer(key: GangKey, priority: int, created: Age = NEWEST) -> Rank:
    """Return the turn of a gang that has nothing yet."""
    return rank(Turn(begun=False, priority=priority, created=created, key=entry_key(key)))


def entry_key(key: GangKey) -> str:
    """Return the key of a gang's entry in the queue."""
    return f"{key.namespace}/{key.name}/{key.part}/{key.convention}/{key.uid}"


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait though the gang has all the places that it was promised."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and any(member.assignment is None for member in gang.pending())
