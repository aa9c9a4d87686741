"""Where a gang stands in the queue.

`queueing.order.rank` is the only order there is. Waiting gangs are tried in this order. It also decides for which
preemptor nodes and devices are held, which gang loses its place on an overcommitted node, and in which order starts are
estimated.

A gang that a rule keeps from starting isn't in the line that is tried: one that is held, that waits for members or for
the end of others, that has no queue, or whose queue is stopped. Limits and quotas are judged by the pass that tries it.

A gang that has to be completed counts as begun. Its members beyond the size with which it began don't. Between
preemptors that doesn't count: nodes that are held for one of them are closed to every gang that couldn't preempt it,
even to one that has to be completed.
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
    begun = gang.must_be_completed and not _waits_beyond_size(gang)
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
    """A gang that waits, its rank, and whether no rule keeps it from being tried (``ready``)."""

    rank: Rank
    gang: Gang
    ready: bool


class ToTry(NamedTuple):
    """A gang that a pass may try, and its rank."""

    rank: Rank
    key: GangKey


class Turns:
    """The waiting gangs of ``registry``, kept in order so that no step has to sort thousands.

    ``line`` has all of them, and ``ready`` those that no rule keeps from being tried.

    The caller has to `put` each gang that has changed. The rank of a gang that has changed since the last step isn't
    taken from the line but computed. Invariant: a gang stands at most once in each line.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._places: dict[GangKey, InLine] = {}
        self.line: list[InLine] = []
        self.ready: list[ToTry] = []

    def clear(self) -> None:
        """Take all gangs out of the line."""
        for entries in (self._places, self.line, self.ready):
            entries.clear()

    def of(self, gang: Gang) -> Rank:
        """Return a gang's present rank."""
        place = self._places.get(gang.key)
        if place is None or place.gang is not gang or gang.key in self._registry.dirty:
            return turn(gang)
        return place.rank

    def find(self, key: GangKey) -> InLine | None:
        """Return where a gang stands in the line that is tried, None if it doesn't wait or a rule keeps it waiting."""
        place = self._places.get(key)
        return place if place is not None and place.ready else None

    def put(self, gang: Gang) -> None:
        """Put a gang in line at its present rank, or take it out if it doesn't wait."""
        before = self._places.get(gang.key)
        after = InLine(turn(gang), gang, gang.obstacle is None) if waits(gang) else None
        if before is not None:
            same = after is not None and before.gang is gang and before.rank == after.rank
            if same and before.ready == (gang.obstacle is None):
                return
            self.drop(gang.key)
        if after is not None:
            self._places[gang.key] = after
            insort(self.line, after, key=RANK)
            if after.ready:
                insort(self.ready, ToTry(after.rank, gang.key), key=RANK)

    def drop(self, key: GangKey) -> None:
        """Take a gang out of the line."""
        place = self._places.pop(key, None)
        if place is None:
            return
        del self.line[bisect_left(self.line, place.rank, key=RANK)]
        if place.ready:
            del self.ready[bisect_left(self.ready, place.rank, key=RANK)]


def waits(gang: Gang) -> bool:
    """Return whether a member needs a place."""
    return any(member.assignment is None for member in gang.pending())


def entry_key(key: GangKey) -> str:
    """Return the key of a gang's entry in the queue."""
    return f"{key.namespace}/{key.name}/{key.part}/{key.convention}/{key.uid}"


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait though the gang has as many places as it needs."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and waits(gang)
