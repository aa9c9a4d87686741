"""Looking for the gangs that make way for one, a little at a time.

On a large cluster a search takes longer than others may be kept waiting, so it is made in steps, on a copy of the
ledger as they were at its beginning. What it costs is counted, not timed: the same question gets the same answer in as
many steps. What is found has to be confirmed on the ledger as it is, if they may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.making_way import victims_of
from fluence_extender.gangs.preemption.preemption import Victim, choice
from fluence_extender.gangs.preemption.prospect import Prospect
from fluence_extender.ledger.pod_use import pod_use
from fluence_extender.ledger.preemptor_holds import PreemptorHolds
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.placement import trial as trials
from fluence_extender.placement.demand import grouped
from fluence_extender.placement.plan import Demand, Planner, SettledMember
from fluence_extender.placement.trial import Trial

TRIALS = 16, 256
"""How many sets of victims are tried for one gang: at least, at most."""

TRIED_NODES = 200_000
"""Between the two so many that nodes times trials comes to this."""

A_POD = 12
"""What looking at a pod costs, or placing it in a trial, where a trial on n nodes costs n."""

A_MIXED_TRIAL = 8_000
"""What a trial costs beside that where members differ: it may spend the whole budget of the exact search."""

Work = Generator[int, None, "Found | None"]
"""Yields what each part of it has cost."""


class Gangs(Protocol):
    """The gangs that there are: the registry, or a copy of it."""

    @property
    def gangs(self) -> Mapping[GangKey, Gang]:
        """All of them."""
        ...

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of any pod of theirs."""
        ...


class Standing(trials.Standing, Protocol):
    """The ledger, or a copy of them."""

    @property
    def preemptor_holds(self) -> PreemptorHolds:
        """The nodes that are kept for somebody."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """Who is to make way, and where the gang goes then.

    ``hope`` are the places again, if that has been looked at; ``seen`` says up to where the journal of nodes had been
    read before they were looked for.
    """

    victims: tuple[Victim, ...]
    places: tuple[Assignment, ...]
    hope: Prospect | None = None
    seen: int | None = None


@dataclass(slots=True)
class Query:
    """What is searched for.

    ``going`` are pods whose room comes free by itself (``patient``: however long they take); ``may_go`` says whether a
    gang may be taken at all, ``priority`` is what the taken have to be below of; ``usable`` are the nodes that matter,
    None for all; ``passing`` are the gangs for whose sake no node is closed.
    """

    key: GangKey
    demands: Sequence[Demand]
    settled: Sequence[SettledMember]
    going: frozenset[str]
    priority: int
    may_go: Callable[[Gang], bool]
    usable: Collection[str] | None
    passing: frozenset[object]
    patient: bool = False


@dataclass(slots=True)
class VictimSearch:
    """A search that is under way.

    ``steps`` says how many it has taken, ``round`` when it was gone on with last; ``reason`` is why the gang had no
    place when the ledger was of ``version``. ``confirming`` says that ``work`` is to confirm what was found before.
    """

    query: Query
    work: Work
    over: bool = False
    found: Found | None = None
    steps: int = 0
    round: int = 0
    version: int = -1
    reason: Reason | None = None
    confirming: bool = False
    _turns: dict[str, int] = field(default_factory=dict)

    def order(self, members: list[Member]) -> bool:
        """Sort members as they are in the query; False where they aren't all in it as they are now."""
        demands = self.query.demands
        if not self._turns:
            self._turns = {demand.pod.uid: turn for turn, demand in enumerate(demands)}
        turns = [self._turns.get(member.pod.uid, -1) for member in members]
        if any(at < 0 or demands[at].pod is not one.pod for at, one in zip(turns, members, strict=True)):
            return False
        members.sort(key=lambda member: self._turns[member.pod.uid])
        return True

    def confirm(self, work: Work) -> None:
        """Do ``work`` from the next step on, in which what was found is confirmed."""
        self.work, self.over, self.confirming = work, False, True

    def go_on(self, left: int) -> int:
        """Go on until a cost of ``left`` is spent; what is left of it."""
        self.steps += 1
        while left > 0 and not self.over:
            try:
                left -= next(self.work)
            except StopIteration as end:
                self.over, self.found = True, end.value
        return left


def usable(planner: Planner, pods: Collection[Pod]) -> set[str] | None:
    """The nodes that matter to a search for ``pods``; None for all, where devices might come free on others."""
    if any(pod.devices for pod in pods):
        return None
    sets = {id(nodes): nodes for nodes in map(planner.eligibility.eligible, pods)}
    return set().union(*sets.values())


def search(registry: Gangs, ledger: Standing, planner: Planner, query: Query) -> VictimSearch:
    """Begin to search."""
    return VictimSearch(query, _search(registry, ledger, planner, query))


def _search(registry: Gangs, ledger: Standing, planner: Planner, query: Query) -> Work:
    trial, seen = begin_trial(ledger, planner, query), planner.eligibility.journal.now
    if query.going:
        found = yield from _without_more(ledger, trial, query, seen)
        if found is not None or registry.lowest_priority >= query.priority:
            return found
    nodes = max(len(ledger.accounts), 1)
    victims: list[Victim] = []
    for key in list(registry.gangs):
        gang = registry.gangs.get(key)
        if gang is None or not query.may_go(gang):
            continue
        taken = victims_of(gang)
        if not taken or taken[0].priority >= query.priority:
            continue
        uses = [use for uid in taken[0].uids if (use := pod_use(ledger, uid)) is not None]
        if query.usable is not None and not any(use.assignment.node in query.usable for use in uses):
            continue
        for use in uses:
            trial.removable.add(use)
        victims.extend(taken)
        yield A_POD * len(gang.members)
    if not victims:
        return None
    most = min(max(TRIED_NODES // nodes, TRIALS[0]), TRIALS[1])
    chosen, asked = yield from _choose(ledger, trial, query, victims, most)
    places = yield from _without(ledger, trial, query, chosen)
    if places is not None and asked >= most and not any(demand.pod.devices for demand in query.demands):
        # The search was cut short. Who isn't where the gang goes isn't in its way; among the others it is looked again.
        yield A_POD * len(chosen)
        nodes_used = {one.node for one in places}
        held = ledger.allocations
        near = [
            victim
            for victim in chosen
            if any(uid in held and held[uid].assignment.node in nodes_used for uid in victim.uids)
        ]
        fewer, _ = yield from _choose(ledger, trial, query, near, most)
        better = yield from _without(ledger, trial, query, fewer)
        if better is not None:
            chosen, places = fewer, better
    return None if places is None else Found(chosen, places, seen=seen)


def _without_more(ledger: Standing, trial: Trial, query: Query, seen: int) -> Work:
    """Where the gang goes once those have gone who are going, on the nodes kept for it if that is possible."""
    for uid in query.going:
        use = pod_use(ledger, uid)
        if use is not None:
            trial.removable.add(use)
            yield A_POD
    kept = ledger.preemptor_holds.nodes_for(query.key)
    for within in (kept, None) if kept else (None,):
        yield cost_of_trial(ledger, query) + len(query.going)
        places = try_without(ledger, trial, query, query.going, within)
        if places is not None:
            return Found((), places, seen=seen)
    return None


def _choose(
    ledger: Standing, trial: Trial, query: Query, victims: Sequence[Victim], most: int
) -> Generator[int, None, tuple[tuple[Victim, ...], int]]:
    """The victims chosen of these, none where all of them aren't enough; and how many sets have been tried."""
    yield A_POD * len(victims)
    choosing = choice(victims, most)
    question, before, asked = next(choosing, None), query.going, 0
    each = cost_of_trial(ledger, query)
    yield A_POD * len(victims)
    while question is not None:
        gone = question | query.going
        yield each + len(gone ^ before)
        with ledger.preemptor_holds.ignoring(query.passing):
            found = trial.fits(query.demands, query.key, query.settled, gone)
        asked, before = asked + 1, gone
        try:
            question = choosing.send(found)
        except StopIteration as end:
            return end.value or (), asked
    return (), asked


def _without(
    ledger: Standing, trial: Trial, query: Query, victims: Sequence[Victim]
) -> Generator[int, None, tuple[Assignment, ...] | None]:
    if not victims:
        return None
    yield cost_of_trial(ledger, query)
    return try_without(ledger, trial, query, query.going.union(*(one.uids for one in victims)))


def cost_of_trial(ledger: Standing, query: Query) -> int:
    """What a trial costs, beside what it costs to let pods go and come back in it."""
    placing = A_POD * len(query.demands) + (A_MIXED_TRIAL if len(grouped(query.demands, {})) > 1 else 0)
    return len(ledger.accounts) + placing


def begin_trial(ledger: Standing, planner: Planner, query: Query) -> Trial:
    """A copy of the ledger for the query."""
    devices = any(demand.pod.devices for demand in query.demands)
    return Trial(ledger, planner.eligibility, planner.topology, devices)


def try_without(
    ledger: Standing, trial: Trial, query: Query, gone: frozenset[str], within: Collection[str] | None = None
) -> tuple[Assignment, ...] | None:
    """Where the gang would go once the pods ``gone`` have gone; None for nowhere."""
    with ledger.preemptor_holds.ignoring(query.passing):
        return trial.place(query.demands, query.key, query.settled, gone, within)
