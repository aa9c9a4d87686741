"""Preemption for gangs that lack capacity: which victims are evicted for them, and what is held for them meanwhile.

If a gang lacks capacity and may preempt, it is planned as if its victims were gone, and the nodes of that plan are
held for it. Such a gang is a *preemptor*. Then the disruption budgets of the victims are asked, and the
victims are evicted. The preemptor is planned like any other gang as soon as there is capacity. Invariants:

* A gang that could not preempt a preemptor is neither placed on its nodes nor given devices of its types.
* Once its eviction has begun, a gang is evicted to its last bound member, unless it can run without the evicted ones.
* The priority of a victim is lower than that of every member it is evicted for, so chains of preemptions end.

The state that has to outlive the process is in the cluster. The held nodes are nominations of pods that are still
gated, and the victims are terminating. A new leader first holds those nodes. Then it decides again, and counts the
departing pods.

The rest of the service preempts through `PreemptionManager` alone. Simulations also use search and precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from fluence_extender.gangs.execution.actions import Action, AskBudgets, NominateWaiting
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.member_states import BOUND, update
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.requeues import Requeues
from fluence_extender.gangs.membership.assembly import foreign_gates
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.evictions import Evictions, TerminatingPods
from fluence_extender.gangs.preemption.preempting import Considered, PreemptionFacts
from fluence_extender.gangs.preemption.preemptions import (
    Preemption,
    Preemptions,
    PreemptionStage,
    PreemptorDemand,
    may_preempt,
    named,
    preempting_priority,
)
from fluence_extender.gangs.preemption.projection import project
from fluence_extender.gangs.queue.reclaims import Reclaims
from fluence_extender.gangs.queue.turns import precedence
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.room import Room

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PreemptionState:
    """The preemptions under way, for a simulation.

    ``departing`` are the uids of pods that free their capacity without further action, ``evicted`` the gangs that are
    being evicted.
    """

    departing: frozenset[str]
    evicted: frozenset[GangKey]
    preemptors: dict[GangKey, PreemptorDemand]


class PreemptionManager:
    """Decides on preemptions and carries them out; ``on_preempted`` is called when the eviction of a gang begins."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        places: Places,
        planner: Planner,
        limits: Limits,
        clock: Callable[[], float],
        preemptions: Preemptions,
        requeues: Requeues,
        reclaims: Reclaims,
        on_preempted: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._places = places
        self._planner = planner
        self._limits = limits
        self._clock = clock
        self._preemptions = preemptions
        self._terminating = TerminatingPods(ledger.holdings, limits.leaving, clock)
        self._next_search: dict[GangKey, float] = {}
        self._evictions = Evictions(
            registry,
            places,
            limits,
            preemptions,
            requeues,
            self._terminating,
            ledger.holdings,
            on_preempted,
        )
        self._reclaims = reclaims
        self._protected: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        self._waiting: set[GangKey] = set()
        """The gangs that may have victims once these are bound."""

    # Passes over the gangs in line.

    def facts(self, room: Room, keepers: Callable[[Gang], frozenset[object]]) -> PreemptionFacts:
        """Return the preemptions under way, for a pass in a room; ``keepers`` is as in `Preemptions`."""
        preemptions = Preemptions(room.held_nodes)
        preemptions.update((key, one.copy()) for key, one in self._preemptions.items())
        preemptions.keepers = keepers
        now = self._clock()
        self._protected = {pair: one for pair, one in self._protected.items() if one[0] > now}
        evictions = self._evictions.copy(preemptions, room.facts.holdings)
        return PreemptionFacts(
            preemptions, evictions, dict(self._protected), dict(self._next_search), self._limits
        )

    def gang_bound(self) -> None:
        """Have the gangs looked at that had no victims because Bindings were under way: a gang has its nodes now."""
        waiting, self._waiting = self._waiting, set()
        self._registry.look_at(waiting)

    def decide(self, gang: Gang, considered: Considered, now: float) -> None:
        """Carry out what a pass has decided about the preemption for a gang."""
        if considered.searched:
            self._next_search[gang.key] = now + self._limits.preempt_again
        if considered.binding:
            self._waiting.add(gang.key)
        if considered.ends:
            self.end(gang.key)
        if considered.begins is not None:
            lacking = [gang.members[uid] for uid in considered.lacking]
            considered.begins.allowed = self._reclaims.quota_room(gang, lacking)
            self._preemptions[gang.key] = considered.begins
        preemption = self._preemptions.get(gang.key)
        if considered.places and preemption is not None:
            self._hold(gang, considered.places, preemption, now)

    def _hold(self, gang: Gang, places: Sequence[Assignment], preemption: Preemption, now: float) -> None:
        """Hold the nodes that were found for members of the gang."""
        members = [gang.members[place.uid] for place in places]
        self._ledger.held_nodes.hold(HoldKind.PREEMPTION, gang.key, {place.node for place in places})
        for member, place in zip(members, places, strict=True):
            update(member, held_node=place.node)
        demands = self._places.demands.of(gang, members, now)
        preemption.projection = project(self._ledger, self._planner, gang.key, demands, places)

    def end(self, key: GangKey) -> None:
        """End the preemption for that gang; what was held for it is open to all gangs again."""
        holds = self._ledger.held_nodes
        if self._preemptions.pop(key, None) is None and not holds.nodes(HoldKind.PREEMPTION, key):
            return
        self._evictions.reconsider(key)
        self._reclaims.gave_way(key)
        holds.hold(HoldKind.PREEMPTION, key, ())
        self._ledger.changed()
        gang = self._registry.gangs.get(key)
        if gang is not None:
            for member in gang.members.values():
                if member.held_node:
                    update(member, held_node="")
            self._registry.dirty.add(key)

    # Carrying out.

    @property
    def restless(self) -> bool:
        """Return whether another step is wanted at once."""
        return self._evictions.unfinished or any(
            one.stage < PreemptionStage.ASKED for one in self._preemptions.values()
        )

    def actions(self, now: float, looked_at: Collection[GangKey]) -> list[Action]:
        """Return the actions that are due, and end the preemptions of gangs that no longer wait for them.

        ``looked_at`` are the gangs that may have changed.
        """
        for key in [key for key in self._preemptions if not self._waits(key)]:
            self.end(key)
        self._next_search = {key: at for key, at in self._next_search.items() if at > now}
        found: list[Action] = []
        for key in sorted(self._preemptions):
            preemption = self._preemptions[key]
            if preemption.stage is PreemptionStage.DECIDED:
                preemption.stage = PreemptionStage.DUE
                continue
            found.extend(self._nominations(key, preemption))
            if preemption.stage is PreemptionStage.DUE:
                preemption.stage = PreemptionStage.ASKED
                found.append(AskBudgets(key, preemption.bound_victims()))
        found.extend(self._evictions.actions(looked_at))
        return found

    def _waits(self, key: GangKey) -> bool:
        gang = self._registry.gangs.get(key)
        return gang is not None and gang.reason is not None and gang.reason.code is ReasonCode.PREEMPTING

    def _nominations(self, key: GangKey, preemption: Preemption) -> Iterable[NominateWaiting]:
        nominating = preemption.nominating
        for member in self._registry.gangs[key].pending():
            uid = member.pod.uid
            if member.held_node == member.pod.nominated:
                nominating.pop(uid, None)
            elif member.held_node and nominating.get(uid) != member.held_node and _may_be_nominated(member):
                nominating[uid] = member.held_node
                yield NominateWaiting(member.pod, member.held_node)

    # The outcomes of actions.

    def nomination_failed(self, uid: str) -> None:
        """Try a nomination again that could not be written."""
        found = self._registry.member(uid)
        if found is not None and found[0].key in self._preemptions:
            self._preemptions[found[0].key].nominating.pop(uid, None)
            self._registry.dirty.add(found[0].key)

    def budgets_allow(self, key: GangKey) -> None:
        """Evict the victims of a preemptor, because the disruption budgets allow it."""
        preemption = self._preemptions.get(key)
        if preemption is None or preemption.granted:
            return
        gang = self._registry.gangs.get(key)
        self._registry.dirty.update({key} & self._registry.gangs.keys())
        departs = partial(self._evictions.departs, preemption=preemption, now=self._clock())
        if (
            gang is not None
            and preemption.projection is not None
            and not preemption.projection.good_everywhere(departs, self._preemptions.passes(gang))
        ):
            # The evictions would no longer be enough, or their capacity is held for another gang: decide again.
            self.end(key)
            self._next_search.pop(key, None)
            return
        preemption.stage = PreemptionStage.GRANTED
        log.info(
            "gangs are evicted for another",
            gang=named(key, preemption),
            evicted=sorted({str(victim.gang) for victim in preemption.victims}),
        )
        for victim in preemption.victims:
            if victim.gang in self._registry.gangs:
                why = _preempted_by(key, preemption, victim.gang)
                self._evictions.request(victim.gang, key, why, victim.uids, victim.surplus)

    def budgets_forbid(self, key: GangKey, victim: GangKey, why: str) -> None:
        """Search for other victims, because budgets forbid evicting those pods of ``victim`` together."""
        if key in self._preemptions:
            self.end(key)
            self._registry.dirty.add(key)
        self._next_search.pop(key, None)
        self._protected[key, victim] = self._clock() + self._limits.barred_for, why

    def eviction_failed(self, uid: str, why: str) -> None:
        """Try an eviction again for as long as it is wanted."""
        eviction = self._evictions.retry(uid, self._clock())
        found = self._registry.member(uid)
        if found is None or eviction is None:
            return
        preemption = self._preemptions.get(eviction.preemptor)
        if preemption is not None:
            preemption.problems[uid] = found[1].pod, why
        self._registry.dirty.update(
            key for key in (found[0].key, eviction.preemptor) if key in self._registry.gangs
        )

    def eviction_accepted(self, uid: str) -> None:
        """Note that an eviction was accepted."""
        self._evictions.accepted(uid)
        for preemption in self._preemptions.values():
            preemption.problems.pop(uid, None)

    def pod_terminating(self, uid: str) -> None:
        """Note that a bound pod is being deleted."""
        self._terminating.add(uid)

    def state(self) -> PreemptionState:
        """Return the preemptions under way, for a simulation."""
        preemptors = {
            key: PreemptorDemand(
                order=one.order, priority=one.priority, device_types=one.device_types, owed=one.owed
            )
            for key, one in self._preemptions.items()
        }
        departing = self._evictions.departing(None, self._clock())
        return PreemptionState(departing, self._evictions.gangs, preemptors)

    # A change of leader.

    def take_over(self) -> None:
        """Hold the nodes that the previous leader held: those for which pods that wait are nominated."""
        for _, member in self._registry.members():
            if member.state is BOUND and member.pod.deleting:
                self.pod_terminating(member.pod.uid)
        for gang in self._registry.gangs.values():
            nominated = [
                member for member in gang.pending() if _may_be_nominated(member) and member.pod.nominated
            ]
            foreign = any(foreign_gates(member.pod) for member in nominated)
            if not nominated or foreign or not may_preempt(nominated):
                continue
            preemption = self._preemptions[gang.key] = Preemption(
                priority=preempting_priority(nominated),
                device_types=frozenset(kind for member in nominated for kind in member.pod.devices),
                order=precedence(gang),
                stage=PreemptionStage.GRANTED,
            )
            leaving = self._limits.leaving
            gang.explain(
                preemption.reason(gang.key.namespace, self._ledger.holdings, (), leaving), self._clock()
            )
            nodes = {member.pod.nominated for member in nominated}
            self._ledger.held_nodes.hold(HoldKind.PREEMPTION, gang.key, nodes)
            for member in nominated:
                update(member, held_node=member.pod.nominated)

    def forget(self) -> None:
        """End all preemptions, because another replica leads."""
        for key in list(self._preemptions):
            self.end(key)
        self._evictions.clear()
        self._protected.clear()
        self._next_search.clear()


def _preempted_by(key: GangKey, preemption: Preemption, victim: GangKey) -> Reason:
    """Return why a gang is evicted."""
    namespace = victim.namespace
    back = ", whose queue takes back what it is guaranteed" if victim in preemption.owed else ""
    text = f"preempted by {'gang ' if key.namespace == namespace else ''}{named(key, preemption, namespace)}{back}"
    names = WithNames(f"preempted by gang {named(key, preemption)}{back}", frozenset({key.namespace}))
    return Reason(ReasonCode.PREEMPTED, text, with_names=names)


def _may_be_nominated(member: Member) -> bool:
    pod = member.pod
    return member.assignment is None and pod.withheld and not pod.foreseen and not member.clearing
