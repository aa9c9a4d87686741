"""The search for victims: which gangs to evict so that another fits, and where it goes then.

Whether a set of victims is enough is tried out in rooms without them. Invariant: the places are good once the victims
and the departing pods are gone. Every victim may be taken, and it holds something on the nodes that matter, or keeps
other pods from these nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.preemption.victims import Victim, choose, victims_of
from fluence_extender.gangs.queue.reclaims import QuotaRoom
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.room import Room

TRIALS = 16, 256
"""The fewest and the most sets of victims that are tried for one gang."""

TRIED_NODES = 200_000
"""Between those limits, the number of trials is this divided by the number of nodes."""


@dataclass(frozen=True, slots=True)
class Found:
    """The victims, and where the gang goes once they are gone."""

    victims: tuple[Victim, ...]
    places: tuple[Assignment, ...]


@dataclass(slots=True)
class VictimQuery:
    """A request for victims.

    ``departing`` are pods that free their capacity without further action. ``may_take`` returns whether a gang may be a
    victim at all. The priority of every victim is below ``priority``, except for the gangs ``reclaimable``, each of
    which has the share of its queue. ``usable`` are the nodes that matter, None for all. Nodes held for the gangs
    ``passing`` are open. ``allowed`` returns whether quotas have room once pods are gone; it is None if they have room
    already.
    """

    key: GangKey
    demands: Sequence[Demand]
    settled: Sequence[SettledMember]
    departing: frozenset[str]
    priority: int
    may_take: Callable[[Gang], bool]
    usable: Set[str] | None
    passing: frozenset[object]
    reclaimable: Mapping[GangKey, float] = field(default_factory=dict)
    allowed: QuotaRoom | None = None

    def allows(self, gone: Collection[str]) -> bool:
        """Return whether quotas have room once the pods ``gone`` are gone."""
        return self.allowed is None or self.allowed(gone)

    def offers(self, gang: Gang) -> list[Victim]:
        """Return the possible victims from a gang, as `victims_of` does."""
        found = victims_of(gang) if self.may_take(gang) else []
        borrowed = self.reclaimable.get(gang.key)
        if borrowed is not None:
            return [replace(one, borrowed=borrowed) for one in found]
        return found if found and found[0].priority < self.priority else []


def usable_nodes(planner: Planner, pods: Collection[Pod]) -> set[str] | None:
    """Return the nodes that matter to a search for ``pods``; None for all, where devices might come free on others."""
    if any(pod.devices for pod in pods):
        return None
    sets = {id(nodes): nodes for nodes in map(planner.eligibility.eligible, pods)}
    return set().union(*sets.values())


def search(
    gangs: Iterable[Gang],
    room: Room,
    planner: Planner,
    query: VictimQuery,
    tick: Callable[[], None] = lambda: None,
) -> Found | None:
    """Return which of ``gangs`` to evict and where the gang goes then; None if no eviction would help.

    No victims are returned if the departing pods are enough. ``tick`` is called before each trial, and may raise.
    """
    return _Search(room.copy().open_to(query.key, query.passing), planner.by_first_fit, query, tick).run(
        gangs
    )


class _Search:
    def __init__(self, room: Room, planner: Planner, query: VictimQuery, tick: Callable[[], None]) -> None:
        self._room = room
        self._planner = planner
        self._query = query
        self._tick = tick
        self._tried = room
        """The room of the last set of victims that was tried."""
        self._made = 0
        """How many sets were tried."""

    def run(self, gangs: Iterable[Gang]) -> Found | None:
        query = self._query
        places = self._once_departed()
        if places is not None:
            return Found((), places)
        candidates: list[Victim] = []
        for gang in gangs:
            offered = query.offers(gang)
            if offered and (query.usable is None or self._matters(offered[0], query.usable)):
                candidates.extend(offered)
        most = min(max(TRIED_NODES // max(len(self._room.free.rows), 1), TRIALS[0]), TRIALS[1])
        chosen = choose(candidates, self._fits, most) or ()
        places = self._places_without(chosen)
        if places is not None and self._made >= most and not any(one.pod.devices for one in query.demands):
            # The choice was cut short. Victims that hold nothing on the nodes of the places aren't needed; choose again
            # among the others.
            used = {place.node for place in places}
            near = [victim for victim in chosen if self._matters(victim, used)]
            fewer = choose(near, self._fits, most) or ()
            better = self._places_without(fewer)
            if better is not None:
                chosen, places = fewer, better
        return None if places is None else Found(chosen, places)

    def _once_departed(self) -> tuple[Assignment, ...] | None:
        """Find places once the departing pods are gone, on the nodes held for the gang if possible."""
        query = self._query
        if not query.departing or not query.allows(query.departing):
            return None
        room = self._room.without(query.departing)
        held = room.held_nodes.nodes(HoldKind.PREEMPTION, query.key)
        for within in (held, None) if held else (None,):
            self._tick()
            places = self._planner.find(room.within(within), query.demands, query.settled)
            if places is not None:
                return places
        return None

    def _fits(self, uids: frozenset[str]) -> bool:
        """Return whether the gang fits once these pods are gone, and those that depart anyway."""
        self._tick()
        gone, query = uids | self._query.departing, self._query
        # Most of the pods were gone in the last room, too.
        self._tried = self._tried.without(gone)
        self._made += 1
        return query.allows(gone) and self._planner.fits(self._tried, query.demands, query.settled)

    def _places_without(self, victims: Sequence[Victim]) -> tuple[Assignment, ...] | None:
        """Return the gang's places once ``victims`` are gone; None if it has none, or without victims."""
        if not victims:
            return None
        self._tick()
        gone = self._query.departing.union(*(victim.uids for victim in victims))
        return self._planner.find(self._room.without(gone), self._query.demands, self._query.settled)

    def _matters(self, victim: Victim, nodes: Set[str]) -> bool:
        """Return whether one of the pods holds something on one of ``nodes``, or may keep others from one."""
        domain = self._room.kept_apart.domain
        return any(
            (held := self._room.holding(uid)) is not None
            and (held.node in nodes or not domain(uid).isdisjoint(nodes))
            for uid in victim.uids
        )
