"""Small values for tests of the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Reservation, Slots, expected_end
from fluence_extender.queueing.timeline import Steps, Timeline, subtract


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Running work: its places and its declared end, in seconds since the epoch; ``foreign`` if others placed it."""

    key: str
    places: Footprint
    end: float = NEVER
    foreign: bool = False


def room(*nodes: Sequence[int] | int) -> Amounts:
    """Return what nodes have, each given as its amounts or the amount of the only resource."""
    return np.array([[one] if isinstance(one, int) else list(one) for one in nodes], dtype=np.int64)


def places(taken: Mapping[int, Sequence[int] | int]) -> Footprint:
    """Return places by row."""
    return Footprint(np.array(sorted(taken), dtype=np.intp), room(*(taken[row] for row in sorted(taken))))


def entry(
    key: str,
    count: int = 1,
    size: Sequence[int] | int = 1,
    duration: float = 100,
    at: float = 0,
    where: str = "",
    queue: str = "",
) -> Entry:
    """Return an entry of equal slots; those made of keys in alphabetical order are in the order of their age."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return Entry(key, (Slots(count, sizes),), (at, 0), duration, where=where, queue=queue)


def timeline_of(room: Amounts, holds: Iterable[Running] = (), now: float = 0.0) -> Timeline:
    """Return the timeline of rows on which this work runs."""
    holds = list(holds)
    free, capacity = room.copy(), room.copy()
    subtract(free, [hold.places for hold in holds])
    subtract(capacity, [hold.places for hold in holds if hold.foreign and hold.end == NEVER])
    ending = [(hold.places, expected_end(hold.end, now)) for hold in holds if hold.end < NEVER]
    ending.sort(key=lambda one: one[1])
    return Timeline(room, capacity, free, Steps.of(ending, room.shape[1]), now)


def left_at(timeline: Timeline, time: float) -> Amounts:
    """Return what a timeline has free at a time beside its reservations."""
    found = timeline.unreserved(time)
    for one in timeline.reservations.values():
        if one.draining or one.start <= time < one.end:
            found[one.places.rows] -= one.places.amounts
    return found


def free_at(timeline: Timeline, holds: Iterable[Running], time: float) -> Amounts:
    """Return what is free at a time, added up from the ``holds`` and the reservations themselves."""
    found = timeline.room.copy()
    for hold in holds:
        if expected_end(hold.end, timeline.now) > time or time <= timeline.now:
            found[hold.places.rows] -= hold.places.amounts
    for one in timeline.reservations.values():
        if active(one, time, timeline.now):
            found[one.places.rows] -= one.places.amounts
    return found


def active(one: Reservation, time: float, now: float) -> bool:
    """Return whether a reservation counts at a time."""
    return one.draining or one.start <= time < one.end or (one.start <= now and time <= now)
