"""The status of Queues and Reservations, for those who look at the objects with kubectl.

Invariants: a status is written only if it differs from the one in the cluster, and seldom for one object. While there
is no such object, nothing is computed. Users of all namespaces read a status, so it names no gang.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from fluence_extender.gangs.execution.actions import Report, ReportQueue, ReportReservation
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.closed_nodes import covered
from fluence_extender.gangs.queue.usage import Usage
from fluence_extender.model.node import Node
from fluence_extender.model.notation import first_few, format_time, natural_order
from fluence_extender.model.queue import NodeReservation, Queue, QueueStatus, ReservationStatus, Stop

BETWEEN = 2.0
"""Seconds between two looks at the queues."""

AGAIN = 10.0
"""Seconds between two writes of one object's status."""

KEPT = 180.0
"""Seconds after which the past use of a queue is written anew although nothing else has changed."""

FEW = 3


class QueueReports:
    """Decides which Queues' and Reservations' status has to be written; ``nodes`` are all nodes by name."""

    def __init__(
        self,
        book: QueueBook,
        usage: Usage,
        nodes: Mapping[str, Node],
        calendar: Callable[[], float],
    ) -> None:
        self._book = book
        self._usage = usage
        self._nodes = nodes
        self._calendar = calendar
        self._next = float("-inf")
        self._written: dict[tuple[type, str], float] = {}

    def due(self, now: float) -> list[Report]:
        """Return the status to write now."""
        settings = self._book.settings
        if now < self._next or not (settings.made or settings.reservations):
            return []
        self._next = now + BETWEEN
        self._written = {key: at for key, at in self._written.items() if now < at + AGAIN}
        today = self._calendar()
        since = format_time(datetime.fromtimestamp(today, UTC))
        found: list[Report] = []
        waiting = self._book.waiting()
        for queue in settings.made.values():
            counts = waiting[queue.name], self._usage.running((queue.name, None))
            said = queue_status(queue, counts, self._book.problems(queue), today)
            said = replace(said, **self._book.admission.account(queue.name))
            # Until it is known since when a queue drains, everything starts.
            urgent = said.stopped_since != (queue.status or QueueStatus()).stopped_since
            if (said != queue.status or _old(queue.status, said)) and self._may_write(queue, now, urgent):
                found.append(ReportQueue(queue, _dated(said, queue.status, since)))
        for one in settings.reservations.values():
            closed = reservation_status(one, self._nodes, settings.queues)
            if closed != one.status and self._may_write(one, now):
                found.append(ReportReservation(one, _dated(closed, one.status, since)))
        return found

    def _may_write(self, one: Queue | NodeReservation, now: float, urgent: bool = False) -> bool:
        """Return whether the object's status wasn't written just now or is ``urgent``, and note that it is written."""
        key = type(one), one.name
        if urgent:
            self._written[key] = now
        return self._written.setdefault(key, now) == now


def queue_status(queue: Queue, counts: tuple[int, int], problems: Sequence[str], now: float) -> QueueStatus:
    """Return the status of a queue. ``counts`` says how many of its gangs wait, and how many have places."""
    stopped = None
    if queue.stop is not Stop.NONE:
        stopped = float(math.floor(now)) if queue.stopped_since is None else queue.stopped_since
    return QueueStatus(*counts, stopped, "; ".join(problems))


def reservation_status(
    reservation: NodeReservation, nodes: Mapping[str, Node], queues: Mapping[str, Queue]
) -> ReservationStatus:
    """Return the status of a Reservation in a cluster with these nodes and queues."""
    problems = list(reservation.problems)
    for kind, wanted, known in (("node", reservation.names, nodes), ("queue", reservation.queues, queues)):
        missing = sorted(wanted - set(known), key=natural_order)
        if missing:
            problems.append(f"there is no {kind} {first_few(missing, FEW)}")
    closed = len(covered(reservation, nodes.values())) if reservation.duration else 0
    return ReservationStatus(closed, "; ".join(problems))


def _old(before: QueueStatus | None, status: QueueStatus) -> bool:
    """Return whether the past use that was written is too old."""
    if status.past is None:
        return False
    return before is None or before.past is None or status.past.at - before.past.at >= KEPT


Status = TypeVar("Status", QueueStatus, ReservationStatus)


def _dated(status: Status, before: Status | None, now: str) -> Status:
    """Return the status with the time at which its problem began or ended."""
    same = before is not None and bool(before.problem) == bool(status.problem) and before.since
    return replace(status, since=before.since if before is not None and same else now)
