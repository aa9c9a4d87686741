"""What the guarantees of queues keep from other queues, and what they take back.

**The pool** is what the cluster has beyond the capacity that queues keep for themselves, now and later. What a queue
keeps (`QueueBranch.kept`) is kept of the whole cluster, not of some nodes. So a gang may fit on the nodes and lack room
in the pool. It is busy then, like a gang that lacks nodes, and may get a reservation. A reservation starts when the
nodes and the pool have room, and gangs behind it leave both to it. What the pool has at a later time follows from when
the running gangs end.

Invariants: while no queue keeps anything, nothing is computed. A gang that takes nothing but what its own queue keeps
takes nothing from the pool. Only the first reservations are looked at, so the work for a gang is bounded.

**Reclaims.** If its queue takes back, a gang that fits into the guarantee of its queue may have victims of any priority
in queues that borrow. Gangs within the guarantee of such a queue aren't victims of other queues, so a place that was
taken back isn't taken again.

Invariant: if no queue states how it preempts, priority alone decides, and nothing is computed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from operator import itemgetter

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.quotas import Place, Quotas, Take, Usage
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.model.gang import GangKey
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.reason import Reason, ReasonCode, behind_reservation, unsatisfiable
from fluence_extender.model.resources import Resources
from fluence_extender.objects.queues import QueuePreemption, Reclaim, Within
from fluence_extender.queueing.entry import NEVER, Reservation, expected_end
from fluence_extender.queueing.quota import Amount
from fluence_extender.queueing.shares import HeldPlaces, beyond_guarantees, may_reclaim
from fluence_extender.room.holdings import Holding

# The pool.

END = itemgetter(0)

COUNTED_AT_ONCE = 64
"""How many ends of gangs are counted before the pool is looked at again."""

MOST_TIMES = 64
"""The most times for which it is remembered what gangs have freed by then."""


@dataclass(frozen=True, slots=True)
class PoolShare:
    """What a gang of ``queue`` would hold in addition if more of its members had places."""

    queue: str
    more: Amount


@dataclass(frozen=True, slots=True)
class _Ends:
    """When gangs are expected to end, in order, and what they hold.

    ``freed`` has by time what all gangs that end by then hold. This is right on the same ``basis`` from the time
    ``since`` to the time ``until``.
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
        """The first revision of the usage. In a pass, later ones count decisions that may not be carried out."""
        self._draining: tuple[int, dict[tuple[str, ...], dict[str, dict[str, int]]]] = (-1, {})
        """A revision of the usage, and what our pods hold then on drained nodes, by these nodes and by queue."""

    def for_pass(
        self, registry: Registry, quotas: Quotas, usage: Usage, holdings: Callable[[], Mapping[str, Holding]]
    ) -> SharedPool:
        """Return a pool for copies of the gangs, which takes over what this one has found out while that is true."""
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
        for in_pool in ahead:
            reservation, start = in_pool.reservation, in_pool.reservation.start
            if not reservation.draining and start >= now + duration:
                continue
            with self._quotas.pretending() as take:
                gone = self._held_on(in_pool.nodes) if reservation.draining else self.freed(start, now)
                _take_all(take, gone, -1)
                for other in ahead:
                    held = other.reservation
                    if held.draining or held is reservation or held.start <= start < held.end:
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
            for in_pool in ahead:
                queue, more = in_pool.share.queue, in_pool.share.more
                take(queue, more, 1)
                reserved.append((in_pool.reservation.end, ((queue, more),)))
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
            ended = ends.in_order[: bisect_right(ends.in_order, time, key=END)]
            ends.freed[time] = _summed(holding for _, holdings in ended for holding in holdings)
        return ends.freed[time]

    def _expected(self, now: float) -> _Ends:
        """Return the expected ends, which stay the same until the first of them has come."""
        ends, basis = self._ends, self.basis
        if ends.basis != basis or not ends.since <= now < ends.until:
            places = ((expected_end(end, now), self._usage.place(key)) for end, key in self._usage.ending)
            in_order = [(end, place.holdings) for end, place in places if place is not None]
            in_order.sort(key=END)
            ends = self._ends = _Ends(basis, now, in_order[0][0] if in_order else NEVER, in_order)
        return ends

    def _held_on(self, nodes: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return what our pods hold on these nodes, by queue."""
        if self._draining[0] != self._usage.revision:
            self._draining = self._usage.revision, {}
        by_nodes = self._draining[1]
        if tuple(nodes) not in by_nodes:
            there = frozenset(nodes)
            uids = [uid for uid, holding in self._holdings().items() if holding.node in there]
            by_nodes[tuple(nodes)] = _summed(self._charged(uids))
        return by_nodes[tuple(nodes)]

    def _charged(self, uids: Iterable[str]) -> Iterator[tuple[str, Amount]]:
        """Yield the amounts of pods, each with the queue to which it is charged."""
        for uid in uids:
            gang_and_member = self._registry.member(uid)
            if gang_and_member is None:
                continue
            gang, member = gang_and_member
            place = self._usage.place(gang.key)
            if place is not None:
                yield member.charged or place.queue, member.pod.amounts


def _summed(holdings: Iterable[tuple[str, Amount]]) -> dict[str, dict[str, int]]:
    """Return what is held in all, by queue."""
    by_queue: dict[str, dict[str, int]] = {}
    for queue, amounts in holdings:
        sums = by_queue.setdefault(queue, {})
        for kind, amount in amounts.items():
            sums[kind] = sums.get(kind, 0) + amount
    return by_queue


def _take_all(take: Take, by_queue: Mapping[str, Amount], sign: int) -> None:
    for queue, amounts in by_queue.items():
        take(queue, amounts, sign)


# Reclaims.

QuotaRoom = Callable[[Collection[str]], bool]
"""Returns whether quotas have room once the pods with these uids are gone."""

LEAST = 1e-9
"""The smallest share of a reclaimable gang, because a share of 0 means that the queue has nothing to give back."""


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """The victims that one gang may have by the guarantee of its queue.

    ``reclaimable`` has those that it may have whatever their priority is, each with the share of its queue. The gangs
    ``protected`` may not be victims at all. In ``again_in`` seconds there may be more victims, because another gang
    will have run for its minimum time.
    """

    reclaimable: Mapping[GangKey, float] = field(default_factory=dict)
    protected: frozenset[GangKey] = frozenset()
    again_in: float = math.inf


NOTHING_RECLAIMABLE = Reclaimable()


class Reclaims:
    """Decides which victims gangs may have by the guarantees and preemption rules of the queues in ``settings``."""

    def __init__(self, registry: Registry, settings: Queues, admission: QueueAdmission) -> None:
        self._registry = registry
        self._settings = settings
        self._admission = admission
        self._began: dict[GangKey, float] = {}
        """When running gangs began, as far as that was asked for. New pods don't make a gang younger."""

    def for_pass(self, registry: Registry, settings: Queues, admission: QueueAdmission) -> Reclaims:
        """Return reclaims that judge by what a pass has counted."""
        copied = Reclaims(registry, settings, admission)
        copied._began = dict(self._began)
        return copied

    def learn(self, other: Reclaims) -> None:
        """Take over when gangs began to run, as a pass has found out."""
        self._began = other._began

    @property
    def active(self) -> bool:
        """Whether a queue states how it preempts."""
        return self._settings.take_back

    def may_reclaim(self, key: GangKey, asks: Resources) -> bool:
        """Return whether the queue of a gang takes back what it ``asks`` for, after the gangs ahead of it."""
        place = self._admission.usage.place(key) if self.active else None
        if place is None or self._preemption(place.queue).reclaim is not Reclaim.BORROWED:
            return False
        return may_reclaim(self._admission.quotas.use, place.queue, asks, self._taken_ahead(key))

    def reclaimable(self, gang: Gang, members: Sequence[Member], leaving: Collection[GangKey]) -> Reclaimable:
        """Return the victims that a gang may have to place ``members``; the gangs ``leaving`` are gone soon."""
        place = self._admission.usage.place(gang.key) if self.active else None
        if place is None:
            return NOTHING_RECLAIMABLE
        own, usage = self._preemption(place.queue), self._admission.usage
        asks = Resources.total(member.pod.amounts for member in members)
        holding = self._running()
        running = [entry for entry in holding if entry.key not in leaving]
        beyond = beyond_guarantees(
            self._admission.quotas.use,
            {queue: usage.held((queue, None)) for queue in usage.queues()},
            place.queue,
            asks,
            [entry for entry in holding if entry.key in leaving],
            running,
        )
        reclaimable: dict[GangKey, float] = {}
        again_in = math.inf
        for victim in beyond if self.may_reclaim(gang.key, asks) else ():
            too_short_by = own.min_runtime - self._run_time(victim.key)
            if too_short_by > 0:
                again_in = min(again_in, too_short_by)
            else:
                reclaimable[victim.key] = max(self._admission.shares.share(victim.queue), LEAST)
        borrowing = {entry.key for entry in beyond}
        protected = frozenset(
            entry.key
            for entry in running
            if (
                own.within is Within.NEVER
                if entry.queue == place.queue
                else self._preemption(entry.queue).reclaim is Reclaim.BORROWED and entry.key not in borrowing
            )
        )
        return Reclaimable(reclaimable, protected, again_in)

    def quota_room(self, gang: Gang, members: Sequence[Member]) -> QuotaRoom | None:
        """Return a function that says whether quotas have room for ``members`` of a gang once some pods are gone.

        Return None if they have room already.
        """
        quotas, place = self._admission.quotas, self._admission.usage.place(gang.key)
        if place is None or quotas.allows(gang, members, place):
            return None
        return lambda gone: quotas.allows(gang, members, place, self._freed(gone))

    def _freed(self, gone: Collection[str]) -> Iterable[tuple[str, Resources]]:
        """Yield the amounts of quotas that pods free by their end. The last pod of a gang frees all of its amounts."""
        gangs: dict[GangKey, list[Member]] = {}
        for uid in gone:
            gang_and_member = self._registry.member(uid)
            if gang_and_member is not None:
                gang, member = gang_and_member
                gangs.setdefault(gang.key, []).append(member)
        for key, leaving in gangs.items():
            place = self._admission.usage.place(key)
            if place is None:
                continue
            staying = self._registry.gangs[key].members.keys() - {member.pod.uid for member in leaving}
            if any(self._registry.gangs[key].members[uid].assignment is not None for uid in staying):
                yield from ((member.charged or place.queue, member.pod.amounts) for member in leaving)
            else:
                yield from place.holdings

    def _preemption(self, queue: str) -> QueuePreemption:
        settings = self._settings.queues.get(queue)
        return QueuePreemption() if settings is None else settings.preemption

    def _running(self) -> Sequence[HeldPlaces[GangKey]]:
        """Return the running gangs, the lowest priority first, and then the youngest."""
        entries: list[tuple[int, float, int, GangKey, Place]] = []
        for gang in self._registry.gangs.values():
            place = self._admission.usage.place(gang.key)
            if place is not None and place.held:
                since, number = gang.created
                entries.append((gang.priority, -since, -number, gang.key, place))
        entries.sort(key=lambda one: one[:4])
        running = {key for *_, key, _ in entries}
        self._began = {key: began for key, began in self._began.items() if key in running}
        return [HeldPlaces(key, place.queue, place.held) for *_, key, place in entries]

    def _taken_ahead(self, key: GangKey) -> dict[str, dict[str, int]]:
        """Return the amounts that the gangs ahead of a gang will take, by branch."""
        by_branch: dict[str, dict[str, int]] = {}
        for other in self._admission.ahead:
            place = self._admission.usage.place(other)
            if other == key or place is None or place.runs:
                continue
            for name in self._admission.quotas.use.tree.branch(place.queue).path:
                sums = by_branch.setdefault(name, {})
                for kind, amount in place.asks.items():
                    sums[kind] = sums.get(kind, 0) + amount
        return by_branch

    def _run_time(self, key: GangKey) -> float:
        """Return how long a gang has run since its first pod started; infinity if none has: no work is lost then."""
        gang = self._registry.gangs.get(key)
        began = (
            [member.pod.started for member in gang.alive() if member.pod.started] if gang is not None else []
        )
        if not began:
            return math.inf
        self._began[key] = min(*began, self._began.get(key, math.inf))
        return self._registry.gone.clock() - self._began[key]
