"""The waiting gangs in their order, and what is kept free for those that can't start yet.

The order is that of `queueing.order`. Reservations are only plans: nothing is booked in the ledger for them. So the
book can be lost at any time, and it is written anew from the cluster's state.

An attempt to place a gang asks `beside` which room it has to leave free. If the gang lacks capacity, the attempt
records that by `block`, and the gang may get a reservation. The queue doesn't concern places that a gang already has: a
member that has to move goes where there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.beside import FREELY, Beside
from fluence_extender.gangs.queue.closed_nodes import ClosedNodes
from fluence_extender.gangs.queue.device_rows import EXCLUSIVE
from fluence_extender.gangs.queue.ends import LATEST
from fluence_extender.gangs.queue.future import FuturePlanner, Request
from fluence_extender.gangs.queue.heads import Head, Heads
from fluence_extender.gangs.queue.ledger_timeline import LedgerTimeline
from fluence_extender.gangs.queue.pool import PoolClaim, SharedPool
from fluence_extender.gangs.queue.reclaims import Reclaims
from fluence_extender.gangs.queue.releases import QueueReleases
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.turns import Turns, entry_key, waits
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.queue import DEFAULT_QUEUE, Queue
from fluence_extender.model.reason import HOPELESS, Reason, ReasonCode, queued
from fluence_extender.model.resources import Resources
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.entry import NEVER, Entry
from fluence_extender.queueing.order import Rank
from fluence_extender.queueing.policy import PolicyName
from fluence_extender.room.holds import Hold
from fluence_extender.room.ledger import Ledger

RANKED_WITHIN = 0.003
"""The most seconds that a step spends on giving waiting gangs their entitlements."""

BLOCKED = (ReasonCode.BUSY, ReasonCode.BEHIND_RESERVATION)
"""The reasons of a whole gang that waits for capacity."""

STOPPED = (ReasonCode.QUEUED, ReasonCode.BEHIND_RESERVATION, ReasonCode.OVER_QUOTA)
"""The reasons of a gang that the queue keeps from starting."""

MOST_RESERVED = 128
"""For how many sets of reservations the room to leave free is remembered."""

AFTER_BLOCKED = queued("under the policy fcfs no gang starts before those ahead of it")
BEYOND_DEPTH = queued("it is too far back in the line to be tried, by the queue's queueDepth")


@dataclass(frozen=True, slots=True)
class Standing:
    """One waiting gang as users see it.

    ``queue`` is the name of its queue. ``position`` counts from 1 over all queues. ``expected_start`` is in seconds
    since the epoch, None where it isn't known. ``reserved_nodes`` are kept free for it.
    """

    gang: GangKey
    queue: str
    position: int
    reason: Reason | None
    expected_start: float | None
    reserved_nodes: tuple[str, ...]
    held: bool


@dataclass(frozen=True, slots=True)
class GangReservation:
    """The nodes on which room is reserved for a gang, from ``start`` to ``end`` in seconds since the epoch.

    ``start`` is None where no known end helps the gang, so that its nodes are drained: nothing else starts there from
    now on. ``end`` is None where the gang doesn't declare how long it runs.
    """

    gang: GangKey
    nodes: tuple[str, ...]
    start: float | None
    end: float | None

    @property
    def draining(self) -> bool:
        """Whether the nodes are drained for the gang."""
        return self.start is None


@dataclass(slots=True, eq=False)
class _Reserved:
    """Stands for some reservations; ``kept`` is the room to leave free for the first of them, by their number."""

    kept: dict[int, Hold | None] = field(default_factory=dict)


class QueueBook:
    """The waiting gangs in order, and what is reserved for them."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        planner: Planner,
        clock: Callable[[], float],
    ) -> None:
        self.settings = Queues()
        self.admission = QueueAdmission(registry, self.settings, ledger)
        self.reclaims = Reclaims(registry, self.settings, self.admission)
        self._releases = QueueReleases(registry, self.admission, self.reclaims)
        self._stated = self.settings.revision
        self.turns = Turns(registry)
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self.ends = self.admission.ends
        self.pool = SharedPool(registry, self.admission.quotas, self.admission.usage, ledger)
        self.followed = LedgerTimeline(ledger, planner.eligibility.nodes, self.ends, registry.gone.clock)
        self.future = FuturePlanner(ledger, planner, self.followed, self.pool)
        self.closed = ClosedNodes(self.settings, self.followed, planner.eligibility)
        self.heads = Heads(
            self.followed,
            self.future,
            lambda: (ledger.version, self.settings.revision, self._over, self.pool.basis),
            lambda: self.settings.policy,
            self.closed.on_rows,
            clock,
        )
        registry.on_restated = self.followed.restated
        self._reserved: dict[object, _Reserved] = {}
        self._present: tuple[tuple[object, int], _Reserved] = ((None, 0), _Reserved())
        self._cut: Rank | None = None
        self._over = 0
        self._line: tuple[object, Sequence[Standing]] = (None, ())

    # What users see.

    def line(self) -> Sequence[Standing]:
        """Return the gangs that wait for their turn, in the order in which they are served.

        Gangs that no turn helps stand in no line.
        """
        basis = self._registry.revision, self._ledger.version, self.settings.revision
        if self._line[0] != basis:
            self._line = basis, self._standings()
        return self._line[1]

    def _standings(self) -> Sequence[Standing]:
        waiting = [gang for gang in self._registry.gangs.values() if waits(gang) and not _is_hopeless(gang)]
        reserved = {one.gang: one for one in self.reservations()}
        found = []
        for position, gang in enumerate(sorted(waiting, key=self.turns.of), 1):
            place = reserved.get(gang.key)
            found.append(
                Standing(
                    gang.key,
                    self._counted_queue(gang),
                    position,
                    gang.reason,
                    gang.starts_about,
                    place.nodes if place is not None else (),
                    held=gang.reason is not None and gang.reason.code is ReasonCode.HELD,
                )
            )
        return found

    def waiting(self) -> Counter[str]:
        """Return how many gangs without places are in the line of each queue."""
        usage = self.admission.usage
        found = Counter({queue: usage.waiting((queue, None)) for queue in usage.queues()})
        for gang in self._registry.gangs.values():
            place = usage.place(gang.key) if _is_hopeless(gang) else None
            if place is not None and not place.runs:
                found[place.queue] -= 1
        return found

    def oldest(self) -> dict[str, float]:
        """Return for the line of each queue when the gang without places was created that waits the longest."""
        found: dict[str, float] = {}
        for one in self.line():
            place = self.admission.usage.place(one.gang)
            if place is not None and not place.runs:
                found[place.queue] = min(place.created[0], found.get(place.queue, NEVER))
        return found

    def _counted_queue(self, gang: Gang) -> str:
        """Return the queue in which the gang was last counted; that takes less time than to find its queue."""
        place = self.admission.usage.place(gang.key)
        return self._queue_name(gang) if place is None else place.queue

    def problems(self, queue: Queue) -> list[str]:
        """Return the problems of a queue: each says what of it isn't in force and why."""
        return [*self.settings.problems(queue), *self.admission.quotas.problems(queue.name)]

    def promised_starts(self) -> dict[GangKey, float]:
        """Return when each gang with a reservation starts, `NEVER` where its nodes are drained for it."""
        return {head.gang.key: head.promise.start for head in self.heads.blocked if head.promise is not None}

    def reservations(self) -> Sequence[GangReservation]:
        """Return the reservations in the order of their gangs."""
        return [
            GangReservation(
                head.gang.key,
                tuple(sorted(self._nodes_of(head))),
                _told(head.promise.start),
                _told(head.promise.end),
            )
            for head in self.heads.blocked
            if head.promise is not None
        ]

    def _nodes_of(self, head: Head) -> Iterator[str]:
        names = self.followed.names
        rows = head.promise.places.rows.tolist() if head.promise is not None else ()
        return (names[row] for row in rows if row < len(names))

    # What happens.

    def pod_changed(self, pod: Pod) -> None:
        """Take in a pod that is new or has changed."""
        self.followed.pod_seen(pod)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self.followed.pod_gone(uid)

    def forget(self) -> None:
        """Forget the blocked gangs, because another replica decides."""
        self.heads.clear()

    # A step.

    @property
    def version(self) -> int:
        """A number that grows when gangs that the queue has kept from starting may start."""
        return self.heads.version + self.admission.quotas.version

    @property
    def outdated(self) -> bool:
        """Whether there are reservations, and room or the declared ends of pods have changed since the last step."""
        return self.followed.behind and any(head.promise is not None for head in self.heads.blocked)

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once, because some reservations aren't found yet."""
        return self.heads.unfinished

    @property
    def unsorted(self) -> bool:
        """Whether gangs have yet to be ranked, or to be released because limits may let them start."""
        return self.admission.shares.unfinished or self._releases.unfinished

    def ready(self) -> bool:
        """Return whether gangs behind blocked ones can be tried; if the timeline is missing, build a part of it."""
        return not self.heads.blocked or self.followed.prepare()

    def take_up(self) -> None:
        """Forget the gangs that are gone."""
        for key in self._registry.left:
            self.turns.drop(key)
        self.admission.take_up()

    def set_aside(self, gang: Gang, limit: Reason) -> None:
        """Take a gang out of the line that is tried, because a limit or a quota was reached."""
        gang.obstacle = limit
        gang.limited = gang.limited or self.admission.full_group(gang, limit)
        self.turns.put(gang)

    def release(self, looked_at: Set[GangKey]) -> bool:
        """Have some of the gangs looked at that limits and quotas may let start; return whether there are any.

        The gangs that were just ``looked_at`` may have changed.
        """
        for key in looked_at & self._registry.gangs.keys():
            self.turns.put(self._registry.gangs[key])
        return self._releases.release(self.turns.limited)

    def begin(self, looked_at: Set[GangKey]) -> None:
        """Begin a step, before which the gangs that were just ``looked_at`` may have changed."""
        for key in looked_at & self._registry.gangs.keys():
            self.turns.put(self._registry.gangs[key])
            self.admission.shares.explained(self._registry.gangs[key])
        self.heads.begin()
        if self._stated != self.settings.revision:
            self._stated = self.settings.revision
            self.heads.version += 1
        over = sum(1 for one in self.settings.reservations.values() if one.end <= self.followed.now())
        self.heads.version += over != self._over
        self._over = over
        for head in list(self.heads.blocked):
            place = self.turns.find(head.gang.key)
            if place is None or place.gang is not head.gang:
                self.heads.unblock(head.gang.key)
        until = self._clock() + RANKED_WITHIN
        line = self.turns.line
        if self.admission.shares.rank(
            lambda: [one.gang for one in line], self.turns, lambda: self._clock() >= until
        ):
            self.heads.rerank(self.turns.of)
        depth, line = self.settings.policy.queue_depth, self.turns.line
        cut = line[depth - 1].rank if depth is not None and len(line) > depth else None
        if cut != self._cut:
            self._cut = cut
            self.heads.version += 1

    def reconsiders(self, gang: Gang, rank: Rank) -> bool:
        """Return whether the queue might decide otherwise about a gang that lacks room than when it was tried.

        It kept the gang from starting, and might not do so now; or the gang is now among the first, which get
        reservations.
        """
        if gang.reason is None:
            return False
        if gang.reason.code in STOPPED and gang.attempt.queue_version != self.version:
            return True
        quotas = self.admission.quotas
        if quotas.keeps and gang.reason.code in BLOCKED and gang.attempt.quota_version != quotas.version:
            return True
        return gang.reason.code in BLOCKED and self.heads.counts(rank) and not self.heads.has(gang, rank)

    def tried(self, gang: Gang) -> None:
        """Record that a gang was tried in the queue's present state."""
        gang.attempt.queue_version = self.version
        gang.attempt.quota_version = self.admission.quotas.version

    def limited_gangs(self) -> set[GangKey]:
        """Return the blocked gangs that limits of their queues keep waiting now."""
        return {head.gang.key for head in self.heads.blocked if self.admission.is_limited(head.gang)}

    def beside(self, gang: Gang, rank: Rank, members: Iterable[Member]) -> Beside | Reason:
        """Return how a gang of that rank may be placed, or why it isn't tried."""
        stopped = self.stops(rank)
        if stopped is not None:
            return stopped
        duration = self.ends.duration([one.pod for one in members], self.followed.now())
        found = self._beside_reservations(duration) if self._has_reservations_before(rank) else FREELY
        closing = self.closed.closing(self._queue_name(gang), duration) if rank[0] else ()
        if not closing:
            return found
        closed = self.closed.of(closing)
        return replace(
            found, closed=Hold(closed=closed), closing=closing, token=(found.token, closing, closed)
        )

    def pool_obstacle(self, gang: Gang, rank: Rank, members: Sequence[Member]) -> Reason | None:
        """Return why a gang may not take ``members`` from what queues don't keep for themselves, None if it may."""
        claim = self.pool.claim(gang, members)
        if claim is None:
            return None
        asks = Resources.total(one.pod.amounts for one in members)
        reason = self.pool.obstacle(claim, asks)
        if reason is not None or not self._has_reservations_before(rank):
            return reason
        duration = self.ends.duration([one.pod for one in members], self.followed.now())
        return self._behind_in_pool(claim, rank, duration)

    def _behind_in_pool(self, claim: PoolClaim, rank: Rank, duration: float) -> Reason | None:
        ahead = self.future.claimed(head.promise for head in self.heads.blocked if head.rank < rank)
        return self.pool.behind(claim, ahead, self.followed.now(), duration)

    def reserved_before(self, gang: Gang, rank: Rank) -> tuple[object, int]:
        """Return the token and the levels of `beside` for a gang, None and 0 where nothing is reserved before it."""
        if self.settings.reservations or not self._has_reservations_before(rank):
            return None, 0
        return self._token, self.levels(gang)

    def levels(self, gang: Gang) -> int:
        """Return the levels of `beside` for a gang that has no place yet."""
        duration = gang.attempt.duration
        if duration is None:
            pods = [one.pod for one in gang.pending()]
            duration = self.ends.duration(pods, self.followed.now())
            if self.ends.is_fixed(pods):
                gang.attempt.duration = duration
        return self.followed.timeline.levels_within(duration)

    def stops(self, rank: Rank) -> Reason | None:
        """Return why the queue doesn't let a gang of that rank be tried, whatever it asks; None if it does."""
        if self._cut is not None and rank > self._cut and rank[0]:
            return BEYOND_DEPTH
        heads = self.heads
        if not heads.blocked or not rank[0] or self.settings.policy.policy is not PolicyName.FCFS:
            return None
        heads.settle(rank)
        return AFTER_BLOCKED if any(one.possible and one.rank < rank for one in heads.blocked) else None

    def _has_reservations_before(self, rank: Rank) -> bool:
        """Return whether a gang of that rank has to be placed beside reservations; put these on the timeline."""
        heads = self.heads
        if not heads.blocked or not heads.blocked[0].rank < rank:
            return False
        heads.settle(rank)
        fcfs = self.settings.policy.policy is PolicyName.FCFS and rank[0]
        return not fcfs and bool(self.followed.timeline.reservations)

    def pool_terms(self, queue: Queue, pods: Sequence[Pod], rank: Rank, duration: float) -> Reason | None:
        """Return `pool_obstacle` for a gang of these pods that doesn't exist yet."""
        if not self.admission.quotas.keeps:
            return None
        asks = Resources.total(pod.amounts for pod in pods)
        claim = PoolClaim(queue.name, asks)
        return self.pool.obstacle(claim, asks) or self._behind_in_pool(claim, rank, duration)

    def terms(self, queue: Queue, rank: Rank, duration: float) -> Beside | Reason:
        """Return how a gang of that rank that doesn't exist yet could start now, or why it wouldn't be tried.

        Reservations that have yet to be found don't count.
        """
        if self._cut is not None and rank > self._cut:
            return BEYOND_DEPTH
        ahead = [head for head in self.heads.blocked if head.rank < rank]
        kept = None
        if self.settings.policy.policy is PolicyName.FCFS:
            if any(head.possible for head in ahead):
                return AFTER_BLOCKED
        elif ahead and self.followed.timeline.reservations:
            kept = self.kept_room(self.followed.timeline.levels_within(duration))
        closing = self.closed.closing(queue.name, duration)
        closed = Hold(closed=self.closed.of(closing)) if closing else None
        return Beside(closed=closed, closing=closing, kept=kept)

    def reserved_nodes(self) -> frozenset[str]:
        """Return the nodes that gangs with reservations need, and those that operators reserve for queues soon."""
        return self.closed.kept().union(*(self._nodes_of(head) for head in self.heads.blocked))

    def _queue_name(self, gang: Gang) -> str:
        queue = self.admission.queue_of(gang)
        return DEFAULT_QUEUE if isinstance(queue, Reason) else queue.name

    def _beside_reservations(self, duration: float) -> Beside:
        """Return how a gang that runs for ``duration`` may be placed beside the reservations of the timeline."""
        levels = self.followed.timeline.levels_within(duration)
        kept = self.kept_room(levels)
        if kept is None:
            return FREELY
        return Beside(token=self._token, levels=levels, kept=kept)

    @property
    def _token(self) -> _Reserved:
        """What stands for the reservations on the timeline: the same object for the same reservations."""
        timeline = self.followed.timeline
        holds = self.followed.built, timeline.revision
        if self._present[0] != (holds, timeline.loosened):
            if self._present[0][0] != holds or len(self._reserved) >= MOST_RESERVED:
                self._reserved.clear()
            # While gangs before them are tried, reservations are lifted and then put back.
            which = frozenset(timeline.reservations.values()), len(timeline.starts)
            self._present = (holds, timeline.loosened), self._reserved.setdefault(which, _Reserved())
        return self._present[1]

    def kept_room(self, levels: int) -> Hold | None:
        """Return the room to leave free for a gang that runs beyond ``levels`` reservations' starts, None for none."""
        found = self._token.kept
        if levels not in found:
            found[levels] = self._find_kept_room(levels)
        return found[levels]

    def _find_kept_room(self, levels: int) -> Hold | None:
        followed, names = self.followed, self.followed.names
        kept = followed.timeline.kept(levels)
        rows, amounts = kept.rows, kept.amounts
        if not len(rows):
            return None
        shares: list[DeviceShare] = []
        if len(followed.devices):
            left = followed.timeline.room.copy()
            left[rows] -= amounts
            shares = followed.devices.used(left)
        on_nodes = rows < len(names)
        nodes, amounts = [names[row] for row in rows[on_nodes].tolist()], amounts[on_nodes]
        closed = frozenset(nodes[at] for at in np.flatnonzero(amounts[:, EXCLUSIVE] > 0).tolist())
        return Hold(nodes, amounts, followed.columns, tuple(shares), closed)

    def avoided(self, gang: Gang) -> frozenset[str]:
        """Return the nodes of reservations ahead of a gang, on which nobody is evicted for it."""
        rank = self.turns.of(gang)
        return frozenset(
            name
            for head in self.heads.blocked
            if head.promise is not None and head.rank < rank
            for name in self._nodes_of(head)
        )

    def blocks(self, rank: Rank) -> bool:
        """Return whether a blocked gang of that rank counts, because it may get a reservation."""
        return self.heads.counts(rank)

    def block(
        self, gang: Gang, rank: Rank, members: Sequence[Member], request: Request, alike: object
    ) -> None:
        """Record that the ``members`` of a gang lack capacity, and so may get a reservation."""
        duration = self.ends.duration([one.pod for one in members], self.followed.now())
        key, queue = entry_key(gang.key), self._queue_name(gang)
        entry = Entry(key, (), gang.created, duration, where=key, queue=queue)
        self.heads.block(gang, rank, entry, request, alike)

    def unblock(self, gang: Gang) -> None:
        """Record that a gang isn't blocked, or that too many are blocked before it."""
        there = waits(gang)
        blocked = there and gang.reason is not None and gang.reason.code in BLOCKED
        self.heads.unblock(gang.key, outranked=blocked)
        if not there:
            gang.starts_about = None

    def finish(self, now: float) -> list[Gang]:
        """End a step at ``now``: find all reservations, and tell blocked gangs when they are expected to start.

        Return the gangs that got a time at which to try them again if nothing happens before.
        """
        told = [(head.gang, head.gang.starts_about) for head in self.heads.blocked]
        self.heads.finish(self.ready())
        for head in self.heads.blocked:
            start = _told(head.promise.start) if head.promise is not None else None
            if start is not None:
                head.gang.starts_about = start
        # A start that was withdrawn changes the answers, too.
        if any(gang.starts_about != start for gang, start in told):
            self._registry.revision += 1
        present, found = self.followed.now(), []
        for head in self.heads.blocked:
            at = self.heads.wake_at(head)
            if present < at < NEVER:
                head.gang.attempt.again_at = min(head.gang.attempt.again_at, now + at - present)
                found.append(head.gang)
        return found


def _is_hopeless(gang: Gang) -> bool:
    return gang.reason is not None and gang.reason.code in HOPELESS


def _told(time: float) -> float | None:
    """Return a time as others are told it, None for `NEVER`: what is promised one after another may end too late."""
    return min(time, LATEST) if time < NEVER else None
