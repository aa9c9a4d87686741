"""The pool: what the cluster has beyond the capacity that queues keep for themselves, now and later.

What a queue keeps (`QueueBranch.kept`) is kept of the whole cluster, not of some nodes. So a gang may fit on the nodes
and lack room in the pool. It is busy then, like a gang that lacks nodes, and may get a reservation. A reservation
starts when the nodes and the pool have room, and gangs behind it leave both to it. What the pool has at a later time
follows from when the running gangs end.

Invariants: while no queue keeps anything, nothing is computed. A gang that takes nothing but what its own queue keeps
takes nothing from the pool. Only the first reservations are looked at, so the work for a gang is bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from operator import itemgetter

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.quotas import Quotas, Take
from fluence_extender.gangs.queue.usage import Usage
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.reason import Reason, ReasonCode, behind_reservation, unsatisfiable
from fluence_extender.queueing.ends import expected_end
from fluence_extender.queueing.entry import NEVER
from fluence_extender.queueing.reservation import Reservation
from fluence_extender.queueing.tree import Amount
from fluence_extender.room.holdings import Holding

END = itemgetter(0)

COUNTED_AT_ONCE = 64
"""So many ends of gangs are counted before the pool is looked at."""

MOST_TIMES = 64
"""For so many times what gangs have freed by then is kept."""


@dataclass(frozen=True, slots=True)
class PoolShare:
    """What a gang of ``queue`` would hold in addition if it started."""

    queue: str
    more: Amount


@dataclass(frozen=True, slots=True)
class _Ends:
    """When gangs are expected to end, in order, with what they hold; and by time what all hold that end until then.

    That is so on the same ``basis`` from one time to another.
    """

    basis: object = None
    since: float = NEVER
    until: float = NEVER
    in_order: Sequence[tuple[float, Sequence[tuple[str, Amount]]]] = ()
    freed: dict[float, dict[str, dict[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolReservation:
    """A share of the pool, the reservation for it, and the nodes of that reservation."""

    share: PoolShare
    reservation: Reservation
    nodes: Sequence[str]


class SharedPool:
    """Judges gangs by what ``quotas`` leave for all, and by when those that ``usage`` counts end.

    ``holdings`` returns what pods hold, by uid.
    """

    def __init__(
        self, registry: Registry, quotas: Quotas, usage: Usage, holdings: Callable[[], Mapping[str, Holding]]
    ) -> None:
        self._registry = registry
        self._quotas = quotas
        self._usage = usage
        self._holdings = holdings
        self._ends = _Ends()
        self._since = usage.held_revision
        """The revision of the usage at first. A pass counts what it decides, and that may not come true."""
        self._draining: tuple[int, dict[tuple[str, ...], dict[str, dict[str, int]]]] = (-1, {})
        """What our pods hold on nodes that are drained, at a revision of the usage."""

    def for_pass(
        self, registry: Registry, quotas: Quotas, usage: Usage, holdings: Callable[[], Mapping[str, Holding]]
    ) -> SharedPool:
        """Return a pool of other gangs, which keeps what this one has found out as long as that stays true."""
        pool = SharedPool(registry, quotas, usage, holdings)
        if self._usage.held_revision == self._since:
            pool._ends = replace(self._ends, freed=dict(self._ends.freed))
        return pool

    @property
    def basis(self) -> object:
        """A value that changes whenever the pool does, but not with the time."""
        return (self._quotas.use.tree, self._usage.held_revision) if self._quotas.keeps else None

    def share(self, gang: Gang, members: Sequence[Member]) -> PoolShare | None:
        """Return what a gang would hold in addition with ``members``, None if no queue keeps anything."""
        place = self._usage.place(gang.key) if self._quotas.keeps else None
        return None if place is None else PoolShare(place.queue, self._quotas.more(gang, members, place))

    def obstacle(self, share: PoolShare, asks: Amount) -> Reason | None:
        """Return why the pool has no room now for the share of a gang that ``asks`` for so much, None if it has."""
        kind = self._quotas.use.lacking(share.queue, share.more)
        if kind is None:
            return None
        unused = self._quotas.unused
        never = unused.lacking(share.queue, asks)
        if never is not None:
            return unsatisfiable(
                f"it asks for {written_amount(never, asks[never])} {never}, which is never free: of the "
                f"{written_amount(never, unused.tree.capacity.get(never, 0))} in the cluster, other queues "
                "keep too much for themselves (what they are guaranteed and don't lend); ask for less"
            )
        return Reason(
            ReasonCode.BUSY,
            f"busy: it needs more {kind} than is free beside what other queues keep for themselves "
            "(what they are guaranteed and don't lend)",
            lacking=(kind,),
        )

    def behind(
        self, share: PoolShare, ahead: Sequence[PoolReservation], now: float, duration: float
    ) -> Reason | None:
        """Return a reason if a gang that runs for ``duration`` would take what is reserved in the pool, None if not."""
        for one in ahead:
            start = one.reservation.start
            if not one.reservation.draining and start >= now + duration:
                continue
            with self._quotas.pretending() as take:
                gone = self._on(one.nodes) if one.reservation.draining else self.freed(start, now)
                _take_all(take, gone, -1)
                for other in ahead:
                    held = other.reservation
                    if held.draining or held is one.reservation or held.start <= start < held.end:
                        take(other.share.queue, other.share.more, 1)
                if self._quotas.use.lacking(share.queue, share.more) is not None:
                    return behind_reservation()
        return None

    def start(self, share: PoolShare, ahead: Sequence[PoolReservation], now: float) -> float:
        """Return when the pool has room for a share beside the reservations ``ahead``.

        That is 0 if it has room now, and `NEVER` if no known end helps.
        """
        with self._quotas.pretending() as take:
            reserved: list[tuple[float, Sequence[tuple[str, Amount]]]] = []
            for one in ahead:
                take(one.share.queue, one.share.more, 1)
                reserved.append((one.reservation.end, ((one.share.queue, one.share.more),)))
            if self._quotas.use.lacking(share.queue, share.more) is None:
                return 0.0
            ends = merge(self._expected(now).in_order, sorted(reserved, key=END), key=END)
            while part := tuple(islice(ends, COUNTED_AT_ONCE)):
                gone = _summed(holding for _, holdings in part for holding in holdings)
                _take_all(take, gone, -1)
                if self._quotas.use.lacking(share.queue, share.more) is not None:
                    continue
                _take_all(take, gone, 1)
                for end, holdings in part:
                    _take_all(take, _summed(holdings), -1)
                    if self._quotas.use.lacking(share.queue, share.more) is None:
                        return end
        return NEVER

    def freed(self, time: float, now: float) -> dict[str, dict[str, int]]:
        """Return what the gangs that end until a time hold, by queue."""
        ends = self._expected(now)
        if time not in ends.freed:
            if len(ends.freed) >= MOST_TIMES:
                ends.freed.clear()
            some = ends.in_order[: bisect_right(ends.in_order, time, key=END)]
            ends.freed[time] = _summed(holding for _, holdings in some for holding in holdings)
        return ends.freed[time]

    def _expected(self, now: float) -> _Ends:
        """Return the expected ends. They stay the same until the first of them has come (`queueing.ends`)."""
        known, basis = self._ends, self.basis
        if known.basis != basis or not known.since <= now < known.until:
            places = ((expected_end(end, now), self._usage.place(key)) for end, key in self._usage.ending)
            found = [(end, place.holdings) for end, place in places if place is not None]
            found.sort(key=END)
            known = self._ends = _Ends(basis, now, found[0][0] if found else NEVER, found)
        return known

    def _on(self, nodes: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return what our pods hold on some nodes, by queue."""
        if self._draining[0] != self._usage.revision:
            self._draining = self._usage.revision, {}
        known = self._draining[1]
        if tuple(nodes) not in known:
            there = frozenset(nodes)
            uids = [uid for uid, holding in self._holdings().items() if holding.node in there]
            known[tuple(nodes)] = _summed(self._charged(uids))
        return known[tuple(nodes)]

    def _charged(self, uids: Iterable[str]) -> Iterator[tuple[str, Amount]]:
        """Yield the amounts of pods, each with the queue to which it is charged."""
        for uid in uids:
            found = self._registry.member(uid)
            place = self._usage.place(found[0].key) if found is not None else None
            if found is not None and place is not None:
                yield found[1].charged or place.queue, found[1].pod.amounts


def _summed(holdings: Iterable[tuple[str, Amount]]) -> dict[str, dict[str, int]]:
    """Return what is held in all, by queue."""
    found: dict[str, dict[str, int]] = {}
    for queue, amounts in holdings:
        sums = found.setdefault(queue, {})
        for kind, amount in amounts.items():
            sums[kind] = sums.get(kind, 0) + amount
    return found


def _take_all(take: Take, amounts: Mapping[str, Amount], sign: int) -> None:
    for queue, some in amounts.items():
        take(queue, some, sign)
