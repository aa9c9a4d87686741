"""The search for victims: what to evict of which gangs so that another gang fits, and where it goes then.

A gang is taken whole or not at all, except that the surplus members of a gang that runs more than its size may be taken
alone. The choice prefers the fewest gangs, then those of queues that borrow and have the largest share, the lowest
priorities, the fewest pods, and the youngest gangs.

Invariant: the preemptor fits once the chosen victims are gone, and does not fit if any one of them stays.

The number of sets that are tried is bounded. With few candidates every combination is tried, the cheapest first. With
many, half of them are left out at a time, the most expensive half first (Junker's QuickXplain). This finds a set from
which no victim can be left out, but not always the cheapest set of its size.

A set of victims is tried in a room without them. Invariants: the places can be had once the victims and the departing
pods are gone. Every victim may be taken, and it holds something on the nodes that matter, or keeps other pods from
these nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import comb

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.guarantees import QuotaRoom
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.ranks import rank_key
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.room import Room

# Victims.


@dataclass(frozen=True, slots=True)
class Victim:
    """Pods that are taken together from one gang: ``uids``, all of which hold something.

    ``surplus`` means that the gang keeps running without them. ``created`` is when the gang was created, in seconds
    since the epoch. ``borrowed`` is the share of its queue if the queue borrows and has to give back, otherwise 0.
    """

    gang: GangKey
    priority: int
    created: float
    uids: frozenset[str]
    surplus: bool = False
    borrowed: float = 0.0


def victims_of(gang: Gang) -> list[Victim]:
    """Return what may be taken from ``gang``: the whole gang first, then each surplus member on its own.

    Surplus members come in the reverse order of their ranks. The list is empty if the gang holds nothing, or while one
    of its Bindings is under way, because the outcome of that is not known yet.
    """
    alive = [member for member in gang.members.values() if member.alive]
    holding = [member for member in alive if member.assignment is not None]
    if not holding or any(member.binding for member in holding):
        return []
    created = min(member.age[0] for member in alive)
    priority = priority_as_victim(gang)
    victims = [Victim(gang.key, priority, created, frozenset([member.pod.uid for member in holding]))]
    if not gang.was_complete or len(holding) <= gang.size - gang.ended:
        return victims
    if any(member.membership.indivisible for member in alive):
        return victims
    bound = [member for member in holding if member.bound]
    surplus = len(bound) + gang.ended - gang.size
    if surplus > 0:
        bound.sort(key=lambda member: rank_key(member.pod))
        victims.extend(
            Victim(gang.key, priority, created, frozenset({member.pod.uid}), surplus=True)
            for member in reversed(bound[-surplus:])
        )
    return victims


def priority_as_victim(gang: Gang) -> int:
    """Return the highest priority of all living members, because all of them would be evicted."""
    return gang.priority_among([member for member in gang.members.values() if member.alive])


# The choice of victims.

Cost = tuple[int, tuple[float, ...], tuple[int, ...], int, tuple[float, ...], tuple[GangKey, ...]]


def cost(victims: Iterable[Victim]) -> Cost:
    """Return the cost of taking ``victims`` as a sort key: whole gangs, shares, priorities, pods, ages, names.

    The priorities are compared from the highest down.
    """
    taken = tuple(victims)
    return (
        sum(1 for victim in taken if not victim.surplus),
        tuple(sorted(-victim.borrowed for victim in taken)),
        tuple(sorted((victim.priority for victim in taken), reverse=True)),
        len(_uids(taken)),
        tuple(sorted(-victim.created for victim in taken)),
        tuple(sorted(victim.gang for victim in taken)),
    )


Chosen = tuple[Victim, ...]
Fits = Callable[[frozenset[str]], bool]
"""Returns whether the preemptor fits once these pods are gone, which are given by uid."""


def choose(candidates: Sequence[Victim], fits: Fits, trials: int) -> Chosen | None:
    """Choose victims with at most about ``trials`` trials; return None if all of them together aren't enough.

    When the trials run out, the returned set is enough but perhaps not the smallest.
    """
    return _Chooser(fits, trials).choose(candidates)


class _Chooser:
    """One choice of victims."""

    def __init__(self, fits: Fits, trials: int) -> None:
        self._fits = fits
        self._trials_left = trials

    def choose(self, candidates: Sequence[Victim]) -> Chosen | None:
        ordered = sorted(candidates, key=_cost_of_one)
        surplus = tuple(victim for victim in ordered if victim.surplus)
        whole = tuple(victim for victim in ordered if not victim.surplus)
        if not ordered or not self._enough(ordered):
            return None
        if surplus and self._enough(surplus):
            return self._smallest((), surplus)
        taken = self._best_of_few(whole, surplus)
        if taken is None:
            taken = self._smallest(surplus, whole)
        gangs = {victim.gang for victim in taken}
        others = tuple(victim for victim in surplus if victim.gang not in gangs)
        return (*taken, *self._smallest(taken, others))

    def _enough(self, victims: Iterable[Victim]) -> bool:
        self._trials_left -= 1
        return self._fits(_uids(victims))

    def _best_of_few(self, whole: Sequence[Victim], surplus: Chosen) -> Chosen | None:
        """Return the best set of whole gangs that is enough with ``surplus``; None if there are too many to try."""
        for size in range(1, len(whole) + 1):
            if comb(len(whole), size) > self._trials_left // 2:
                return None
            for taken in sorted(combinations(whole, size), key=cost):
                if self._enough((*taken, *surplus)):
                    return taken
        return None

    def _smallest(self, given: Chosen, among: Chosen) -> Chosen:
        """Return a part of ``among`` that is enough with ``given`` and from which no victim can be left out.

        ``among`` is ordered from cheap to expensive, and cheap victims are preferred.
        """
        if not among or self._is_out_of_trials or self._enough(given):
            return () if not self._is_out_of_trials else among
        low, high = 1, len(among)
        while low < high and not self._is_out_of_trials:
            middle = (low + high) // 2
            if self._enough((*given, *among[:middle])):
                high = middle
            else:
                low = middle + 1
        return self._needed(given, among[:high], False)

    def _needed(self, given: Chosen, among: Chosen, ask: bool) -> Chosen:
        """Return the part of ``among`` that is needed with ``given``. ``ask`` says to try ``given`` alone first."""
        if self._is_out_of_trials:
            return among
        if ask and self._enough(given):
            return ()
        if len(among) <= 1:
            return among
        half = len(among) // 2
        cheap, expensive = among[:half], among[half:]
        needed = self._needed((*given, *cheap), expensive, True)
        return (*self._needed((*given, *needed), cheap, bool(needed)), *needed)

    @property
    def _is_out_of_trials(self) -> bool:
        return self._trials_left <= 0


def _cost_of_one(victim: Victim) -> tuple[bool, float, int, int, float, GangKey]:
    """Return a key that orders single victims as `cost` does, in less time."""
    return (
        not victim.surplus,
        -victim.borrowed,
        victim.priority,
        len(victim.uids),
        -victim.created,
        victim.gang,
    )


def _uids(victims: Iterable[Victim]) -> frozenset[str]:
    return frozenset(chain.from_iterable(victim.uids for victim in victims))


# The search.

TRIALS = 16, 256
"""The fewest and the most sets of victims that are tried for one gang."""

TRIED_NODES = 200_000
"""Between those limits, the number of trials is this number divided by the number of nodes."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The victims, and where the gang goes once they are gone."""

    victims: tuple[Victim, ...]
    places: tuple[Assignment, ...]


@dataclass(slots=True)
class VictimQuery:
    """A request for victims.

    ``departing`` are pods that free their capacity without further action. ``may_take`` returns whether a gang may be a
    victim at all. The priority of every victim is below ``priority``, except for the gangs ``reclaimable``, each of
    which has the share of its queue. ``usable`` are the nodes that matter, None for all. Nodes held for the gangs
    ``overtaken`` are open. ``allowed`` returns whether quotas have room once pods are gone; it is None if they have
    room already.
    """

    key: GangKey
    demands: Sequence[Demand]
    settled: Sequence[SettledMember]
    departing: frozenset[str]
    priority: int
    may_take: Callable[[Gang], bool]
    usable: Set[str] | None
    overtaken: frozenset[object]
    reclaimable: Mapping[GangKey, float] = field(default_factory=dict)
    allowed: QuotaRoom | None = None

    def allows(self, gone: Collection[str]) -> bool:
        """Return whether quotas have room once the pods ``gone`` are gone."""
        return self.allowed is None or self.allowed(gone)

    def offers(self, gang: Gang) -> list[Victim]:
        """Return the possible victims from a gang, as `victims_of` does."""
        victims = victims_of(gang) if self.may_take(gang) else []
        borrowed = self.reclaimable.get(gang.key)
        if borrowed is not None:
            return [replace(victim, borrowed=borrowed) for victim in victims]
        return victims if victims and victims[0].priority < self.priority else []


def usable_nodes(planner: Planner, pods: Collection[Pod]) -> set[str] | None:
    """Return the nodes that matter to a search for ``pods``; None for all, if devices might be freed anywhere."""
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
) -> SearchResult | None:
    """Return which of ``gangs`` to evict and where the gang goes then; None if no eviction would help.

    No victims are returned if the departing pods are enough. ``tick`` is called before each trial, and may raise.
    """
    return _Search(room.copy().open_to(query.key, query.overtaken), planner.by_first_fit, query, tick).run(
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
        self._trials = 0
        """How many sets were tried."""

    def run(self, gangs: Iterable[Gang]) -> SearchResult | None:
        query = self._query
        places = self._once_departed()
        if places is not None:
            return SearchResult((), places)
        candidates: list[Victim] = []
        for gang in gangs:
            offered = query.offers(gang)
            if offered and (query.usable is None or self._matters(offered[0], query.usable)):
                candidates.extend(offered)
        most_trials = min(max(TRIED_NODES // max(len(self._room.free.rows), 1), TRIALS[0]), TRIALS[1])
        chosen = choose(candidates, self._fits, most_trials) or ()
        places = self._places_without(chosen)
        if (
            places is not None
            and self._trials >= most_trials
            and not any(demand.pod.devices for demand in query.demands)
        ):
            # The choice was cut short. Victims that don't matter on the nodes of the places aren't needed. So choose
            # again among the others.
            used = {place.node for place in places}
            needed = [victim for victim in chosen if self._matters(victim, used)]
            fewer = choose(needed, self._fits, most_trials) or ()
            better = self._places_without(fewer)
            if better is not None:
                chosen, places = fewer, better
        return None if places is None else SearchResult(chosen, places)

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
        self._trials += 1
        return query.allows(gone) and self._planner.fits(self._tried, query.demands, query.settled)

    def _places_without(self, victims: Sequence[Victim]) -> tuple[Assignment, ...] | None:
        """Return the gang's places once ``victims`` are gone; None if it has none, or if there are no victims."""
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
