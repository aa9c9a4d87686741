"""The exact planner for a later time: a gang's places if the free amounts were those of a timeline.

Constraints other than amounts are judged by the present state: the nodes that a pod may use, the nodes that are held
for preemptors, and the host ports in use. So a gang that lacks only a port has no place at any time. If gangs use nodes
alone, a node is open once its gang has left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fluence_extender.gangs.queue.device_rows import EXCLUSIVE
from fluence_extender.gangs.queue.ledger_timeline import LedgerTimeline
from fluence_extender.gangs.queue.pool import MOST_AHEAD, PoolClaim, PoolReservation, SharedPool
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import Signature, signature
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.entry import Amounts, Entry, Footprint, Mask, Slots
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.holds import GangNodes, HeldNodes
from fluence_extender.room.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Request:
    """A request to place a gang: its members that lack places, and those that are settled.

    ``passes`` are the preemptors that the gang could preempt. ``claim`` is what it takes from the pool, if anything.
    """

    gang: object
    demands: tuple[Demand, ...]
    settled: tuple[SettledMember, ...] = ()
    passes: frozenset[object] = frozenset()
    claim: PoolClaim | None = None


class FuturePlanner:
    """A `queueing.fitting.PlannerPort` on the rows of a timeline. ``requests`` has one for each entry, by its key."""

    def __init__(self, ledger: Ledger, planner: Planner, followed: LedgerTimeline, pool: SharedPool) -> None:
        self.pool = pool
        self._ledger = ledger
        self._planner = planner
        self._followed = followed
        self._masks: tuple[object, dict[frozenset[Signature], Mask]] = (None, {})
        self.requests: dict[str, Request] = {}

    def slots(self, request: Request) -> tuple[Slots, ...]:
        """Return the sizes of a gang's members, without their devices."""
        counts: dict[tuple[int, ...], int] = {}
        for demand in request.demands:
            size = tuple(self._followed.size(demand.pod.requests).tolist())
            counts[size] = counts.get(size, 0) + 1
        return tuple(Slots(count, size) for size, count in counts.items())

    def claimed(self, reservations: Iterable[Reservation | None]) -> list[PoolReservation]:
        """Return what the first `MOST_AHEAD` of the reservations that take something from the pool take."""
        claims, names = list[PoolReservation](), self._followed.names
        for reservation in reservations:
            request = self.requests.get(reservation.key) if reservation is not None else None
            if reservation is None or request is None or request.claim is None:
                continue
            nodes = [names[row] for row in reservation.places.rows.tolist() if row < len(names)]
            claims.append(PoolReservation(request.claim, reservation, nodes))
            if len(claims) == MOST_AHEAD:
                break
        return claims

    def not_before(self, key: str, ahead: Iterable[Reservation | None]) -> float:
        """Return when the pool has room for an entry beside the reservations ``ahead``, 0 if it has room now."""
        claim = self.requests[key].claim
        return 0.0 if claim is None else self.pool.start(claim, self.claimed(ahead), self._followed.now())

    def usable(self, where: str) -> Mask | None:
        """Return the rows of nodes that some member may use, and those of all devices; treat it as read-only."""
        request, rows = self.requests[where], self._followed.rows
        found = self._eligible_rows({signature(one.pod): one.pod for one in request.demands})
        closed = [rows[name] for name in self._closed(request) if name in rows]
        if closed:
            found = found.copy()
            found[closed] = False
        return found

    def _eligible_rows(self, pods: Mapping[Signature, Pod]) -> Mask:
        """Return the rows that one of ``pods`` may use. The answer is cached, because most gangs ask alike."""
        followed, eligibility = self._followed, self._planner.eligibility
        basis = followed.built, len(followed.names), eligibility.journal.now
        if self._masks[0] != basis or len(self._masks[1]) >= eligibility.LIMIT:
            self._masks = basis, {}
        key, masks = frozenset(pods), self._masks[1]
        if key not in masks:
            names = set[str]().union(*map(eligibility.eligible, pods.values()))
            masks[key] = np.zeros(len(followed.timeline.room), dtype=np.bool_)
            masks[key][[followed.rows[name] for name in names if name in followed.rows]] = True
            masks[key][[row for row, _ in followed.devices.rows()]] = True
        return masks[key]

    def place(self, entry: Entry, view: Amounts) -> Footprint | None:
        """Fix places for a gang within ``view``; None when it doesn't fit."""
        request, followed = self.requests[entry.where], self._followed
        own = frozenset(one.node for one in request.settled)
        table = self._table(entry, view, own)
        closed = self._closed(request)
        if self._ledger.gang_nodes.exclusive:
            taken = view[: len(followed.names), EXCLUSIVE] < 1
            closed |= {followed.names[row] for row in np.flatnonzero(taken)} - own
        present = self._ledger.room()
        room = replace(
            present,
            free=table,
            devices=DeviceUse(present.devices.catalogue, followed.devices.used(view)),
            facts=replace(present.facts, gang_nodes=GangNodes()),
            held_nodes=HeldNodes(),
            shut=closed,
            gang=request.gang,
        )
        found = self._planner.by_first_fit.find(room, request.demands, request.settled)
        return None if found is None else self._footprint(request, found, own)

    def _table(self, entry: Entry, view: Amounts, own: Collection[str]) -> CapacityTable:
        """Return the nodes of ``view``: where something is free, and the gang's ``own``; all if it asks for nothing."""
        followed, now = self._followed, self._ledger.free.now()
        view = view[: len(followed.names)]
        names = followed.names
        if all(any(one.size) for one in entry.slots):
            offering: Mask = np.any(view > 0, axis=1)
            offering[[followed.rows[name] for name in own if name in followed.rows]] = True
            view = view[offering]
            names = [names[row] for row in np.flatnonzero(offering).tolist()]
        rows = {name: row for row, name in enumerate(names)}
        ports = {rows[now.names[row]]: ports for row, ports in now.ports.items() if now.names[row] in rows}
        return CapacityTable(rows, followed.columns, np.array(view, dtype=np.int64, order="C"), ports, names)

    def _closed(self, request: Request) -> set[str]:
        return self._ledger.held_nodes.closed_to(request.gang, request.passes)

    def _footprint(self, request: Request, found: Sequence[Assignment], own: Collection[str]) -> Footprint:
        followed = self._followed
        taken: dict[int, Amounts] = {}
        for demand, place in zip(request.demands, found, strict=True):
            row, size = followed.rows[place.node], followed.size(demand.pod.requests)
            taken[row] = taken[row] + size if row in taken else size.copy()
        if self._ledger.gang_nodes.exclusive:
            for row in taken:
                taken[row][EXCLUSIVE] = followed.names[row] not in own
        devices = followed.footprint(
            followed.devices.taken(share for place in found for share in place.devices)
        )
        nodes = np.fromiter(taken, dtype=np.intp, count=len(taken))
        amounts = np.array(list(taken.values()), dtype=np.int64)
        return Footprint(np.concatenate((nodes, devices.rows)), np.concatenate((amounts, devices.amounts)))
