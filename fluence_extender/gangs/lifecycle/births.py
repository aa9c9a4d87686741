"""Jobs whose pods get their nodes when they are created.

Admission suspends such a Job when it is created. The service foresees its pods and places them as a gang. Then one
patch resumes the Job and writes the nodes into its pod template. Admission confines each new pod to the node of its
index. If the pods can't be placed this way, the Job is resumed without a plan, and they wait at the gate.

Some workloads can't have their pods pinned: Jobs that aren't Indexed, that run fewer pods at a time than they have, or
whose pods are gangs by themselves, and all MPIJobs and RayClusters. In a queue they wait suspended for their turn, too.
They are resumed without a plan once their gang has places, or once the first pod has one if each pod is a gang. The
places are held until the pods take them over at the gate, or for the queue's ``admissionTimeout``. Below, "Job"
includes such workloads.

Each real pod takes over the place of a foreseen one. If a place of the plan is lost, the Job is *gated*: an object
tells the policy to give its new pods the gate, and they are placed anew.

Invariants: only the leader foresees pods. Between the resume and the end of a Job, each index that isn't done has one
pod, real or foreseen, and so keeps its share of a node, unless the Job is gated. A template can't be changed while the
Job has pods, so a plan is changed by suspending the Job again.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fluence_extender.gangs.execution.actions import Action, Foresee, GateJobs, HoldJob, Resume
from fluence_extender.gangs.lifecycle.foreseen_allowance import MOST_AT_ONCE, Allowance, split
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.member_states import STEERING, MemberEvent, move, steer_again
from fluence_extender.gangs.lifecycle.refused_births import RefusedBirths
from fluence_extender.gangs.membership.conventions.operators import mpi_job_name
from fluence_extender.gangs.membership.foreseen import (
    ANY_INDEX,
    JobPods,
    completion_index,
    job_of,
    role,
    shape,
    unsuited,
)
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.repelling import Repelling
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, JobSet, MpiJob, Resumable

MOST_UNKNOWN = 256
"""The most waiting workloads that are foreseen before a replica begins to decide: no more get reservations."""

LOOK_EVERY = 0.5
"""Seconds between two checks whether a resumed Job has lost a place; each check goes through all its pods."""

LONGEST_PLAN = 200 * 1024 - 32
"""The most bytes of a plan's node names. The policy takes 200 KiB, which include the time until which it binds pods."""


class Births:
    """Foresees the pods of Jobs, and resumes the Jobs once all of them have places.

    ``gated`` holds the reason for each gated Job, by the Job's uid. ``leading`` says whether this replica decides.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        limits: Limits,
        clock: Callable[[], float],
        admission: QueueAdmission,
        refused: RefusedBirths,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._limits = limits
        self._clock = clock
        self._admission = admission
        self._refused = refused
        self._jobs: dict[str, JobPods] = {}
        self._pods: dict[tuple[str, str], dict[int, dict[str, Pod]]] = {}
        """The real pods of Jobs, by the uid of the Job, the index and the uid of the pod."""
        self._changed: set[str] = set()
        self._open: set[str] = set()
        """The Jobs that may need an action although nothing is observed of them."""
        self._allowance = Allowance(clock)
        self._written: dict[str, str] | None = {}
        self._paused: set[tuple[str, str]] = set()
        """The JobSets that are suspended, by namespace and name."""
        self.gated: dict[str, str] = {}
        self.repelling = Repelling()
        self.leading = False

    def jobs(self) -> list[Resumable]:
        """Return the workloads that are placed before their pods exist."""
        return [one.job for one in self._jobs.values()]

    # Observations.

    def job_seen(self, job: Resumable) -> list[Pod]:
        """Take in a workload; return its real pods if what its template records for them has changed."""
        job = self._registry.seal.believed_job(job) if isinstance(job, Job) else job
        known = self._jobs.get(job.uid)
        kept = job.held_for_placement or job.nodes or (known is not None and self._claims(known, job))
        if not job.ours or job.finished or not kept:
            if known is not None:
                self.job_gone(job)
            return []
        if known is None:
            workloads = self._registry.workloads
            pods = self._pods.setdefault((job.namespace, job.uid), {})
            known = self._jobs[job.uid] = JobPods(job, workloads, pods, born=self._clock())
            before = None
        else:
            before, known.job, known.over = known.job, job, False
            if before.generation != job.generation and before.suspended and job.suspended:
                known.shapes, known.asked, known.refused = (), False, ""
        known.paused = (job.namespace, job.job_set) in self._paused
        self._changed.add(job.uid)
        if before is not None and before.suspended != job.suspended:
            known.born, known.written, known.leaving = self._clock(), False, ""
        if not job.nodes or (before is not None and before.nodes == job.nodes):
            return []
        return [pod for some in known.pods.values() for pod in some.values()]

    def _claims(self, known: JobPods, job: Resumable) -> frozenset[int]:
        """Return the claims of a workload that is now ``job``: the pods that were foreseen when it was resumed."""
        if job.suspended or known.pinned:
            known.claims = frozenset()
        elif known.job.suspended:
            known.claims = frozenset(known.foreseen)
        return known.claims

    def _placed(self, known: JobPods) -> Iterator[int]:
        """Iterate over the indexes of the workload's foreseen pods that have places."""
        for index, pod in sorted(known.foreseen.items()):
            found = self._registry.member(pod.uid)
            if found is not None and found[1].assignment is not None:
                yield index

    def job_gone(self, job: Resumable) -> None:
        """Forget a workload that is gone or finished; the next `changes` removes its foreseen pods."""
        self.gated.pop(job.uid, None)
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

    def recorded(self, pod: Pod) -> Pod:
        """Return a real pod with the record that the service sealed for it or for its Job, and with no other record."""
        pod = self._admission.believed(pod)
        place = completion_index(pod)
        known = self._job(pod, place[0]) if place is not None else None
        if place is None or known is None or GATE in pod.gates:
            return pod
        node = known.planned_node(place[1])
        return known.recorded(pod, node) if node and pod.confined_to == (node,) else pod

    def arrived(self, pod: Pod) -> Pod | None:
        """Take in a real pod that is new or has changed; return the foreseen pod whose place it takes over, if any."""
        known, index, new = self._appeared(pod)
        if known is None or not new:
            return None
        known.born = self._clock()
        if not known.pinned and (known.written or known.claims):
            # Any foreseen pod of its role will do, even one that waits; otherwise both would get a place.
            candidates = [*self._placed(known), *known.foreseen]
            index = next((one for one in candidates if role(known.foreseen[one]) == role(pod)), index)
        foreseen = known.foreseen.get(index)
        if foreseen is None or pod.finished or not self._registry.take_over(foreseen.uid, pod):
            return None
        del known.foreseen[index]
        known.claims -= {index}
        self._allowance.count(known.job.namespace, -1)
        known.counted -= 1
        found = self._registry.member(pod.uid)
        self._ledger.rename(foreseen.uid, pod, found[0].key if found is not None else None)
        if found is not None and GATE in pod.gates and found[1].assignment is not None:
            # It was created without its node although there was a plan, so it has to be steered like any gated pod.
            steer_again(*found, MemberEvent.STEER_FAILED)
        return foreseen

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

    def foreseen(self, job: Resumable, pods: Sequence[Pod]) -> None:
        """Take in the pods that the API server would create for the workload, one for each shape."""
        known = self._jobs.get(job.uid)
        if known is None:
            return
        known.asked = False
        self._changed.add(job.uid)
        if known.job.generation != job.generation or not pods:
            return
        known.refused, known.shapes = next(filter(None, map(unsuited, pods)), ""), tuple(map(shape, pods))
        known.judged = False

    def not_foreseen(self, uid: str, why: str = "") -> None:
        """Record why the API server refuses pods of the Job, "" if it couldn't answer."""
        known = self._jobs.get(uid)
        if known is not None:
            known.asked = False
            known.refused = why
            self._changed.add(uid)

    def write_failed(self, uid: str) -> None:
        """Record that the patch which resumes or suspends the Job has failed, so that it is decided anew."""
        known = self._jobs.get(uid)
        if known is None:
            return
        known.written = False
        self._changed.add(uid)
        for pod in known.foreseen.values():
            found = self._registry.member(pod.uid)
            if found is not None and found[1].state is STEERING:
                steer_again(*found, MemberEvent.STEER_FAILED)
                self._registry.dirty.add(found[0].key)

    def gating_failed(self, _: str) -> None:
        """Have the gated Jobs written again."""
        self._written = None

    def gated_before(self, reasons: Mapping[str, str]) -> None:
        """Take over the Jobs that were gated before this replica began to lead."""
        self._written = dict(reasons)
        self.gated.update((uid, why) for uid, why in reasons.items() if uid in self._jobs)

    # Decisions.

    def lead(self) -> None:
        """Begin to foresee pods."""
        self.leading = True
        self._look_again()

    def stand_down(self) -> None:
        """Stop foreseeing pods; the next `changes` removes those that are foreseen."""
        self.leading = False
        self._look_again()

    def _look_again(self) -> None:
        self._changed.update(self._jobs)
        for one in self._jobs.values():
            one.asked, one.written, one.leaving = False, False, ""

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
        """Whether the last `changes` left pods that the next one has to foresee or remove."""
        return any(self._is_due(self._jobs[uid]) for uid in self._changed)

    def _is_due(self, known: JobPods) -> bool:
        return known.over or not known.waits or self._allowance.now(known.job.namespace) > 0

    def changes(self, whole: bool = False) -> tuple[list[Pod], list[Pod]]:
        """Return the foreseen pods to remove, and those that are new or have changed.

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
            surplus = [index for index in known.foreseen if index not in missing]
            lacking = [
                index
                for index, node in missing.items()
                # Nothing of a foreseen pod changes but its node.
                if (present := known.foreseen.get(index)) is None or present.pinned_to != node
            ]
            most, later, kept = left[namespace], list[int](), list[int]()
            if known.waits:
                now = most if whole else min(most, self._allowance.now(namespace))
                lacking, later = split(lacking, now)
                self._allowance.spend(namespace, len(lacking))
            if known.over:
                surplus, kept = split(surplus, most)
            left[namespace] = most - len(lacking) - len(surplus)
            gone.extend(known.foreseen.pop(index) for index in surplus)
            for index in lacking:
                known.foreseen[index] = known.pod(index, missing[index])
                coming.append(known.foreseen[index])
            counted = len(known.foreseen) + len(later)
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
        """Note that nothing is left to foresee for a Job, and forget a Job that is over."""
        uid = known.job.uid
        self._changed.discard(uid)
        self._open.discard(uid)
        if known.over or known.spent:
            del self._jobs[uid]
            owner = known.job.namespace, uid
            if not self._pods.get(owner):
                self._pods.pop(owner, None)
        elif self.leading and (uid in self.gated or known.unsettled()):
            self._open.add(uid)

    def _missing(self, known: JobPods) -> dict[int, str]:
        """Return the indexes of the Job whose pods are to be foreseen now, each with its node."""
        if not self.leading or known.over or known.job.uid in self.gated:
            return {}
        return {} if known.waits and self._has_pods(known) else self._wanted(known)

    def _wanted(self, known: JobPods) -> dict[int, str]:
        """Return what `_missing` would if this replica led and the Job had no pods; refuse a Job with too many pods."""
        more = known.indexes - known.counted
        if known.waits and more > max(self._allowance.room(known.job.namespace), 0):
            known.refused = "its namespace has too many pods that don't exist yet"
        return known.missing()

    def resumes(self, gang: Gang, members: Iterable[Member]) -> Iterator[Resume]:
        """Yield the patches that resume the Jobs of foreseen members of ``gang``, all of which have places."""
        by_job: dict[str, list[Member]] = {}
        for member in members:
            by_job.setdefault(member.pod.uid.rpartition("/")[0], []).append(member)
        for uid, some in by_job.items():
            known = self._jobs.get(uid)
            if known is None:
                continue
            for member in some:
                move(gang, member, MemberEvent.STEER)
            if known.waits and not (known.written and not known.pinned):
                known.written = not known.pinned
                yield self._resume(known, some)
                continue
            for member in some:
                # The template has its node already, or the Job is being resumed for other pods of its own.
                move(gang, member, MemberEvent.STEER_WRITTEN)

    def _resume(self, known: JobPods, members: Sequence[Member]) -> Resume:
        nodes = {one.pod.uid: one.assignment.node for one in members if one.assignment is not None}
        job = known.job
        if not known.pinned:
            return Resume(job, uids=tuple(nodes))
        plan = tuple(nodes.get(f"{job.uid}/{index}", "") for index in range(known.indexes))
        uids = tuple(member.pod.uid for member in members)
        if len(",".join(plan)) > LONGEST_PLAN:
            return Resume(job, uids=uids)
        fragile = isinstance(job, Job) and job.fragile
        apart = fragile or any(one.pod.claims for one in members) or self.repelling.keeps_away(job.namespace)
        record = self._registry.seal.on_job(job.namespace, job.uid, str(members[0].promise or ""))
        return Resume(job, plan, record, uids, not apart)

    def actions(self, now: float) -> list[Action]:
        """Return the other actions that unsettled Jobs need."""
        found, unshaped = list[Action](), list[JobPods]()
        for uid in sorted(self._open):
            known = self._jobs[uid]
            job = known.job
            if known.paused:
                continue
            if job.held_for_placement and (uid in self.gated or not known.waits):
                if not known.written and not self._has_pods(known):
                    known.written = True
                    found.append(Resume(job))
            elif not known.shapes and self._wanted(known):
                if not known.asked:
                    known.asked = True
                    unshaped.append(known)
            elif not (job.suspended or known.written):
                for one in [known] if known.leaving else self._given_up(known, now):
                    assert isinstance(one.job, Job), "only pods of Jobs are pinned"
                    one.written = True
                    found.append(HoldJob(one.job, one.leaving))
        # The first in line are known first, so that none behind them is tried before them.
        turn = self._admission.turn_of
        found.extend(Foresee(one.job) for one in sorted(unshaped, key=lambda one: turn(one.job, one.age)))
        if self.leading and self.gated != self._written:
            self._written = dict(self.gated)
            found.append(GateJobs(dict(self.gated)))
        return found

    def _has_pods(self, known: JobPods) -> bool:
        """Return whether the workload still has pods that its controller has to delete before it may be resumed."""
        gangs = (
            self._registry.gangs[key] for key in self._registry.gangs_of(known.job.namespace, known.job.uid)
        )
        pods = (member.pod for gang in gangs for member in gang.alive() if not member.pod.foreseen)
        return any(self._workload_of(pod) is known for pod in pods)

    def _patience(self, namespace: str, gangs: Iterable[Gang]) -> float:
        """Return for how many seconds these gangs keep their places while their pods aren't created."""
        unborn, stated = self._limits.unborn, map(self._admission.admission_timeout, gangs)
        usual = min((unborn if one is None else one for one in stated), default=unborn)
        return self._refused.patience(namespace, usual)

    def _given_up(self, known: JobPods, now: float) -> list[JobPods]:
        """Give up the plan of a Job that has lost a place or whose pods aren't created; return the Jobs to suspend.

        Until all pods of its gang have had their nodes, all Jobs that share the gang are suspended, so that no part of
        it runs. They are placed anew once. After a second failure their pods wait at the gate. For claims, no Job is
        suspended: their places are given back.
        """
        if known.job.uid in self.gated or now < known.look_at:
            return []
        known.look_at = now + LOOK_EVERY
        members = [found for uid in known.pending() if (found := self._registry.member(uid)) is not None]
        gangs = {gang.key: gang for gang, _ in members}
        if not known.pinned:
            if now >= known.born + self._patience(known.job.namespace, gangs.values()):
                if any(one.pod.foreseen and one.assignment is not None for _, one in members):
                    self._refused.failed(known.job.namespace)
                known.claims = frozenset()
                self._changed.add(known.job.uid)
            return []
        whole = all(gang.whole for gang in gangs.values())
        placeless = {gang.key: member.pod for gang, member in members if member.assignment is None}
        lost = next((pod for key, pod in placeless.items() if _complete(gangs[key])), None)
        why = f"{lost.name} has no place on {lost.pinned_to} any more" if lost is not None else ""
        if not why and known.foreseen and not whole:
            timeout = self._patience(known.job.namespace, gangs.values())
            why = f"its pods weren't created within {timeout:g} s" if now >= known.born + timeout else ""
            if why:
                self._refused.failed(known.job.namespace)
        if why and whole:
            self.gate(known.job.uid, why)
        if whole or not why:
            return []
        together = self._sharing(known, gangs.values())
        for one in together:
            if lost is None or one.held:
                self.gate(one.job.uid, why)
            one.held += 1
            one.leaving = why
        for gang in gangs.values():
            gang.note(HistoryKind.REQUEUED, "", why)
        return together

    def _sharing(self, known: JobPods, gangs: Iterable[Gang]) -> list[JobPods]:
        """Return the Job and all other Jobs that run by a plan and have pods in these gangs."""
        pods = (member.pod for gang in gangs for member in gang.members.values())
        places = ((pod, completion_index(pod)) for pod in pods)
        uids = {place[0] for pod, place in places if place is not None and self._job(pod, place[0])}
        jobs = (self._jobs[uid] for uid in sorted(uids - self.gated.keys()))
        running = (one for one in jobs if one.pinned and not (one.job.suspended or one.leaving or one.over))
        return [known, *(one for one in running if one is not known)]

    def gate(self, uid: str, why: str) -> None:
        """Gate the Job: its new pods wait at the gate instead of getting the nodes of its plan."""
        if uid in self._jobs and self._jobs[uid].pinned and uid not in self.gated:
            self.gated[uid] = why
            self._changed.add(uid)

    def need_pods(self, gang: Gang) -> None:
        """Have the workloads of foreseen pods of a gang resumed without a plan: autoscalers see only real pods."""
        for uid in {one.pod.uid.rpartition("/")[0] for one in gang.alive() if one.pod.foreseen}:
            known = self._jobs.get(uid)
            if known is not None and known.waits:
                known.refused = "its pods have to exist, so that an autoscaler adds nodes for them"
                self._changed.add(uid)

    def gate_owners(self, pods: Iterable[Pod]) -> None:
        """Gate the Jobs of pods that are replaced because the nodes to which they are confined have no place."""
        for pod in pods:
            self.gate_owner(pod, f"{pod.name} has no place on {pod.pinned_to} any more")

    def gate_owner(self, pod: Pod, why: str) -> None:
        """Gate the Job of a pod: one that replaces it mustn't get the same node by its creation."""
        place = completion_index(pod)
        if place is not None and self._job(pod, place[0]) is not None:
            self.gate(place[0], why)


def _complete(gang: Gang) -> bool:
    """Return whether the gang has or had all its members; until then, a member without a place hasn't lost one."""
    return gang.whole or len(gang.alive()) + gang.ended >= gang.size
