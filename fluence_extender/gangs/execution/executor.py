"""Carrying out the controller's actions: steering, nominations, evictions, writes to Jobs, Events and reports.

A bounded number of writes is under way at the same time. The writes to one object run in the order in which they were
decided. Nothing is retried here: a failed write is reported to the part that decided it, which decides again.
`Executor` makes all writes, and leaves those to Jobs to `JobWrites`, and Bindings to the binder.

Invariant: a Job is resumed only while its expected pods have the places that the patch names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any

import structlog

from fluence_extender.cluster.errors import (
    ClusterError,
    Conflict,
    Denied,
    Disrupted,
    Gone,
    NoAnswer,
    NotLeading,
    PodsUnknown,
)
from fluence_extender.cluster.port import Cluster, EvictionBlock, Regarding
from fluence_extender.gangs.execution.actions import (
    Action,
    AskBudgets,
    Bind,
    Evict,
    FindShapes,
    KeepNode,
    Nominate,
    NoteJob,
    RecordEvent,
    Report,
    ReportGroup,
    ReportJob,
    ReportMembers,
    ReportPod,
    ReportQueue,
    ReportReservation,
    Requeue,
    Resume,
    Steer,
)
from fluence_extender.gangs.execution.binder import Binder, CannotBind
from fluence_extender.gangs.execution.writes import AT_ONCE, FairSlots, Fence
from fluence_extender.gangs.lifecycle.lifecycle import Lifecycle
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE, PLACED_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.wording import WithNames

log = structlog.get_logger(__name__)

# All writes.

EVICTIONS_AT_ONCE = 12
"""Evictions under way at the same time: the API server counts those under one budget one after the other."""

REPORTS_AT_ONCE = 4
"""Events and status reports under way at the same time. Nothing waits for them, and a new leader has thousands."""

LONGEST_EVENT = 1000
"""The most characters of an Event's message; the API server accepts 1,024."""

STEER_PAUSE = 1.0
EVICT_PAUSE = 2.0
"""Seconds until a failed write to a pod is reported to the part that decided it, which decides again."""


class Executor:
    """Carries out actions; ``wake`` has the next decision made at once."""

    def __init__(
        self,
        registry: Registry,
        lifecycle: Lifecycle,
        fence: Fence,
        binder: Binder,
        wake: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._binder = binder
        self._preemption = lifecycle.preemption
        self._fence = fence
        self._wake = wake
        self._writes = FairSlots(AT_ONCE)
        self._evictions = FairSlots(EVICTIONS_AT_ONCE)
        self._reports = FairSlots(REPORTS_AT_ONCE)
        self._jobs = JobWrites(registry, lifecycle, fence, self._later, self._writes)
        self._last: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, actions: Iterable[Action]) -> None:
        """Start to carry out ``actions``."""
        clears: list[asyncio.Task[None]] = []
        for action in actions:
            match action:
                case Nominate(pod, ""):
                    clears.append(self._spawn(pod.uid, self._nominate(pod, ""), (), self._turn(pod)))
                case Bind(pod, node):
                    # The binder has slots of its own.
                    self._spawn(pod.uid, self._bind(pod, node), tuple(clears), nullcontext())
                case Steer(pod, node):
                    self._spawn(pod.uid, self._steer(pod, node), tuple(clears), self._turn(pod))
                case RecordEvent():
                    self.record_event(action)
                case Nominate(pod, node):
                    self._spawn(pod.uid, self._nominate(pod, node), tuple(clears), self._turn(pod))
                case AskBudgets(preemptor):
                    turn = self._writes.taken(preemptor.namespace)
                    self._spawn("", self._ask_budgets(action), (), turn)
                case Evict(pod):
                    # The pod's size doesn't count, because other namespaces than the victim's wait for its room.
                    turn = self._evictions.taken(pod.namespace)
                    self._spawn(pod.uid, self._evict(action), (), turn)
                case FindShapes() | Resume() | Requeue() | NoteJob():
                    subject, work = self._jobs.subject(action), self._jobs.carry_out(action)
                    self._spawn(subject, work, (), self._jobs.turn(action))
                case KeepNode(node, keys):
                    self._spawn(f"node {node.name}", self._keep(node, keys), (), self._reports.taken(""))
                case _:
                    about = _subject(action)
                    turn = (
                        self._reports.taken(about.namespace, about.size) if about else self._reports.taken("")
                    )
                    self._spawn("", self._report(action), (), turn)

    def record_event(self, event: RecordEvent) -> None:
        """Start to record an Event."""
        message = event.message[:LONGEST_EVENT]
        work = self._fence.write(
            lambda cluster: cluster.event(event.regarding, event.reason, message, event.warning)
        )
        self._spawn("", work, (), self._reports.taken(event.regarding.namespace))

    def cancel(self) -> None:
        """Give up the writes under way."""
        for task in self._tasks:
            task.cancel()

    async def finish(self) -> None:
        """Wait for the writes under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _turn(self, pod: Pod) -> AbstractAsyncContextManager[None]:
        """Return the context in which a write about a pod has its turn."""
        return self._writes.taken(pod.namespace, pod.size)

    def _spawn(
        self,
        uid: str,
        work: Coroutine[Any, Any, None],
        after: tuple[asyncio.Task[None], ...],
        turn: AbstractAsyncContextManager[None],
    ) -> asyncio.Task[None]:
        """Start ``work`` in its ``turn``, once the tasks ``after`` and the last one for object ``uid`` have ended."""
        earlier = (*after, self._last[uid]) if uid in self._last else after
        task = asyncio.create_task(self._ordered(work, earlier, turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step never gets to its work.
        task.add_done_callback(lambda _: work.close())
        if uid:
            self._last[uid] = task
            task.add_done_callback(lambda done: self._forget(uid, done))
        return task

    def _forget(self, uid: str, done: asyncio.Task[None]) -> None:
        if self._last.get(uid) is done:
            del self._last[uid]

    async def _ordered(
        self,
        work: Coroutine[Any, Any, None],
        earlier: tuple[asyncio.Task[None], ...],
        turn: AbstractAsyncContextManager[None],
    ) -> None:
        """Do ``work`` in its ``turn``, once the tasks ``earlier`` have ended."""
        try:
            waiting = [task for task in earlier if not task.done()]
            if waiting:
                await asyncio.wait(waiting)
            async with turn:
                await work
        except NotLeading as refused:
            log.debug("not written", reason=str(refused))
        except Exception:
            log.exception("a write was given up because of a fault")

    async def _bind(self, pod: Pod, node: str) -> None:
        try:
            await self._binder.bind_direct(pod.uid, node)
        except CannotBind as error:
            log.warning("pod not bound; trying again", pod=pod.key, node=node, error=str(error))
            pause = self._lifecycle.pause_before_binding(pod.uid)
            self._write_again(pause, pod.uid, node)

    async def _steer(self, pod: Pod, node: str) -> None:
        """Nominate a pod to its place and remove its gate, unless the place has changed meanwhile."""
        _, member = self._registry.member(pod.uid) or (None, None)
        if member is None or member.assignment is None or member.assignment.node != node:
            return
        latest = member.pod
        annotations = {PLACED_ANNOTATION: self._registry.seal.on_pod(latest, str(member.record or ""))}
        recorded = GATE in latest.gates or annotations.items() <= latest.annotations.items()
        revision = latest.revision
        # The watch may not yet show that an earlier nomination was taken back.
        nominated = latest.nominated == node and revision >= member.written.cleared
        try:
            if not (nominated and recorded):
                with_record = {} if recorded else annotations
                revision = await self._fence.write(
                    lambda cluster: cluster.nominate(latest, node, with_record)
                )
            if GATE in latest.gates:
                revision = await self._fence.write(lambda cluster: cluster.ungate(latest, GATE, annotations))
            self._lifecycle.note(pod.uid, HistoryKind.STEERED, f"to {node}")
            self._lifecycle.steered(pod.uid, node, revision)
        except Gone:
            return
        except ClusterError as error:
            self._lifecycle.note(pod.uid, HistoryKind.FAILED, f"steering to {node}: {error}")
            if self._lifecycle.steer_trouble(pod.uid, str(error)):
                about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
                message = f"can't be told its node {node}: {error}"
                self.record_event(RecordEvent(about, ReasonCode.CANNOT_STEER.value, message))
            level = log.error if isinstance(error, Denied) else log.warning
            level("pod not steered; trying again", pod=pod.key, node=node, error=str(error))
            self._write_again(STEER_PAUSE, pod.uid, node)

    def _write_again(self, pause: float, uid: str, node: str) -> None:
        """Report after ``pause`` seconds that the write of the pod's ``node`` has failed."""
        self._later(pause, partial(self._lifecycle.write_failed, node=node), uid)

    def _later(self, pause: float, failed: Callable[[str], None], uid: str) -> None:
        """Call ``failed`` with ``uid`` after ``pause`` seconds, and have the next decision made at once."""

        def report() -> None:
            failed(uid)
            self._wake()

        asyncio.get_running_loop().call_later(pause, report)

    async def _nominate(self, pod: Pod, node: str) -> None:
        """Nominate a node for a pod that has no place, or take its nomination back if ``node`` is ""."""
        _, member = self._registry.member(pod.uid) or (None, None)
        outdated = member is None or member.assignment is not None or member.held_node != node
        if node and outdated:
            return
        try:
            revision = await self._fence.write(lambda cluster: cluster.nominate(pod, node))
            self._lifecycle.nominated(pod.uid, node, revision)
        except Gone:
            return
        except ClusterError as error:
            log.warning("nomination failed; trying again", pod=pod.key, node=node, error=str(error))
            self._write_again(STEER_PAUSE, pod.uid, node)

    async def _ask_budgets(self, ask: AskBudgets) -> None:
        try:
            pods = [pod for pods_of_gang in ask.pods.values() for pod in pods_of_gang]
            blocked = await self._fence.write(lambda cluster: cluster.eviction_block(pods))
        except ClusterError as error:
            log.warning("disruption budgets can't be read", error=str(error))
            blocked = EvictionBlock("PodDisruptionBudgets can't be read (see the log)", frozenset())
        if blocked is None:
            self._preemption.budgets_allow(ask.preemptor)
        else:
            self._preemption.budgets_forbid(ask.preemptor, blocked.last_concerned(ask.pods), blocked.reason)
        self._wake()

    async def _evict(self, evict: Evict) -> None:
        """Evict a pod. If that fails and may be tried again, report it after a pause."""
        pod = evict.pod
        try:
            await self._fence.write(lambda cluster: cluster.evict(pod, evict.reason))
            self._lifecycle.note(pod.uid, HistoryKind.EVICTED, evict.reason, evict.with_names)
            self._preemption.eviction_accepted(pod.uid)
            return
        except Disrupted as error:
            why = str(error)
            self._lifecycle.note(pod.uid, HistoryKind.FAILED, f"eviction: {error}")
            log.warning("eviction not allowed now", pod=pod.key, error=why)
        except Gone:
            return
        except ClusterError as error:
            why = str(error)
            log.warning("eviction failed", pod=pod.key, error=why)
        if evict.again:
            self._later(EVICT_PAUSE, partial(self._preemption.eviction_failed, why=why), pod.uid)

    async def _keep(self, node: Node, keys: Collection[str]) -> None:
        """Write the annotations that keep autoscalers from removing a node. A failed write is decided again later."""
        try:
            await self._fence.write(lambda cluster: cluster.keep_node(node, keys))
        except Gone:
            return
        except ClusterError as error:
            log.warning("not written for autoscalers", node=node.name, error=str(error))

    async def _report(self, report: Report) -> None:
        """Write the status or the condition of an object."""

        def write(cluster: Cluster) -> Awaitable[None]:
            match report:
                case ReportPod(pod, message, asks_since, met):
                    return cluster.report_pod(pod, message, asks_since, met)
                case ReportGroup(group, scheduled, reason, message):
                    return cluster.report_group(group, scheduled, reason, message)
                case ReportMembers(members, status):
                    return cluster.report_members(members, status)
                case ReportJob(job, why):
                    return cluster.report_job(job, why)
                case ReportQueue(queue, queue_status):
                    return cluster.report_queue(queue, queue_status)
                case ReportReservation(reservation, reservation_status):
                    return cluster.report_reservation(reservation, reservation_status)

        try:
            await self._fence.write(write)
        except ClusterError as error:
            about = _subject(report)
            subject = f"{about.namespace}/{about.name}" if about else "an object of the cluster"
            log.info("status not written", subject=subject, error=str(error))


def _subject(report: Report) -> Pod | Workload | None:
    """Return the user's object whose status is written, None if it is an object of the cluster."""
    match report:
        case ReportPod(about) | ReportJob(about) | ReportGroup(about) | ReportMembers(about):
            return about
        case ReportQueue() | ReportReservation():
            return None


# Writes to Jobs.

DRY_RUNS_AT_ONCE = 8
"""The most dry runs of pods at the same time. A restart may find thousands of waiting Jobs."""

JOB_PAUSE = 1.0
"""Seconds until a failed write to a Job is reported."""

CHANGED_JOB_PAUSE = 0.25
"""The same if the write failed because the Job has changed, as a new Job of a JobSet does: the watch soon shows it."""

REFUSED = (403, 422)
"""The HTTP statuses by which the API server refuses a Job's pods for good, or refuses to suspend the Job."""

REQUEUED = "Requeued"
"""The reason of the Event of a Job that was sent back in line."""

JobAction = FindShapes | Resume | Requeue | NoteJob
Later = Callable[[float, Callable[[str], None], str], None]
"""Calls a function with a uid after some seconds, and then has the next decision made at once."""


class JobWrites:
    """Carries out the actions about Jobs.

    ``later`` reports the outcome of a write. ``writes`` are the slots of all writes; dry runs have slots of their own.
    """

    def __init__(
        self, registry: Registry, lifecycle: Lifecycle, fence: Fence, later: Later, writes: FairSlots
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._expected_pods = lifecycle.expected_pods
        self._fence = fence
        self._later = later
        self._writes = writes
        self._dry_runs = FairSlots(DRY_RUNS_AT_ONCE)

    def subject(self, action: JobAction) -> str:
        """Return a key for the object that the action writes to. Writes to one object are made in order."""
        return _jobs(action)[0].uid

    def turn(self, action: JobAction) -> AbstractAsyncContextManager[None]:
        """Return the context in which the action has its turn."""
        jobs = _jobs(action)
        slots = self._dry_runs if isinstance(action, FindShapes) else self._writes
        return slots.taken(jobs[0].namespace, sum(job.size for job in jobs))

    async def carry_out(self, action: JobAction) -> None:
        """Make the write, and report its outcome."""
        match action:
            case FindShapes(job):
                await self._find_shapes(job)
            case Resume():
                await self._resume(action)
            case Requeue():
                await self._requeue(action)
            case NoteJob():
                await self._note_job(action)

    async def _find_shapes(self, job: Resumable) -> None:
        """Find out by a dry run which pods a Job will have."""
        try:
            pods = await self._fence.write(lambda cluster: cluster.dry_run(job))
        except Gone:
            return
        except ClusterError as error:
            if isinstance(error, PodsUnknown) or error.status in REFUSED:
                log.info("a workload's pods can't be known beforehand", job=_named(job), error=str(error))
                self._later(0.0, partial(self._expected_pods.shapes_unknown, why=str(error)), job.uid)
            else:
                log.warning(
                    "a workload's pods aren't known yet; trying again", job=_named(job), error=str(error)
                )
                self._later(_pause_after(error), self._expected_pods.shapes_unknown, job.uid)
            return
        self._later(0.0, lambda _: self._expected_pods.shapes_known(job, pods), job.uid)

    async def _resume(self, action: Resume) -> None:
        """Resume a Job with the nodes of its expected pods, unless their places have changed meanwhile."""
        job = action.job
        if action.uids and not self._still_planned(action):
            self._lifecycle.not_resumed(job.uid)
            return
        try:
            await self._fence.write(
                lambda cluster: cluster.resume(job, action.nodes, action.placed_with, action.bound)
            )
        except Gone:
            return
        except ClusterError as error:
            log.warning("workload not resumed; trying again", job=_named(job), error=str(error))
            failed = partial(self._lifecycle.not_resumed, unclear=isinstance(error, NoAnswer))
            self._later(_pause_after(error), failed, job.uid)
            return
        self._lifecycle.resumed(action.uids)

    def _still_planned(self, action: Resume) -> bool:
        """Return whether the expected pods have the places that the patch names, or any places if it names none."""
        members = filter(None, map(self._registry.member, action.uids))
        places = {member.pod.uid: member.assignment for _, member in members}
        if not action.nodes:
            return all(places.get(uid) is not None for uid in action.uids)
        wanted = {f"{action.job.uid}/{index}": node for index, node in enumerate(action.nodes) if node}
        return wanted == {uid: place.node for uid, place in places.items() if place is not None}

    async def _requeue(self, action: Requeue) -> None:
        """Suspend the workloads of a gang, if disruption budgets allow at this moment that all its pods are evicted."""
        try:
            blocked = await self._fence.write(lambda cluster: cluster.eviction_block(action.pods))
        except ClusterError as error:
            self._not_requeued(action, f"PodDisruptionBudgets can't be read: {error}", JOB_PAUSE)
            return
        if blocked is not None:
            self._not_requeued(action, f"can't be suspended now: {blocked.reason}", JOB_PAUSE)
            return
        for job in action.jobs:
            try:
                await self._fence.write(partial(_suspend, job=job, since=action.since))
            except Gone:
                continue
            except ClusterError as error:
                if error.status in REFUSED:
                    log.warning(
                        "workload not suspended; its pods are evicted", job=_named(job), error=str(error)
                    )
                    self._lifecycle.requeues.refused(job.uid)
                self._not_requeued(action, f"can't be suspended: {error}", _pause_after(error))
                return
            await self._record_event(job, REQUEUED, f"back in line: {action.reason}")
        self._note(action, HistoryKind.REQUEUED, action.reason, action.with_names)
        for pod in action.pods:
            self._lifecycle.preemption.eviction_accepted(pod.uid)

    async def _record_event(self, job: Resumable, what: str, text: str) -> None:
        about = Regarding(job.api.api_version, job.api.kind, job.namespace, job.name, job.uid)
        await self._fence.write(lambda cluster: cluster.event(about, what, text[:LONGEST_EVENT], True))

    def _not_requeued(self, action: Requeue, why: str, pause: float) -> None:
        log.warning("gang not sent back in line; trying again", gang=str(action.gang), error=why)
        self._note(action, HistoryKind.FAILED, why)
        if action.again:
            failed = partial(self._lifecycle.preemption.eviction_failed, why=why)
            for pod in action.pods:
                self._later(pause, failed, pod.uid)

    def _note(
        self, action: Requeue, kind: HistoryKind, detail: str, with_names: WithNames | None = None
    ) -> None:
        gang = self._registry.gangs.get(action.gang)
        if gang is not None:
            gang.note(kind, "", detail, with_names)

    async def _note_job(self, action: NoteJob) -> None:
        job = action.job
        try:
            await self._fence.write(lambda cluster: cluster.note_job(job, action.met))
        except ClusterError as error:
            if not isinstance(error, Gone):
                log.warning("not noted on a workload; trying again", job=_named(job), error=str(error))
            reports = self._lifecycle.job_reports
            self._later(_pause_after(error), lambda _: reports.not_noted(job), job.uid)


def _jobs(action: JobAction) -> tuple[Resumable, ...]:
    """Return the workloads to which an action writes, all of one namespace."""
    match action:
        case Requeue(_, jobs):
            return jobs
        case _:
            return (action.job,)


async def _suspend(cluster: Cluster, job: Resumable, since: tuple[float, int]) -> None:
    await cluster.hold_job(job, since)


def _pause_after(error: ClusterError) -> float:
    return CHANGED_JOB_PAUSE if isinstance(error, Conflict) else JOB_PAUSE


def _named(job: Resumable) -> str:
    return f"{job.namespace}/{job.name}"
