"""How many gangs of each queue run and wait, and what they hold, in total and for each user.

A gang counts as running from its first place on, and as waiting before. Waiting gangs are kept in the order of their
creation, because a queue that takes a limited number of them takes the oldest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from immutables import Map

from fluence_extender.model.gang import GangKey
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.queueing.entry import NEVER, Age

Group = tuple[str, str | None]
"""A queue and one of its users; None stands for all users of the queue."""


Ordered = TypeVar("Ordered", tuple[float, GangKey], tuple[Age, GangKey])


def _groups(queue: str, user: str) -> tuple[Group, Group]:
    return (queue, None), (queue, user)


@dataclass(frozen=True, slots=True)
class Place:
    """How a gang counts: in which queue, for which user, and whether it ``runs``.

    ``created`` orders waiting gangs. ``held`` is what the gang holds of its queue's quota. ``asks`` is what it asks for
    while it waits. Both are empty unless some queue has a quota or a weight. Members that got their places in other
    queues are charged to these: ``elsewhere`` has those queues, and what such members hold. ``beyond`` is how many more
    members have places than when the gang began; each counts as one more running gang. ``end`` is when all members have
    ended, by their declared ends. It is `NEVER` if that isn't known, or if no queue keeps capacity for itself.
    """

    queue: str
    user: str
    runs: bool
    created: Age
    held: Resources = NOTHING
    asks: Resources = NOTHING
    elsewhere: tuple[tuple[str, Resources], ...] = ()
    beyond: int = 0
    end: float = NEVER

    @property
    def groups(self) -> tuple[Group, Group]:
        """The groups in which the gang counts."""
        return _groups(self.queue, self.user)

    @property
    def holdings(self) -> tuple[tuple[str, Resources], ...]:
        """The queues to which its members are charged, and what is charged to each."""
        return ((self.queue, self.held), *self.elsewhere) if self.held else self.elsewhere


@dataclass(slots=True)
class Usage:
    """The gangs that run and wait, by queue and user.

    ``revision`` grows with each change. ``held_revision`` grows when what gangs hold has changed, or when they end. The
    list ``ending`` has the known ends of gangs, in order.
    """

    revision: int = 0
    held_revision: int = 0
    ending: list[tuple[float, GangKey]] = field(default_factory=list)
    _places: Map[GangKey, Place] = field(default_factory=Map)
    _running: Counter[Group] = field(default_factory=Counter)
    _held: dict[Group, Resources] = field(default_factory=dict)
    _waiting: dict[Group, list[tuple[Age, GangKey]]] = field(default_factory=dict)

    def copy(self) -> Usage:
        """Return an independent copy."""
        return Usage(
            self.revision,
            self.held_revision,
            list(self.ending),
            self._places,
            self._running.copy(),
            dict(self._held),
            {group: waiting.copy() for group, waiting in self._waiting.items()},
        )

    def put(self, key: GangKey, place: Place | None) -> None:
        """Count a gang as it is now; ``place`` is None if it neither runs nor waits any more."""
        before = self._places.get(key)
        if before == place:
            return
        self.revision += 1
        if before is not None:
            self._count(key, before, -1)
        if place is not None:
            self._count(key, place, 1)
        self._places = self._places.delete(key) if place is None else self._places.set(key, place)

    def place(self, key: GangKey) -> Place | None:
        """Return how a gang counts, None if it doesn't count."""
        return self._places.get(key)

    def running(self, group: Group) -> int:
        """Return how many gangs run, and how many more members have places than when their gangs began."""
        return self._running[group]

    def held(self, group: Group) -> Resources:
        """Return what the gangs of the group hold."""
        return self._held.get(group, NOTHING)

    def waiting(self, group: Group) -> int:
        """Return how many gangs wait."""
        return len(self._waiting.get(group, ()))

    def queues(self) -> set[str]:
        """Return the queues in which gangs run or wait, or to which places are charged."""
        return {queue for queue, user in (*self._running, *self._waiting, *self._held) if user is None}

    def are_older(self, key: GangKey, group: Group, count: int) -> bool:
        """Return whether ``count`` waiting gangs of the group are older than this one, which is the youngest if new."""
        place, waiting = self._places.get(key), self._waiting.get(group, ())
        return len(waiting) >= count and (place is None or waiting[count - 1] < (place.created, key))

    def _count(self, key: GangKey, place: Place, sign: int) -> None:
        """Add a gang to all sums and lists, or take it out with a ``sign`` of -1."""
        self.held_revision += bool(place.holdings)
        if place.end < NEVER:
            _put_in(self.ending, (place.end, key), sign)
        for queue, amounts in place.holdings:
            for group in _groups(queue, place.user):
                before = self.held(group)
                self._held[group] = before + amounts if sign > 0 else before - amounts
                if not self._held[group]:
                    del self._held[group]
        for group in place.groups:
            if place.runs:
                self._running[group] += sign * (1 + place.beyond)
                if not self._running[group]:
                    del self._running[group]
                continue
            waiting = self._waiting.setdefault(group, [])
            _put_in(waiting, (place.created, key), sign)
            if not waiting:
                del self._waiting[group]


def _put_in(line: list[Ordered], entry: Ordered, sign: int) -> None:
    """Put an entry in a sorted list, or take it out with a ``sign`` of -1."""
    if sign > 0:
        insort(line, entry)
    else:
        del line[bisect_left(line, entry)]
