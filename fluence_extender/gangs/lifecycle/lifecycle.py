"""The life of each gang: waiting → planned → committed → bound.

A gang is planned when it is whole. It is committed from the first ungate or Binding on. From then on either every
member gets its node or, after a limit, the bound members are evicted. Bindings can't be taken back, so the rest of a
begun gang is always planned beside its bound members. A gang without bound members gives its places back when it stops
being whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fluence_extender.gangs.execution.actions import Action, Nominate
from fluence_extender.gangs.leadership.replay import resume_all, resume_steered, take_over_bound
from fluence_extender.gangs.lifecycle.back_off import pause
from fluence_extender.gangs.lifecycle.back_offs import BackOffs, rejected_now
from fluence_extender.gangs.lifecycle.core_parts import CoreParts
from fluence_extender.gangs.lifecycle.deadlines import falls_late, undo
from fluence_extender.gangs.lifecycle.evaluation import Evaluation
from fluence_extender.gangs.lifecycle.expected_allowance import UncreatedPods
from fluence_extender.gangs.lifecycle.expected_pods import ExpectedPods
from fluence_extender.gangs.lifecycle.gang_index import GangIndex
from fluence_extender.gangs.lifecycle.growth import ClusterGrowth
from fluence_extender.gangs.lifecycle.large_gangs import LargeGangs
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.node_holds import NodeHolds
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.reconcile import is_cleared
from fluence_extender.gangs.lifecycle.refusals import last_verdicts
from fluence_extender.gangs.lifecycle.requeues import Requeues
from fluence_extender.gangs.lifecycle.rules import Rules
from fluence_extender.gangs.lifecycle.steering import Steering
from fluence_extender.gangs.membership.gang import Gang, Member
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
from fluence_extender.room.holdings import Firmness

BIND_AGAIN, LONGEST_BIND_AGAIN = 5.0, 60.0
"""Seconds before a Binding that was refused is tried again. Until then its place may be changed."""


class Lifecycle:
    """Takes in what happens to pods and nodes, and decides what to do. All methods are synchronous."""

    def __init__(
        self, core: CoreParts, on_preempted: Callable[[], None], on_whole: Callable[[Gang], None]
    ) -> None:
        registry, ledger, planner = core.registry, core.ledger, core.planner
        limits, clock = core.limits, core.clock
        self._registry = registry
        self._ledger = ledger
        self._planner = planner
        self.limits = limits
        self._clock = clock
        preemptions = Preemptions(ledger.held_nodes)
        self.queue = QueueBook(registry, ledger, planner.eligibility, clock)
        self.admission = self.queue.admission
        self._places = Places(registry, ledger, planner, clock, preemptions.passes)
        self._back_offs = BackOffs(core, self._places)
        self._group_reports = GroupReports(registry, registry.gone.clock)
        self.job_reports = JobReports(registry)
        self.requeues = Requeues(registry, self.queue.settings)
        self.preemption = PreemptionManager(
            core, self._places, preemptions, self.requeues, self.queue.reclaims, on_preempted
        )
        refused = UncreatedPods(clock)
        quotas = self.namespace_quotas = NamespaceQuotas(registry.look_at, refused)
        large = LargeGangs(clock)
        self.expected_pods = ExpectedPods(core, self.admission, refused)
        self.growth = ClusterGrowth(core, self.expected_pods, quotas)
        parts = LiveParts(registry, ledger, planner, self.queue, self.preemption, quotas, self.growth, large)
        self.passes = Passes(parts, self._places)
        preemptions.keepers = self.growth.passes
        self.node_holds = NodeHolds(ledger, self.queue, limits.grow_after is not None)
        self._steering = Steering(self.expected_pods, ledger.claim_rooms, limits)
        self._gang_index = GangIndex(registry, limits)
        self._rules = Rules(registry, self._places, self.admission, quotas, limits)
        self._evaluation = Evaluation(core, self._places, self._rules, quotas, large, on_whole)
        self._looked_at: set[GangKey] = set()
        self._all_evaluated = True

    def pod_changed(self, member: Member, before: Pod | None = None) -> None:
        """React to a new state of a pod of ours; ``before`` is its last known state, if any."""
        self._registry.revision += 1
        pod, found = member.pod, self._registry.member(member.pod.uid)
        assert found is not None, "the registry knows each pod of ours that has changed"
        gang, member = found
        if pod.refusal:
            # kube-scheduler refuses a pod before any Binding.
            verdicts = last_verdicts(pod.refusal, member.refusals.verdicts)
            refusals = replace(member.refusals, verdicts=verdicts)
            member = gang.change(pod.uid, written=replace(member.written, failure=""), refusals=refusals)
        if rejected_now(pod, before):
            self._back_offs.rejected(pod)
        elif before is None and not (pod.finished or pod.node):
            self._back_offs.leave_out(gang, member)
        if pod.finished:
            self._places.end(gang, pod.uid, f"the pod has {pod.phase.lower()}")
        elif pod.node:
            as_planned = member.accepted == pod.node or (before is not None and before.node == pod.node)
            held = self._holds_as_bound(member, as_planned)
            # A pod that is first seen with a node, and whose Binding recorded no devices, was given none.
            used = (
                pod if before is not None or ALLOCATION_ANNOTATION in pod.annotations else pod.without_devices
            )
            assignment = None if held else self._ledger.adopt(used, gang.key, Firmness.BOUND)
            if not as_planned:
                gang.note(HistoryKind.BOUND, pod.name, f"to {pod.node}")
            gang.bind(pod.uid, assignment)
            if pod.deleting:
                self.preemption.pod_terminating(pod.uid)
            self._ledger.amend(pod)
            self._ledger.raise_firmness(pod.uid, Firmness.BOUND)
            if pod.apart and (before is None or not before.node):
                self.keeps_apart(pod.uid)
        elif pod.deleting:
            self._places.drop(gang, pod.uid)
        else:
            if not member.bound:
                self._places.leave_if_unfit(gang, pod.uid)
            self._look_at_nomination(gang, gang.members[pod.uid])

    def _holds_as_bound(self, member: Member, as_planned: bool) -> bool:
        """Return whether a bound pod holds its node and, when it is first seen there, the devices that it records.

        A pod that was bound ``as_planned`` keeps its devices, even if they were removed from the resources by then.
        """
        pod = member.pod
        if not self._ledger.holds(pod.uid, pod.node):
            return False
        if as_planned or not pod.devices:
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

    def _look_at_nomination(self, gang: Gang, member: Member) -> None:
        """Have a member's node written again if its nomination was cleared. Mostly its node has refused it then."""
        place, written = member.assignment, member.written
        if place is None or member.bound or not is_cleared(member.pod, place.node, written):
            return
        gang.change(member.pod.uid, written=replace(written.again(), ours=False))
        self._registry.dirty.add(gang.key)
        if not written.ours:
            self.refused(member.pod.uid, place.node)

    def node_changed(self, name: str) -> None:
        """Move members away from a node to which they can't be bound any more, and let all waiting gangs try again."""
        self._ledger.changed()
        self._registry.revision += 1
        self._rules.node_changed()
        now = self._clock()
        for gang in self._back_offs.node_changed(name, now):
            self._gang_index.look_at(gang.key, gang.back_off.until)
        for gang, member in self._members_on(name):
            if member.pending and member.assignment is not None and member.assignment.node == name:
                self._places.leave_if_unfit(gang, member.pod.uid)

    def keeps_apart(self, uid: str) -> None:
        """Move members away from the nodes from which a pod that has its node now keeps them."""
        for name in sorted(self._ledger.kept_apart.domain(uid)):
            for gang, member in self._members_on(name):
                if member.pending and member.assignment is not None and member.assignment.node == name:
                    self._places.leave_if_unfit(gang, member.pod.uid)

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
        before = member.refusals
        member = gang.change(uid, refusals=before.counted(node, now, self.limits))
        if member.refusals.excluded is not before.excluded:
            self._back_offs.excluded(member, node, now)
            self._back_offs.after_refusal(gang, member, now)

    # Binding.

    def committing(self, gang: Gang) -> None:
        """Commit the gang before its first ungating or Binding is written: from now on its share is its own."""
        gang.remember(starting=True)
        for member in gang.members.values():
            if member.assignment is not None:
                self._ledger.raise_firmness(member.pod.uid, Firmness.COMMITTED)
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
        self._ledger.raise_firmness(member.pod.uid, Firmness.COMMITTED)
        self._registry.revision += 1
        self._registry.dirty.add(gang.key)
        gang.change(member.pod.uid, written=replace(member.written, binding=True))

    def bound(self, uid: str, node: str) -> None:
        """Record that our Binding was accepted."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if not member.bound and not member.pod.finished:
            gang.note(HistoryKind.BOUND, member.pod.name, f"to {node}")
        gang.change(uid, accepted=node)
        self._ledger.raise_firmness(uid, Firmness.BOUND)
        self._registry.revision += 1
        self._registry.dirty.add(gang.key)

    def not_bound(self, uid: str, why: str = "") -> None:
        """Record that our bind verb refused the pod, or failed for ``why``. This isn't a refusal of the node."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        self._registry.revision += 1
        written = replace(member.written, ours=True)
        if not member.binding:
            gang.change(uid, written=written)
        else:
            failures = written.failures + bool(why)
            written = replace(written, binding=False, failure=why, failures=failures)
            member = gang.change(uid, written=written)
            self._registry.dirty.add(gang.key)
            if not member.alive:
                self._places.drop(gang, uid)
            else:
                self._places.leave_if_unfit(gang, uid)

    def binding_unclear(self, uid: str, why: str) -> None:
        """Record that no answer to our Binding came: the pod may be bound, so it keeps its place."""
        found = self._registry.member(uid)
        if found is not None and found[1].binding:
            gang, member = found
            gang.change(uid, written=replace(member.written, failure=why, ours=True))
            self._registry.dirty.add(gang.key)

    def resumed(self, uids: Iterable[str]) -> None:
        """Record that the workload of expected pods was resumed, so that they are created for their nodes."""
        for uid in uids:
            found = self._registry.member(uid)
            if found is not None and found[1].written.node is not None:
                self.steered(uid, found[1].written.node, 0)

    def not_resumed(self, uid: str, unclear: bool = False) -> None:
        """Record that the patch which resumes a Job has failed; if ``unclear``, it may have taken effect."""
        for pod_uid in self.expected_pods.write_failed(uid):
            if not unclear:
                self.not_bound(pod_uid)

    def nominated(self, uid: str, node: str, revision: int) -> None:
        """Record that a nomination for ``node`` was written, or taken back if that is "".

        ``revision`` is the pod's resourceVersion after that.
        """
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if not node:
            member = gang.change(uid, written=replace(member.written, cleared=revision))
        if member.written.node == node:
            written = replace(member.written, revision=revision, at=self._clock())
            member = gang.change(uid, written=written)
            self._registry.dirty.add(gang.key)
            self._look_at_nomination(gang, member)

    def steered(self, uid: str, node: str, revision: int) -> None:
        """Record that the pod was told its place, as in `nominated`; nothing is wrong with that any more."""
        self.nominated(uid, node, revision)
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if member.trouble:
            gang.change(uid, trouble="")
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
        if member.assignment is not None:
            gang.change(uid, written=replace(member.written, at=self._clock()))
        elif gang.back_off.until_requested == uid:
            gang.remember(back_off=replace(gang.back_off, until=0.0, until_requested=""))
            self._registry.dirty.add(gang.key)

    def steer_trouble(self, uid: str, why: str) -> bool:
        """Record why the member's node can't be written; return whether that is new."""
        found = self._registry.member(uid)
        if found is None or found[1].trouble == why:
            return False
        gang, member = found
        gang.change(uid, trouble=why)
        self._registry.revision += 1
        gang.explain(
            Reason(ReasonCode.CANNOT_STEER, f"placed, but {member.pod.name} can't be told its node: {why}"),
            self._clock(),
        )
        return True

    def write_failed(self, uid: str, node: str) -> None:
        """Decide anew what a pod needs, because the write that told it ``node`` failed; "" is for a clearing write."""
        found = self._registry.member(uid)
        if found is not None and not found[1].bound and found[1].written.node == node:
            found[0].write_again(uid)
            self._registry.dirty.add(found[0].key)

    def pause_before_binding(self, uid: str) -> float:
        """Return after how many seconds a Binding that has failed is tried again."""
        found = self._registry.member(uid)
        failures = found[1].written.failures if found is not None else 0
        return pause(BIND_AGAIN, max(failures, 1), LONGEST_BIND_AGAIN)

    def resources_changed(self) -> None:
        """Move members away from devices that are gone, changed or too few, and let all waiting gangs try again."""
        for gang in self._gang_index.unsettled():
            for member in gang.pending():
                self._places.leave_if_unfit(gang, member.pod.uid)
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
        for gang, member in list(self._registry.members()):
            if member.pod.finished:
                self._places.end(gang, member.pod.uid)
        for member in take_over_bound(self._registry, self._ledger):
            if member.pod.deleting:
                self.pod_changed(member)
        self._look_at_all_first()

    def lead(self) -> None:
        """Begin to decide, after only following facts; keep the places to which the last leader steered pods."""
        self.passes.void()
        self.namespace_quotas.forget_all()
        resume_steered(self._registry, self._ledger, self._planner.node, self.admission)
        self.expected_pods.hold(self._registry.members())
        self.preemption.take_over()
        self.growth.take_over(self._clock())
        for gang in self._registry.gangs.values():
            gang.gather_anew()
        for gang, member in list(self._registry.members()):
            if member.assignment is not None and not member.bound:
                gang.change(member.pod.uid, written=replace(member.written, at=self._clock()))
        self._look_at_all_first()

    def resume_places(self, expected: Iterable[Pod]) -> None:
        """Hold the nodes that their Jobs' plans give expected pods, where these still have room."""
        now = self._clock()
        planned = (pod.uid for pod in expected if pod.nominated)
        members = [found for uid in planned if (found := self._registry.member(uid)) is not None]
        wanted = [one for one in members if one[1].pod.nominated not in one[1].refusals.excluded_nodes(now)]
        resume_all(wanted, self._ledger, self._planner.node, self.admission)
        self.expected_pods.hold((gang, gang.members[member.pod.uid]) for gang, member in members)

    # Decisions.

    def begin(self) -> View | None:
        """Look at what has changed; return the view for a pass if one is due. `finish` has to follow."""
        now = self._clock()
        for uid in self.expected_pods.unbound(now):
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
        looked_at |= evaluated
        self.queue.untried |= evaluated
        for gang in self._gang_index.existing(looked_at):
            self._back_offs.give_up_stalled(gang, now)
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
            self._gang_index.look_at(gang.key, gang.memory.reason_since + self.limits.announce_after)
        self._registry.revision += bool(told)
        preempting = self.preemption.actions(now, looked_at)
        if looked_at or self._registry.dirty:
            self._registry.revision += 1
        actions: list[Action] = []
        reserved = self.queue.reserved_starts()
        # Gangs that have changed and aren't evaluated yet are left for the next step.
        looked_at.update(self._registry.dirty if all_evaluated else ())
        for gang in self._gang_index.existing(looked_at):
            steered, writes = self._steering.due(gang, undo(gang, now, self.limits))
            actions.extend(writes)
            if any(member.pod.withheld or member.binding for member in steered):
                self.committing(gang)
            kept = gang.key in reserved
            asking, again = self.growth.due(gang, now)
            actions.extend(asking)
            actions.extend(announcements(gang, now, self.limits, self._registry, self.job_reports, kept))
            self._gang_index.update(gang, now)
            self._gang_index.look_at(gang.key, again)
            if gang.state is not GangState.WAITING or self.queue.turns.find(gang.key) is None:
                self.queue.turns.put(gang)
        nodes = self.node_holds.due(now)
        expected_pods = self.expected_pods.actions(now)
        due = [*preempting, *expected_pods, *actions, *self._group_reports.due(now), *nodes]
        # kube-scheduler counts a nominated pod as running there, so nominations are taken back first.
        return sorted(due, key=lambda action: not (isinstance(action, Nominate) and action.node == ""))

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        parts = (
            self._gang_index.unfinished,
            self.passes.restless,
            self.preemption.restless,
            self.expected_pods.unfinished,
        )
        return bool(self._registry.dirty) or self.behind or any(parts)

    @property
    def behind(self) -> bool:
        """Whether the last step left gangs that are to be looked at or tried in the next one."""
        return self._evaluation.cut_short or self.passes.unfinished

    def untried_for(self) -> float:
        """Return for how many seconds gangs have waited for a pass that is due."""
        return self.passes.untried_for(self._clock())

    def _apply(self, plan: Plan, now: float) -> set[GangKey]:
        """Carry out the plan of a pass; return the gangs that may have changed in more than their reason."""
        changed = self.passes.apply(plan, now)
        for one in self.queue.blocked:
            self._gang_index.look_at(one.key, self._registry.gangs[one.key].again_at)
        return changed
