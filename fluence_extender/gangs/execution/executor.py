"""Carrying out the controller's actions: steering, nominations, evictions, Events and reports.

A bounded number of writes is under way at the same time, and the writes for one pod run in the order in which they were
decided. Nothing is retried here: a failed write is reported to the lifecycle, which decides anew.
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
    Denied,
    Disrupted,
    Gone,
    NotLeading,
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
from fluence_extender.gangs.execution.fence import Fence
from fluence_extender.gangs.execution.job_writes import LONGEST_EVENT, JobWrites
from fluence_extender.gangs.execution.slots import AT_ONCE, FairSlots
from fluence_extender.gangs.lifecycle.lifecycle import Lifecycle
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE, PLACED_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.workload import WorkloadObject

log = structlog.get_logger(__name__)

EVICTIONS_AT_ONCE = 12
"""Evictions under way at the same time: the API server counts those under one budget one after the other."""

REPORTS_AT_ONCE = 4
"""Events and status reports under way at the same time. Nothing waits for them, and a new leader has thousands."""

STEER_PAUSE = 1.0
EVICT_PAUSE = 2.0
"""Seconds until a failed write is reported to the lifecycle, which then decides anew."""

FORBIDDEN = (403, 422)
"""HTTP statuses of refusals that a retry can't change."""


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
                    # Without its size: others than the victim's namespace wait for the room.
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
        """Return the turn of a write about a pod."""
        return self._writes.taken(pod.namespace, pod.size)

    def _spawn(
        self,
        uid: str,
        work: Coroutine[Any, Any, None],
        after: tuple[asyncio.Task[None], ...],
        turn: AbstractAsyncContextManager[None],
    ) -> asyncio.Task[None]:
        """Start ``work`` in its ``turn``, once the tasks ``after`` and the last one for the pod ``uid`` have ended."""
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
        found = self._registry.member(pod.uid)
        if found is None or found[1].assignment is None or found[1].assignment.node != node:
            return
        _, member = found
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
        """Report after ``pause`` seconds that the write which told the pod its ``node`` has failed."""
        self._later(pause, partial(self._lifecycle.write_failed, node=node), uid)

    def _later(self, pause: float, failed: Callable[[str], None], uid: str) -> None:
        """Report after ``pause`` seconds that a write for the pod has failed, so that the lifecycle decides anew."""

        def report() -> None:
            failed(uid)
            self._wake()

        asyncio.get_running_loop().call_later(pause, report)

    async def _nominate(self, pod: Pod, node: str) -> None:
        """Nominate a node for a pod that has no place, or take its nomination back if ``node`` is ""."""
        found = self._registry.member(pod.uid)
        outdated = found is None or found[1].assignment is not None or found[1].held_node != node
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
            pods = [pod for some in ask.pods.values() for pod in some]
            refused = await self._fence.write(lambda cluster: cluster.eviction_block(pods))
        except ClusterError as error:
            log.warning("disruption budgets can't be read", error=str(error))
            refused = EvictionBlock("PodDisruptionBudgets can't be read (see the log)", frozenset())
        if refused is None:
            self._preemption.budgets_allow(ask.preemptor)
        else:
            self._preemption.budgets_forbid(ask.preemptor, refused.last_concerned(ask.pods), refused.reason)
        self._wake()

    async def _evict(self, evict: Evict) -> None:
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
        """Write the annotations that keep autoscalers from removing a node. A failure is decided anew."""
        try:
            await self._fence.write(lambda cluster: cluster.keep_node(node, keys))
        except Gone:
            return
        except ClusterError as error:
            log.warning("not written for autoscalers", node=node.name, error=str(error))

    async def _report(self, report: Report) -> None:
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


def _subject(report: Report) -> Pod | WorkloadObject | None:
    """Return the user's object whose status is written, None for an object of the cluster."""
    match report:
        case ReportPod(about) | ReportJob(about) | ReportGroup(about) | ReportMembers(about):
            return about
        case ReportQueue() | ReportReservation():
            return None
