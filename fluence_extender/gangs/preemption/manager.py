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
from itertools import chain

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
from fluence_extender.gangs.preemption.search import Found
from fluence_extender.gangs.preemption.search_runner import SearchRunner
from fluence_extender.gangs.preemption.victims import Victim
from fluence_extender.gangs.queue.reclaims import Reclaims
from fluence_extender.gangs.queue.turns import precedence
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger

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
        self._deferred: set[GangKey] = set()
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
        self._searches = SearchRunner(
            registry, ledger, places, planner, self._evictions, preemptions, reclaims, limits.search_step
        )

    # A round of attempts to place gangs.

    def begin_round(self) -> None:
        """Begin a round of attempts. A search continues only if its gang is tried in each round."""
        self._searches.begin_round()

    @property
    def searching_for(self) -> GangKey | None:
        """Return the gang for which victims are being searched for, None for none."""
        return self._searches.gang

    def order(self, gang: Gang, members: list[Member]) -> None:
        """Sort members of ``gang`` that need a place, in the order in which they are to be planned."""
        self._searches.order(gang, members)

    def obstacle(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Return why ``gang`` may not be tried now: it is a victim, or its devices are held for a preemptor."""
        eviction = self._evictions.of_gang(gang.key)
        if eviction is not None:
            return eviction.why
        return self._preemptions.device_conflict(gang, members)

    def passes(self, gang: Gang) -> frozenset[object]:
        """Return the preemptors that ``gang`` could preempt itself; nodes held for them are open to it."""
        return self._preemptions.passes(gang)

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """Return ``reason`` extended by the first preemptor for which nodes are held from ``gang``."""
        return self._preemptions.behind(gang, reason)

    def known_reason(self, gang: Gang, members: Iterable[Member], now: float) -> Reason | None:
        """Return why the gang has no place if planning it again would change nothing, None to plan it.

        That is so if a search for victims is under way and the ledger has not changed. It is also so if pods still hold
        what the gang needs, and it was planned without success a moment ago.
        """
        reason = self._searches.known_reason(gang)
        if reason is not None:
            return reason
        preemption = self._preemptions.get(gang.key)
        if (
            preemption is None
            or not preemption.awaits(self._ledger.holdings)
            or not all(member.held_node for member in members)
        ):
            return None
        if preemption.check_next or now < preemption.plan_at:
            return preemption.busy
        if preemption.projection is None or preemption.projection.may_fit_now(self.passes(gang)):
            return None
        preemption.planned = True
        return preemption.busy

    def idle(self, priority: float, now: float) -> bool:
        """Return whether preemption can't help gangs of that preempting priority, because there is no pod to evict."""
        return not self._preemptions and self._evictions.idle and not self._searches.may_help(priority, now)

    def takes_back(self, gang: Gang, members: Sequence[Member]) -> bool:
        """Return whether the guarantee of its queue lets the gang evict gangs of other queues."""
        return self._searches.may_take_back(gang, members)

    def consider(self, gang: Gang, members: Sequence[Member], reason: Reason, now: float) -> Reason:
        """Preempt for ``members``, which lack a place or a quota, if possible; return why the gang waits now."""
        if reason.code not in (ReasonCode.BUSY, ReasonCode.OVER_QUOTA) or not may_preempt(members):
            self.end(gang.key)
            return reason
        preemption = self._preemptions.get(gang.key)
        if (
            preemption is None
            and not self._searches.may_help(preempting_priority(members), now)
            and not self._searches.may_take_back(gang, members)
        ):
            return reason
        waits = (
            self._searches.in_vain(gang, reason, now)
            if preemption is None
            else self._reason(gang.key, preemption, now)
        )
        running = self._searches.running_for(gang, members)
        if preemption is not None and running is None and self._checks_next(gang, preemption, reason, now):
            return waits
        if running is None:
            not_before = self._next_search.get(gang.key, 0.0)
            if preemption is None and self._searches.busy:
                self._deferred.add(gang.key)
                not_before = max(not_before, now + self._limits.preempt_again)
            if now < not_before:
                gang.attempt.again_at = min(gang.attempt.again_at, not_before)
                return waits
            self._next_search[gang.key] = now + self._limits.preempt_again
        found = self._searches.find(gang, members, preemption, now, running)
        if found is None:
            running = self._searches.running_for(gang, members)
            if running is not None:
                running.version, running.reason = self._ledger.version, reason
            gang.attempt.again_at = now if running is not None else now + self._limits.preempt_again
            return waits
        return self._decide(gang, members, preemption, found, reason, now)

    def _checks_next(self, gang: Gang, preemption: Preemption, reason: Reason, now: float) -> bool:
        """Return whether the failed plan was enough work for one step.

        If so, the next step checks whether the departing pods are enough.
        """
        preemption.planned |= reason is not preemption.busy
        preemption.check_next = preemption.planned and preemption.awaits(self._ledger.holdings)
        if preemption.planned:
            preemption.busy, preemption.plan_at = reason, now + self._limits.preempt_again
            preemption.planned = False
        gang.attempt.again_at = min(
            gang.attempt.again_at, now if preemption.check_next else preemption.plan_at
        )
        return preemption.check_next

    def _decide(
        self,
        gang: Gang,
        members: Sequence[Member],
        preemption: Preemption | None,
        found: Found,
        reason: Reason,
        now: float,
    ) -> Reason:
        if not found.places:
            self.end(gang.key)
            return self._searches.in_vain(gang, reason, now)
        if preemption is None and not found.victims:
            return reason
        if preemption is None or found.victims:
            preemption = self._begin(gang, members, found.victims, preemption)
        elsewhere = any(
            member.held_node != place.node for member, place in zip(members, found.places, strict=True)
        )
        if found.victims or preemption.projection is None or elsewhere:
            self._hold(gang, members, found, preemption, now)
        preemption.busy, preemption.plan_at = reason, now + self._limits.preempt_again
        next_late = self._terminating.next_late(preemption.pods, now)
        gang.attempt.again_at = min(gang.attempt.again_at, preemption.plan_at, next_late)
        return self._reason(gang.key, preemption, now)

    def _begin(
        self,
        gang: Gang,
        members: Sequence[Member],
        victims: tuple[Victim, ...],
        before: Preemption | None,
    ) -> Preemption:
        """Begin a preemption for the gang, which replaces ``before``."""
        begun = Preemption(
            priority=preempting_priority(members),
            device_types=frozenset(kind for member in members for kind in member.pod.devices),
            order=precedence(gang),
            victims=victims,
            uids=frozenset(chain.from_iterable(victim.uids for victim in victims)),
            owed=frozenset(victim.gang for victim in victims if victim.over),
            allowed=self._searches.quota_room(gang, members),
        )
        if before is not None and before.granted:
            begun.pods = dict(before.pods)
        for victim in victims:
            known = self._registry.gangs.get(victim.gang)
            by_uid = known.members if known is not None else {}
            begun.pods.update(
                (uid, by_uid[uid].pod) for uid in victim.uids if uid in by_uid and by_uid[uid].state is BOUND
            )
        self._preemptions[gang.key] = begun
        return begun

    def _hold(
        self, gang: Gang, members: Sequence[Member], found: Found, preemption: Preemption, now: float
    ) -> None:
        """Hold the nodes that were found for the gang."""
        nodes = {place.uid: place.node for place in found.places}
        self._ledger.held_nodes.hold(HoldKind.PREEMPTION, gang.key, nodes.values())
        for member in members:
            update(member, held_node=nodes[member.pod.uid])
        reserved = self._places.reserved(gang)
        demands = self._places.demands(members, now, reserved) if found.projection is None else ()
        preemption.projection = found.projection or project(
            self._ledger, self._planner, gang.key, demands, found.places
        )
        held, accounts = self._ledger.holdings, self._ledger.accounts
        users = (uid for name in set(nodes.values()) for uid in accounts[name].users if uid in held)
        preemption.awaited = [
            uid for uid in users if self._evictions.departs(uid, preemption, now, patient=True)
        ]

    def _reason(self, key: GangKey, preemption: Preemption, now: float) -> Reason:
        late = self._terminating.late(now)
        return preemption.reason(key.namespace, self._ledger.holdings, late, self._limits.leaving)

    def end(self, key: GangKey) -> None:
        """End the preemption for that gang; what was held for it is open to all gangs again."""
        holds = self._ledger.held_nodes
        if self._preemptions.pop(key, None) is None and not holds.nodes(HoldKind.PREEMPTION, key):
            return
        self._evictions.reconsider(key)
        self._searches.gave_way(key)
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
        return (
            self._searches.under_way
            or self._evictions.unfinished
            or any(one.stage < PreemptionStage.ASKED for one in self._preemptions.values())
        )

    def actions(self, now: float, looked_at: Collection[GangKey]) -> list[Action]:
        """Return the actions that are due, and end the preemptions of gangs that no longer wait for them.

        ``looked_at`` are the gangs that may have changed.
        """
        for key in [key for key in self._preemptions if not self._waits(key)]:
            self.end(key)
        self._next_search = {key: at for key, at in self._next_search.items() if at > now}
        self._wake_deferred()
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

    def _wake_deferred(self) -> None:
        """Once no search is under way, try the first in order of the gangs that had to wait for its end."""
        if self._searches.under_way or not self._deferred:
            return
        waiting = [gang for key in self._deferred if (gang := self._registry.gangs.get(key)) is not None]
        if waiting:
            first = min(waiting, key=precedence)
            self._deferred.discard(first.key)
            self._registry.dirty.add(first.key)
        else:
            self._deferred.clear()

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
            and not preemption.projection.good_everywhere(departs, self.passes(gang))
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
        self._searches.protect(key, victim, self._clock() + self._limits.barred_for, why)

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
            self._preemptions[gang.key] = Preemption(
                priority=preempting_priority(nominated),
                device_types=frozenset(kind for member in nominated for kind in member.pod.devices),
                order=precedence(gang),
                stage=PreemptionStage.GRANTED,
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
        self._searches.forget()
        self._next_search.clear()
        self._deferred.clear()


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
