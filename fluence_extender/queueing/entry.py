"""The values of the queue: entries in their order, the places that they take, reservations, and policies.

Arrays have a row for each node and for each pool of devices that belongs to no node, and a column for each resource. A
slot that asks for devices of a pool fits on no other row, because no other row has that resource.

**Order.** Entries that have begun come first, because they have to be completed. Of the others, the entitlement decides
first: entries within the guarantee of their queue come before those beyond it, and then the smaller share comes first.
All entitlements are equal if no queue has a guarantee or a weight. Then the higher priority comes first, and then the
older entry; entries of the same second are in the order of their creation. The rank of an entry depends only on the
entry.

**Policies** have the names that flux-sched gives them. An entry that can't start is blocked. Under ``fcfs`` nothing
behind it starts. Under the others the first blocked entries get reservations, and entries behind them start if they
leave every reservation's room free. These policies differ in the number of blocked entries with reservations.

**Ends.** A running pod is expected to end at its declared end. If it runs on, its expected end moves by a step, which
doubles each time. So during a long overrun the expected end moves only a logarithmic number of times, and it is never
in the past. It depends only on the declared end and the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluence_extender.objects.queues import PolicyName

Amounts = NDArray[np.int64]
"""An array of rows by resources, or one amount for each row."""

Rows = NDArray[np.intp]
Times = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""One boolean for each row."""

Entitlement = tuple[int, tuple[float, ...]]
"""How far the entry takes its queue beyond its guarantee, and the shares from the root of the tree to the user."""

EQUAL: Entitlement = (0, ())
"""The entitlement of all entries if no queue has a guarantee or a weight."""

NEVER = math.inf
"""A time that never comes, and the duration of work without a declared end."""

Age = tuple[float, int]
"""The time of submission in seconds since the epoch, and a number that orders submissions of the same second."""


@dataclass(frozen=True, slots=True)
class Slots:
    """``count`` equal slots, each on one row; ``size`` is the amount of each resource that one takes."""

    count: int
    size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A gang or a suspended workload that waits for its start.

    ``slots`` has one element for each different size. ``where`` is a key for everything else that restricts its places:
    of two entries with equal slots and an equal ``where`` either both fit or neither does. ``duration`` is the longest
    time that it runs, in seconds. ``queue`` is the name of its queue.
    """

    key: str
    slots: tuple[Slots, ...]
    created: Age
    duration: float = NEVER
    where: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Places, and the amounts taken there: ``amounts[i]`` on the row ``rows[i]``. No row occurs twice."""

    rows: Rows
    amounts: Amounts


Rank = tuple[bool, Entitlement, int, Age, str]
"""Whether the entry hasn't begun, its entitlement, negative priority, age and key. The lowest is served first."""


def rank(begun: bool, entitlement: Entitlement, priority: int, created: Age, key: str) -> Rank:
    """Return a key that sorts entries in the order in which they are served."""
    return (not begun, entitlement, -priority, created, key)


def has_begun(rank: Rank) -> bool:
    """Return whether the entry with this rank has begun."""
    return not rank[0]


__all__ = ["DEPTHS", "PolicyName", "QueuePolicy"]

SIX_HOURS = 21_600.0

DEPTHS = {PolicyName.FCFS: 0, PolicyName.EASY: 1, PolicyName.HYBRID: 64, PolicyName.CONSERVATIVE: 256}
"""How many blocked entries get a reservation unless the queue says otherwise."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The policy of a queue.

    The first ``reservation_depth`` blocked entries get reservations; None stands for the number in `DEPTHS`. A pass
    looks at ``queue_depth`` entries, or at all if that is None. If no declared end helps one of these blocked entries,
    nodes are drained for it once it has waited ``starvation_after`` seconds.
    """

    policy: PolicyName = PolicyName.EASY
    reservation_depth: int | None = None
    queue_depth: int | None = None
    starvation_after: float = SIX_HOURS

    @property
    def depth(self) -> int:
        """How many blocked entries get a reservation; ``fcfs`` gives none."""
        if self.policy is PolicyName.FCFS or self.reservation_depth is None:
            return DEPTHS[self.policy]
        return self.reservation_depth


FIRST_STEP = 60.0
"""Seconds within which most deleted pods end: twice their usual grace period."""


def expected_end(declared: float, now: float) -> float:
    """Return when a pod that still runs is expected to end: after ``now``, and not before its declared end."""
    if now < declared or declared == NEVER:
        return declared
    doublings = max(0, math.ceil(math.log2((now - declared) / FIRST_STEP))) if now > declared else 0
    end = declared + FIRST_STEP * 2.0**doublings
    return end if end > now else declared + FIRST_STEP * 2.0 ** (doublings + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """The places that an entry gets at ``start``, until ``end``.

    ``draining`` says that it isn't known when the places will be free, so ``start`` is `NEVER`. They are kept from now
    on: nothing else starts there, and the entry starts once enough room is free.
    """

    key: str
    places: Footprint
    start: float
    end: float
    draining: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OperatorReservation:
    """Nodes that an operator reserves, for maintenance or for a team, from ``start`` to ``end``.

    The nodes are closed then to every entry whose queue isn't among ``queues``: such an entry uses them only if it ends
    before or starts after. What runs there already isn't stopped.
    """

    name: str
    rows: Rows
    start: float
    end: float
    queues: frozenset[str] = frozenset()

    def closes(self, entry: Entry, since: float, until: float) -> bool:
        """Return whether the nodes are closed to an entry that would run between two times."""
        return since < self.end and until > self.start and entry.queue not in self.queues
