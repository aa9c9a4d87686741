"""The waiting gangs in their order, and what is reserved for those that can't start yet, as the last pass found it.

The order is that of `queueing.entry.rank`. The queue doesn't concern places that a gang already has: a member that has
to move goes where there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.cluster_timeline import ClusterTimeline
from fluence_extender.gangs.planning.known_ends import KnownEnds
from fluence_extender.gangs.planning.reservations import Blocked, reserved_nodes
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.guarantees import Reclaims, SharedPool
from fluence_extender.gangs.queue.settings import ClosedNodes, Queues
from fluence_extender.gangs.queue.submissions import LATEST, Turns, waits
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import HOPELESS, Reason, ReasonCode, queued
from fluence_extender.objects.queues import Queue
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.queueing.entry import NEVER, Rank
from fluence_extender.room.ledger import Ledger

BLOCKED = (ReasonCode.BUSY, ReasonCode.BEHIND_RESERVATION)
"""The reasons of a whole gang that waits for capacity."""

AFTER_BLOCKED = queued("under the policy fcfs no gang starts before those ahead of it")
BEYOND_DEPTH = queued("it is too far back in the line to be tried, by the queue's queueDepth")


@dataclass(frozen=True, slots=True)
class Standing:
    """One waiting gang as users see it.

    ``queue`` is the name of its queue. ``position`` counts from 1 over all queues. ``expected_start`` is in seconds
    since the epoch, None if it isn't known. ``reserved_nodes`` are kept free for it.
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

    ``start`` is None if no known end helps the gang. Then its nodes are drained: nothing else starts there from now on.
    ``end`` is None if the gang doesn't declare how long it runs.
    """

    gang: GangKey
    nodes: tuple[str, ...]
    start: float | None
    end: float | None

    @property
    def draining(self) -> bool:
        """Whether the nodes are drained for the gang."""
        return self.start is None


class QueueBook:
    """The waiting gangs in order, and the parts that decide about queues.

    ``blocked`` are the gangs that lack capacity, with what is reserved for them on the timeline ``cluster``.
    """

    def __init__(
        self, registry: Registry, ledger: Ledger, eligibility: EligibilityIndex, clock: Callable[[], float]
    ) -> None:
        self.settings = Queues()
        self.admission = QueueAdmission(registry, self.settings, ledger)
        self.reclaims = Reclaims(registry, self.settings, self.admission)
        self.untried: set[GangKey] = set()
        """The gangs that have changed, were looked at, and haven't been tried by a pass since."""
        self.turns = Turns(registry)
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self.now = registry.gone.clock
        self.ends = self.admission.ends
        self.pool = SharedPool(registry, self.admission.quotas, self.admission.usage, lambda: ledger.holdings)
        self.known_ends = KnownEnds(self.ends, self.now)
        self.closed = ClosedNodes(self.settings, eligibility, self.now)
        registry.on_restated = self.known_ends.restated
        self.blocked: Sequence[Blocked] = ()
        self.cluster: ClusterTimeline | None = None
        self.lost_reservations = 0
        """How often gangs with reservations have gone."""
        self._line: tuple[object, Sequence[Standing]] = (None, ())

    # What users see.

    def line(self) -> Sequence[Standing]:
        """Return the gangs that wait for their turn, in the order in which they are served.

        Gangs that couldn't start even in their turn aren't among them.
        """
        basis = self._registry.revision, self._ledger.version, self.settings.revision
        if self._line[0] != basis:
            self._line = basis, self._standings()
        return self._line[1]

    def _standings(self) -> Sequence[Standing]:
        waiting = [gang for gang in self._registry.gangs.values() if waits(gang) and not _is_hopeless(gang)]
        reservations = {one.gang: one for one in self.reservations()}
        standings = []
        for position, gang in enumerate(sorted(waiting, key=self.turns.of), 1):
            reservation = reservations.get(gang.key)
            standings.append(
                Standing(
                    gang.key,
                    self._counted_queue(gang),
                    position,
                    gang.reason,
                    gang.starts_about,
                    reservation.nodes if reservation is not None else (),
                    held=gang.reason is not None and gang.reason.code is ReasonCode.HELD,
                )
            )
        return standings

    def waiting(self) -> Counter[str]:
        """Return how many gangs without places are in the line of each queue."""
        usage = self.admission.usage
        counts = Counter({queue: usage.waiting((queue, None)) for queue in usage.queues()})
        for gang in self._registry.gangs.values():
            place = usage.place(gang.key) if _is_hopeless(gang) else None
            if place is not None and not place.runs:
                counts[place.queue] -= 1
        return counts

    def oldest(self) -> dict[str, float]:
        """Return for the line of each queue when the oldest gang without places was created."""
        oldest: dict[str, float] = {}
        for standing in self.line():
            place = self.admission.usage.place(standing.gang)
            if place is not None and not place.runs:
                oldest[place.queue] = min(place.created[0], oldest.get(place.queue, NEVER))
        return oldest

    def _counted_queue(self, gang: Gang) -> str:
        """Return the queue in which a gang was last counted, which takes less time than to determine its queue."""
        place = self.admission.usage.place(gang.key)
        return self.admission.queue_name(gang) if place is None else place.queue

    def problems(self, queue: Queue) -> list[str]:
        """Return the problems of a queue. Each says which setting isn't in force, and why."""
        return [*self.settings.problems(queue), *self.admission.quotas.problems(queue.name)]

    def reserved_starts(self) -> dict[GangKey, float]:
        """Return when each gang with a reservation starts, `NEVER` if its nodes are drained for it."""
        return {
            blocked.key: blocked.reservation.start
            for blocked in self.blocked
            if blocked.reservation is not None
        }

    def reservations(self) -> Sequence[GangReservation]:
        """Return the reservations in the order of their gangs."""
        return [
            GangReservation(
                blocked.key,
                tuple(sorted(reserved_nodes(blocked, self.cluster))),
                shown_time(blocked.reservation.start),
                shown_time(blocked.reservation.end),
            )
            for blocked in self.blocked
            if blocked.reservation is not None
        ]

    # A change of leader.

    def forget(self) -> None:
        """Forget the line and the blocked gangs, because another replica decides."""
        for gang in self._blocked_gangs():
            gang.remember(starts_about=None)
        self.blocked, self.cluster = (), None
        self.turns.clear()
        self.untried.clear()

    # A step.

    @property
    def outdated(self) -> bool:
        """Whether there are reservations, which have to be found again as soon as something changes."""
        return any(blocked.reservation is not None for blocked in self.blocked)

    def follow(self) -> None:
        """Read the present settings of the queues, and forget the gangs that are gone."""
        left = self._registry.left
        for key in left:
            self.turns.drop(key)
        if left and any(blocked.key in left for blocked in self.blocked):
            self.blocked = [blocked for blocked in self.blocked if blocked.key not in left]
            self.lost_reservations += 1
        self.admission.follow()

    def put_in_line(self, looked_at: Set[GangKey]) -> None:
        """Put the gangs that were just ``looked_at`` where they stand in line now, because they may have changed."""
        for key in looked_at & self._registry.gangs.keys():
            self.turns.put(self._registry.gangs[key])

    def cut(self) -> Rank | None:
        """Return the rank of the last gang that the queue's queueDepth lets a pass try, None if it lets all."""
        depth, line = self.settings.policy.queue_depth, self.turns.line
        return line[depth - 1].rank if depth is not None and len(line) > depth else None

    def reserves_in_vain(self) -> bool:
        """Return whether room is reserved for a gang that a limit or quota of its queue keeps waiting now."""
        return any(map(self.admission.is_limited, self._blocked_gangs()))

    def _blocked_gangs(self) -> list[Gang]:
        gangs = self._registry.gangs
        return [gangs[blocked.key] for blocked in self.blocked if blocked.key in gangs]

    def reserved_nodes(self) -> frozenset[str]:
        """Return the nodes that gangs with reservations need, and those that operators reserve for queues soon."""
        return self.closed.kept().union(*(reserved_nodes(blocked, self.cluster) for blocked in self.blocked))


def is_blocked(gang: Gang) -> bool:
    """Return whether a gang waits for capacity."""
    return gang.reason is not None and gang.reason.code in BLOCKED


def waits_for_turn(gang: Gang) -> bool:
    """Return whether a gang waits for capacity, or until the queue's policy lets it be tried."""
    return is_blocked(gang) or gang.reason in (AFTER_BLOCKED, BEYOND_DEPTH)


def _is_hopeless(gang: Gang) -> bool:
    return gang.reason is not None and gang.reason.code in HOPELESS


def shown_time(time: float) -> float | None:
    """Return a time as users see it, None for `NEVER`. A late end is cut to the latest time that can be written."""
    return min(time, LATEST) if time < NEVER else None
