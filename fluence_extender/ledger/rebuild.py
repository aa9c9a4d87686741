"""Building a graph and its bookings beside those in use.

Only `Rebuild.run` takes long, and it touches nothing that anybody else uses, so it may run in a thread of its own. What
the ledger take in meanwhile is booked in further runs, each shorter than the one before.
"""

from __future__ import annotations

from fluence_extender.ledger.bookings import Bookings, Position
from fluence_extender.ledger.mirror import Mirror


class Rebuild:
    """One rebuild under way. ``changes`` numbers the changes of the graph that are in it."""

    def __init__(self, blank: Mirror, wanted: Position, changes: int) -> None:
        self.changes = changes
        self.bookings = Bookings(blank, {})
        self._reached: Position | None = None
        self._closed = False
        self._wanted = wanted

    def lacks(self, now: Position) -> int:
        """Aim at what the ledger says now; how much has to be booked for that."""
        differences = self._wanted.differences(now)
        self._wanted = now
        return differences

    def run(self) -> None:
        """Build the graph, or book what has changed since the last run. Raises `MatcherError`, `GraphTooLarge`."""
        wanted, reached = self._wanted, self._reached
        if reached is None:
            self.bookings.mirror.load(wanted.nodes.values(), wanted.resources)
            reached = Position()
        if not self._closed:
            self.bookings.follow(reached, wanted)
            self._reached = wanted
        if self._closed:
            self.bookings.close()

    def close(self) -> None:
        """Give it up; a run under way frees what it has made when it ends."""
        self._closed = True
        if self._reached is not None:
            self.bookings.close()
