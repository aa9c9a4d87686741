"""Who would make way: the preemptor's own search, on a copy of the ledger and of the gangs.

What the leader does next is kept in mind for the gangs that are asked about after: the nodes found are kept, the
victims are going. Nobody is asked to go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fluence_extender.cluster.budgets import Budget, forbidding_anywhere
from fluence_extender.cluster.port import Forbidding
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.preemption.preemptions import (
    PreemptorDemand,
    behind,
    devices_held_for,
    preemptable_by,
)
from fluence_extender.gangs.preemption.search import Found, Query, search, usable_nodes
from fluence_extender.gangs.preemption.victims import Victim
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.placement.plan import Demand, Planner
from fluence_extender.whatif.standing import CopiedGangs, CopiedLedger

STEP = 10_000
"""What is spent on a search, in its own measure, between two looks at the time."""

SHOWN = 8
"""So many of the gangs that would make way are named in a sentence."""


class Outcome(StrEnum):
    """What preemption would do for a gang that has no room now."""

    PREEMPTS = "Preempts"
    WAITS = "WaitsForThoseGoing"
    IN_VAIN = "InVain"
    NEVER = "Never"
    SIZE_FITS = "SizeFits"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Taken:
    """What one gang would lose: ``pods`` of its ``members``; ``surplus`` says that it goes on without them."""

    gang: str
    priority: int
    pods: int
    members: int
    surplus: bool


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption would do, as a sentence too; ``placed`` is where the gang would go then, by pod name."""

    outcome: Outcome
    text: str
    victims: tuple[Taken, ...] = ()
    placed: tuple[tuple[str, Assignment], ...] = ()


@dataclass(slots=True)
class Surroundings:
    """What the search has to know beside the ledger.

    ``gangs`` may have to make way, ``going`` are pods whose room comes free by itself, ``leaving`` the gangs that make
    way already, and ``pressing`` those for which they do. ``budgets`` are the PodDisruptionBudgets, None where they
    aren't known.
    """

    gangs: CopiedGangs = field(default_factory=CopiedGangs)
    going: frozenset[str] = frozenset()
    leaving: frozenset[GangKey] = frozenset()
    pressing: dict[GangKey, PreemptorDemand] = field(default_factory=dict)
    budgets: Sequence[Budget] | None = ()


class Preemptions:
    """Looks for victims on ``ledger``; ``tick`` is called between two steps, and may raise to put an end to it."""

    def __init__(
        self, around: Surroundings, ledger: CopiedLedger, planner: Planner, tick: Callable[[], None]
    ) -> None:
        self._around = around
        self._ledger = ledger
        self._planner = planner
        self._tick = tick

    def passes(self, pods: Sequence[Pod]) -> frozenset[object]:
        """The gangs that a gang of these pods could preempt itself: nodes kept for them are open to it."""
        return preemptable_by(pods, self._around.pressing)

    def barrier_to(self, key: GangKey, pods: Sequence[Pod]) -> Reason | None:
        """Why a gang of these pods isn't even tried: devices of its kinds are kept for another."""
        stepped_over = {key, *self.passes(pods)}
        kinds = {kind for pod in pods for kind in pod.devices}
        return devices_held_for(kinds, self._around.pressing, lambda other: other not in stepped_over)

    def behind(self, key: GangKey, pods: Sequence[Pod], reason: Reason) -> Reason:
        """``reason``, with the most important of those for whom nodes are kept."""
        pressing = self._around.pressing
        stepped_over = {key, *self.passes(pods)}
        return behind(
            reason,
            pressing,
            stepped_over,
            self._ledger.preemptor_holds,
            lambda other: (-pressing[other].priority, other),
        )

    def look(self, key: GangKey, demands: Sequence[Demand], surplus: bool) -> Preemption:
        """What preemption would do for the pods that have no room; ``surplus`` says that there are more than its size.

        Where others would make way, those that are asked about from now on find it so.
        """
        pods = [demand.pod for demand in demands]
        if not all(pod.preempts for pod in pods):
            return Preemption(Outcome.NEVER, "preempts nobody: preemptionPolicy is Never")
        if surplus and self._planner.find(demands, key) is not None:
            return Preemption(
                Outcome.SIZE_FITS,
                f"preempts nobody: the {len(pods)} that make it whole fit, and for more than those nobody makes way",
            )
        found, forbidden = self._search(key, demands)
        if found is None:
            return Preemption(Outcome.IN_VAIN, _in_vain(min(pod.priority for pod in pods), forbidden))
        self._keep(key, pods, found)
        if not found.victims:
            text = "fits once those have gone who are going already"
            return Preemption(Outcome.WAITS, text, (), _named(pods, found.places))
        victims = self._taken(found.victims)
        return Preemption(Outcome.PREEMPTS, _would(victims), victims, _named(pods, found.places))

    def _search(self, key: GangKey, demands: Sequence[Demand]) -> tuple[Found | None, list[str]]:
        """Who would make way as far as disruption budgets allow it, and which forbade what was found before."""
        forbidden: list[str] = []
        spared: set[GangKey] = set()
        while True:
            query = self._query(key, demands, spared)
            work = search(self._around.gangs, self._ledger, self._planner, query)
            while not work.over:
                self._tick()
                work.proceed(STEP)
            if work.found is None:
                return None, forbidden
            refused, pods = self._forbidding(work.found.victims)
            if refused is None:
                return work.found, forbidden
            forbidden.append(refused.reason)
            spared.add(refused.about(pods))

    def _query(self, key: GangKey, demands: Sequence[Demand], spared: Collection[GangKey]) -> Query:
        pods = [demand.pod for demand in demands]
        untouchable = {key, *spared, *self._around.leaving}

        def may_go(gang: Gang) -> bool:
            return gang.key not in untouchable

        priority = min(pod.priority for pod in pods)
        passed = self.passes(pods)
        near = usable_nodes(self._planner, pods)
        return Query(key, demands, (), self._around.going, priority, may_go, near, passed)

    def _forbidding(
        self, victims: Sequence[Victim]
    ) -> tuple[Forbidding | None, Mapping[GangKey, Sequence[Pod]]]:
        """What forbids that all of ``victims`` are evicted, and their pods that would have to be."""
        gangs = self._around.gangs.gangs
        pods: dict[GangKey, list[Pod]] = {}
        for victim in victims:
            bound = [one.pod for uid in sorted(victim.uids) if (one := gangs[victim.gang].members[uid]).bound]
            if bound:
                pods.setdefault(victim.gang, []).extend(bound)
        all_of_them = [pod for some in pods.values() for pod in some]
        return forbidding_anywhere(self._around.budgets or (), all_of_them), pods

    def _keep(self, key: GangKey, pods: Sequence[Pod], found: Found) -> None:
        self._ledger.preemptor_holds.hold(key, {one.node for one in found.places})
        kinds = frozenset(kind for pod in pods for kind in pod.devices)
        self._around.pressing[key] = PreemptorDemand(
            priority=min(pod.priority for pod in pods), device_types=kinds
        )
        self._around.going |= {uid for one in found.victims for uid in one.uids}
        self._around.leaving |= {one.gang for one in found.victims}

    def _taken(self, victims: Sequence[Victim]) -> tuple[Taken, ...]:
        found: dict[GangKey, Taken] = {}
        for victim in victims:
            before = found.get(victim.gang)
            pods = len(victim.uids) + (before.pods if before is not None else 0)
            members = len(self._around.gangs.gangs[victim.gang].alive())
            found[victim.gang] = Taken(str(victim.gang), victim.priority, pods, members, victim.surplus)
        return tuple(found[key] for key in sorted(found))


def _named(pods: Sequence[Pod], places: Sequence[Assignment]) -> tuple[tuple[str, Assignment], ...]:
    at = {one.uid: one for one in places}
    return tuple((pod.name, at[pod.uid]) for pod in pods)


def _would(victims: Sequence[Taken]) -> str:
    """``would preempt 2 gangs (12 pods): default/low-1 (8), default/low-2 (4)``."""
    pods = sum(one.pods for one in victims)
    told = [f"{one.gang} ({f'{one.pods} of {one.members}' if one.surplus else one.pods})" for one in victims]
    counts = f"{len(victims)} gang{'' if len(victims) == 1 else 's'} ({pods} pod{'' if pods == 1 else 's'})"
    return f"would preempt {counts}: {first_few(told, SHOWN)}"


def _in_vain(priority: int, forbidden: Sequence[str]) -> str:
    text = f"would preempt nobody: no gang of lower priority (below {priority}) whose going makes room"
    return f"{text}; {'; '.join(sorted(set(forbidden)))}" if forbidden else text
