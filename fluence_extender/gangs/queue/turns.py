"""Where a gang stands in the queue.

`queueing.order.rank` is the only order there is. Waiting gangs are tried in it, and it decides for which preemptor
nodes and devices are held, who loses its place on a node that others have taken, and whose start is estimated after
whose. A gang that was promised its places has begun, because it has to be completed; members beyond a gang's size were
promised nothing. A promise doesn't count between preemptors: what is held for one of them is closed to every gang that
could not preempt it, promised or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
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


class Turns:
    """The turns of the gangs of ``registry``, because a line of thousands is put in order in every step.

    A turn is kept until `forget`. Those of gangs that have changed since the last step are computed each time.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[GangKey, Rank] = {}

    def of(self, gang: Gang) -> Rank:
        """Return a gang's `turn`."""
        if gang.key in self._registry.dirty:
            return turn(gang)
        found = self._known.get(gang.key)
        if found is None:
            found = self._known[gang.key] = turn(gang)
        return found

    def forget(self, keys: Iterable[GangKey]) -> None:
        """Forget the turns of these gangs. If more turns are kept than there are gangs, forget all."""
        for key in keys:
            self._known.pop(key, None)
        if len(self._known) > len(self._registry.gangs):
            self._known.clear()


def entry_key(key: GangKey) -> str:
    """Return the key of a gang's entry in the queue."""
    return f"{key.namespace}/{key.name}/{key.part}/{key.convention}/{key.uid}"


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait though the gang has all the places that it was promised."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and any(member.assignment is None for member in gang.pending())
