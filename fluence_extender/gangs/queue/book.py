"""The waiting gangs in their order, and what is kept free for those that can't start yet.

The order is that of `queueing.order`, and what is kept free are plans: nothing is booked in the ledger for them. So the
book can be lost at any time, and what the cluster shows is enough to write it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.turns import turn
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode

IMPLICIT_QUEUE = ""
"""The name of the queue of gangs that are in none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One waiting gang as users see it.

    ``queue`` is the name of its queue, `IMPLICIT_QUEUE` for none. ``position`` counts from 1 over all queues.
    ``expected_start`` is in seconds since the epoch, None where it isn't known. ``reserved_nodes`` are kept free
    for it.
    """

    gang: GangKey
    queue: str
    position: int
    reason: Reason | None
    expected_start: float | None
    reserved_nodes: tuple[str, ...]
    held: bool


@dataclass(frozen=True, slots=True)
class GangReservation:
    """What is kept free for a gang: on which nodes, and from when until when in seconds since the epoch.

    ``start`` is None where no known end helps the gang, so that its nodes are drained: nothing else starts there from
    now on. ``end`` is None where the gang doesn't say how long it runs.
    """

    gang: GangKey
    nodes: tuple[str, ...]
    start: float | None
    end: float | None

    @property
    def draining(self) -> bool:
        """Whether the nodes are drained for the gang."""
        return self.start is None


class QueueBook:
    """The waiting gangs in order, and what is reserved for them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.settings = Queues()

    def line(self) -> Sequence[Standing]:
        """Return the gangs that wait, in the order in which they are served."""
        waiting = [gang for gang in self._registry.gangs.values() if _waits(gang)]
        reserved = {one.gang: one for one in self.reservations()}
        found = []
        for position, gang in enumerate(sorted(waiting, key=turn), 1):
            place = reserved.get(gang.key)
            found.append(
                Standing(
                    gang.key,
                    IMPLICIT_QUEUE,
                    position,
                    gang.reason,
                    gang.starts_about,
                    place.nodes if place is not None else (),
                    held=gang.reason is not None and gang.reason.code is ReasonCode.HELD,
                )
            )
        return found

    def reservations(self) -> Sequence[GangReservation]:
        """Return what is kept free, in the order of the gangs for which it is."""
        return ()


def _waits(gang: Gang) -> bool:
    return any(member.assignment is None for member in gang.pending())
