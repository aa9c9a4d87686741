"""Workloads that are placed before their pods exist.

Admission suspends such a workload when it is created. The service expects its pods, and places them as a gang. Then one
patch resumes the workload. For a Job whose pods can be told apart by their indexes, the patch writes a plan into the
pod template: the node of each index. The API server binds the pods that are created within `BINDS_FOR` seconds of the
plan to these nodes. So the place of a expected pod isn't changed meanwhile: its Binding may exist, as that of a pod
that the service binds itself.

A pod without a node takes over a place that is held: that of its index if there is a plan, otherwise that of any
expected pod of its role. Then it is bound or steered like any other pod. If a place is lost, the member is placed anew
beside the others of its gang, as in every gang that has begun.

Places are held for pods that don't exist. So they are given back if the pods aren't created in time: a pod that comes
later waits in line. Only a gang that has had all its nodes keeps the places of a plan: each index that isn't done has
one pod, real or expected.

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
from fluence_extender.gangs.lifecycle.core_parts import CoreParts
from fluence_extender.gangs.lifecycle.expected_allowance import MOST_AT_ONCE, Allowance, split
from fluence_extender.gangs.lifecycle.uncreated_pods import UncreatedPods
from fluence_extender.gangs.membership.conventions.operators import mpi_job_name
from fluence_extender.gangs.membership.gang import Gang, Member, resume_place
from fluence_extender.gangs.membership.job_pods import (
    ANY_INDEX,
    JobPods,
    job_of,
    role,
)
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.model.gang import GangState
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, JobSet, MpiJob, Resumable

MOST_UNKNOWN = 256
"""The most waiting workloads that are expected before a replica begins to decide: no more get reservations."""

LOOK_EVERY = 0.5
"""Seconds between two checks whether the expected pods of a resumed Job have lapsed."""

LONGEST_PLAN = 200 * 1024 - 32
"""The most bytes of a plan's node names. The policy takes 200 KiB, with the time until which it binds pods."""


class ExpectedPods:
    """Expects the pods of Jobs, and resumes the Jobs once all of them have places.

    ``leading`` says whether this replica decides.
    """

    def __init__(self, core: CoreParts, admission: QueueAdmission, refused: UncreatedPods) -> None:
        self._registry = core.registry
        self._ledger = core.ledger
        self._limits = core.limits
        self._clock = core.clock
        self._admission = admission
        self._refused = refused
        self._jobs: dict[str, JobPods] = {}
        self._pods: dict[tuple[str, str], dict[int, dict[str, Pod]]] = {}
        """The real pods of Jobs, by the uid of the Job, the index and the uid of the pod."""
        self._changed: set[str] = set()
        self._open: set[str] = set()
        """The Jobs that may need an action although nothing is observed of them."""
        self._allowance = Allowance(core.clock)
        self._paused: set[tuple[str, str]] = set()
        """The JobSets that are suspended, by namespace and name."""
        self.leading = False

    def jobs(self) -> list[Resumable]:
        """Return the workloads that are placed before their pods exist."""
        return [one.job for one in self._jobs.values()]

    # Observations.

    def job_seen(self, job: Resumable) -> None:
        """Take in a workload."""
        job = self._registry.seal.believed_job(job) if isinstance(job, Job) else job
        known = self._jobs.get(job.uid)
        claimed = known is not None and not (known.planned or job.suspended) and bool(known.expected)
        if not job.ours or job.finished or not (job.held_for_placement or job.nodes or claimed):
            if known is not None:
                self.job_gone(job)
            return
        now = self._clock()
        if known is None:
            workloads = self._registry.workloads
            pods = self._pods.setdefault((job.namespace, job.uid), {})
            known = self._jobs[job.uid] = JobPods(job, workloads, pods, since=now)
            fresh, changed = not job.suspended, False
        else:
            before, known.job, known.over = known.job, job, False
            fresh, changed = (
                before.held_for_placement and not job.suspended,
                before.suspended != job.suspended,
            )
            if before.generation != job.generation and before.suspended and job.suspended:
                known.shapes, known.asked, known.refused = (), False, ""
        known.paused = (job.namespace, job.job_set) in self._paused
        self._changed.add(job.uid)
        if changed:
            known.since, known.written, known.lapsed = now, False, frozenset()
        if changed or fresh:
            # A plan is fresh if it ends a wait for places. A replica that sees the Job for the first time doesn't know.
            known.binds_until = now + BINDS_FOR if fresh and job.nodes else 0.0

    def _placed(self, known: JobPods) -> Iterator[int]:
        """Iterate over the indexes of the workload's expected pods that have places."""
        for index, pod in sorted(known.expected.items()):
            found = self._registry.member(pod.uid)
            if found is not None and found[1].assignment is not None:
                yield index

    def job_gone(self, job: Resumable) -> None:
        """Forget a workload that is gone or finished; the next `changes` removes its expected pods."""
        if job.uid in self._jobs:
            self._changed.add(job.uid)
            self._jobs[job.uid].over = True

    def job_set_seen(self, job_set: JobSet) -> None:
        """Take in whether a JobSet is suspended. Its Jobs aren't placed while it is."""
        self._pause((job_set.namespace, job_set.name), job_set.suspended)

    def job_set_gone(self, job_set: JobSet) -> None:
        """Forget a JobSet."""
        self._pause((job_set.namespace, job_set.name), False)

    def job_sets_listed(self, job_sets: Iterable[JobSet]) -> None:
        """Take in all JobSets."""
        paused = {(one.namespace, one.name) for one in job_sets if one.suspended}
        for name in paused ^ self._paused:
            self._pause(name, name in paused)

    def _pause(self, name: tuple[str, str], paused: bool) -> None:
        if paused is (name in self._paused):
            return
        (self._paused.add if paused else self._paused.discard)(name)
        for uid, known in self._jobs.items():
            if (known.job.namespace, known.job.job_set) == name:
                known.paused = paused
                self._changed.add(uid)

    def arrived(self, pod: Pod) -> Pod | None:
        """Take in a real pod that is new or has changed; return the expected pod whose place it takes over, if any."""
        known, index, new = self._appeared(pod)
        if known is None or not new:
            return None
        known.since = self._clock()
        if known.claims:
            # Any expected pod of its role will do, even one that waits; otherwise both would get a place.
            candidates = [*self._placed(known), *known.expected]
            index = next((one for one in candidates if role(known.expected[one]) == role(pod)), index)
        known.lapsed -= {index}
        expected = known.expected.get(index)
        if expected is None or pod.finished or not self._registry.take_over(expected.uid, pod):
            return None
        del known.expected[index]
        self._allowance.count(known.job.namespace, -1)
        known.counted -= 1
        found = self._registry.member(pod.uid)
        self._ledger.rename(expected.uid, pod, found[0].key if found is not None else None)
        if found is not None and not pod.node and found[1].assignment is not None:
            # It was created without its node, so it has to be bound or steered like any other pod.
            found[1].written = replace(found[1].written.again(), binding=False)
        return expected

    def _appeared(self, pod: Pod) -> tuple[JobPods | None, int, bool]:
        """Record a real pod of a Job; return the pod's workload, its index, and whether it is new."""
        place = job_of(pod)
        if place is not None:
            same = self._pods.setdefault((pod.namespace, place[0]), {}).setdefault(place[1], {})
            new, same[pod.uid] = pod.uid not in same, pod
            job = self._job(pod, place[0])
            if job is not None:
                self._changed.add(place[0])
                return job, place[1], new
        known = self._workload_of(pod)
        return known, ANY_INDEX, known is not None and self._registry.member(pod.uid) is None

    def _job(self, pod: Pod, uid: str) -> JobPods | None:
        """Return the tracked workload with that uid if it is in the pod's namespace: pods may name any owner."""
        known = self._jobs.get(uid)
        return known if known is not None and known.job.namespace == pod.namespace else None

    def _workload_of(self, pod: Pod) -> JobPods | None:
        """Return the tracked workload of a real pod; an MPIJob's launcher belongs to a Job of its own."""
        known = self._job(pod, pod.owner.uid) if pod.owner is not None else None
        if known is None and (name := mpi_job_name(pod)):
            mpi_job = self._registry.workloads.find(MpiJob, pod.namespace, name)
            known = self._jobs.get(mpi_job.uid) if mpi_job is not None else None
        return known

    def pod_gone(self, pod: Pod) -> None:
        """Take in that a real pod is gone."""
        if (known := self._workload_of(pod)) is not None:
            self._changed.add(known.job.uid)
        place = job_of(pod)
        if place is None:
            return
        owner, index = (pod.namespace, place[0]), place[1]
        same = self._pods.get(owner, {}).get(index, {})
        same.pop(pod.uid, None)
        if not same:
            self._pods.get(owner, {}).pop(index, None)
        if self._job(pod, place[0]) is not None:
            self._changed.add(place[0])
        elif not self._pods.get(owner):
            self._pods.pop(owner, None)

    def expected(self, job: Resumable, pods: Sequence[Pod]) -> None:
        """Take in the pods that the API server would create for the workload, one for each shape."""
        known = self._jobs.get(job.uid)
        if known is None:
            return
        known.asked = False
        self._changed.add(job.uid)
        if known.job.generation != job.generation or not pods:
            return
        known.take(pods)

    def shapes_unknown(self, uid: str, why: str = "") -> None:
        """Record why the API server refuses pods of the Job, "" if it couldn't answer."""
        known = self._jobs.get(uid)
        if known is not None:
            known.asked = False
            known.refused = why
            self._changed.add(uid)

    def write_failed(self, uid: str) -> list[str]:
        """Record that the patch which resumes the Job has failed, so that it is decided anew.

        Return its expected pods that are bound if the patch takes effect.
        """
        known = self._jobs.get(uid)
        if known is None:
            return []
        known.written = False
        self._changed.add(uid)
        found = [
            one for pod in known.expected.values() if (one := self._registry.member(pod.uid)) is not None
        ]
        for gang, member in found:
            if member.assignment is not None:
                member.written = member.written.again()
                self._registry.dirty.add(gang.key)
        return [member.pod.uid for _, member in found if member.binding]

    # Decisions.

    def lead(self) -> None:
        """Begin to expect pods."""
        self.leading = True
        self._look_again()

    def stand_down(self) -> None:
        """Stop expecting pods; the next `changes` removes those that are expected."""
        self.leading = False
        self._look_again()

    def _look_again(self) -> None:
        self._changed.update(self._jobs)
        for one in self._jobs.values():
            one.asked, one.written = False, False

    def unshaped(self) -> list[Resumable]:
        """Return the Jobs whose pods' shape has to be known first: those with a plan, and the first in line.

        No gang behind them may be tried before them.
        """
        unshaped = [one for one in self._jobs.values() if self._wanted(one) and not one.shaped()]
        unshaped.sort(key=lambda one: (one.job.suspended, self._admission.turn_of(one.job, one.age)))
        most = MOST_UNKNOWN + sum(not one.job.suspended for one in unshaped)
        return [one.job for one in unshaped[:most]]

    @property
    def unfinished(self) -> bool:
        """Whether the last `changes` left pods that the next one has to add or remove."""
        return any(self._is_due(self._jobs[uid]) for uid in self._changed)

    def _is_due(self, known: JobPods) -> bool:
        return known.over or not known.waits or self._allowance.now(known.job.namespace) > 0

    def changes(self, whole: bool = False) -> tuple[list[Pod], list[Pod]]:
        """Return the expected pods to remove, and those that are new or have changed.

        For Jobs that wait or are gone, each namespace has a bound on changes, unless ``whole``; the rest is left for
        the next call.
        """
        gone: list[Pod] = []
        coming: list[Pod] = []
        left = defaultdict[str, int](lambda: sys.maxsize if whole else MOST_AT_ONCE)
        for uid in self._in_order():
            known = self._jobs[uid]
            if known.counted and not (whole or self._is_due(known)):
                # Its namespace has to wait, so which pods it lacks needn't be found out now.
                continue
            namespace = known.job.namespace
            missing = self._missing(known) if known.shaped() else {}
            surplus = [index for index in known.expected if index not in missing]
            lacking = [
                index
                for index, node in missing.items()
                # Nothing of a expected pod changes but its node.
                if (present := known.expected.get(index)) is None or present.nominated != node
            ]
            most, later, kept = left[namespace], list[int](), list[int]()
            if known.waits:
                now = most if whole else min(most, self._allowance.now(namespace))
                lacking, later = split(lacking, now)
                self._allowance.spend(namespace, len(lacking))
            if known.over:
                surplus, kept = split(surplus, most)
            left[namespace] = most - len(lacking) - len(surplus)
            gone.extend(known.expected.pop(index) for index in surplus)
            for index in lacking:
                known.expected[index] = known.pod(index, missing[index])
                coming.append(known.expected[index])
            counted = len(known.expected) + len(later)
            self._allowance.count(namespace, counted - known.counted)
            known.counted = counted
            if not (later or kept):
                self._settle(known)
        return gone, coming

    def _in_order(self) -> list[str]:
        """Return the uids of the changed Jobs: those that wait come last, in their order in line."""
        turn = self._admission.turn_of

        def key(uid: str) -> tuple[bool, object]:
            known = self._jobs[uid]
            return (True, turn(known.job, known.age)) if known.waits else (False, uid)

        return sorted(self._changed, key=key)

    def _settle(self, known: JobPods) -> None:
        """Note that nothing is left to expect for a Job, and forget a Job that is over."""
        uid = known.job.uid
        self._changed.discard(uid)
        self._open.discard(uid)
        if known.over or known.spent:
            del self._jobs[uid]
            owner = known.job.namespace, uid
            if not self._pods.get(owner):
                self._pods.pop(owner, None)
        elif self.leading and known.unsettled():
            self._open.add(uid)

    def _missing(self, known: JobPods) -> dict[int, str]:
        """Return the indexes of the Job whose pods are to be expected now, each with its node."""
        if not self.leading or known.over:
            return {}
        return {} if known.waits and self._has_pods(known) else self._wanted(known)

    def _wanted(self, known: JobPods) -> dict[int, str]:
        """Return what `_missing` would if this replica led and the Job had no pods; refuse a Job with too many pods."""
        more = known.indexes - known.counted
        if known.waits and more > max(self._allowance.room(known.job.namespace), 0):
            known.refused = "its namespace has too many pods that don't exist yet"
        return known.missing()

    def resumes(self, gang: Gang, members: Iterable[Member]) -> Iterator[Resume]:
        """Yield the patches that resume the Jobs of expected members of ``gang``, all of which have places."""
        by_job: dict[str, list[Member]] = {}
        for member in members:
            by_job.setdefault(_workload(member.pod), []).append(member)
        for uid, some in by_job.items():
            known = self._jobs.get(uid)
            if known is None:
                continue
            plan = self._resume(known, some) if known.waits and not known.written else None
            for member in some:
                node = member.assignment.node if member.assignment is not None else None
                binding = member.binding or (plan is not None and plan.bound)
                member.written = replace(member.written, node=node, binding=binding)
            if plan is not None:
                known.written = True
                yield plan

    def _resume(self, known: JobPods, members: Iterable[Member]) -> Resume:
        job, places = known.job, {one.pod.uid: one for one in members}
        nodes = {uid: one.assignment.node for uid, one in places.items() if one.assignment is not None}
        plan = tuple(nodes.get(f"{job.uid}/{index}", "") for index in range(known.indexes))
        if not known.planned or len(",".join(plan)) > LONGEST_PLAN:
            return Resume(job, uids=tuple(places))
        promise = next((str(one.promise) for one in places.values() if one.promise is not None), "")
        record = self._registry.seal.on_job(job.namespace, job.uid, promise)
        # The devices of a pod are written in its Binding, so the service binds it itself.
        bound = not any(one.pod.devices for one in places.values())
        return Resume(job, plan, record, tuple(places), bound)

    def hold(self, members: Iterable[tuple[Gang, Member]]) -> None:
        """Keep the planned nodes of the members that the API server may bind at any moment.

        Nothing but a lack of room prevents this, because the API server asks nobody before it binds them.
        """
        now = self._clock()
        for gang, member in members:
            pod = member.pod
            known = self._jobs.get(_workload(pod)) if pod.expected and pod.nominated else None
            if known is None or now >= known.binds_until:
                continue
            if member.assignment is None and (place := self._ledger.resume(pod, gang.key)) is not None:
                resume_place(gang, member, place)
                gang.state = GangState.COMMITTED
                self._admission.note(gang)
            place = member.assignment
            if place is not None and place.node == pod.nominated and member.movable:
                member.written = replace(member.written, node=place.node, binding=True)

    def unbound(self, now: float) -> list[str]:
        """Return the expected pods that the API server doesn't bind by a plan any more, each once."""
        over = [known for uid in self._open if 0.0 < (known := self._jobs[uid]).binds_until <= now]
        for known in over:
            known.binds_until = 0.0
        found = (self._registry.member(pod.uid) for known in over for pod in known.expected.values())
        return [one[1].pod.uid for one in found if one is not None and one[1].binding]

    def actions(self, now: float) -> list[Action]:
        """Return the other actions that unsettled Jobs need."""
        found, unshaped = list[Action](), list[JobPods]()
        for known in map(self._jobs.__getitem__, sorted(self._open)):
            job = known.job
            if known.paused:
                continue
            if job.held_for_placement and not known.waits:
                if not known.written and not self._has_pods(known):
                    known.written = True
                    found.append(Resume(job))
            elif not known.shapes and self._wanted(known):
                if not known.asked:
                    known.asked = True
                    unshaped.append(known)
            elif not (job.suspended or known.written):
                self._lapse(known, now)
        # The first in line are known first, so that none behind them is tried before them.
        turn = self._admission.turn_of
        found.extend(FindShapes(one.job) for one in sorted(unshaped, key=lambda one: turn(one.job, one.age)))
        return found

    def _has_pods(self, known: JobPods) -> bool:
        """Return whether the workload still has pods that its controller has to delete before it may be resumed."""
        gangs = (
            self._registry.gangs[key] for key in self._registry.gangs_of(known.job.namespace, known.job.uid)
        )
        pods = (member.pod for gang in gangs for member in gang.alive() if not member.pod.expected)
        return any(self._workload_of(pod) is known for pod in pods)

    def _patience(self, namespace: str, gangs: Iterable[Gang]) -> float:
        """Return for how many seconds these gangs keep their places while their pods aren't created."""
        uncreated, stated = self._limits.uncreated, map(self._admission.admission_timeout, gangs)
        usual = min((uncreated if one is None else one for one in stated), default=uncreated)
        return self._refused.patience(namespace, usual)

    def _lapse(self, known: JobPods, now: float) -> None:
        """Give back the places of pods that aren't created in time; a plan is kept once its gang has had all nodes."""
        if now < max(known.look_at, known.binds_until):
            return
        known.look_at = now + LOOK_EVERY
        uids = (pod.uid for pod in known.expected.values())
        members = [found for uid in uids if (found := self._registry.member(uid)) is not None]
        gangs = {gang.key: gang for gang, _ in members}.values()
        if known.planned and all(gang.whole for gang in gangs):
            return
        if now >= known.since + self._patience(known.job.namespace, gangs):
            if any(member.assignment is not None for _, member in members):
                self._refused.failed(known.job.namespace)
            known.lapsed |= frozenset(known.expected)
            self._changed.add(known.job.uid)

    def need_pods(self, gang: Gang) -> None:
        """Have the workloads of expected pods of a gang resumed without a plan: autoscalers see only real pods."""
        for uid in {_workload(one.pod) for one in gang.alive() if one.pod.expected}:
            known = self._jobs.get(uid)
            if known is not None and known.waits:
                known.refused = "its pods have to exist, so that an autoscaler adds nodes for them"
                self._changed.add(uid)


def _workload(pod: Pod) -> str:
    """Return the uid of the workload of a expected pod."""
    return pod.uid.rpartition("/")[0]
