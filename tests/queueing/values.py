"""Small values for tests of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fluence_extender.queueing.engine import Decision, QueueEngine, Start
from fluence_extender.queueing.entry import NEVER, Amounts, Entry, Footprint, Mask, Running, Slots
from fluence_extender.queueing.policy import PolicyName, QueuePolicy
from fluence_extender.queueing.reservation import Delay, OperatorReservation, Reservation
from fluence_extender.queueing.timeline import Timeline
from tests.queueing.planner import FirstFit


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
    priority: int = 0,
    at: float = 0,
    where: str = "",
    queue: str = "",
) -> Entry:
    """Return an entry of equal slots; those made of keys in alphabetical order are in the order of their age."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return Entry(key, (Slots(count, sizes),), (at, 0), duration, priority, where=where, queue=queue)


def engine(
    nodes: Amounts,
    policy: PolicyName = PolicyName.EASY,
    depth: int | None = None,
    queue_depth: int | None = None,
    starvation_after: float = NEVER,
    operators: Sequence[OperatorReservation] = (),
    allowed: Mapping[str, Mask] | None = None,
) -> QueueEngine:
    """Return a queue at time 0."""
    rules = QueuePolicy(policy, depth, queue_depth, starvation_after)
    return QueueEngine(Timeline(nodes), FirstFit(allowed), rules, operators)


def run(queue: QueueEngine, key: str, taken: Mapping[int, Sequence[int] | int], end: float = NEVER) -> None:
    """Let something run."""
    queue.hold(Running(key, places(taken), end))


def decisions(queue: QueueEngine, now: float) -> list[Decision]:
    """Run a whole pass."""
    return [one for one in queue.decide(now) if one is not None]


def started(queue: QueueEngine, now: float) -> list[str]:
    """Run a whole pass and return the keys of what starts."""
    return [one.entry.key for one in decisions(queue, now) if isinstance(one, Start)]


def delays(queue: QueueEngine, now: float) -> list[Delay]:
    """Run a whole pass and return the delays."""
    return [one for one in decisions(queue, now) if isinstance(one, Delay)]


def promised(queue: QueueEngine) -> dict[str, float]:
    """Return the promised starts."""
    return {key: one.start for key, one in queue.promises.items()}


def taken(one: Footprint) -> dict[int, list[int]]:
    """Return places by row."""
    return dict(zip(one.rows.tolist(), one.amounts.tolist(), strict=True))


def free_at(timeline: Timeline, time: float) -> Amounts:
    """Return what is free at a time, added up from the holds and the reservations themselves."""
    found = timeline.room.copy()
    for key, hold in timeline.holds.items():
        if timeline.until(key) > time or time <= timeline.now:
            found[hold.places.rows] -= hold.places.amounts
    for one in timeline.reservations.values():
        if active(one, time, timeline.now):
            found[one.places.rows] -= one.places.amounts
    return found


def active(one: Reservation, time: float, now: float) -> bool:
    """Return whether a reservation counts at a time."""
    return one.draining or one.start <= time < one.end or (one.start <= now and time <= now)
