"""How a gang may be placed beside what the queue keeps for others."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.reason import Reason, behind_reservation
from fluence_extender.queueing.entry import NEVER
from fluence_extender.room.holds import Hold
from fluence_extender.room.room import Room


@dataclass(frozen=True, slots=True)
class Beside:
    """How a gang may be placed beside reservations.

    ``kept`` has to stay free for reservations, and ``closed`` are the nodes that the operators' Reservations
    ``closing`` close; None for nothing. ``short`` is why the gang doesn't start even if the nodes have room: other
    queues keep it for themselves (`pool`). ``duration`` is how many seconds the gang runs.
    """

    kept: Hold | None = None
    closed: Hold | None = None
    closing: tuple[str, ...] = ()
    short: Reason | None = None
    duration: float = NEVER

    @property
    def reason(self) -> Reason:
        """Why a gang waits that would fit if nothing were reserved."""
        return self.short or behind_reservation(self.closing, self.kept is not None)

    @property
    def free(self) -> bool:
        """Whether nothing is kept for others."""
        return self.kept is None and self.closed is None and self.short is None

    def left_of(self, room: Room) -> Room:
        """Return what is left of a room for the gang."""
        for hold in (self.kept, self.closed):
            room = room if hold is None else room.less(hold)
        return room


FREELY = Beside()
"""How a gang may be placed where nothing is reserved before it."""
