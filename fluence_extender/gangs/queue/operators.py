"""The nodes that a Reservation closes, and its form on the rows of a timeline.

Its nodes are those that match now: a node that gets the label later is closed from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from fluence_extender.model.node import Node
from fluence_extender.model.queue import NodeReservation
from fluence_extender.model.selectors import holds
from fluence_extender.queueing.reservation import OperatorReservation


def covered(reservation: NodeReservation, nodes: Iterable[Node]) -> list[str]:
    """Return the names of the ``nodes`` that a Reservation closes."""
    return [node.name for node in nodes if _covers(reservation, node)]


def _covers(reservation: NodeReservation, node: Node) -> bool:
    if not reservation.names and not reservation.labels:
        return True
    if node.name in reservation.names:
        return True
    return bool(reservation.labels) and all(holds(one, node.labels) for one in reservation.labels)


def operator_reservations(
    reservations: Iterable[NodeReservation], closed: Mapping[str, Collection[str]], rows: Mapping[str, int]
) -> list[OperatorReservation]:
    """Return the Reservations on the rows of a timeline, in the order of their names.

    ``closed`` has the nodes that each Reservation closes, by its name.
    """
    found = []
    for one in sorted(reservations, key=lambda reservation: reservation.name):
        numbers = sorted(rows[name] for name in closed[one.name] if name in rows)
        if numbers and one.duration > 0:
            at = np.array(numbers, dtype=np.intp)
            found.append(OperatorReservation(one.name, at, one.start, one.end, one.queues))
    return found
