"""Workloads that are placed before their pods exist.

Admission suspends such a workload when it is created. The service expects its pods, and places them as a gang. Then one
patch resumes the workload. For a Job whose pods differ in their indexes, the patch writes a plan into the pod template:
the node of each index. The API server binds the pods that are created within `BINDS_FOR` seconds of the plan to these
nodes. So the place of an expected pod isn't changed during that time: its Binding may exist. The same is true of a pod
that the service is binding itself.

A pod without a node takes over a place that is held: that of its index if there is a plan, otherwise that of any
expected pod of its role. Then it is bound or steered like any other pod. If a place is lost, the member gets another
one that suits the rest of its gang, as in every gang that has begun.

Places of pods that aren't created in time are given back, and a pod that comes later waits in line. There is one
exception: a gang that has had all its nodes keeps the places of a plan, so that each index that isn't done has one pod,
real or expected.

If the pods can't be known beforehand, the workload is resumed at once, and its pods wait like any others. Below, "Job"
includes all such workloads.

Invariant: only the leader expects pods.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fluence_extender.cluster.port import BINDS_FOR
from fluence_extender.gangs.execution.actions import Action, FindShapes, Resume
from fluence_extender.gangs.lifecycle.namespace_quotas import MOST_AT_ONCE, Allowance, UncreatedPods
from fluence_extender.gangs.lifecycle.places import CoreParts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.job_pods import JobPods, completion_index, role
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.mpijob import MpiJob, mpi_job_name
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.gang import GangState
from fluence_extender.model.pod import Pod

MOST_UNKNOWN = 256
"""The most waiting workloads whose pods are expected before a replica begins to decide: no more get reservations."""

LOOK_EVERY = 0.5
"""Seconds between two checks whether the expected pods of a resumed Job have lapsed."""

LONGEST_PLAN = 200 * 1024 - 32
"""The most bytes of a plan's node names. The policy accepts 200 KiB, which include the time until which it binds."""


class ExpectedPods:
    """Expects the pods of Jobs, and resumes the Jobs once all of them have places.

    ``leading`` says whether this replica decides.
    """

    def __init__(self, core: CoreParts, admission: QueueAdmission, uncreated: UncreatedPods) -> None:
        self._registry = core.registry
        self._ledger = core.ledger
        self._limits = core.limits
        self._clock = core.clock
        self._admission = admission
        self._uncreated = uncreated
        self._jobs: dict[str, JobPods] = {}
        self._changed: set[str] = set()
        self._open: set[str] = set()
        """The Jobs that may need an action although nothing is observed of them."""
        self._allowance = Allowance(core.clock)
        self.leading = False

    def jobs(self) -> list[Resumable]:
        """Return the workloads that are placed before their pods exist."""
        return [tracked.job for tracked in self._jobs.values()]

    # Observations.

    def job_seen(self, job: Resumable) -> None:
        """Take in a workload."""
        job = self._registry.seal.believed_job(job) if isinstance(job, Job) else job
        tracked = self._jobs.get(job.uid)
        takes_over = tracked is not None and not (tracked.planned or job.suspended) and bool(tracked.expected)
        if not job.ours or job.finished or not (job.held_for_placement or job.nodes or takes_over):
            self.job_gone(job)
            return
        before = tracked.job if tracked is not None else None
        if tracked is None:
            tracked = self._jobs[job.uid] = JobPods(job, self._registry.workloads)
        tracked.job, tracked.ended = job, False
        self._changed.add(job.uid)
        if before is None or before.suspended != job.suspended:
            now = self._clock()
            # A plan is fresh if it ends a wait for places. A replica that sees the Job for the first time doesn't know.
            fresh = not job.suspended and (before is None or before.held_for_placement)
            tracked.since, tracked.written, tracked.lapsed = now, False, frozenset()
            tracked.binds_until = now + BINDS_FOR if fresh and job.nodes else 0.0
        elif job.suspended and before.generation != job.generation:
            tracked.shapes, tracked.asked, tracked.refused = (), False, ""

    def job_gone(self, job: Resumable) -> None:
        """Forget a workload that is gone or finished; the next `changes` removes its expected pods."""
        if job.uid in self._jobs:
            self._changed.add(job.uid)
            self._jobs[job.uid].ended = True

    def arrived(self, pod: Pod) -> Pod | None:
        """Take in a real pod that is new or has changed; return the expected pod whose place it takes over, if any."""
        tracked = self._workload_of(pod)
        if tracked is None:
            return None
        self._changed.add(tracked.job.uid)
        if self._registry.member(pod.uid) is not None:
            return None
        _, index = completion_index(pod) or ("", -1)
        if tracked.takes_any:
            # It takes over any expected pod of its role, even one that waits. Otherwise both would get a place.
            same_role = [at for at, other in sorted(tracked.expected.items()) if role(other) == role(pod)]
            placed = (at for at in same_role if tracked.expected[at].uid in self._ledger.holdings)
            index = next(placed, same_role[0] if same_role else index)
        tracked.lapsed -= {index}
        expected = tracked.expected.get(index)
        if expected is None or pod.finished or not self._registry.take_over(expected.uid, pod):
            return None
        del tracked.expected[index]
        # Any other pod may name the Job as its owner, so it gives the expected pods no more time.
        tracked.since = self._clock()
        self._allowance.count(tracked.job.namespace, -1)
        tracked.counted -= 1
        gang, member = self._registry.member(pod.uid) or (None, None)
        self._ledger.hand_over(expected.uid, pod, gang.key if gang is not None else None)
        if gang is not None and member is not None and not pod.node and member.assignment is not None:
            # It was created without its node, so it has to be bound or steered like any other pod.
            gang.change(pod.uid, written=replace(member.written.again(), binding=False))
        return expected

    def _workload_of(self, pod: Pod) -> JobPods | None:
        """Return the tracked workload of a real pod; an MPIJob's launcher belongs to a Job of its own."""
        tracked = self._jobs.get(pod.owner.uid) if pod.owner is not None else None
        if tracked is None and (name := mpi_job_name(pod)):
            mpi_job = self._registry.workloads.find(MpiJob, pod.namespace, name)
            tracked = self._jobs.get(mpi_job.uid) if mpi_job is not None else None
        # A pod may name the owner of a pod in another namespace.
        return tracked if tracked is not None and tracked.job.namespace == pod.namespace else None

    def _pods_of(self, tracked: JobPods) -> list[Pod]:
        """Return the pods of a workload that exist."""
        job, naming = tracked.job, self._registry.workloads.naming
        # Any pod may have the name of a Job in a label, while a launcher has that of its MPIJob.
        uids = [*naming(job.namespace, job.uid)]
        uids += naming(job.namespace, job.name) if isinstance(job, MpiJob) else ()
        pods = (member.pod for _, member in filter(None, map(self._registry.member, uids)))
        return [pod for pod in pods if not pod.expected and self._workload_of(pod) is tracked]

    def pod_gone(self, pod: Pod) -> None:
        """Take in that a real pod is gone."""
        if (tracked := self._workload_of(pod)) is not None:
            self._changed.add(tracked.job.uid)

    def shapes_known(self, job: Resumable, pods: Sequence[Pod]) -> None:
        """Take in the pods that the API server would create for the workload, one of each shape."""
        tracked = self._jobs.get(job.uid)
        if tracked is not None:
            tracked.asked = False
            self._changed.add(job.uid)
            if tracked.job.generation == job.generation and pods:
                tracked.take_shapes(pods)

    def shapes_unknown(self, uid: str, why: str = "") -> None:
        """Record why the API server refuses pods of the Job, "" if it couldn't answer."""
        tracked = self._jobs.get(uid)
        if tracked is not None:
            tracked.asked = False
            tracked.refused = why
            self._changed.add(uid)

    def write_failed(self, uid: str) -> list[str]:
        """Record that the patch which resumes the Job has failed, so that it is decided again.

        Return its expected pods that are bound if the patch takes effect all the same.
        """
        tracked = self._jobs.get(uid)
        if tracked is None:
            return []
        tracked.written = False
        self._changed.add(uid)
        members = self._members(tracked)
        for gang, member in members:
            if member.assignment is not None:
                gang.change(member.pod.uid, written=member.written.again())
                self._registry.dirty.add(gang.key)
        return [member.pod.uid for _, member in members if member.binding]

    def _members(self, tracked: JobPods) -> list[tuple[Gang, Member]]:
        """Return the members of a workload that are expected, with their gangs."""
        members = (self._registry.member(pod.uid) for pod in tracked.expected.values())
        return list(filter(None, members))

    # Decisions.

    def lead(self, leading: bool) -> None:
        """Begin to expect pods, or stop if this replica isn't ``leading``: then the next `changes` removes them all."""
        self.leading = leading
        self._changed.update(self._jobs)
        for tracked in self._jobs.values():
            tracked.asked, tracked.written = False, False

    def without_shapes(self) -> list[Resumable]:
        """Return the Jobs whose pods' shapes have to be known first: those with a plan, and the first in line.

        No gang behind them may be tried before them.
        """
        without = [
            tracked for tracked in self._jobs.values() if not tracked.ended and self._needs_shapes(tracked)
        ]
        turn = self._admission.turn_of
        without.sort(key=lambda tracked: (tracked.job.suspended, turn(tracked.job, tracked.age)))
        most = MOST_UNKNOWN + sum(not tracked.job.suspended for tracked in without)
        return [tracked.job for tracked in without[:most]]

    @property
    def unfinished(self) -> bool:
        """Whether the last `changes` left pods that the next one has to add or remove."""
        return any(self._is_due(self._jobs[uid]) for uid in self._changed)

    def _is_due(self, tracked: JobPods) -> bool:
        return tracked.ended or not tracked.waits or self._allowance.allowed_now(tracked.job.namespace) > 0

    def changes(self, whole: bool = False) -> tuple[list[Pod], list[Pod]]:
        """Return the expected pods to remove, and those that are new or have changed.

        Unless ``whole``, the number of changes is bounded for each namespace where Jobs wait or are gone. The rest is
        left for the next call.
        """
        gone: list[Pod] = []
        coming: list[Pod] = []
        left = defaultdict[str, int](lambda: sys.maxsize if whole else MOST_AT_ONCE)
        self._look_at_job_sets()
        for uid in self._in_order():
            tracked = self._jobs[uid]
            if tracked.counted and not (whole or self._is_due(tracked)):
                # Its namespace has to wait, so it doesn't matter now which of its pods are missing.
                continue
            namespace, pods = tracked.job.namespace, self._pods_of(tracked)
            expects = self.leading and not tracked.ended and tracked.ensure_shapes(pods)
            wanted = self._wanted(tracked, pods) if expects else {}
            surplus = [index for index in tracked.expected if index not in wanted]
            missing = [
                index
                for index, node in wanted.items()
                # Nothing of an expected pod changes but its node.
                if (present := tracked.expected.get(index)) is None or present.nominated != node
            ]
            most = left[namespace]
            removed = surplus[:most] if tracked.ended else surplus
            added = missing
            if tracked.waits:
                added = missing[: most if whole else min(most, self._allowance.allowed_now(namespace))]
                self._allowance.spend(namespace, len(added))
            left[namespace] = max(most - len(added) - len(removed), 0)
            gone.extend(tracked.expected.pop(index) for index in removed)
            for index in added:
                tracked.expected[index] = tracked.pod(index, wanted[index])
                coming.append(tracked.expected[index])
            counted = len(tracked.expected) + len(missing) - len(added)
            self._allowance.count(namespace, counted - tracked.counted)
            tracked.counted = counted
            if (added, removed) == (missing, surplus):
                self._up_to_date(tracked, pods)
        return gone, coming

    def _look_at_job_sets(self) -> None:
        """Look again at the Jobs whose JobSets were suspended or resumed."""
        touched = self._registry.touched_job_sets
        if touched:
            for uid, tracked in self._jobs.items():
                if (tracked.job.namespace, tracked.job.job_set) in touched:
                    self._changed.add(uid)
            touched.clear()

    def _in_order(self) -> list[str]:
        """Return the uids of the changed Jobs: those that wait come last, in their order in line."""
        turn = self._admission.turn_of

        def key(uid: str) -> tuple[bool, object]:
            tracked = self._jobs[uid]
            return (True, turn(tracked.job, tracked.age)) if tracked.waits else (False, uid)

        return sorted(self._changed, key=key)

    def _up_to_date(self, tracked: JobPods, pods: Sequence[Pod]) -> None:
        """Note that exactly the right pods of a Job are expected, and forget a Job that has ended."""
        uid = tracked.job.uid
        self._changed.discard(uid)
        self._open.discard(uid)
        if tracked.ended or tracked.expects_no_more:
            del self._jobs[uid]
        elif self.leading and tracked.needs_looks(pods):
            tracked.look_at = 0.0
            self._open.add(uid)

    def _wanted(self, tracked: JobPods, pods: Sequence[Pod]) -> dict[int, str]:
        """Return the indexes of a Job whose pods are to be expected, each with its node.

        A waiting Job for whose pods its namespace has no allowance is refused, so that none is expected.
        """
        if tracked.waits and tracked.indexes - tracked.counted > self._allowance.room(tracked.job.namespace):
            tracked.refused = "its namespace has too many pods that don't exist yet"
        return tracked.missing(pods)

    def _needs_shapes(self, tracked: JobPods) -> bool:
        """Return whether a Job's pods are to be expected and their shapes aren't known."""
        if tracked.shapes:
            return False
        pods = self._pods_of(tracked)
        return bool(self._wanted(tracked, pods)) and not tracked.ensure_shapes(pods)

    def resumes(self, gang: Gang, members: Iterable[Member]) -> Iterator[Resume]:
        """Yield the patches that resume the Jobs of expected members of ``gang``, all of which have places."""
        by_job: dict[str, list[Member]] = {}
        for member in members:
            by_job.setdefault(_workload_uid(member.pod), []).append(member)
        for uid, members_of_job in by_job.items():
            tracked = self._jobs.get(uid)
            if tracked is None:
                continue
            plan = self._resume(tracked, members_of_job) if tracked.waits and not tracked.written else None
            for member in members_of_job:
                node = member.assignment.node if member.assignment is not None else None
                binding = member.binding or (plan is not None and plan.bound)
                written = replace(member.written, node=node, binding=binding)
                gang.change(member.pod.uid, written=written)
            if plan is not None:
                tracked.written = True
                yield plan

    def _resume(self, tracked: JobPods, members: Iterable[Member]) -> Resume:
        job, by_uid = tracked.job, {member.pod.uid: member for member in members}
        nodes = {
            uid: member.assignment.node for uid, member in by_uid.items() if member.assignment is not None
        }
        plan = tuple(nodes.get(f"{job.uid}/{index}", "") for index in range(tracked.indexes))
        if not tracked.planned or len(",".join(plan)) > LONGEST_PLAN:
            return Resume(job, uids=tuple(by_uid))
        records = (member.record for member in by_uid.values())
        placed_with = next((str(record) for record in records if record is not None), "")
        record = self._registry.seal.on_job(job.namespace, job.uid, placed_with)
        # The devices of a pod are written in its Binding, so the service binds it itself.
        bound = not any(member.pod.devices for member in by_uid.values())
        return Resume(job, plan, record, tuple(by_uid), bound)

    def keep_planned_nodes(self, members: Iterable[tuple[Gang, Member]]) -> None:
        """Keep the planned nodes of the members that the API server may bind at any moment.

        This fails only if a node has too little room, because the API server asks no one before it binds them.
        """
        now = self._clock()
        for gang, member in members:
            pod = member.pod
            tracked = self._jobs.get(_workload_uid(pod)) if pod.expected and pod.nominated else None
            if tracked is None or now >= tracked.binds_until:
                continue
            if member.assignment is None and (place := self._ledger.restore(pod, gang.key)) is not None:
                member = gang.restore(pod.uid, place)
                gang.state = GangState.COMMITTED
                self._admission.note(gang)
            place = member.assignment
            if place is not None and place.node == pod.nominated and member.movable:
                gang.change(pod.uid, written=replace(member.written, node=place.node, binding=True))

    def take_expired(self, now: float) -> list[str]:
        """Return the expected pods that the API server has stopped binding, because the time for their plan is over.

        Each is returned once.
        """
        expired = [tracked for uid in self._open if 0.0 < (tracked := self._jobs[uid]).binds_until <= now]
        for tracked in expired:
            tracked.binds_until = 0.0
        members = (member for tracked in expired for _, member in self._members(tracked))
        return [member.pod.uid for member in members if member.binding]

    def actions(self, now: float) -> list[Action]:
        """Return what Jobs need although nothing is observed of them."""
        actions, without_shapes = list[Action](), list[JobPods]()
        for tracked in map(self._jobs.__getitem__, sorted(self._open)):
            job = tracked.job
            if tracked.paused or now < tracked.look_at:
                continue
            tracked.look_at = now + LOOK_EVERY
            if job.held_for_placement and not tracked.waits:
                # Its controller has to delete the pods of its last run first.
                if not tracked.written and all(
                    pod.finished or pod.deleting for pod in self._pods_of(tracked)
                ):
                    tracked.written = True
                    actions.append(Resume(job))
            elif self._needs_shapes(tracked):
                if not tracked.asked:
                    tracked.asked = True
                    without_shapes.append(tracked)
            elif not (job.suspended or tracked.written):
                self._lapse(tracked, now)
        # The API server is asked in the order of the line, so that no Job is tried before one ahead of it.
        turn = self._admission.turn_of
        without_shapes.sort(key=lambda tracked: turn(tracked.job, tracked.age))
        actions.extend(FindShapes(tracked.job) for tracked in without_shapes)
        return actions

    def _patience(self, namespace: str, gangs: Iterable[Gang]) -> float:
        """Return for how many seconds these gangs keep their places while their pods aren't created."""
        uncreated, stated = self._limits.uncreated, map(self._admission.admission_timeout, gangs)
        usual = min((uncreated if seconds is None else seconds for seconds in stated), default=uncreated)
        return self._uncreated.patience(namespace, usual)

    def _lapse(self, tracked: JobPods, now: float) -> None:
        """Give back the places of pods that aren't created in time, except in a plan whose gangs have had all nodes."""
        if now < tracked.binds_until:
            return
        members = self._members(tracked)
        gangs = {gang.key: gang for gang, _ in members}.values()
        if tracked.planned and all(gang.was_complete for gang in gangs):
            return
        if now >= tracked.since + self._patience(tracked.job.namespace, gangs):
            if any(member.assignment is not None for _, member in members):
                self._uncreated.failed(tracked.job.namespace)
            tracked.lapsed |= frozenset(tracked.expected)
            self._changed.add(tracked.job.uid)

    def need_pods(self, gang: Gang) -> None:
        """Have the workloads of a gang's expected pods resumed without a plan: autoscalers see only real pods."""
        for uid in {_workload_uid(member.pod) for member in gang.alive() if member.pod.expected}:
            tracked = self._jobs.get(uid)
            if tracked is not None and tracked.waits:
                tracked.refused = "its pods have to exist, so that an autoscaler adds nodes for them"
                self._changed.add(uid)


def _workload_uid(pod: Pod) -> str:
    """Return the uid of the workload of an expected pod."""
    return pod.uid.rpartition("/")[0]
