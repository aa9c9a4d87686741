"""Whether what a search for victims has found still holds, on the ledger as it is when somebody acts on it.

While a search goes on in steps the cluster goes on too: victims end by themselves, others get larger, room is taken or
comes free. Who has gone meanwhile has made way without being asked, and who has taken that room may have to make way in
its stead: what is found is mended rather than given up. On a cluster of thousands of pods some have always ended, and a
search that began anew each time would never come to an end. Invariant: at its end the places are good once these
victims have gone, all of these hold something on them, and each of them may be taken.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.making_way import still_offers, victims_of
from fluence_extender.gangs.preemption.preemption import Victim
from fluence_extender.gangs.preemption.prospect import A_NODE, Prospect, prospect
from fluence_extender.gangs.preemption.victim_search import (
    A_POD,
    Found,
    Query,
    Work,
    begin_trial,
    cost_of_trial,
    try_without,
)
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.ledger.pod_use import pod_use
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.placement.plan import Planner

TRIES = 4
"""So often other places are looked for where those that were found aren't good any more.

Where that can't be judged node by node nothing may change while they are looked for: the last time it is one step.
"""


def confirm(registry: Registry, ledger: Ledger, planner: Planner, query: Query, found: Found) -> Work:
    """Mend what was found, in pieces; None where it doesn't hold and has to be searched for again."""
    victims: list[Victim] = []
    for victim in found.victims:
        yield A_POD * len(victim.uids)
        holder = registry.gangs.get(victim.gang)
        now = _offer(holder, victim, query) if holder is not None else ()
        if now is None:
            return None
        victims.extend(now)
    gone = query.going.union(*(one.uids for one in victims))
    yield A_POD * len(gone)
    places, seen = found.places, found.seen
    for left in reversed(range(TRIES)):
        hope = prospect(ledger, planner, query.key, query.demands, places, seen)
        if hope is not None and (yield from hope.checked(gone.__contains__, query.passing)):
            return Found(_in_the_way(ledger, victims, places), places, hope)
        before, now_seen = _state(ledger, planner), planner.eligibility.journal.now
        better = yield from _place_anew(ledger, planner, query, gone, in_pieces=hope is not None or left > 0)
        if better is not None:
            places, seen = better, now_seen
            if hope is None and before == _state(ledger, planner):
                return Found(tuple(victims), places)
            continue
        yield A_NODE * len(places)
        others = _successors(registry, ledger, query, hope, gone) if hope is not None else []
        if not others:
            return None
        again = {one.gang for one in others}
        victims = [one for one in victims if one.gang not in again] + others
        gone = gone.union(*(one.uids for one in others))
    return None


def _offer(gang: Gang, victim: Victim, query: Query) -> tuple[Victim, ...] | None:
    """What of ``victim`` is to be taken now, nothing if it has gone or goes anyway; None if it can't be any more."""
    if query.may_go(gang) and still_offers(gang, victim):
        return (victim,)
    holding = {one.pod.uid for one in gang.members.values() if one.assignment is not None and one.alive}
    if holding <= query.going or (victim.surplus and victim.uids.isdisjoint(holding)):
        return ()
    if victim.surplus or not query.may_go(gang):
        return None
    now = victims_of(gang)[:1]
    return tuple(now) if now and now[0].priority < query.priority else None


def _successors(
    registry: Registry, ledger: Ledger, query: Query, hope: Prospect, gone: frozenset[str]
) -> list[Victim]:
    """Gangs that may be taken too, and have taken room that others left: where the nodes of the places are short."""
    short = (name for name in hope.nodes if hope.short(name, gone.__contains__) and name in ledger.accounts)
    found: dict[GangKey, Victim] = {}
    for uid in (uid for name in short for uid in ledger.accounts[name].users if uid not in gone):
        known = registry.member(uid)
        if known is not None and known[0].key not in found and query.may_go(known[0]):
            now = victims_of(known[0])[:1]
            found.update((one.gang, one) for one in now if one.priority < query.priority)
    return list(found.values())


def _in_the_way(ledger: Ledger, victims: list[Victim], places: Sequence[Assignment]) -> tuple[Victim, ...]:
    """Those of ``victims`` that hold something on the nodes of ``places``: without the others the room is the same."""
    there = {uid for name in {one.node for one in places} for uid in ledger.accounts[name].users}
    return tuple(victim for victim in victims if not victim.uids.isdisjoint(there))


def _state(ledger: Ledger, planner: Planner) -> tuple[int, int, int]:
    """What is another after each change that a plan depends on."""
    return ledger.version, ledger.journal.now, planner.eligibility.journal.now


def _place_anew(
    ledger: Ledger, planner: Planner, query: Query, gone: frozenset[str], in_pieces: bool
) -> Generator[int, None, tuple[Assignment, ...] | None]:
    trial = begin_trial(ledger, planner, query)
    for uid in gone:
        use = pod_use(ledger, uid)
        if use is not None:
            trial.removable.add(use)
            if in_pieces:
                yield A_POD
    if in_pieces:
        yield cost_of_trial(ledger, query) + len(gone)
    return try_without(ledger, trial, query, gone)
