"""The life of each gang: waiting → planned → committed → bound.

A gang is planned when it is whole. It is committed from the first ungate or Binding on. From then on either every
member gets its node or, after a limit, the bound members are evicted. Bindings can't be taken back, so the rest of a
begun gang is always planned beside its bound members. A gang without bound members gives its places back when it stops
being whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fluence_extender.gangs.execution.actions import Action
from fluence_extender.gangs.leadership.replay import resume_all, resume_steered, take_over_bound
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.lifecycle.deadlines import falls_late, undo
from fluence_extender.gangs.lifecycle.evaluation import Evaluation
from fluence_extender.gangs.lifecycle.gang_index import GangIndex
from fluence_extender.gangs.lifecycle.growth import ClusterGrowth
from fluence_extender.gangs.lifecycle.large_gangs import LargeGangs
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.member_states import (
    BOUND,
    ENDED,
    MemberEvent,
    Placed,
    Waiting,
    end_binding,
    move,
    steer_again,
    update,
)
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.node_holds import NodeHolds
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.refusals import last_verdicts
from fluence_extender.gangs.lifecycle.refused_births import RefusedBirths
from fluence_extender.gangs.lifecycle.rejections import Rejections, rejected_now
from fluence_extender.gangs.lifecycle.requeues import Requeues
from fluence_extender.gangs.lifecycle.resting import Resting, forget_failed_binding
from fluence_extender.gangs.lifecycle.rules import Rules
from fluence_extender.gangs.lifecycle.steering import Steering
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.decisions import Plan
from fluence_extender.gangs.planning.passes import Passes
from fluence_extender.gangs.planning.view import LiveParts, View
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preemptions import Preemptions
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.turns import turn
from fluence_extender.gangs.reporting.announcements import announcements
from fluence_extender.gangs.reporting.group_status import GroupReports
from fluence_extender.gangs.reporting.job_status import JobReports
from fluence_extender.model.assignment import records_exactly
from fluence_extender.model.gang import GangKey, GangState, HistoryKind
from fluence_extender.model.names import ALLOCATION_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.wording import WithNames
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holdings import Strength
from fluence_extender.room.ledger import Ledger


class Lifecycle:
    """Takes in what happens to pods and nodes, and decides what to do. All methods are synchronous."""

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        planner: Planner,
        limits: Limits,
        clock: Callable[[], float],
        on_preempted: Callable[[], None] = lambda: None,
        on_whole: Callable[[Gang], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._planner = planner
        self.limits = limits
        self._clock = clock
        preemptions = Preemptions(ledger.held_nodes)
        self.queue = QueueBook(registry, ledger, planner.eligibility, clock)
        self.admission = self.queue.admission
        self._places = Places(registry, ledger, planner, clock, preemptions.passes)
        self._resting = Resting(registry, self._places, limits, clock)
        self._rejections = Rejections(clock)
        self._group_reports = GroupReports(registry, registry.gone.clock)
        self.job_reports = JobReports(registry)
        self.requeues = Requeues(registry, self.queue.settings)
        taking = preemptions, self.requeues, self.queue.reclaims
        self.preemption = PreemptionManager(
            registry, ledger, self._places, planner, limits, clock, *taking, on_preempted
        )
        refused = RefusedBirths(clock)
        quotas = self.namespace_quotas = NamespaceQuotas(registry.look_at, refused)
        large = LargeGangs(clock)
        self.births = Births(registry, ledger, limits, clock, self.admission, refused)
        eligibility = planner.eligibility
        self.growth = ClusterGrowth(
            registry, ledger, eligibility, self.births, quotas, limits, registry.gone.clock
        )
        parts = LiveParts(registry, ledger, planner, self.queue, self.preemption, quotas, self.growth, large)
        self.passes = Passes(parts, self._places)
        self.admission.ahead = preemptions
        preemptions.keepers = self.growth.passes
        self.node_holds = NodeHolds(ledger, self.queue, limits.grow_after is not None)
        self._steering = Steering(self.births, ledger.claim_rooms, limits)
        self._gang_index = GangIndex(registry, limits)
        self._rules = Rules(registry, self._places, self.admission, self.queue.reclaims, limits)
        self._evaluation = Evaluation(
            registry, self._places, self._rules, quotas, limits, clock, self._whole, large
        )
        self._looked_at: set[GangKey] = set()
        self._all_evaluated = True
        self._on_whole = on_whole

    def _whole(self, gang: Gang) -> None:
        """Take note that all members of a gang have their nodes."""
        self.preemption.gang_bound()
        self._on_whole(gang)

    def pod_changed(self, member: Member, before: Pod | None = None) -> None:
        """React to a new state of a pod of ours; ``before`` is its last known state, if any."""
        self._registry.revision += 1
        pod, found = member.pod, self._registry.member(member.pod.uid)
        assert found is not None, "the registry knows each pod of ours that has changed"
        gang = found[0]
        forget_failed_binding(member)
        if pod.refusal:
            verdicts = last_verdicts(pod.refusal, member.refusals.verdicts)
            member.refusals = replace(member.refusals, verdicts=verdicts)
        if rejected_now(pod, before):
            self._rejections.note(pod)
        elif before is None and not (pod.finished or pod.node):
            self._leave_out(member)
        if pod.finished:
            move(gang, member, MemberEvent.END, detail=f"the pod has {pod.phase.lower()}")
            self._ledger.release(pod.uid)
        elif pod.node:
            held = self._holds_as_bound(member)
            # A pod that is first seen with a node, and whose Binding recorded no devices, was given none.
            used = (
                pod if before is not None or ALLOCATION_ANNOTATION in pod.annotations else pod.without_devices
            )
            assignment = None if held else self._ledger.adopt(used, gang.key, Strength.BOUND)
            move(gang, member, MemberEvent.SEEN_BOUND, assignment, f"to {pod.node}", node=pod.node)
            if pod.deleting:
                self.preemption.pod_terminating(pod.uid)
            self._ledger.amend(pod)
            self._ledger.strengthen(pod.uid, Strength.BOUND)
            if pod.apart and (before is None or not before.node):
                self.keeps_apart(pod.uid)
        elif pod.deleting:
            self._places.drop(gang, member)
        else:
            if member.state is not BOUND:
                self._places.leave_if_unfit(gang, member)
            self._nomination_changed(gang, member)

    def _leave_out(self, member: Member) -> None:
        """Bar the nodes whose kubelets have rejected other pods of a new pod's owner."""
        nodes = self._rejections.left_out(member.pod)
        if nodes:
            member.refusals = replace(member.refusals, barred={**member.refusals.barred, **nodes})
            for node in nodes:
                self._resting.barred(member, node, self._clock())

    def _holds_as_bound(self, member: Member) -> bool:
        """Return whether a bound pod holds its node and, when it is first seen there, the devices that it records.

        A pod that was bound as planned keeps its devices, even if they were removed from the resources by then.
        """
        pod = member.pod
        if not self._ledger.holds(pod.uid, pod.node):
            return False
        if member.bound == pod.node or not pod.devices:
            return True
        return records_exactly(pod.annotations, self._ledger.holdings[pod.uid].assignment)

    def may_be_ungated(self, uid: str) -> None:
        """Look again at the gang of a pod that waits until others on its node have their devices."""
        found = self._registry.member(uid)
        if found is not None:
            self._registry.dirty.add(found[0].key)

    def note(self, uid: str, kind: HistoryKind, detail: str, with_names: WithNames | None = None) -> None:
        """Note in the history of its gang what happened to a pod of ours."""
        found = self._registry.member(uid)
        if found is not None:
            found[0].note(kind, found[1].pod.name, detail, with_names)

    def _nomination_changed(self, gang: Gang, member: Member) -> None:
        """Follow our nomination as the watch shows it: an attempt has failed once it was seen and then seen cleared."""
        if member.clearing and not member.pod.nominated:
            update(member, clearing=False)
        data = member.data
        if not isinstance(data, Placed) or member.assignment is None or member.pod.foreseen:
            return
        if member.pod.nominated == member.assignment.node:
            if not data.nomination_seen:
                update(member, nomination_seen=True)
        elif data.nomination_seen:
            steer_again(gang, member, MemberEvent.NOMINATION_CLEARED, nomination_seen=False)
            if member.excused:
                member.excused = False
            else:
                self.refused(member.pod.uid, member.assignment.node)

    def node_changed(self, name: str) -> None:
        """Move members away from a node to which they can't be bound any more, and let all waiting gangs try again."""
        self._ledger.changed()
        self._registry.revision += 1
        self._rules.node_changed()
        now = self._clock()
        for gang in self._resting.node_changed(name, now):
            self._gang_index.look_at(gang.key, gang.rest.until)
        for gang, member in self._members_on(name):
            if member.pending and member.assignment is not None and member.assignment.node == name:
                self._places.leave_if_unfit(gang, member)

    def keeps_apart(self, uid: str) -> None:
        """Move members away from the nodes from which a pod that has its node now keeps them."""
        for name in sorted(self._ledger.kept_apart.domain(uid)):
            for gang, member in self._members_on(name):
                if member.pending and member.assignment is not None and member.assignment.node == name:
                    self._places.leave_if_unfit(gang, member)

    def _members_on(self, node: str) -> list[tuple[Gang, Member]]:
        """Return the members that hold something on a node, in a stable order."""
        account = self._ledger.accounts.get(node)
        found = map(self._registry.member, account.users if account is not None else ())
        return sorted((one for one in found if one is not None), key=lambda one: one[0].key)

    def refused(self, uid: str, node: str) -> None:
        """Record that kube-scheduler failed to put the pod on its planned node."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if member.bound or member.binding or member.assignment is None or member.assignment.node != node:
            return
        now = self._clock()
        self._registry.revision += 1
        gang.note(HistoryKind.REFUSED, member.pod.name, f"{node}: {member.pod.refusal or 'not offered'}")
        before, member.refusals = member.refusals, member.refusals.counted(node, now, self.limits)
        if member.refusals.barred is not before.barred:
            self._resting.barred(member, node, now)
            self._resting.after_refusal(gang, member, now)

    # Binding.

    def committing(self, gang: Gang) -> None:
        """Commit the gang before its first ungating or Binding is written: from now on its share is its own."""
        gang.reports.starting = True
        for member in gang.members.values():
            if member.assignment is not None:
                self._ledger.strengthen(member.pod.uid, Strength.COMMITTED)
        self._registry.revision += 1
        if gang.state is GangState.PLANNED:
            gang.state = GangState.COMMITTED
            gang.note(HistoryKind.COMMITTED, "", "its places are its own until all members have their nodes")

    def binding(self, gang: Gang, member: Member) -> None:
        """Record that our Binding of the member starts: its place can't be taken from it until the outcome is known.

        The direct members of its gang may be bound now, too.
        """
        if gang.state is GangState.PLANNED:
            self.committing(gang)
        self._ledger.strengthen(member.pod.uid, Strength.COMMITTED)
        self._registry.revision += 1
        self._registry.dirty.add(gang.key)
        move(gang, member, MemberEvent.BIND)

    def bound(self, uid: str, node: str) -> None:
        """Record that our Binding was accepted."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if member.state is not ENDED:
            move(gang, member, MemberEvent.BIND_SUCCEEDED, detail=f"to {node}", node=node)
        self._ledger.strengthen(uid, Strength.BOUND)
        self._registry.revision += 1
        self._registry.dirty.add(gang.key)

    def not_bound(self, uid: str, why: str = "") -> None:
        """Record that our bind verb refused the pod, or failed for ``why``. This isn't a refusal of the node."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        self._registry.revision += 1
        member.excused = True
        if member.binding:
            end_binding(gang, member, MemberEvent.BIND_FAILED, unbound=why)
            self._registry.dirty.add(gang.key)
            if not member.alive:
                self._places.drop(gang, member)
            else:
                self._places.leave_if_unfit(gang, member)

    def binding_unclear(self, uid: str, why: str) -> None:
        """Record that no answer to our Binding came: the pod may be bound, so it keeps its place."""
        found = self._registry.member(uid)
        if found is not None and found[1].binding:
            update(found[1], unbound=why)
            self._registry.dirty.add(found[0].key)

    def not_resumed(self, uid: str, unclear: bool = False) -> None:
        """Record that the patch which resumes a Job has failed; if ``unclear``, it may have taken effect."""
        for pod_uid in self.births.write_failed(uid):
            if not unclear:
                self.not_bound(pod_uid)

    def steered(self, uid: str) -> None:
        """Record that the member's node has been written to the cluster."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if isinstance(member.data, Placed):
            update(member, requested_at=self._clock())
        if member.trouble:
            member.trouble = ""
            self._registry.revision += 1
            if gang.reason is not None and gang.reason.code is ReasonCode.CANNOT_STEER:
                gang.explain(None, self._clock())
        self._registry.dirty.add(gang.key)

    def node_requested(self, uid: str) -> None:
        """Record that kube-scheduler requests the pod's node."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if isinstance(member.data, Placed):
            update(member, requested_at=self._clock())
        elif isinstance(member.data, Waiting) and member.data.stalled:
            update(member, stalled=False)
            gang.rest = replace(gang.rest, until=0.0)
            self._registry.dirty.add(gang.key)

    def steer_trouble(self, uid: str, why: str) -> bool:
        """Record why the member's node can't be written; return whether that is new."""
        found = self._registry.member(uid)
        if found is None or found[1].trouble == why:
            return False
        gang, member = found
        member.trouble = why
        self._registry.revision += 1
        gang.explain(
            Reason(ReasonCode.CANNOT_STEER, f"placed, but {member.pod.name} can't be told its node: {why}"),
            self._clock(),
        )
        return True

    def steer_failed(self, uid: str) -> None:
        """Have the member's node written again, because the write failed."""
        found = self._registry.member(uid)
        if found is not None and isinstance(found[1].data, Placed):
            steer_again(*found, MemberEvent.STEER_FAILED)
            self._registry.dirty.add(found[0].key)

    def clear_failed(self, uid: str) -> None:
        """Have the nomination taken back again, because the write failed, unless the pod has a place by now."""
        found = self._registry.member(uid)
        if found is not None:
            if found[1].clearing:
                update(found[1], clearing=False)
            self._registry.dirty.add(found[0].key)

    def resources_changed(self) -> None:
        """Move members away from devices that are gone, changed or too few, and let all waiting gangs try again."""
        for gang in self._gang_index.unsettled():
            for member in gang.pending():
                self._places.leave_if_unfit(gang, member)
        self.look_at_all()

    def may_bind(self, uid: str, node: str) -> bool:
        """Return whether the pod may still be bound to its planned node, given the present state of both.

        It may not where others have taken more of the node than was left.
        """
        found = self._registry.member(uid)
        taken = node in self._ledger.overcommitted
        return found is not None and not taken and self._places.suits(found[1], node)

    def look_at_all(self) -> None:
        """Look at every gang again."""
        self._ledger.changed()
        self._registry.revision += 1
        self._registry.dirty.update(self._registry.gangs)

    def _look_at_all_first(self) -> None:
        """Look at every gang again before any is tried."""
        self.look_at_all()
        self._evaluation.all_first()

    def replay(self) -> None:
        """Take over bound pods after a start."""
        for gang, member in self._registry.members():
            if member.pod.finished:
                move(gang, member, MemberEvent.END)
        for member in take_over_bound(self._registry, self._ledger):
            if member.pod.deleting:
                self.pod_changed(member)
        self._look_at_all_first()

    def lead(self) -> None:
        """Begin to decide, after only following facts; keep the places to which the last leader steered pods."""
        self.passes.void()
        self._places.clears()
        self.namespace_quotas.forget_all()
        resume_steered(self._registry, self._ledger, self._planner.node, self.admission)
        self.births.hold(self._registry.members())
        self.preemption.take_over()
        self.growth.take_over(self._clock())
        for gang in self._registry.gangs.values():
            gang.gather_anew()
        for _, member in self._registry.members():
            if isinstance(member.data, Placed):
                update(member, requested_at=self._clock())
        self._look_at_all_first()

    def resume_places(self, foreseen: Iterable[Pod]) -> None:
        """Hold the nodes that their Jobs' plans give foreseen pods, where these still have room."""
        now = self._clock()
        planned = (pod.uid for pod in foreseen if pod.nominated)
        members = [found for uid in planned if (found := self._registry.member(uid)) is not None]
        wanted = [one for one in members if one[1].pod.nominated not in one[1].refusals.barred_nodes(now)]
        resume_all(wanted, self._ledger, self._planner.node, self.admission)
        self.births.hold(members)

    # Decisions.

    def begin(self) -> View | None:
        """Look at what has changed; return the view for a pass if one is due. `finish` has to follow."""
        now = self._clock()
        for uid in self.births.unbound(now):
            self.not_bound(uid)
        if self._ledger.overcommitted:
            held = {
                gang.key: gang for node in self._ledger.overcommitted for gang, _ in self._members_on(node)
            }
            self._places.relieve(sorted(held.values(), key=turn, reverse=True))
        self.namespace_quotas.forget(self._registry.left)
        self.queue.take_up()
        self.growth.begin(now)
        looked_at = self._gang_index.take_due(now)
        known = self._gang_index.existing(looked_at)
        self._registry.dirty.update(
            gang.key
            for gang in known
            if falls_late(gang, now, self.limits) or (gang.obstacle and gang.again_at <= now)
        )
        evaluated = self._evaluation.evaluate_changed(now)
        if self.queue.release(looked_at | evaluated):
            # Otherwise a gang behind these that has just come might be placed before them.
            evaluated |= self._evaluation.evaluate_changed(now)
        looked_at |= evaluated
        self.queue.untried |= evaluated
        for gang in self._gang_index.existing(looked_at):
            self._resting.give_up_stalled(gang, now)
        self._registry.dirty.since_view |= evaluated
        self._looked_at, self._all_evaluated = looked_at, not self._registry.dirty
        self.passes.note(looked_at)
        return self.passes.begin(now) if self._evaluation.may_try else None

    def finish(self, plan: Plan | None) -> list[Action]:
        """Carry out the plan of a pass that is over, if any; return what has to be done now."""
        now, looked_at, all_evaluated = self._clock(), self._looked_at, self._all_evaluated
        if plan is not None:
            looked_at |= self._apply(plan, now)
        told = self.passes.explain(now)
        for gang in told:
            # Only its reason has changed. It is announced once it has stayed the same for a moment.
            self._gang_index.look_at(gang.key, gang.reports.reason_since + self.limits.announce_after)
        self._registry.revision += bool(told)
        preempting = self.preemption.actions(now, looked_at)
        if looked_at or self._registry.dirty:
            self._registry.revision += 1
        actions: list[Action] = []
        reserved = self.queue.promised_starts()
        # Gangs that have changed and aren't evaluated yet are left for the next step.
        looked_at.update(self._registry.dirty if all_evaluated else ())
        for gang in self._gang_index.existing(looked_at):
            asked_since = gang.asks_since
            self._places.clear_unplanned(gang)
            steered, writes = self._steering.due(gang)
            actions.extend(writes)
            if any(member.pod.withheld or member.binding for member in steered):
                self.committing(gang)
            actions.extend(undo(gang, now, self.limits))
            kept = gang.key in reserved
            asking, again = self.growth.due(gang, now)
            actions.extend(asking)
            if steered or gang.asks_since != asked_since:
                self._registry.dirty.since_view.add(gang.key)
            actions.extend(announcements(gang, now, self.limits, self._registry, self.job_reports, kept))
            self._gang_index.update(gang, now)
            self._gang_index.look_at(gang.key, again)
            if gang.state is not GangState.WAITING or self.queue.turns.find(gang.key) is None:
                self.queue.turns.put(gang)
        nodes = self.node_holds.due(now)
        births = self.births.actions(now)
        return [*self._places.clears(), *preempting, *births, *actions, *self._group_reports.due(now), *nodes]

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        parts = (
            self._gang_index.unfinished,
            self.passes.restless,
            self.preemption.restless,
            self.births.unfinished,
        )
        return bool(self._registry.dirty) or self.behind or any(parts)

    @property
    def behind(self) -> bool:
        """Whether the last step left gangs that are to be looked at or tried in the next one."""
        return self._evaluation.cut_short or self.queue.unsorted or self.passes.unfinished

    def untried_for(self) -> float:
        """Return for how many seconds gangs have waited for a pass that is due."""
        return self.passes.untried_for(self._clock())

    def _apply(self, plan: Plan, now: float) -> set[GangKey]:
        """Carry out the plan of a pass; return the gangs that may have changed in more than their reason."""
        changed = self.passes.apply(plan, now)
        for one in self.queue.blocked:
            self._gang_index.look_at(one.key, self._registry.gangs[one.key].again_at)
        return changed
