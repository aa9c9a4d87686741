"""Where a gang stands in the queue.

`queueing.order.rank` is the only order there is. Waiting gangs are tried in this order. It also decides for which
preemptor nodes and devices are held, which gang loses its place on an overcommitted node, and in which order starts are
estimated.

A gang that was promised its places counts as begun, because it has to be completed. Members beyond a gang's size were
promised nothing. Between preemptors a promise doesn't count: nodes that are held for one of them are closed to every
gang that couldn't preempt it, even to one that was promised its places.
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
    """Return a key that sorts preemptors: their ranks if none had begun."""
    return newcomer(gang.key, gang.priority, gang.created)


def newcomer(key: GangKey, priority: int, created: Age = NEWEST, entitlement: Entitlement = EQUAL) -> Rank:
    """Return the rank of a gang that has no places yet."""
    return rank(False, entitlement, priority, created, entry_key(key))


class InLine(NamedTuple):
    """A gang that waits, and its rank."""

    rank: Rank
    gang: Gang


class Turns:
    """The ``line`` of the waiting gangs of ``registry``, kept in order so that no step has to sort thousands.

    The caller has to `put` each gang that has changed. The rank of a gang that has changed since the last step isn't
    taken from the line but computed. Invariant: a gang stands in line at most once.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._places: dict[GangKey, InLine] = {}
        self.line: list[InLine] = []

    def of(self, gang: Gang) -> Rank:
        """Return a gang's present rank."""
        place = self._places.get(gang.key)
        if place is None or place.gang is not gang or gang.key in self._registry.dirty:
            return turn(gang)
        return place.rank

    def find(self, key: GangKey) -> InLine | None:
        """Return where a gang stands, None if it doesn't wait."""
        return self._places.get(key)

    def put(self, gang: Gang) -> None:
        """Put a gang in line at its present rank, or take it out if it doesn't wait."""
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
