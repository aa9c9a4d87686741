"""Preemption for gangs that lack capacity: which victims are evicted for them, and what is held for them meanwhile.

If a gang lacks capacity and may preempt, it is planned as if its victims were gone, and the nodes of that plan are held
for it. Such a gang is a *preemptor*. Then the disruption budgets of the victims are checked, and the victims are
evicted. The preemptor is planned like any other gang as soon as there is capacity. Invariants:

* A gang that could not preempt a preemptor is neither placed on its nodes nor given devices of its types.
* Once its eviction has begun, a gang is evicted to its last bound member, unless it can run without the evicted ones.
* The priority of a victim is lower than that of every member it is evicted for, so chains of preemptions end.

The state that has to outlive the process is in the cluster. The held nodes are nominations of pods that are still
gated, and the victims are terminating. A new leader first holds those nodes. Then it decides again, and counts the
departing pods.

Other packages preempt through `PreemptionManager` alone. Simulations also use the search and the precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from fluence_extender.gangs.execution.actions import Action, AskBudgets
from fluence_extender.gangs.lifecycle.places import CoreParts, Places, Requeues
from fluence_extender.gangs.membership.gang import Gang, Member, foreign_gates
from fluence_extender.gangs.preemption.preempting import Considered, PreemptionFacts
from fluence_extender.gangs.preemption.preemptions import (
    Evictions,
    Preemption,
    Preemptions,
    may_preempt,
    named,
    preempting_priority,
)
from fluence_extender.gangs.queue.guarantees import Reclaims
from fluence_extender.gangs.queue.submissions import precedence
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.room import Room

log = structlog.get_logger(__name__)


class PreemptionManager:
    """Decides on preemptions and carries them out; ``on_preempted`` is called when the eviction of a gang begins."""

    def __init__(
        self,
        core: CoreParts,
        places: Places,
        preemptions: Preemptions,
        requeues: Requeues,
        reclaims: Reclaims,
        on_preempted: Callable[[], None],
    ) -> None:
        self._core = core
        self._registry = core.registry
        self._ledger = core.ledger
        self._places = places
        self._limits = core.limits
        self._clock = core.clock
        self._preemptions = preemptions
        self._reclaims = reclaims
        self._next_search: dict[GangKey, float] = {}
        self._evictions = Evictions(core, places, preemptions, requeues, on_preempted)
        self.pod_terminating = self._evictions.terminating
        self._protected: dict[tuple[GangKey, GangKey], tuple[float, str]] = {}
        """By preemptor and victim: until when budgets forbid the eviction, and why."""

    # Passes over the gangs in line.

    def facts(self, room: Room, askers: Callable[[Gang], frozenset[object]]) -> PreemptionFacts:
        """Return the preemptions under way, for a pass in ``room``; ``askers`` is as in `Preemptions`."""
        preemptions = Preemptions(room.held_nodes)
        preemptions.update((key, preemption.copy()) for key, preemption in self._preemptions.items())
        preemptions.askers = askers
        now = self._clock()
        self._protected = {
            pair: (until, why) for pair, (until, why) in self._protected.items() if until > now
        }
        departures = self._evictions.departures(room.facts.holdings)
        return PreemptionFacts(
            preemptions, departures, dict(self._protected), dict(self._next_search), self._limits
        )

    def decide(self, gang: Gang, considered: Considered, now: float) -> None:
        """Carry out what a pass has decided about the preemption for a gang."""
        if considered.searched:
            self._next_search[gang.key] = now + self._limits.preempt_again
        if considered.ends:
            self.end(gang.key)
        if considered.begins is not None:
            lacking = [gang.members[uid] for uid in considered.lacking]
            considered.begins.allowed = self._reclaims.quota_room(gang, lacking)
            self._preemptions[gang.key] = considered.begins
        preemption = self._preemptions.get(gang.key)
        if considered.places and preemption is not None:
            self._hold(gang, considered.places, preemption)

    def _hold(self, gang: Gang, places: Sequence[Assignment], preemption: Preemption) -> None:
        """Hold the nodes that were found for members of the gang."""
        members = [gang.members[place.uid] for place in places]
        self._ledger.held_nodes.hold(HoldKind.PREEMPTION, gang.key, {place.node for place in places})
        for place in places:
            gang.change(place.uid, held_node=place.node)
        preemption.wanted = self._wanted(members, places)

    def _wanted(
        self, members: Sequence[Member], places: Sequence[Assignment]
    ) -> Mapping[str, Resources] | None:
        """Return what these members need on each node of their places, None if more than amounts decides there."""
        pods, room = [member.pod for member in members], self._ledger.room()
        if any(pod.devices or pod.ruled or pod.host_ports or pod.claims for pod in pods):
            return None
        if room.keeps_apart and any(
            place.node in room.kept_from(pod) for pod, place in zip(pods, places, strict=True)
        ):
            # The pods that keep members away have to be evicted, too.
            return None
        wanted: dict[str, Resources] = {}
        for pod, place in zip(pods, places, strict=True):
            wanted[place.node] = wanted.get(place.node, NOTHING) + pod.requests
        return wanted

    def end(self, key: GangKey) -> None:
        """End the preemption for that gang; what was held for it is open to all gangs again."""
        holds = self._ledger.held_nodes
        if self._preemptions.pop(key, None) is None and not holds.nodes(HoldKind.PREEMPTION, key):
            return
        self._evictions.reconsider(key)
        holds.hold(HoldKind.PREEMPTION, key, ())
        self._ledger.changed()
        gang = self._registry.gangs.get(key)
        if gang is not None:
            for uid in list(gang.members):
                gang.change(uid, held_node="")
            self._registry.dirty.add(key)

    # Carrying out.

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return self._evictions.unfinished

    def actions(self, now: float, looked_at: Collection[GangKey]) -> list[Action]:
        """Return the actions that are due. End the preemptions of gangs that have stopped waiting for them.

        ``looked_at`` are the gangs that may have changed.
        """
        for key in [key for key in self._preemptions if not self._waits(key)]:
            self.end(key)
        self._next_search = {key: at for key, at in self._next_search.items() if at > now}
        actions: list[Action] = []
        for key in sorted(self._preemptions):
            preemption = self._preemptions[key]
            if not preemption.asked:
                preemption.asked = True
                actions.append(AskBudgets(key, preemption.bound_victims()))
        actions.extend(self._evictions.actions(looked_at))
        return actions

    def _waits(self, key: GangKey) -> bool:
        gang = self._registry.gangs.get(key)
        return gang is not None and gang.reason is not None and gang.reason.code is ReasonCode.PREEMPTING

    # The outcomes of actions.

    def budgets_allow(self, key: GangKey) -> None:
        """Evict the victims of a preemptor, because the disruption budgets allow it."""
        preemption = self._preemptions.get(key)
        if preemption is None or preemption.granted:
            return
        gang = self._registry.gangs.get(key)
        self._registry.dirty.update({key} & self._registry.gangs.keys())
        if gang is not None and preemption.wanted is not None and not self._will_fit(gang, preemption):
            # The evictions wouldn't be enough, or their capacity is held for another gang by now. A pass decides again.
            self.end(key)
            self._next_search.pop(key, None)
            return
        preemption.granted = True
        log.info(
            "gangs are evicted for another",
            gang=named(key, preemption),
            evicted=sorted({str(victim.gang) for victim in preemption.victims}),
        )
        for victim in preemption.victims:
            if victim.gang in self._registry.gangs:
                why = _preempted_by(key, preemption, victim.gang)
                self._evictions.request(victim.gang, key, why, victim.uids, victim.surplus)

    def _will_fit(self, gang: Gang, preemption: Preemption) -> bool:
        """Return whether a preemptor fits on the nodes that are held for it once the departing pods are gone.

        This is asked only if amounts alone decide, because what claims leave may not have been counted yet.
        """
        members = [member for member in gang.pending() if member.held_node]
        demands = self._places.demands.of(gang, members, self._clock())
        room = self._ledger.room().open_to(gang.key, self._preemptions.overtaken_by(gang))
        room = room.without(self._evictions.departures(self._ledger.holdings).pods(preemption))
        room = room.within(self._ledger.held_nodes.nodes(HoldKind.PREEMPTION, gang.key))
        return self._core.planner.by_first_fit.fits(room, demands, self._places.demands.settled(gang))

    def budgets_forbid(self, key: GangKey, victim: GangKey, why: str) -> None:
        """Search for other victims, because budgets forbid evicting those pods of ``victim`` together."""
        if key in self._preemptions:
            self.end(key)
            self._registry.dirty.add(key)
        self._next_search.pop(key, None)
        self._protected[key, victim] = self._clock() + self._limits.excluded_for, why

    def eviction_failed(self, uid: str, why: str) -> None:
        """Try an eviction again for as long as it is wanted."""
        gang_and_member = self._registry.member(uid)
        if gang_and_member is None:
            return
        gang, member = gang_and_member
        preemptor = self._evictions.retry(gang.key, uid)
        if preemptor is None:
            return
        preemption = self._preemptions.get(preemptor)
        if preemption is not None:
            preemption.problems[uid] = member.pod, why
        self._registry.dirty.update({gang.key, preemptor} & self._registry.gangs.keys())

    def eviction_accepted(self, uid: str) -> None:
        """Note that an eviction was accepted."""
        self._evictions.accepted(uid)
        for preemption in self._preemptions.values():
            preemption.problems.pop(uid, None)

    # A change of leader.

    def take_over(self) -> None:
        """Hold the nodes that the previous leader held: those for which pods that wait are nominated."""
        for _, member in self._registry.members():
            if member.runs and member.pod.deleting:
                self.pod_terminating(member.pod.uid)
        for gang in self._registry.gangs.values():
            nominated = [
                member
                for member in gang.pending()
                if member.withheld and member.assignment is None and member.pod.nominated
            ]
            foreign = any(foreign_gates(member.pod) for member in nominated)
            if not nominated or foreign or not may_preempt(nominated):
                continue
            preemption = self._preemptions[gang.key] = Preemption(
                priority=preempting_priority(nominated),
                device_types=frozenset(kind for member in nominated for kind in member.pod.devices),
                order=precedence(gang),
                asked=True,
                granted=True,
            )
            leaving = self._limits.leaving
            gang.explain(
                preemption.reason(gang.key.namespace, self._ledger.holdings, (), leaving), self._clock()
            )
            nodes = {member.pod.nominated for member in nominated}
            self._ledger.held_nodes.hold(HoldKind.PREEMPTION, gang.key, nodes)
            for member in nominated:
                gang.change(member.pod.uid, held_node=member.pod.nominated)

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
    back = ", whose queue takes back what it is guaranteed" if victim in preemption.reclaimed else ""
    text = f"preempted by {'gang ' if key.namespace == namespace else ''}{named(key, preemption, namespace)}{back}"
    names = WithNames(f"preempted by gang {named(key, preemption)}{back}", frozenset({key.namespace}))
    return Reason(ReasonCode.PREEMPTED, text, with_names=names)
