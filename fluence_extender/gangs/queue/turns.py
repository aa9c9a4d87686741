"""Where a gang stands in the queue.

`queueing.order.rank` is the only order there is. Waiting gangs are tried in it, and it decides for which preemptor
nodes and devices are held, who loses its place on a node that others have taken, and whose start is estimated after
whose. A gang that was promised its places has begun, because it has to be completed; members beyond a gang's size were
promised nothing. A promise doesn't count between preemptors: what is held for one of them is closed to every gang that
could not preempt it, promised or not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import NamedTuple

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import GangKey
from fluence_extender.queueing.entry import EQUAL, NEVER, Age, Entitlement
from fluence_extender.queueing.order import Rank, rank

NEWEST: Age = (NEVER, 0)
"""The age of a gang that doesn't exist yet."""

RANK = attrgetter("rank")


def turn(gang: Gang) -> Rank:
    """Return a key that sorts gangs in the order in which they are served."""
    begun = gang.promised and not _waits_beyond_size(gang)
    own = gang.own()
    priority, created = gang.priority_among(own), gang.created_among(own)
    if gang.head_start is not None:
        priority, created = 0, (created[0] - gang.head_start, created[1])
    return rank(begun, gang.entitlement, priority, created, entry_key(gang.key))


def precedence(gang: Gang) -> Rank:
    """Return a key that sorts preemptors: their turn, as if none had begun."""
    return newcomer(gang.key, gang.priority, gang.created)


def newcomer(key: GangKey, priority: int, created: Age = NEWEST, entitlement: Entitlement = EQUAL) -> Rank:
    """Return the turn of a gang that has nothing yet."""
    return rank(False, entitlement, priority, created, entry_key(key))


class InLine(NamedTuple):
    """A gang that waits, and its turn."""

    rank: Rank
    gang: Gang


class Turns:
    """The ``line`` of the gangs of ``registry`` that wait, in order: a step doesn't put thousands in order again.

    `put` is told of each gang in which something has changed. The turns of those that have changed since the last step
    are computed each time. Invariant: a gang stands in line once at most.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._places: dict[GangKey, InLine] = {}
        self.line: list[InLine] = []

    def of(self, gang: Gang) -> Rank:
        """Return a gang's `turn`."""
        place = self._places.get(gang.key)
        if place is None or place.gang is not gang or gang.key in self._registry.dirty:
            return turn(gang)
        return place.rank

    def find(self, key: GangKey) -> InLine | None:
        """Return where a gang stands, None where it doesn't wait."""
        return self._places.get(key)

    def put(self, gang: Gang) -> None:
        """Let a gang stand where its turn is now, or nowhere if it doesn't wait."""
        before = self._places.get(gang.key)
        after = InLine(turn(gang), gang) if waits(gang) else None
        if before is not None:
            if after is not None and before.gang is gang and before.rank == after.rank:
                return
            self.drop(gang.key)
        if after is not None:
            self._places[gang.key] = after
            insort(self.line, after, key=RANK)

    def drop(self, key: GangKey) -> None:
        """Take a gang out of the line."""
        place = self._places.pop(key, None)
        if place is not None:
            del self.line[bisect_left(self.line, place.rank, key=RANK)]


def waits(gang: Gang) -> bool:
    """Return whether a member needs a place."""
    return any(member.assignment is None for member in gang.pending())


def entry_key(key: GangKey) -> str:
    """Return the key of a gang's entry in the queue."""
    return f"{key.namespace}/{key.name}/{key.part}/{key.convention}/{key.uid}"


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait though the gang has all the places that it was promised."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and waits(gang)
