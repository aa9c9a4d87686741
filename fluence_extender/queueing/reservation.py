"""Reservations: room that is kept free for a blocked entry, and nodes that an operator closes."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.queueing.entry import Entry, Footprint, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """The places that an entry gets at ``start``, until ``end``.

    ``draining`` says that nobody knows when the places will be free, so ``start`` is `NEVER`. They are kept from now
    on: nothing else starts there, and the entry starts once enough has ended.
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
