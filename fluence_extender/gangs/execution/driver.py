"""Doing what the controller decides, and binding.

One task turns observations into actions; the actions run beside it, a bounded number at once, and for each pod in the
order they were decided. A write that fails is told to the controller, which decides again: nothing is retried here
except a Binding, because a gang that has begun to bind has to be finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

from fluence_extender.cluster.port import (
    AlreadyBound,
    Cluster,
    ClusterError,
    Denied,
    Disrupted,
    Forbidding,
    Gone,
    Look,
    NotLeading,
    Observation,
    Pin,
    Regarding,
)
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import (
    Action,
    AskBudgets,
    Clear,
    Evict,
    Keep,
    ReportGroup,
    ReportMembers,
    ReportPod,
    Steer,
    Tell,
)
from fluence_extender.gangs.execution.barrier import BarrierFailed
from fluence_extender.gangs.execution.fence import Fence
from fluence_extender.gangs.execution.threads import RunInThread, run_in_thread
from fluence_extender.gangs.leadership.lease import ALONE, Leadership
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.model.assignment import binding_annotations
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode

log = structlog.get_logger(__name__)

AT_ONCE = 128
"""Writes under way at the same time, and as many Bindings.

Where the API server is busy, what is steered shares it with all that follows on a Binding (Events, kubelets' statuses):
with few under way the pods bound first are served before the others have their nodes. Each has a connection of its own
(HTTP/1.1), whose TLS handshake costs both sides as much as several writes. A priority level of the API server's
fairness queues 300 and more of one client (Kubernetes, API Priority and Fairness: six queues of fifty).
"""

EVICTIONS = 12
"""Evictions under way at the same time: those under one budget are counted there one after the other."""

ASIDE = 4
"""Of those that nobody waits for: there may be thousands of them when we begin to lead."""

GATHER = 0.005
"""Seconds to let more observations come in before deciding, at least."""

GATHER_MOST = 0.1
RESTS = 2
"""After a decision that took long it is so many times as long: of a large gang thousands of changes may come in."""

TICK = 1.0
"""Seconds between looks at the clock when nothing is seen."""

BIND_TRIES = 5
BIND_PAUSE = 0.25
"""Seconds, growing with each try: an API server that has just started refuses for a moment what is allowed."""

BIND_LIMIT = 8.0
"""Seconds for all tries together: after the barrier's 20 still an answer before kube-scheduler's httpTimeout of 30."""

STEER_PAUSE = 1.0
FORBIDDEN = (403, 422)
"""HTTP statuses that say no to what is asked, not to who asks now."""

EVICT_PAUSE = 2.0


class CannotBind(Exception):
    """The pod can't be bound there now; the text says why."""


class Driver:
    """Runs a controller against a cluster; ``clock`` says, in seconds, how long a decision takes."""

    def __init__(
        self,
        controller: Controller,
        cluster: Cluster,
        limits: Limits | None = None,
        leadership: Leadership = ALONE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._controller = controller
        self._leadership = leadership
        self._cluster = Fence(cluster, leadership)
        self._led = asyncio.Event()
        self._limits = limits or Limits()
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._aside = asyncio.Semaphore(ASIDE)
        self._evictions = asyncio.Semaphore(EVICTIONS)
        self._bindings = asyncio.Semaphore(AT_ONCE)
        self._held_back: list[Observation] | None = None
        self._gather = GATHER
        self._last: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def sink(self, seen: Observation) -> None:
        """Take in an observation; to be called from the event loop."""
        if self._held_back is not None:
            self._held_back.append(seen)
            return
        self._controller.observe(seen)
        self._wake.set()

    async def start(self, beside: RunInThread = run_in_thread) -> None:
        """Let the controller replay what runs already beside the loop, which has probes to answer.

        Raises as `Controller.start`. What is seen meanwhile is taken in afterwards.
        """
        self._held_back = []
        try:
            await beside(self._controller.start)
        finally:
            held_back, self._held_back = self._held_back, None
        for seen in held_back:
            self.sink(seen)
        self.wake()

    def wake(self) -> None:
        """Have the next decision made at once rather than at the next tick."""
        self._wake.set()

    @property
    def leading(self) -> bool:
        """Whether we decide; what we write may still have to wait for word that the Lease is ours."""
        return self._controller.leading and self._leadership.holds

    @property
    def why_not_leading(self) -> str:
        """Why we don't lead, in stable words."""
        return f"not the leader: {self._leadership.why_not or 'taking over from the last one'}"

    def demand(self) -> None:
        """Raise `NotLeading` unless we lead at this moment."""
        self._cluster.demand()

    async def lead(self, look: Callable[[Mapping[str, str]], Awaitable[Look]]) -> None:
        """Begin to decide, with a look at what the one before us has written (given the versions that we know).

        Raises what the look raises, and `NotLeading` if the lead is lost meanwhile.
        """
        try:
            seen = await look(self._controller.begin_look())
            await self._cluster.confirmed()
            self._controller.lead(seen)
        finally:
            self._controller.end_look()
        self._led.set()
        self._wake.set()

    def stand_down(self) -> None:
        """Decide and write no more; who waits is told so, what is under way is given up."""
        self._led.clear()
        self._controller.stand_down(self.why_not_leading)
        for task in self._tasks:
            task.cancel()
        self._cluster.give_up()

    def _end_term(self) -> None:
        """A write was refused: however short the lapse, what is planned was told to nobody and the term is over."""
        if self._controller.leading:
            self.stand_down()

    async def led(self, seconds: float) -> None:
        """Wait until we lead, but no longer than ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._led.wait()

    async def run(self) -> None:
        """Decide and act until cancelled."""
        try:
            while True:
                try:
                    async with asyncio.timeout(TICK):
                        await self._wake.wait()
                    await asyncio.sleep(self._gather)
                except TimeoutError:
                    pass
                self._wake.clear()
                began = self._clock()
                self.step()
                took = self._clock() - began
                self._gather = GATHER if self._wake.is_set() else min(max(GATHER, RESTS * took), GATHER_MOST)
        finally:
            await self.settle(cancel=True)

    def step(self) -> None:
        """Decide once, and start doing it."""
        if self._controller.leading and not self._leadership.holds:
            self.stand_down()
        try:
            actions = self._controller.step()
        except Exception:
            log.exception("planning failed; trying again at the next change")
            return
        self._start(actions)
        if self._controller.lifecycle.restless:
            self._wake.set()

    async def settle(self, cancel: bool = False) -> None:
        """Wait for the writes under way, or give them up."""
        tasks = list(self._tasks)
        if cancel:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, what: Tell) -> None:
        """Record an Event, beside everything else."""
        self._spawn(
            "",
            self._cluster.event(what.regarding, what.reason, what.message[:1000], warning=True),
            (),
            self._aside,
        )

    def _start(self, actions: Iterable[Action]) -> None:
        clears: list[asyncio.Task[None]] = []
        for action in actions:
            match action:
                case Clear(pod):
                    clears.append(self._spawn(pod.uid, self._clear(pod), ()))
                case Steer(pod, node, pin):
                    self._spawn(pod.uid, self._steer(pod, node, pin), tuple(clears))
                case Tell():
                    self.tell(action)
                case Keep(pod, node):
                    self._spawn(pod.uid, self._keep(pod, node), tuple(clears))
                case AskBudgets():
                    self._spawn("", self._ask_budgets(action), ())
                case Evict(pod, reason, again):
                    self._spawn(pod.uid, self._evict(pod, reason, again), (), self._evictions)
                case ReportPod() | ReportGroup() | ReportMembers():
                    self._spawn("", self._report(action), (), self._aside)

    def _spawn(
        self,
        uid: str,
        work: Coroutine[Any, Any, None],
        after: tuple[asyncio.Task[None], ...],
        slots: asyncio.Semaphore | None = None,
    ) -> asyncio.Task[None]:
        earlier = (*after, self._last[uid]) if uid in self._last else after
        task = asyncio.create_task(self._ordered(work, earlier, slots or self._slots))
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
        slots: asyncio.Semaphore,
    ) -> None:
        try:
            waiting = [task for task in earlier if not task.done()]
            if waiting:
                await asyncio.wait(waiting)
            async with slots:
                await work
        except NotLeading as refused:
            log.debug("not written", reason=str(refused))
            self._end_term()

    async def _clear(self, pod: Pod) -> None:
        try:
            await self._cluster.nominate(pod, "")
        except Gone:
            return
        except ClusterError as error:
            log.warning("nomination not cleared; trying again", pod=pod.key, error=str(error))
            self._later(STEER_PAUSE, self._controller.lifecycle.clear_failed, pod.uid)

    async def _steer(self, pod: Pod, node: str, pin: Pin | None) -> None:
        found = self._controller.member(pod.uid)
        if found is None or found[1].assignment is None or found[1].assignment.node != node:
            return
        latest = found[1].pod
        pin = pin if latest.affinity == pod.affinity and not latest.nominated else None
        try:
            if pin is None or not await self._pinned(latest, pin):
                if latest.nominated != node:
                    await self._cluster.nominate(latest, node)
                if GATE in latest.gates:
                    await self._cluster.ungate(latest, GATE)
            self._controller.lifecycle.note(pod.uid, HistoryKind.STEERED, f"to {node}")
            self._controller.lifecycle.steered(pod.uid)
        except Gone:
            return
        except ClusterError as error:
            self._controller.lifecycle.note(pod.uid, HistoryKind.FAILED, f"steering to {node}: {error}")
            if self._controller.lifecycle.steer_trouble(pod.uid, str(error)):
                about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
                self.tell(
                    Tell(about, ReasonCode.CANNOT_STEER.value, f"can't be told its node {node}: {error}")
                )
            level = log.error if isinstance(error, Denied) else log.warning
            level("pod not steered; trying again", pod=pod.key, node=node, error=str(error))
            self._later(STEER_PAUSE, self._controller.lifecycle.steer_failed, pod.uid)

    async def _pinned(self, pod: Pod, pin: Pin) -> bool:
        """Pin and ungate the pod; whether that was allowed: it may be edited meanwhile, or a policy may forbid it."""
        try:
            await self._cluster.ungate(pod, GATE, pin)
        except ClusterError as error:
            if error.status not in FORBIDDEN:
                raise
            log.warning("pod can't be pinned; it is nominated", pod=pod.key, node=pin.node, error=str(error))
            return False
        return True

    def _later(self, pause: float, failed: Callable[[str], None], uid: str) -> None:
        """Tell the controller after ``pause`` seconds that a write has failed, so that it decides anew."""

        def tell() -> None:
            failed(uid)
            self._wake.set()

        asyncio.get_running_loop().call_later(pause, tell)

    async def _keep(self, pod: Pod, node: str) -> None:
        found = self._controller.member(pod.uid)
        if found is None or found[1].assignment is not None or found[1].kept != node:
            return
        try:
            await self._cluster.nominate(found[1].pod, node)
        except Gone:
            return
        except ClusterError as error:
            log.warning("nomination failed; trying again", pod=pod.key, node=node, error=str(error))
            self._later(STEER_PAUSE, self._controller.lifecycle.preemptor.nomination_failed, pod.uid)

    async def _ask_budgets(self, ask: AskBudgets) -> None:
        preemptor = self._controller.lifecycle.preemptor
        try:
            pods = [pod for some in ask.pods.values() for pod in some]
            refused = await self._cluster.forbidding(pods)
        except ClusterError as error:
            log.warning("disruption budgets can't be read", error=str(error))
            refused = Forbidding(f"disruption budgets can't be read: {error}", frozenset())
        if refused is None:
            preemptor.budgets_allow(ask.preemptor)
        else:
            preemptor.budgets_forbid(ask.preemptor, refused.about(ask.pods), refused.reason)
        self._wake.set()

    async def _evict(self, pod: Pod, reason: str, again: bool) -> None:
        try:
            await self._cluster.evict(pod, reason)
            self._controller.lifecycle.note(pod.uid, HistoryKind.EVICTED, reason)
            self._controller.lifecycle.preemptor.evicted(pod.uid)
            return
        except Disrupted as error:
            why = str(error)
            self._controller.lifecycle.note(pod.uid, HistoryKind.FAILED, f"eviction: {error}")
            log.warning("eviction not allowed now", pod=pod.key, error=why)
        except Gone:
            return
        except ClusterError as error:
            why = str(error)
            log.warning("eviction failed", pod=pod.key, error=why)
        if again:
            failed = partial(self._controller.lifecycle.preemptor.eviction_failed, why=why)
            self._later(EVICT_PAUSE, failed, pod.uid)

    async def _report(self, report: ReportPod | ReportGroup | ReportMembers) -> None:
        try:
            match report:
                case ReportPod(pod, message):
                    await self._cluster.report_pod(pod, message)
                case ReportGroup(group, scheduled, reason, message):
                    await self._cluster.report_group(group, scheduled, reason, message)
                case ReportMembers(members, status):
                    await self._cluster.report_members(members, status)
        except ClusterError as error:
            whose = report.pod.key if isinstance(report, ReportPod) else report.group.name
            log.info("status not written", whose=whose, error=str(error))

    async def bind(self, uid: str, node: str) -> None:
        """Bind a pod to its planned node once its whole gang has reached bind. Idempotent. Raises `CannotBind`."""
        gang, member = self._checked(uid, node)
        if member.bound == node:
            return
        if not gang.begun:
            try:
                await gang.barrier.arrive(uid, node, gang.gathered, self._limits.bind_wait)
            except BarrierFailed as failed:
                self._controller.lifecycle.note(uid, HistoryKind.FAILED, f"binding to {node}: {failed}")
                self._controller.lifecycle.not_bound(uid)
                self._controller.lifecycle.waited_in_vain(uid, node)
                raise CannotBind(f"gang {gang.key} is not bound: {failed}") from failed
            gang, member = self._checked(uid, node)
        self._controller.lifecycle.binding(gang, member)
        try:
            await self._bind(gang, member, node)
        except BaseException as error:
            why = str(error) if isinstance(error, CannotBind) else ""
            if why:
                self._controller.lifecycle.note(uid, HistoryKind.FAILED, f"binding to {node}: {why}")
            self._controller.lifecycle.not_bound(uid, why)
            raise
        self._controller.lifecycle.bound(uid, node)
        self._wake.set()

    def _checked(self, uid: str, node: str) -> tuple[Gang, Member]:
        if not self.leading:
            raise CannotBind(self.why_not_leading)
        found = self._controller.member(uid)
        if found is None:
            raise CannotBind("the pod is not known here: it may have been deleted")
        gang, member = found
        if member.bound and member.bound != node:
            raise CannotBind(f"the pod is bound to {member.bound} already")
        if not member.bound and (member.assignment is None or member.assignment.node != node):
            self._controller.lifecycle.not_bound(uid)
            planned = member.assignment.node if member.assignment is not None else "no node"
            raise CannotBind(f"the plan has changed: the pod now goes to {planned}, not to {node}")
        return gang, member

    async def _bind(self, gang: Gang, member: Member, node: str) -> None:
        assert member.assignment is not None
        stamped = binding_annotations(gang.key, member.assignment, member.pod.annotations)
        try:
            async with asyncio.timeout(BIND_LIMIT):
                await self._bind_patiently(member.pod, node, stamped)
        except TimeoutError:
            why = f"the API server gave no answer within {BIND_LIMIT:g} s"
            raise CannotBind(f"pod {member.pod.key} is not bound to {node}: {why}") from None

    async def _bind_patiently(self, pod: Pod, node: str, stamped: dict[str, str]) -> None:
        for attempt in range(1, BIND_TRIES + 1):
            try:
                async with self._bindings:
                    await self._cluster.bind(pod, node, stamped)
                return
            except NotLeading as error:
                self._end_term()
                raise CannotBind(str(error)) from error
            except (Gone, AlreadyBound) as error:
                raise CannotBind(str(error)) from error
            except ClusterError as error:
                if attempt == BIND_TRIES:
                    raise CannotBind(str(error)) from error
                await asyncio.sleep(BIND_PAUSE * attempt)
            if not self._controller.lifecycle.may_bind(pod.uid, node):
                raise CannotBind(f"node {node} has gone, or doesn't take pod {pod.key} any more")
