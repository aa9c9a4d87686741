"""The life of each gang: waiting → planned → committed → bound.

A gang is planned when it has all its members. It is committed from the first ungate or Binding on. From then on either
every member gets its node or, after a limit, the bound members are evicted. Bindings can't be taken back, so the other
members of a begun gang are always planned around the bound ones. A gang without bound members gives its places back
when it loses a member that it needs.

**Evaluation** finds the state of a gang that has changed and, if it can't be tried, its reason. After a start or a
change of leader thousands of gangs have changed, so a step evaluates them for a bounded time, and other work goes on
between steps. The namespaces take turns.

Invariants: when the service begins to lead, all gangs that have changed by then are evaluated before any gang is tried,
because one of them may be first in the queue. Later, changed gangs that one step can't evaluate keep others from being
tried for `ALL_FIRST` steps at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from fluence_extender.gangs.execution.actions import Action, Nominate
from fluence_extender.gangs.leadership.takeover import restore_all, restore_steered, take_over_bound
from fluence_extender.gangs.lifecycle.back_offs import BackOffs, rejected_now
from fluence_extender.gangs.lifecycle.deadlines import GangIndex, LargeGangs, falls_late, note_assembly, undo
from fluence_extender.gangs.lifecycle.expected_pods import ExpectedPods
from fluence_extender.gangs.lifecycle.growth import ClusterGrowth, NodeHolds
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas, UncreatedPods
from fluence_extender.gangs.lifecycle.places import CoreParts, Places, Requeues
from fluence_extender.gangs.lifecycle.reconcile import is_cleared
from fluence_extender.gangs.lifecycle.refusals import last_verdicts, pause
from fluence_extender.gangs.lifecycle.rules import (
    Rules,
    explain_begun,
    finish,
    planning_failed,
    take_size,
    update_state,
)
from fluence_extender.gangs.lifecycle.steering import Steering
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.planning.passes import Passes
from fluence_extender.gangs.planning.view import LiveParts, Plan, View
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preemptions import Preemptions
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.submissions import turn
from fluence_extender.gangs.reporting.announcements import announcements
from fluence_extender.gangs.reporting.status import GroupReports, JobReports
from fluence_extender.model.assignment import records_exactly
from fluence_extender.model.gang import GangKey, GangState, HistoryKind
from fluence_extender.model.names import ALLOCATION_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.wording import WithNames
from fluence_extender.room.holdings import Firmness

log = structlog.get_logger(__name__)

# Evaluation.

EVALUATED_WITHIN = 0.004
"""Seconds after which a step evaluates no more gangs that have changed."""

ALL_FIRST = 16
"""The most steps in a row that try no gang because changed gangs are left. After that, each step does both."""


class Evaluation:
    """Evaluates gangs of ``registry`` that have changed; ``on_complete`` is called for each that is now complete."""

    def __init__(
        self,
        core: CoreParts,
        places: Places,
        rules: Rules,
        quotas: NamespaceQuotas,
        large: LargeGangs,
        on_complete: Callable[[Gang], None],
    ) -> None:
        self._registry = core.registry
        self._places = places
        self._rules = rules
        self._quotas = quotas
        self._limits = core.limits
        self._clock = core.clock
        self._on_complete = on_complete
        self._large = large
        self._first: set[GangKey] = set()
        """The gangs that have to be evaluated before any is tried."""
        self._steps_behind = 0
        self.cut_short = False
        """Whether the last step left changed gangs for the next one."""

    def all_first(self) -> None:
        """Let no gang be tried until all gangs that have changed so far are evaluated."""
        self._first = set(self._registry.dirty)

    def evaluate_changed(self, now: float) -> set[GangKey]:
        """Evaluate gangs that have changed, and return them."""
        until, dirty = self._clock() + EVALUATED_WITHIN, self._registry.dirty
        evaluated: set[GangKey] = set()
        pace = self._large.pace
        for namespace in [name for name in self._registry.late if pace.left(name) > 0]:
            pace.spend(namespace, self._registry.recompute_late(namespace))
        for namespace in [name for name in dirty.put_off if pace.left(name) > 0]:
            dirty.admit(namespace)
        while dirty:
            key = dirty.take()
            gang = self._registry.gangs[key]
            if not (key in self._first or self._large.may_look(gang)):
                dirty.postpone(key)
                continue
            self._first.discard(key)
            try:
                self._evaluate(gang, now)
                self._rules.apply(gang, now)
                self._quotas.note(gang)
            except Exception as error:
                # One gang that can't be judged must not keep the others from being looked at.
                log.exception("a gang could not be judged", gang=str(key))
                gang.explain(planning_failed(error), now)
            evaluated.add(key)
            if dirty and self._clock() >= until:
                break
        self.cut_short = bool(dirty)
        self._first &= self._registry.gangs.keys() if dirty else set()
        self._steps_behind = self._steps_behind + 1 if dirty and not self._first else 0
        return evaluated

    @property
    def may_try(self) -> bool:
        """Whether gangs may be tried now."""
        return not self._registry.dirty or self._steps_behind > ALL_FIRST

    def _evaluate(self, gang: Gang, now: float) -> None:
        """Bring the gang's state up to date and, if it can't be planned, its reason."""
        self._places.drop_others(gang)
        alive = gang.alive()
        if not alive:
            finish(gang, now)
            return
        size = take_size(gang)
        whole = not isinstance(size, Reason) and len(alive) + gang.ended >= size
        note_assembly(gang, alive, whole or gang.begun, now, self._limits)
        if not whole:
            self._places.withdraw(gang)
            gang.forget_first_change()
        if update_state(gang, gang.alive(), size, now):
            self._on_complete(gang)
        if not isinstance(size, Reason):
            explain_begun(gang, now, self._limits, self._registry.gone.clock)
            if gang.gathering is not None:
                gang.gathering.recheck(gang.gathered)


# The life of gangs.

BIND_AGAIN, LONGEST_BIND_AGAIN = 5.0, 60.0
"""Seconds before a Binding that was refused is tried again. Until then its place may be changed."""


class Lifecycle:
    """Takes in what happens to pods and nodes, and decides what to do. All methods are synchronous."""

    def __init__(
        self, core: CoreParts, on_preempted: Callable[[], None], on_complete: Callable[[Gang], None]
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
        self._places = Places(registry, ledger, planner, clock, preemptions.overtaken_by)
        self._back_offs = BackOffs(core, self._places)
        self._group_reports = GroupReports(registry, registry.gone.clock)
        self.job_reports = JobReports(registry)
        self.requeues = Requeues(registry, self.queue.settings)
        self.preemption = PreemptionManager(
            core, self._places, preemptions, self.requeues, self.queue.reclaims, on_preempted
        )
        uncreated = UncreatedPods(clock)
        quotas = self.namespace_quotas = NamespaceQuotas(registry.look_at, uncreated)
        large = LargeGangs(clock)
        self.expected_pods = ExpectedPods(core, self.admission, uncreated)
        self.growth = ClusterGrowth(core, self.expected_pods, quotas)
        parts = LiveParts(registry, ledger, planner, self.queue, self.preemption, quotas, self.growth, large)
        self.passes = Passes(parts, self._places)
        preemptions.askers = self.growth.overtaken_by
        self.node_holds = NodeHolds(ledger, self.queue, limits.grow_after is not None)
        self._steering = Steering(self.expected_pods, ledger.claim_rooms, limits)
        self._gang_index = GangIndex(registry, limits)
        self._rules = Rules(registry, self._places, self.admission, quotas, limits)
        self._evaluation = Evaluation(core, self._places, self._rules, quotas, large, on_complete)
        self._looked_at: set[GangKey] = set()
        self._all_evaluated = True

    # Pods and nodes.

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
            self._back_offs.note_rejected(pod)
        elif before is None and not (pod.finished or pod.node):
            self._back_offs.exclude_for_new(gang, member)
        if pod.finished:
            self._places.end(gang, pod.uid, f"the pod has {pod.phase.lower()}")
        elif pod.node:
            as_planned = member.accepted == pod.node or (before is not None and before.node == pod.node)
            holds = self._holds_as_bound(member, as_planned)
            # A pod that is first seen with a node, and whose Binding recorded no devices, was given none.
            has_devices = before is not None or ALLOCATION_ANNOTATION in pod.annotations
            used = pod if has_devices else pod.without_devices
            assignment = None if holds else self._ledger.adopt(used, gang.key, Firmness.BOUND)
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

    def look_at_gang_of(self, uid: str) -> None:
        """Look again at the gang of a pod that waited until another one on its node had its devices or was gone."""
        found = self._registry.member(uid)
        if found is not None:
            gang, _ = found
            self._registry.dirty.add(gang.key)

    def note(self, uid: str, kind: HistoryKind, detail: str, with_names: WithNames | None = None) -> None:
        """Note in the history of its gang what happened to a pod of ours."""
        found = self._registry.member(uid)
        if found is not None:
            gang, member = found
            gang.note(kind, member.pod.name, detail, with_names)

    def _look_at_nomination(self, gang: Gang, member: Member) -> None:
        """Have a member's node written again if its nomination was cleared. Mostly its node has refused it."""
        place, written = member.assignment, member.written
        if place is None or member.bound or not is_cleared(member.pod, place.node, written):
            return
        gang.change(member.pod.uid, written=replace(written.again(), ours=False))
        self._registry.dirty.add(gang.key)
        if not written.ours:
            self.refused(member.pod.uid, place.node)

    def node_changed(self, name: str) -> None:
        """Move members off a changed node if they can't be bound to it, and have all waiting gangs tried again."""
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
        """Move members off the nodes that the anti-affinity of a pod with a node now closes to them."""
        for name in sorted(self._ledger.kept_apart.domain(uid)):
            for gang, member in self._members_on(name):
                if member.pending and member.assignment is not None and member.assignment.node == name:
                    self._places.leave_if_unfit(gang, member.pod.uid)

    def _members_on(self, node: str) -> list[tuple[Gang, Member]]:
        """Return the members that hold something on a node, in a stable order."""
        account = self._ledger.accounts.get(node)
        members = map(self._registry.member, account.users if account is not None else ())
        return sorted(filter(None, members), key=lambda gang_and_member: gang_and_member[0].key)

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
            self._back_offs.note_excluded(member, node, now)
            self._back_offs.after_refusal(gang, member, now)

    # Binding.

    def committing(self, gang: Gang) -> None:
        """Commit the gang before its first ungating or Binding is written: from now on it keeps its places."""
        gang.remember(starting=True)
        for member in gang.members.values():
            if member.assignment is not None:
                self._ledger.raise_firmness(member.pod.uid, Firmness.COMMITTED)
        self._registry.revision += 1
        if gang.state is GangState.PLANNED:
            gang.state = GangState.COMMITTED
            gang.note(HistoryKind.COMMITTED, "", "its places are its own until all members have their nodes")

    def binding(self, gang: Gang, member: Member) -> None:
        """Record that our Binding of the member starts. Its place can't be taken from it until the outcome is known.

        From now on the direct members of its gang may be bound, too.
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
        """Record that our bind verb refused the pod or, if there is a ``why``, that its Binding failed for that reason.

        This isn't a refusal of the node.
        """
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
        """Record that our Binding got no answer: the pod may be bound, so it keeps its place."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if member.binding:
            gang.change(uid, written=replace(member.written, failure=why, ours=True))
            self._registry.dirty.add(gang.key)

    def resumed(self, uids: Iterable[str]) -> None:
        """Record that the workload of these expected pods was resumed, so that they are created for their nodes."""
        for _, member in filter(None, map(self._registry.member, uids)):
            if member.written.node is not None:
                self.steered(member.pod.uid, member.written.node, 0)

    def not_resumed(self, uid: str, unclear: bool = False) -> None:
        """Record that the patch which resumes a Job has failed; if ``unclear``, it may have taken effect."""
        for pod_uid in self.expected_pods.write_failed(uid):
            if not unclear:
                self.not_bound(pod_uid)

    # Nominations.

    def nominated(self, uid: str, node: str, revision: int) -> None:
        """Record that a nomination for ``node`` was written, or that it was taken back if ``node`` is "".

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
        """Record that the pod's place was written, as in `nominated`, and forget earlier trouble with that."""
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
        if found is None:
            return False
        gang, member = found
        if member.trouble == why:
            return False
        gang.change(uid, trouble=why)
        self._registry.revision += 1
        gang.explain(
            Reason(ReasonCode.CANNOT_STEER, f"placed, but {member.pod.name} can't be told its node: {why}"),
            self._clock(),
        )
        return True

    def write_failed(self, uid: str, node: str) -> None:
        """Decide again what a pod needs, because the write of ``node`` failed; "" stands for a cleared nomination."""
        found = self._registry.member(uid)
        if found is None:
            return
        gang, member = found
        if not member.bound and member.written.node == node:
            gang.write_again(uid)
            self._registry.dirty.add(gang.key)

    def pause_before_binding(self, uid: str) -> float:
        """Return after how many seconds a Binding that has failed is tried again."""
        _, member = self._registry.member(uid) or (None, None)
        failures = member.written.failures if member is not None else 0
        return pause(BIND_AGAIN, max(failures, 1), LONGEST_BIND_AGAIN)

    # Everything at once.

    def resources_changed(self) -> None:
        """Move members off devices that are gone, changed or too few, and let all waiting gangs be tried again."""
        for gang in self._gang_index.unsettled():
            for member in gang.pending():
                self._places.leave_if_unfit(gang, member.pod.uid)
        self.look_at_all()

    def may_bind(self, uid: str, node: str) -> bool:
        """Return whether the pod may be bound to its planned node in the present state of both.

        It may not if the node is overcommitted.
        """
        _, member = self._registry.member(uid) or (None, None)
        overcommitted = node in self._ledger.overcommitted
        return member is not None and not overcommitted and self._places.suits(member, node)

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
        """Begin to decide, and keep the places to which the last leader steered pods."""
        self.passes.void()
        self.namespace_quotas.forget_all()
        restore_steered(self._registry, self._ledger, self._planner.node, self.admission)
        self.expected_pods.keep_planned_nodes(self._registry.members())
        self.preemption.take_over()
        self.growth.take_over(self._clock())
        for gang in self._registry.gangs.values():
            gang.gather_anew()
        for gang, member in list(self._registry.members()):
            if member.assignment is not None and not member.bound:
                gang.change(member.pod.uid, written=replace(member.written, at=self._clock()))
        self._look_at_all_first()

    def hold_planned_nodes(self, expected: Iterable[Pod]) -> None:
        """Hold for ``expected`` pods the nodes that their Jobs' plans name, where these still have room."""
        now = self._clock()
        planned = (self._registry.member(pod.uid) for pod in expected if pod.nominated)
        members = list(filter(None, planned))
        wanted = [
            (gang, member)
            for gang, member in members
            if member.pod.nominated not in member.refusals.excluded_nodes(now)
        ]
        restore_all(wanted, self._ledger, self._planner.node, self.admission)
        self.expected_pods.keep_planned_nodes(
            (gang, gang.members[member.pod.uid]) for gang, member in members
        )

    # Decisions.

    def begin(self) -> View | None:
        """Look at what has changed; return the view for a pass if one is due. `finish` has to follow."""
        now = self._clock()
        for uid in self.expected_pods.take_expired(now):
            self.not_bound(uid)
        if self._ledger.overcommitted:
            gangs = {
                gang.key: gang for node in self._ledger.overcommitted for gang, _ in self._members_on(node)
            }
            self._places.relieve(sorted(gangs.values(), key=turn, reverse=True))
        self.namespace_quotas.forget(self._registry.left)
        self.queue.follow()
        self.growth.begin(now)
        looked_at = self._gang_index.take_due(now)
        self._registry.dirty.update(
            gang.key
            for gang in self._gang_index.existing(looked_at)
            if falls_late(gang, now, self.limits) or (gang.obstacle and gang.again_at <= now)
        )
        evaluated = self._evaluation.evaluate_changed(now)
        looked_at |= evaluated
        self.queue.untried |= evaluated
        for gang in self._gang_index.existing(looked_at):
            self._back_offs.give_up_unrequested(gang, now)
        self._looked_at, self._all_evaluated = looked_at, not self._registry.dirty
        self.passes.note(looked_at)
        return self.passes.begin(now) if self._evaluation.may_try else None

    def finish(self, plan: Plan | None) -> list[Action]:
        """Carry out the plan of a pass that is over, if any; return what has to be done now."""
        now, looked_at, all_evaluated = self._clock(), self._looked_at, self._all_evaluated
        if plan is not None:
            looked_at |= self._apply(plan, now)
        explained = self.passes.explain(now)
        for gang in explained:
            # Only its reason has changed. It is announced once it has stayed the same for a moment.
            self._gang_index.look_at(gang.key, gang.memory.reason_since + self.limits.announce_after)
        self._registry.revision += bool(explained)
        preempting = self.preemption.actions(now, looked_at)
        if looked_at or self._registry.dirty:
            self._registry.revision += 1
        actions: list[Action] = []
        reserved = self.queue.reserved_starts()
        # Gangs that have changed and aren't evaluated yet are left for the next step.
        looked_at.update(self._registry.dirty if all_evaluated else ())
        for gang in self._gang_index.existing(looked_at):
            started, writes = self._steering.due(gang, undo(gang, now, self.limits))
            actions.extend(writes)
            if any(member.pod.withheld or member.binding for member in started):
                self.committing(gang)
            requests_for_nodes, look_again_at = self.growth.due(gang, now)
            actions.extend(requests_for_nodes)
            has_reservation = gang.key in reserved
            actions.extend(
                announcements(gang, now, self.limits, self._registry, self.job_reports, has_reservation)
            )
            self._gang_index.update(gang, now)
            self._gang_index.look_at(gang.key, look_again_at)
            if gang.state is not GangState.WAITING or self.queue.turns.find(gang.key) is None:
                self.queue.turns.put(gang)
        nodes = self.node_holds.due(now)
        expected_pods = self.expected_pods.actions(now)
        due = [*preempting, *expected_pods, *actions, *self._group_reports.due(now), *nodes]
        # kube-scheduler counts a nominated pod as running on that node, so nominations are taken back first.
        return sorted(due, key=lambda action: not (isinstance(action, Nominate) and action.node == ""))

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        parts = (
            self._gang_index.more_due,
            self.passes.restless,
            self.preemption.restless,
            self.expected_pods.unfinished,
        )
        return bool(self._registry.dirty) or self.behind or any(parts)

    @property
    def behind(self) -> bool:
        """Whether the last step left gangs to be looked at or tried in the next one."""
        return self._evaluation.cut_short or self.passes.unfinished

    def untried_for(self) -> float:
        """Return for how many seconds gangs have waited for a pass that is due."""
        return self.passes.untried_for(self._clock())

    def _apply(self, plan: Plan, now: float) -> set[GangKey]:
        """Carry out the plan of a pass; return the gangs that may have changed in more than their reason."""
        changed = self.passes.apply(plan, now)
        for blocked in self.queue.blocked:
            self._gang_index.look_at(blocked.key, self._registry.gangs[blocked.key].again_at)
        return changed
