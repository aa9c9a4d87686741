"""What operators' Reservations close: nodes for the gangs that start now, and rows of the timeline.

The nodes of a Reservation are those that match now: a node that gets the label later is closed from then on. The closed
nodes are computed again only after a Reservation or a node has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.model.node import Node
from fluence_extender.model.queue import NodeReservation
from fluence_extender.model.selectors import holds
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.queueing.reservation import OperatorReservation

RESERVED_AHEAD = 3600.0
"""Seconds before the start of a Reservation for queues from which on its nodes are kept from being removed."""


class ClosedNodes:
    """The nodes that the Reservations of ``settings`` close; ``now`` gives seconds since the epoch."""

    def __init__(self, settings: Queues, eligibility: EligibilityIndex, now: Callable[[], float]) -> None:
        self._settings = settings
        self._eligibility = eligibility
        self._now = now
        self._covered: tuple[object, Mapping[str, Collection[str]]] = ((), {})

    def closing(self, queue: str, duration: float) -> tuple[str, ...]:
        """Return the names of the Reservations that close nodes to a gang of a queue that starts now."""
        reservations = self._settings.reservations
        if not reservations:
            return ()
        now, nodes = self._now(), self._nodes()
        return tuple(
            name
            for name, one in sorted(reservations.items())
            if one.start < now + duration and one.end > now and queue not in one.queues and nodes[name]
        )

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the nodes of the Reservations of these names."""
        nodes = self._nodes()
        return frozenset().union(*(nodes[name] for name in names))

    def kept(self) -> frozenset[str]:
        """Return the nodes that are reserved for queues now or soon, so that they shouldn't be removed."""
        now = self._now()
        return self.of(
            name
            for name, one in self._settings.reservations.items()
            if one.queues and one.start - RESERVED_AHEAD <= now < one.end
        )

    def over(self) -> int:
        """Return how many Reservations are over."""
        now = self._now()
        return sum(1 for one in self._settings.reservations.values() if one.end <= now)

    def on_rows(self, rows: Mapping[str, int]) -> Sequence[OperatorReservation]:
        """Return the Reservations that aren't over, on the rows of a timeline."""
        now = self._now()
        reservations = self._settings.reservations
        coming = [name for name, one in sorted(reservations.items()) if one.end > now and one.duration > 0]
        closed = self._nodes() if coming else {}
        on_rows = []
        for name in coming:
            numbers = sorted(rows[node] for node in closed[name] if node in rows)
            if numbers:
                at, one = np.array(numbers, dtype=np.intp), reservations[name]
                on_rows.append(OperatorReservation(name, at, one.start, one.end, one.queues))
        return on_rows

    def _nodes(self) -> Mapping[str, Collection[str]]:
        """Return the nodes of each Reservation, by its name."""
        basis = self._settings.revision, self._eligibility.journal.now
        if self._covered[0] != basis:
            nodes = self._eligibility.nodes.values()
            closed = {name: covered(one, nodes) for name, one in self._settings.reservations.items()}
            self._covered = basis, closed
        return self._covered[1]


def covered(reservation: NodeReservation, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the ``nodes`` that a Reservation closes."""
    return [node.name for node in nodes if _covers(reservation, node)]


def _covers(reservation: NodeReservation, node: Node) -> bool:
    if not reservation.names and not reservation.labels:
        return True
    if node.name in reservation.names:
        return True
    return bool(reservation.labels) and all(holds(one, node.labels) for one in reservation.labels)
