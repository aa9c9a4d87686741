"""What a pass keeps free for gangs that can't start yet.

A whole gang that lacks capacity is blocked. The policy says how many of the first blocked gangs get a reservation. It
begins at the first time at which the gang fits, by the declared ends of pods. If no declared end helps and the gang has
waited too long, nodes are drained for it instead. The ledger holds nothing for a reservation, so after a restart the
same ones are found. A gang for which others are preempted isn't blocked: its nodes are held until its victims are gone,
and no reservation uses them.

A pass walks the gangs in their order. A reservation depends only on the reservations before it, and a gang is placed
beside the reservations of all gangs before it. If a gang doesn't fit earlier than in the last pass, it keeps its places
and its start. If its start moves to a later time, the gang's history says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

import numpy as np

from fluence_extender.gangs.planning.cluster_timeline import FIRST_RESOURCE, ClusterTimeline, Request
from fluence_extender.gangs.queue.guarantees import PoolReservation, PoolShare, SharedPool
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, behind_reservation
from fluence_extender.queueing.earliest import cheapest, earliest, still_free
from fluence_extender.queueing.entry import (
    NEVER,
    Entry,
    Footprint,
    OperatorReservation,
    PolicyName,
    QueuePolicy,
    Rank,
    Reservation,
)
from fluence_extender.room.holds import Hold
from fluence_extender.room.room import Room

MOST_IMPOSSIBLE = 16
"""The most gangs that a pass adds to the blocked gangs although they wouldn't fit even on empty nodes."""

MOST_AHEAD = 16
"""How many of the first reservations are considered when a gang asks for room in the pool."""


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """What is kept free for others from the view of one gang, which runs for ``duration`` seconds.

    ``reserved`` has to stay free for reservations, and ``closed`` are the nodes that the operators' Reservations
    ``closing`` close; None for nothing. ``pool_reason`` is why the gang doesn't start even if the nodes have room:
    other queues keep that room for themselves (`SharedPool`).
    """

    reserved: Hold | None = None
    closed: Hold | None = None
    closing: tuple[str, ...] = ()
    pool_reason: Reason | None = None
    duration: float = NEVER

    @property
    def reason(self) -> Reason:
        """Why a gang that would fit if nothing were kept has to wait."""
        return self.pool_reason or behind_reservation(self.closing, self.reserved is not None)

    @property
    def free(self) -> bool:
        """Whether nothing is kept for others."""
        return self.reserved is None and self.closed is None and self.pool_reason is None

    def left_of(self, room: Room) -> Room:
        """Return what is left of a room for the gang."""
        for hold in (self.reserved, self.closed):
            room = room if hold is None else room.less(hold)
        return room


@dataclass(frozen=True, slots=True)
class Blocked:
    """A blocked gang, and what is reserved for it, None for nothing.

    ``alike`` stands for its demand: while that stays the same, the gang may keep its reservation. ``possible`` says
    that the gang would fit on empty nodes; a gang that wouldn't fit there blocks no other.
    """

    key: GangKey
    rank: Rank
    entry: Entry
    alike: object
    share: PoolShare | None
    possible: bool = True
    reservation: Reservation | None = None

    def looks_again_at(self, now: float, starvation_after: float) -> float:
        """Return the time at which to try the gang again: its reserved start, or when nodes may be drained for it."""
        if self.reservation is not None:
            return self.reservation.start
        starving = self.entry.created[0] + starvation_after
        return starving if starving > now else NEVER


class Reservations:
    """The blocked gangs of one pass, in order, with what is reserved for them on the timeline ``cluster``.

    ``before`` has the blocked gangs of the last pass, in their order. ``grew`` says whether room may have grown since
    then. ``operators`` are the reservations that operators have made, on the rows of ``cluster``.
    """

    def __init__(
        self,
        cluster: ClusterTimeline,
        pool: SharedPool,
        policy: QueuePolicy,
        operators: Sequence[OperatorReservation],
        before: Mapping[GangKey, Blocked],
        grew: bool,
    ) -> None:
        self.cluster = cluster
        self._pool = pool
        self._policy = policy
        self._operators = operators
        self._before = before
        self._grew = grew
        self.blocked: list[Blocked] = []
        # The policy fcfs reserves nothing, but the first blocked gang stops all gangs behind it.
        self._most = 1 if policy.policy is PolicyName.FCFS else policy.depth
        self._may_block = self._most
        """How many more gangs that would fit on empty nodes may be blocked."""

    @property
    def may_add(self) -> bool:
        """Whether another blocked gang may be added, and get a reservation."""
        return self._may_block > 0 and len(self.blocked) < self._most + MOST_IMPOSSIBLE

    @property
    def any_possible(self) -> bool:
        """Whether a blocked gang would fit on empty nodes."""
        return self._may_block < self._most

    def keep(self, key: GangKey, rank: Rank) -> bool:
        """Keep what was reserved for a gang in the last pass, without a search; return whether it was kept.

        Room has only shrunk since then, so a gang for which nothing was found needs no search either.
        """
        old = self._before.get(key)
        if self._grew or old is None or not self.may_add:
            return False
        kept = old.reservation
        if kept is not None and not (
            self._is_first_as_before(key) if kept.draining else self._is_still_free(old, kept)
        ):
            return False
        self._add(replace(old, rank=rank))
        return True

    def _is_first_as_before(self, key: GangKey) -> bool:
        """Return whether the reservations before a gang are the same as in the last pass.

        Nodes to drain are chosen among those on which nothing is reserved, so the choice depends on these reservations.
        """
        ahead = takewhile(lambda blocked: blocked.key != key, self._before.values())
        return [id(blocked.reservation) for blocked in ahead] == [
            id(blocked.reservation) for blocked in self.blocked
        ]

    def block(self, blocked: Blocked, request: Request) -> None:
        """Add a blocked gang, and find a reservation for it beside those of the gangs before it."""
        self.cluster.requests[blocked.entry.key] = request
        entry = replace(blocked.entry, slots=self.cluster.slots(request.demands))
        blocked = replace(blocked, entry=entry)
        old = self._before.get(blocked.key)
        before = old.reservation if old is not None and old.alike == blocked.alike else None
        not_before = self._not_before(blocked)
        reservation: Reservation | None = None
        depth, timeline = self._policy.depth, self.cluster.timeline
        kept = before if before is not None and self._is_still_free(blocked, before) else None
        if kept is not None and kept.start < not_before:
            kept = None
        if depth and not_before < NEVER:
            reservation = self._earliest(entry, kept, not_before)
        possible = reservation is not None or self.cluster.place(entry, timeline.capacity, NEVER) is not None
        if reservation is None and possible and depth and self._starves(entry):
            places = cheapest(timeline, entry, self.cluster, self._operators)
            if places is not None:
                reservation = Reservation(entry.key, places, NEVER, NEVER, draining=True)
                if before is not None and _is_within(reservation, before):
                    reservation = before
        self._add(replace(blocked, possible=possible, reservation=reservation))

    def start(self, blocked: Blocked, request: Request) -> float | None:
        """Return when a gang fits beside the reservations by the known ends of pods, None if no end helps it."""
        self.cluster.requests[blocked.entry.key] = request
        entry = replace(blocked.entry, slots=self.cluster.slots(request.demands))
        not_before = self._not_before(blocked)
        reservation = self._earliest(entry, None, not_before) if not_before < NEVER else None
        return None if reservation is None else reservation.start

    def _add(self, blocked: Blocked) -> None:
        self._may_block -= blocked.possible
        self.blocked.append(blocked)
        if blocked.reservation is not None:
            self.cluster.timeline.reserve(blocked.reservation)

    def nodes(self) -> frozenset[str]:
        """Return the nodes that are reserved for the blocked gangs."""
        return frozenset(
            chain.from_iterable(reserved_nodes(blocked, self.cluster) for blocked in self.blocked)
        )

    def ahead_in_pool(self) -> list[PoolReservation]:
        """Return what the reservations take from the pool."""
        return in_pool(self.blocked, self.cluster)

    def _not_before(self, blocked: Blocked) -> float:
        """Return when the pool has room for a gang beside the reservations before it, 0 if it has room now."""
        if blocked.share is None:
            return 0.0
        return self._pool.start(blocked.share, self.ahead_in_pool(), self.cluster.timeline.now)

    def _earliest(self, entry: Entry, kept: Reservation | None, not_before: float) -> Reservation | None:
        """Return a reservation at the first moment at which the gang fits by the known ends, None if there is none.

        ``kept`` can be kept, so it is the answer unless the gang fits earlier or elsewhere at that time.
        """
        timeline = self.cluster.timeline
        start_and_places = earliest(timeline, entry, self.cluster, self._operators, kept, not_before)
        if start_and_places is None:
            return kept
        start, places = start_and_places
        new = Reservation(entry.key, places, start, start + entry.duration)
        return kept if kept is not None and _is_within(new, kept) else new

    def _is_still_free(self, blocked: Blocked, reservation: Reservation) -> bool:
        """Return whether a gang can still have its reserved places for as long as it runs.

        Which nodes the gang may use is checked only if it was tried in this pass. Otherwise its request isn't known.
        """
        entry, timeline, rows = blocked.entry, self.cluster.timeline, reservation.places.rows
        if reservation.start <= timeline.now or reservation.end < reservation.start + entry.duration:
            return False
        if not still_free(reservation, timeline):
            return False
        closed = any(
            operators.closes(entry, reservation.start, reservation.end)
            and np.isin(rows, operators.rows).any()
            for operators in self._operators
        )
        if closed:
            return False
        if entry.where not in self.cluster.requests:
            return True
        usable = self.cluster.usable(entry.where)
        return usable is None or bool(usable[rows].all())

    def _starves(self, entry: Entry) -> bool:
        return self.cluster.timeline.now - entry.created[0] >= self._policy.starvation_after


def reserved_nodes(blocked: Blocked, cluster: ClusterTimeline | None) -> list[str]:
    """Return the nodes that are reserved for a blocked gang on a timeline."""
    if cluster is None or blocked.reservation is None:
        return []
    names = cluster.names
    return [names[row] for row in blocked.reservation.places.rows.tolist() if row < len(names)]


def in_pool(blocked: Iterable[Blocked], cluster: ClusterTimeline | None) -> list[PoolReservation]:
    """Return the first `MOST_AHEAD` reservations that take something from the pool."""
    shares = list[PoolReservation]()
    for gang in blocked:
        if gang.share is not None and gang.reservation is not None:
            shares.append(PoolReservation(gang.share, gang.reservation, reserved_nodes(gang, cluster)))
            if len(shares) == MOST_AHEAD:
                break
    return shares


def moved_to(
    cluster: ClusterTimeline, old: ClusterTimeline | None, blocked: Iterable[Blocked]
) -> list[Blocked]:
    """Return blocked gangs with their reservations translated from the rows of ``old`` to those of ``cluster``.

    A reservation is lost if one of its rows is gone.
    """
    return [
        gang
        if old is None or gang.reservation is None
        else replace(gang, reservation=_moved(cluster, old, gang.reservation))
        for gang in blocked
    ]


def _moved(cluster: ClusterTimeline, old: ClusterTimeline, reservation: Reservation) -> Reservation | None:
    if (
        cluster.names == old.names
        and cluster.columns == old.columns
        and cluster.devices.catalogue is old.devices.catalogue
    ):
        return reservation
    rows = [_row_of(cluster, old, row) for row in reservation.places.rows.tolist()]
    if None in rows or not old.columns.keys() <= cluster.columns.keys():
        return None
    amounts = np.zeros((len(rows), cluster.timeline.room.shape[1]), dtype=np.int64)
    amounts[:, :FIRST_RESOURCE] = reservation.places.amounts[:, :FIRST_RESOURCE]
    for kind, column in old.columns.items():
        amounts[:, cluster.columns[kind]] = reservation.places.amounts[:, column]
    return replace(reservation, places=Footprint(np.array(rows, dtype=np.intp), amounts))


def _row_of(cluster: ClusterTimeline, old: ClusterTimeline, row: int) -> int | None:
    if row < len(old.names):
        return cluster.rows.get(old.names[row])
    if cluster.devices.catalogue is not old.devices.catalogue:
        return None
    return row - len(old.names) + len(cluster.names)


def _is_within(reservation: Reservation, other: Reservation) -> bool:
    """Return whether a reservation has the same places and start as another, and doesn't end later."""
    if reservation.start != other.start or reservation.end > other.end:
        return False
    if not np.array_equal(reservation.places.rows, other.places.rows):
        return False
    return np.array_equal(reservation.places.amounts, other.places.amounts)
