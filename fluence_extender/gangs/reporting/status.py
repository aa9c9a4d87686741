"""What is written on PodGroups, Jobs, Queues and Reservations, for users who look at the objects with kubectl.

**PodGroups** of scheduling.x-k8s.io show a phase, and how many of the pods run or have ended. The phases are those of
the coscheduling plugin: Pending (pods are missing), Scheduling (all pods exist), Running and Finished (as many as
required run, or have succeeded), Failed (a pod has failed, and none is missing). Finished and Failed are final. A
status is written only if it differs from the one in the cluster. A new status is written soon. If the same status was
written before, the write was refused or another client writes too, so it is repeated only seldom.

**Jobs** get a condition for users, and notes for a restart. The condition says that the Job's pods couldn't be placed
on this cluster even if nothing else ran. So the Job itself shows why it doesn't start, and `kubectl wait` can wait for
the condition. It is written when a gang of the Job's pods is found to be unsatisfiable, when the reason changes, and
when the Job has no unsatisfiable gang left. After a restart the Job still shows it.

Work that has met a dependency may be deleted. So the met dependency is noted on the Job, MPIJob or RayCluster that has
it, for a restart and for the workload's next pods.

**Queues and Reservations.** Invariants: a status is written only if it differs from the one in the cluster, and seldom
for one object. While there is no such object, nothing is computed. Users of all namespaces read a status, so it names
no gang.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import TypeVar

from msgspec import structs

from fluence_extender.gangs.execution.actions import (
    NoteJob,
    Report,
    ReportJob,
    ReportMembers,
    ReportQueue,
    ReportReservation,
)
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import owning
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.quotas import Usage
from fluence_extender.gangs.queue.settings import covered
from fluence_extender.gangs.reporting.remarks import RemarkReports
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.notation import first_few, format_time, natural_order
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.objects.queues import NodeReservation, Queue, QueueStatus, ReservationStatus, Stop

# PodGroups.

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
FINAL = (FINISHED, FAILED)
GROUP_BETWEEN = 1.0
"""Seconds between two looks at one group, and so between two writes of its status."""

GROUP_AGAIN = 30.0
"""Seconds between two writes of the same status of one group."""

Name = tuple[str, str]


class GroupReports:
    """Decides which groups' status has to be written."""

    def __init__(self, registry: Registry, calendar: Callable[[], float]) -> None:
        self._registry = registry
        self._calendar = calendar
        self._looked_at: dict[Name, float] = {}
        self._written: dict[Name, tuple[float, MemberStatus]] = {}
        self._later: dict[Name, float] = {}

    def due(self, now: float) -> list[ReportMembers]:
        """Return the status to write now, of groups with new observations and of groups that were put off until now."""
        names = self._registry.touched_groups
        self._registry.touched_groups = set()
        names |= {name for name, when in self._later.items() if when <= now}
        found = (self._report(name, now) for name in sorted(names))
        return [report for report in found if report is not None]

    def _report(self, name: Name, now: float) -> ReportMembers | None:
        self._later.pop(name, None)
        group = self._registry.workloads.find(CoschedulingGroup, *name)
        if group is None:
            self._written.pop(name, None)
            self._looked_at.pop(name, None)
            return None
        not_before = self._looked_at.get(name, float("-inf")) + GROUP_BETWEEN
        if now < not_before:
            # A look takes time in proportion to the group, and users may change a group many times a second.
            self._later[name] = not_before
            return None
        self._looked_at[name] = now
        gangs = self._registry.in_group(*name)
        members = [member for gang in gangs for member in gang.members.values()]
        status = member_status(group, members, self._calendar())
        if status == group.status:
            return None
        when, written = self._written.get(name, (float("-inf"), None))
        if written == status and now < when + GROUP_AGAIN:
            self._later[name] = when + GROUP_AGAIN
            return None
        self._written[name] = now, status
        # If the write fails, no observation follows.
        self._later[name] = now + GROUP_AGAIN
        return ReportMembers(group, status)


def member_status(group: CoschedulingGroup, members: Sequence[Member], now: float) -> MemberStatus:
    """Return the status of a group with these members. A final status stays. ``now`` is in seconds since the epoch."""
    if group.status.phase in FINAL:
        return group.status
    phases = Counter(member.pod.phase for member in members)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    phase = _phase(group.min_member, len(members), running, succeeded, failed)
    if phase == PENDING:
        return MemberStatus(
            phase, group.status.occupied_by, running, succeeded, failed, group.status.schedule_start
        )
    begun = format_time(datetime.fromtimestamp(now, UTC))
    return MemberStatus(
        phase,
        group.status.occupied_by or _owners(members),
        running,
        succeeded,
        failed,
        group.status.schedule_start or begun,
    )


def _phase(minimum: int, present: int, running: int, succeeded: int, failed: int) -> str:
    if present < minimum:
        return PENDING
    if succeeded >= minimum:
        return FINISHED
    if failed and failed + running + succeeded >= minimum:
        return FAILED
    return RUNNING if running + succeeded >= minimum else SCHEDULING


def _owners(members: Sequence[Member]) -> str:
    """Return the owner of the first pod, in the form that the coscheduling plugin writes."""
    first = min((member.pod for member in members), key=lambda pod: natural_order(pod.name))
    return f"{first.namespace}/{first.owner.name}" if first.owner is not None else ""


# Jobs.

LASTING = (ReasonCode.UNSATISFIABLE, ReasonCode.NO_BACKEND)
"""The reasons that only another request or another cluster can change."""

FEWEST_KEPT = 100
"""If more Jobs than this are known, those without an unsatisfiable gang are forgotten."""


class _Unsatisfiable:
    """The gangs of one Job that were unsatisfiable when they were added. ``gangs`` has all gangs as they are.

    Each gang of a large Job may have a problem, so no call looks at all of them, except once in a while.
    """

    def __init__(self, gangs: Mapping[GangKey, Gang]) -> None:
        self._gangs = gangs
        self._keys: set[GangKey] = set()
        self._heap: list[GangKey] = []
        self._most = FEWEST_KEPT

    def add(self, key: GangKey) -> None:
        """Add a gang."""
        if key in self._keys:
            return
        self._keys.add(key)
        heappush(self._heap, key)
        if len(self._heap) > self._most:
            self._keys = set(filter(self._problem_of, self._keys))
            # A sorted list is a heap.
            self._heap = sorted(self._keys)
            self._most = max(FEWEST_KEPT, 2 * len(self._heap))

    def problem(self) -> str:
        """Return the problem of the first gang that has one, "" if none has."""
        while self._heap:
            problem = self._problem_of(self._heap[0])
            if problem:
                return problem
            self._keys.discard(heappop(self._heap))
        return ""

    def _problem_of(self, key: GangKey) -> str:
        gang = self._gangs.get(key)
        return (gang.memory.job_problem if gang is not None else "") or ""


class JobReports:
    """Decides which Jobs' condition has to be written.

    ``remarks`` decides which owners of pods get an Event about labels and annotations.
    """

    def __init__(self, registry: Registry) -> None:
        self.remarks = RemarkReports(registry.workloads)
        self._registry = registry
        self._gangs: dict[str, _Unsatisfiable] = {}
        """By the uid of a Job: the unsatisfiable gangs of its pods."""
        self._reported: dict[str, str] = {}
        self._forget_at = FEWEST_KEPT
        self._noted: dict[str, frozenset[str]] = {}
        """By the uid of a workload: the dependencies that are being noted on it."""

    def due(self, gang: Gang, reason: Reason | None) -> list[ReportJob]:
        """Return the writes that are due now that ``gang`` waits for ``reason``, None if it has its places."""
        lasting = reason.text if reason is not None and reason.code in LASTING else ""
        if gang.memory.job_problem == lasting:
            return []
        gang.remember(job_problem=lasting)
        return list(self._reports(gang, lasting))

    def _reports(self, gang: Gang, lasting: str) -> Iterator[ReportJob]:
        for job in self._jobs(gang):
            gangs = self._gangs.get(job.uid)
            if gangs is None:
                gangs = self._gangs[job.uid] = _Unsatisfiable(self._registry.gangs)
            if lasting:
                gangs.add(gang.key)
            text = gangs.problem()
            if text != self._reported.get(job.uid, job.unsatisfiable):
                self._reported[job.uid] = text
                yield ReportJob(job, text)
        if len(self._gangs) > self._forget_at:
            self._forget()

    def notes(self, gang: Gang) -> Iterator[NoteJob]:
        """Yield the notes to write on the workloads of a gang."""
        for job in self._owners(gang) if gang.met else ():
            met = gang.met | job.submission.met
            if met == job.submission.met:
                self._noted.pop(job.uid, None)
            elif self._noted.get(job.uid) != met:
                self._noted[job.uid] = met
                yield NoteJob(job, met)

    def not_noted(self, job: Resumable) -> None:
        """Record that a note on the workload couldn't be written, so that it is decided anew."""
        self._noted.pop(job.uid, None)
        self._registry.dirty.update(self._registry.gangs_of(job.namespace, job.uid))

    def _jobs(self, gang: Gang) -> Iterator[Job]:
        """Iterate over the Jobs that own the gang's members."""
        return (owner for owner in self._owners(gang) if isinstance(owner, Job))

    def _owners(self, gang: Gang) -> Iterator[Resumable]:
        """Iterate over the workloads that own the gang's members, if the service may resume their kinds."""
        owners = {member.pod.owner for member in gang.alive() if member.pod.owner is not None}
        for owner in sorted(owners, key=lambda one: one.name):
            workload = owning(owner, gang.key.namespace, self._registry.workloads)
            if isinstance(workload, Resumable):
                yield workload

    def _forget(self) -> None:
        """Forget the Jobs without an unsatisfiable gang. Their conditions in the cluster stay."""
        self._gangs = {uid: gangs for uid, gangs in self._gangs.items() if gangs.problem()}
        self._reported = {uid: text for uid, text in self._reported.items() if uid in self._gangs}
        self._forget_at = max(FEWEST_KEPT, 2 * len(self._gangs))


# Queues and Reservations.

BETWEEN = 2.0
"""Seconds between two looks at the queues."""

AGAIN = 10.0
"""Seconds between two writes of one object's status."""

KEPT = 180.0
"""Seconds after which the past use of a queue is written anew although nothing else has changed."""

FEW = 3
"""The most missing nodes or queues that a problem names."""


class QueueReports:
    """Decides which Queues' and Reservations' status has to be written; ``nodes`` are all nodes by name."""

    def __init__(
        self,
        book: QueueBook,
        usage: Usage,
        nodes: Mapping[str, Node],
        calendar: Callable[[], float],
    ) -> None:
        self._book = book
        self._usage = usage
        self._nodes = nodes
        self._calendar = calendar
        self._next = float("-inf")
        self._written: dict[tuple[type, str], float] = {}

    def due(self, now: float) -> list[Report]:
        """Return the status to write now."""
        settings = self._book.settings
        if now < self._next or not (settings.made or settings.reservations):
            return []
        self._next = now + BETWEEN
        self._written = {key: at for key, at in self._written.items() if now < at + AGAIN}
        today = self._calendar()
        since = format_time(datetime.fromtimestamp(today, UTC))
        reports: list[Report] = []
        waiting = self._book.waiting()
        for queue in settings.made.values():
            counts = waiting[queue.name], self._usage.running((queue.name, None))
            status = queue_status(queue, counts, self._book.problems(queue), today)
            status = structs.replace(status, **self._book.admission.account(queue.name))
            # Until it is known since when a queue drains, all its gangs may start.
            urgent = status.stopped_since != queue.status.stopped_since
            due = _differs(status, queue.status) or _old(queue.status, status)
            if due and self._may_write(queue, now, urgent):
                reports.append(ReportQueue(queue, _dated(status, queue.status, since)))
        for reservation in settings.reservations.values():
            closed = reservation_status(reservation, self._nodes, settings.queues)
            if _differs(closed, reservation.status) and self._may_write(reservation, now):
                reports.append(ReportReservation(reservation, _dated(closed, reservation.status, since)))
        return reports

    def _may_write(self, described: Queue | NodeReservation, now: float, urgent: bool = False) -> bool:
        """Return whether a status is ``urgent`` or wasn't written lately; if so, note that it is written."""
        key = type(described), described.name
        if urgent:
            self._written[key] = now
        return self._written.setdefault(key, now) == now


def queue_status(queue: Queue, counts: tuple[int, int], problems: Sequence[str], now: float) -> QueueStatus:
    """Return the status of a queue. ``counts`` says how many of its gangs wait, and how many have places."""
    stopped = None
    if queue.stop is not Stop.NONE:
        stopped = float(math.floor(now)) if queue.stopped_since is None else queue.stopped_since
    return QueueStatus(*counts, stopped, "; ".join(problems))


def reservation_status(
    reservation: NodeReservation, nodes: Mapping[str, Node], queues: Mapping[str, Queue]
) -> ReservationStatus:
    """Return the status of a Reservation in a cluster with these nodes and queues."""
    problems = list(reservation.problems)
    for kind, wanted, existing in (("node", reservation.names, nodes), ("queue", reservation.queues, queues)):
        missing = sorted(wanted - set(existing), key=natural_order)
        if missing:
            problems.append(f"there is no {kind} {first_few(missing, FEW)}")
    closed = len(covered(reservation, nodes.values())) if reservation.duration else 0
    return ReservationStatus(closed, "; ".join(problems))


def _old(before: QueueStatus, status: QueueStatus) -> bool:
    """Return whether the past use that was written is too old."""
    if status.past is None:
        return False
    return before.past is None or status.past.at - before.past.at >= KEPT


Status = TypeVar("Status", QueueStatus, ReservationStatus)


def _differs(status: Status, before: Status) -> bool:
    """Return whether another status than this one was written, or none."""
    return not before.since or status != before


def _dated(status: Status, before: Status, now: str) -> Status:
    """Return the status with the time at which its problem began or ended."""
    same = before.since and bool(before.problem) == bool(status.problem)
    return structs.replace(status, since=before.since if same else now)
