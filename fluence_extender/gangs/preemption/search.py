"""The search for victims, in pieces, and the confirmation that what it found still holds.

On a large cluster a search takes too long for one step of the service. So it is made in several steps, in a copy of the
room that is made at the beginning. Its cost is counted rather than timed, so the same query takes the same number of
steps.

While a search is under way the cluster changes: victims end by themselves, gangs grow, capacity is taken or freed. So a
result is confirmed on the present ledger before anything acts on it. A result that no longer holds is mended rather
than given up: among thousands of pods some have always ended, and a search that began again each time would never
finish. A victim that is gone is dropped, and a gang that has taken its capacity may become a victim instead. Invariant
of a confirmed result: the places are good once the victims are gone. Every victim may be taken, and it holds something
on the nodes of the places or of a quota that lacks room, or keeps other pods from these nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.projection import NODE_COST, Projection, project
from fluence_extender.gangs.preemption.victims import Victim, choose, victims_of
from fluence_extender.gangs.queue.reclaims import QuotaRoom
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.placement.demand import Demand, SettledMember, grouped
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.room import Room

TRIALS = 16, 256
"""The fewest and the most sets of victims that are tried for one gang."""

TRIED_NODES = 200_000
"""Between those limits, the number of trials is this divided by the number of nodes."""

POD_COST = 12
"""The cost of looking at a pod, or of placing it in a trial, where a trial on n nodes costs n."""

MIXED_TRIAL_COST = 8_000
"""The least additional cost of a trial if members differ: it may use the whole budget of the exact search."""

REPAIRS = 4
"""How many times a confirmation looks for other places when the ones that were found are no longer good.

The last time is a single step, so that places that can't be judged node by node are confirmed too.
"""

Work = Generator[int, None, "Found | None"]
"""Yields the cost of each piece of work."""


class GangSource(Protocol):
    """The gangs that may become victims: the registry, or a copy of it."""

    @property
    def gangs(self) -> Mapping[GangKey, Gang]:
        """Return all gangs."""
        ...

    @property
    def lowest_priority(self) -> int:
        """Return the lowest priority of any of their pods."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """The victims, and where the gang goes once they are gone.

    ``projection`` holds the places again, if they have been confirmed. ``seen`` is the position in the journal of nodes
    before the places were looked for.
    """

    victims: tuple[Victim, ...]
    places: tuple[Assignment, ...]
    projection: Projection | None = None
    seen: int | None = None


@dataclass(slots=True)
class VictimQuery:
    """A request for victims.

    ``departing`` are pods that free their capacity without further action; ``patient`` means that they count no matter
    how long they take. ``may_take`` returns whether a gang may be a victim at all. The priority of every victim is
    below ``priority``, except for the gangs ``owed``, each of which has the share of its queue. ``usable`` are the
    nodes that matter, None for all. Nodes held for the gangs ``passing`` are open. ``allowed`` returns whether quotas
    have room once pods are gone; it is None if they have room already.
    """

    key: GangKey
    demands: Sequence[Demand]
    settled: Sequence[SettledMember]
    departing: frozenset[str]
    priority: int
    may_take: Callable[[Gang], bool]
    usable: Set[str] | None
    passing: frozenset[object]
    patient: bool = False
    owed: Mapping[GangKey, float] = field(default_factory=dict)
    allowed: QuotaRoom | None = None

    def allows(self, gone: Collection[str]) -> bool:
        """Return whether quotas have room once the pods ``gone`` are gone."""
        return self.allowed is None or self.allowed(gone)

    def offers(self, gang: Gang) -> list[Victim]:
        """Return the possible victims from a gang, as `victims_of` does."""
        found = victims_of(gang) if self.may_take(gang) else []
        over = self.owed.get(gang.key)
        if over is not None:
            return [replace(one, over=over) for one in found]
        return found if found and found[0].priority < self.priority else []

    def in_vain(self, lowest: int) -> bool:
        """Return whether there can be no victim if no priority is below ``lowest``."""
        return lowest >= self.priority and not self.owed


@dataclass(slots=True)
class VictimSearch:
    """A search that is under way.

    ``steps`` is the number of steps it has taken, ``round`` the round of attempts that last continued it. ``reason`` is
    why the gang had no place at ``version`` of the ledger. ``confirming`` means that ``work`` confirms a find.
    """

    query: VictimQuery
    work: Work
    over: bool = False
    found: Found | None = None
    steps: int = 0
    round: int = 0
    version: int = -1
    reason: Reason | None = None
    confirming: bool = False
    _position: dict[str, int] = field(default_factory=dict)

    def order(self, members: list[Member]) -> bool:
        """Sort members in the order of the query; return False if one has changed or isn't in the query."""
        demands = self.query.demands
        if not self._position:
            self._position = {demand.pod.uid: number for number, demand in enumerate(demands)}
        positions = [self._position.get(member.pod.uid, -1) for member in members]
        if any(at < 0 or demands[at].pod is not one.pod for at, one in zip(positions, members, strict=True)):
            return False
        members.sort(key=lambda member: self._position[member.pod.uid])
        return True

    def confirm(self, work: Work) -> None:
        """Do ``work``, which confirms the find, from the next step on."""
        self.work, self.over, self.confirming = work, False, True

    def proceed(self, budget: int) -> int:
        """Work until a cost of ``budget`` is spent; return what is left of it."""
        self.steps += 1
        while budget > 0 and not self.over:
            try:
                budget -= next(self.work)
            except StopIteration as end:
                self.over, self.found = True, end.value
        return budget


def usable_nodes(planner: Planner, pods: Collection[Pod]) -> set[str] | None:
    """Return the nodes that matter to a search for ``pods``; None for all, where devices might come free on others."""
    if any(pod.devices for pod in pods):
        return None
    sets = {id(nodes): nodes for nodes in map(planner.eligibility.eligible, pods)}
    return set().union(*sets.values())


def search(gangs: GangSource, room: Room, planner: Planner, query: VictimQuery) -> VictimSearch:
    """Begin to search in a copy of the room."""
    room, seen = room.copy().open_to(query.key, query.passing), planner.eligibility.journal.now
    return VictimSearch(query, _search(gangs, room, planner.by_first_fit, query, seen))


def _search(gangs: GangSource, room: Room, planner: Planner, query: VictimQuery, seen: int) -> Work:
    if query.departing:
        found = yield from _without_victims(room, planner, query, seen)
        if found is not None or query.in_vain(gangs.lowest_priority):
            return found
    candidates: list[Victim] = []
    for key in list(gangs.gangs):
        gang = gangs.gangs.get(key)
        offered = [] if gang is None else query.offers(gang)
        if gang is None or not offered:
            continue
        usable = query.usable
        if usable is None or any(_matters(room, uid, usable) for uid in offered[0].uids):
            candidates.extend(offered)
            yield POD_COST * len(gang.members)
    if not candidates:
        return None
    most = min(max(TRIED_NODES // max(len(room.free.rows), 1), TRIALS[0]), TRIALS[1])
    chosen, tried = yield from _choose(room, planner, query, candidates, most)
    places = yield from _places_without(room, planner, query, chosen)
    if places is not None and tried >= most and not any(demand.pod.devices for demand in query.demands):
        # The choice was cut short. Victims that hold nothing on the nodes of the places aren't needed; choose again
        # among the others.
        yield POD_COST * len(chosen)
        nodes_used = {place.node for place in places}
        near = [victim for victim in chosen if any(_matters(room, uid, nodes_used) for uid in victim.uids)]
        fewer, _ = yield from _choose(room, planner, query, near, most)
        better = yield from _places_without(room, planner, query, fewer)
        if better is not None:
            chosen, places = fewer, better
    return None if places is None else Found(chosen, places, seen=seen)


def _without_victims(room: Room, planner: Planner, query: VictimQuery, seen: int) -> Work:
    """Find places once the departing pods are gone, on the nodes held for the gang if possible."""
    if not query.allows(query.departing):
        return None
    yield POD_COST * len(query.departing)
    room = room.without(query.departing)
    held = room.held_nodes.nodes(HoldKind.PREEMPTION, query.key)
    for within in (held, None) if held else (None,):
        yield _cost_of_trial(room, query) + len(query.departing)
        places = planner.find(room.within(within), query.demands, query.settled)
        if places is not None:
            return Found((), places, seen=seen)
    return None


def _choose(
    room: Room, planner: Planner, query: VictimQuery, candidates: Sequence[Victim], most: int
) -> Generator[int, None, tuple[tuple[Victim, ...], int]]:
    """Return the chosen victims, none if all candidates aren't enough, and the number of sets that were tried."""
    yield POD_COST * len(candidates)
    choice = choose(candidates, most)
    uids, before, tried = next(choice, None), query.departing, 0
    each = _cost_of_trial(room, query)
    yield POD_COST * len(candidates)
    while uids is not None:
        gone = uids | query.departing
        yield each + len(gone ^ before)
        room = room.without(gone)
        fits = query.allows(gone) and planner.fits(room, query.demands, query.settled)
        tried, before = tried + 1, gone
        try:
            uids = choice.send(fits)
        except StopIteration as end:
            return end.value or (), tried
    return (), tried


def _places_without(
    room: Room, planner: Planner, query: VictimQuery, victims: Sequence[Victim]
) -> Generator[int, None, tuple[Assignment, ...] | None]:
    """Return the gang's places once ``victims`` are gone; None if it has none, or without victims."""
    if not victims:
        return None
    yield _cost_of_trial(room, query)
    gone = query.departing.union(*(victim.uids for victim in victims))
    return planner.find(room.without(gone), query.demands, query.settled)


def _matters(room: Room, uid: str, nodes: Set[str]) -> bool:
    """Return whether a pod holds something on one of ``nodes``, or may keep others from one."""
    held = room.holding(uid)
    return held is not None and (held.node in nodes or not room.kept_apart.domain(uid).isdisjoint(nodes))


def _cost_of_trial(room: Room, query: VictimQuery) -> int:
    """Return the cost of a trial without the removal of pods and their return."""
    nodes, kinds = len(room.free.rows), len(grouped(query.demands))
    placing = max(MIXED_TRIAL_COST, kinds * nodes) if kinds > 1 else 0
    return nodes + POD_COST * len(query.demands) + placing


# Confirming a result.


def confirm(registry: Registry, ledger: Ledger, planner: Planner, query: VictimQuery, found: Found) -> Work:
    """Confirm and mend what was found, in pieces. Return None if it can't be mended, so that a new search is needed."""
    victims: list[Victim] = []
    for victim in found.victims:
        yield POD_COST * len(victim.uids)
        gang = registry.gangs.get(victim.gang)
        still = _as_offered_now(gang, victim, query) if gang is not None else ()
        if still is None:
            return None
        victims.extend(still)
    gone = query.departing.union(*(victim.uids for victim in victims))
    if not query.allows(gone):
        return None
    yield POD_COST * len(gone)
    places, seen = found.places, found.seen
    for repairs_left in reversed(range(REPAIRS)):
        projection = project(ledger, planner, query.key, query.demands, places, seen)
        if projection is not None and (yield from projection.checked(gone.__contains__, query.passing)):
            needed = _needed(ledger, victims, places)
            enough = query.allows(query.departing.union(*(victim.uids for victim in needed)))
            return Found(needed if enough else tuple(victims), places, projection)
        before, seen_now = _state(ledger, planner), planner.eligibility.journal.now
        in_pieces = projection is not None or repairs_left > 0
        better = yield from _place_again(ledger, planner, query, gone, in_pieces)
        if better is not None:
            places, seen = better, seen_now
            if projection is None and before == _state(ledger, planner):
                return Found(tuple(victims), places)
            continue
        yield NODE_COST * len(places)
        others = _successors(registry, ledger, query, projection, gone) if projection is not None else []
        if not others:
            return None
        replaced = {victim.gang for victim in others}
        victims = [victim for victim in victims if victim.gang not in replaced] + others
        gone = gone.union(*(victim.uids for victim in others))
    return None


def _as_offered_now(gang: Gang, victim: Victim, query: VictimQuery) -> tuple[Victim, ...] | None:
    """Return what is to be taken of ``victim`` now: nothing if it departs anyway, None if it may not be taken."""
    offered = query.offers(gang)
    if victim in offered:
        return (victim,)
    holding = {
        member.pod.uid for member in gang.members.values() if member.assignment is not None and member.alive
    }
    if holding <= query.departing or (victim.surplus and victim.uids.isdisjoint(holding)):
        return ()
    if victim.surplus or not offered:
        return None
    return (offered[0],)


def _successors(
    registry: Registry, ledger: Ledger, query: VictimQuery, projection: Projection, gone: frozenset[str]
) -> list[Victim]:
    """Return further gangs that may be taken and hold something on nodes of the places that lack capacity."""
    short = (
        name
        for name in projection.nodes
        if projection.short(name, gone.__contains__) and name in ledger.accounts
    )
    found: dict[GangKey, Victim] = {}
    for uid in (uid for name in short for uid in ledger.accounts[name].users if uid not in gone):
        known = registry.member(uid)
        if known is not None and known[0].key not in found:
            found.update((victim.gang, victim) for victim in query.offers(known[0])[:1])
    return list(found.values())


def _needed(ledger: Ledger, victims: list[Victim], places: Sequence[Assignment]) -> tuple[Victim, ...]:
    """Return the victims that matter to the nodes of ``places``; the others need not be taken."""
    room, nodes = ledger.room(), {place.node for place in places}
    return tuple(victim for victim in victims if any(_matters(room, uid, nodes) for uid in victim.uids))


def _state(ledger: Ledger, planner: Planner) -> tuple[int, int, int]:
    """Return a value that differs after every change that a plan depends on."""
    return ledger.version, ledger.journal.now, planner.eligibility.journal.now


def _place_again(
    ledger: Ledger, planner: Planner, query: VictimQuery, gone: frozenset[str], in_pieces: bool
) -> Generator[int, None, tuple[Assignment, ...] | None]:
    """Plan again on the ledger as it is now, without the pods ``gone``."""
    room = ledger.room().copy().open_to(query.key, query.passing)
    if in_pieces:
        yield POD_COST * len(gone)
        yield _cost_of_trial(room, query) + len(gone)
    return planner.by_first_fit.find(room.without(gone), query.demands, query.settled)
