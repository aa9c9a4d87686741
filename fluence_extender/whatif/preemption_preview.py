"""What preemption would do: the leader's own search for victims, on copies of the ledger and of the gangs.

Later gangs of the question see the result: the nodes that were found are held, and the victims depart. No pod is
evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fluence_extender.cluster.budgets import Budget, eviction_block
from fluence_extender.cluster.port import EvictionBlock
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.preemption.preempting import OTHERS_BUDGETS
from fluence_extender.gangs.preemption.preemptions import (
    PreemptorDemand,
    behind,
    devices_held_for,
    preemptable_by,
)
from fluence_extender.gangs.preemption.search import Found, VictimQuery, search, usable_nodes
from fluence_extender.gangs.preemption.victims import Victim
from fluence_extender.gangs.queue.beside import FREELY
from fluence_extender.gangs.queue.turns import newcomer
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.demand import Demand
from fluence_extender.whatif.snapshot import CopiedGangs, Outlook

NAMED_GANGS = 8
"""The most victims that a sentence names."""


class PreemptionOutcome(StrEnum):
    """What preemption would do for a gang that has no place now."""

    PREEMPTS = "Preempts"
    WAITS = "WaitsForThoseGoing"
    IN_VAIN = "InVain"
    NEVER = "Never"
    SIZE_FITS = "SizeFits"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class VictimSummary:
    """The loss of one gang: ``pods`` of its ``members``. ``surplus`` means that it keeps running without them."""

    gang: GangKey
    priority: int
    pods: int
    members: int
    surplus: bool


@dataclass(frozen=True, slots=True)
class PreemptionPreview:
    """What preemption would do, also as a sentence.

    ``text`` names no object of another namespace; ``with_names`` is the sentence with those names, None if there are
    none. ``placed`` has the gang's places after that, by pod name.
    """

    outcome: PreemptionOutcome
    text: str
    victims: tuple[VictimSummary, ...] = ()
    placed: tuple[tuple[str, Assignment], ...] = ()
    with_names: WithNames | None = None


@dataclass(slots=True)
class PreemptionContext:
    """The state that the search reads besides the ledger.

    ``gangs`` may become victims. ``departing`` are pods that free their capacity without further action, ``evicted``
    the gangs that are being evicted, and ``preemptors`` the gangs they are evicted for. ``budgets`` are the
    PodDisruptionBudgets, None if they aren't known.
    """

    gangs: CopiedGangs = field(default_factory=CopiedGangs)
    departing: frozenset[str] = frozenset()
    evicted: frozenset[GangKey] = frozenset()
    preemptors: dict[GangKey, PreemptorDemand] = field(default_factory=dict)
    budgets: Sequence[Budget] | None = ()


class PreemptionPreviewer:
    """Searches for victims in an outlook; ``tick`` is called between two steps, and may raise to end the search."""

    def __init__(self, context: PreemptionContext, outlook: Outlook, tick: Callable[[], None]) -> None:
        self._context = context
        self._outlook = outlook
        self._tick = tick

    def passes(self, pods: Sequence[Pod]) -> frozenset[object]:
        """Return the preemptors that a gang of these pods could preempt itself; nodes held for them are open to it."""
        return preemptable_by(pods, self._context.preemptors)

    def device_conflict(self, key: GangKey, pods: Sequence[Pod]) -> Reason | None:
        """Return why a gang of these pods isn't tried: devices that it asks for are held for a preemptor."""
        ignored = {key, *self.passes(pods)}
        device_types = {kind for pod in pods for kind in pod.devices}
        return devices_held_for(
            device_types, key.namespace, self._context.preemptors, lambda other: other not in ignored
        )

    def behind(self, key: GangKey, pods: Sequence[Pod], reason: Reason) -> Reason:
        """Return ``reason`` extended by the first preemptor for which nodes are held."""
        return behind(reason, key, self._context.preemptors, self.passes(pods), self._outlook.room.held_nodes)

    def preview(self, key: GangKey, demands: Sequence[Demand], surplus: bool) -> PreemptionPreview:
        """Return what preemption would do for pods that have no place.

        ``surplus`` means that the gang has more pods than its size. If gangs would be evicted, later gangs of the
        question find them departing.
        """
        pods = [demand.pod for demand in demands]
        if not all(pod.preempts for pod in pods):
            return PreemptionPreview(PreemptionOutcome.NEVER, "preempts no gang: preemptionPolicy is Never")
        if surplus and self._outlook.find_beside(demands, key, FREELY) is not None:
            return PreemptionPreview(
                PreemptionOutcome.SIZE_FITS,
                f"preempts no gang: the {len(pods)} pods that make it whole fit, and further pods never preempt",
            )
        found, forbidden = self._search(key, demands)
        if found is None:
            lowest = min(pod.priority for pod in pods)
            if not self._context.gangs.any_below(lowest):
                text = f"would preempt no gang: none that runs has a lower priority than this one ({lowest})"
                return PreemptionPreview(PreemptionOutcome.IN_VAIN, text)
            text, names = _in_vain(lowest, forbidden, key.namespace)
            return PreemptionPreview(PreemptionOutcome.IN_VAIN, text, with_names=names)
        self._remember(key, pods, found)
        placed = _by_name(pods, found.places)
        if not found.victims:
            text = "fits once the pods that are terminating or being evicted already are gone"
            return PreemptionPreview(PreemptionOutcome.WAITS, text, (), placed)
        victims = self._summaries(found.victims)
        text, names = _would_preempt(victims, key.namespace)
        return PreemptionPreview(PreemptionOutcome.PREEMPTS, text, victims, placed, names)

    def _search(self, key: GangKey, demands: Sequence[Demand]) -> tuple[Found | None, list[WithNames]]:
        """Return the victims that disruption budgets allow, and the budgets that forbade other victims before."""
        forbidden: list[WithNames] = []
        protected: set[GangKey] = set()
        while True:
            query = self._query(key, demands, protected)
            gangs = self._context.gangs.gangs.values()
            found = search(gangs, self._outlook.room, self._outlook.planner, query, self._tick)
            if found is None:
                return None, forbidden
            refused, pods = self._forbidding(found.victims)
            if refused is None:
                return found, forbidden
            victim = refused.last_concerned(pods)
            forbidden.append(WithNames(refused.reason, frozenset({victim.namespace})))
            protected.add(victim)

    def _query(self, key: GangKey, demands: Sequence[Demand], protected: Collection[GangKey]) -> VictimQuery:
        pods = [demand.pod for demand in demands]
        excluded = {key, *protected, *self._context.evicted}

        def may_take(gang: Gang) -> bool:
            return gang.key not in excluded

        return VictimQuery(
            key,
            demands,
            (),
            self._context.departing,
            min(pod.priority for pod in pods),
            may_take,
            usable_nodes(self._outlook.planner, pods),
            self.passes(pods),
        )

    def _forbidding(
        self, victims: Sequence[Victim]
    ) -> tuple[EvictionBlock | None, Mapping[GangKey, Sequence[Pod]]]:
        """Return what forbids evicting all of ``victims``, and the pods that would be evicted, by gang."""
        gangs = self._context.gangs.gangs
        pods: dict[GangKey, list[Pod]] = {}
        for victim in victims:
            bound = [one.pod for uid in sorted(victim.uids) if (one := gangs[victim.gang].members[uid]).bound]
            if bound:
                pods.setdefault(victim.gang, []).extend(bound)
        evicted = [pod for some in pods.values() for pod in some]
        return eviction_block(self._context.budgets or (), evicted), pods

    def _remember(self, key: GangKey, pods: Sequence[Pod], found: Found) -> None:
        """Hold the places that were found, and let the victims depart."""
        self._outlook.hold({place.node for place in found.places}, key)
        self._context.preemptors[key] = PreemptorDemand(
            order=newcomer(key, max(pod.priority for pod in pods)),
            priority=min(pod.priority for pod in pods),
            device_types=frozenset(kind for pod in pods for kind in pod.devices),
        )
        self._context.departing |= {uid for victim in found.victims for uid in victim.uids}
        self._context.evicted |= {victim.gang for victim in found.victims}

    def _summaries(self, victims: Sequence[Victim]) -> tuple[VictimSummary, ...]:
        found: dict[GangKey, VictimSummary] = {}
        for victim in victims:
            before = found.get(victim.gang)
            pods = len(victim.uids) + (before.pods if before is not None else 0)
            members = len(self._context.gangs.gangs[victim.gang].alive())
            found[victim.gang] = VictimSummary(victim.gang, victim.priority, pods, members, victim.surplus)
        return tuple(found[key] for key in sorted(found))


def _by_name(pods: Sequence[Pod], places: Sequence[Assignment]) -> tuple[tuple[str, Assignment], ...]:
    by_uid = {place.uid: place for place in places}
    return tuple((pod.name, by_uid[pod.uid]) for pod in pods)


def _would_preempt(victims: Sequence[VictimSummary], namespace: str) -> tuple[str, WithNames | None]:
    """Return a sentence such as ``would preempt 2 gangs (12 pods): default/low-1 (8), default/low-2 (4)``.

    The first form is for users of ``namespace``. It counts the gangs of others, which the second form names.
    """
    begin = (
        f"would preempt {_count(len(victims), 'gang')} ({_count(sum(one.pods for one in victims), 'pod')})"
    )
    named = first_few(list(map(_loss, victims)), NAMED_GANGS)
    own = [one for one in victims if one.gang.namespace == namespace]
    if len(own) == len(victims):
        return f"{begin}: {named}", None
    others = len(victims) - len(own)
    counted = f"{others} of {'another namespace' if others == 1 else 'other namespaces'}"
    listed = f"{first_few(list(map(_loss, own)), NAMED_GANGS)}, and {counted}" if own else counted
    namespaces = frozenset(one.gang.namespace for one in victims[:NAMED_GANGS])
    return f"{begin}: {listed}", WithNames(f"{begin}: {named}", namespaces)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _loss(victim: VictimSummary) -> str:
    pods = f"{victim.pods} of {victim.members}" if victim.surplus else str(victim.pods)
    return f"{victim.gang} ({pods})"


def _in_vain(priority: int, forbidden: Sequence[WithNames], namespace: str) -> tuple[str, WithNames | None]:
    """Return why no eviction helps a gang of ``namespace``, and the same with the budgets of other namespaces."""
    text = f"would preempt no gang: evicting gangs of lower priority (below {priority}) would not make enough room"
    if not forbidden:
        return text, None
    own = {one.text for one in forbidden if namespace in one.namespaces}
    all_of_them = {one.text for one in forbidden}
    names = WithNames(
        "; ".join([text, *sorted(all_of_them)]), frozenset().union(*(one.namespaces for one in forbidden))
    )
    others = [OTHERS_BUDGETS] if own != all_of_them else []
    return "; ".join([text, *sorted(own), *others]), names
