"""The loop of the service: observations go into the controller, its decisions go to the executor.

One task decides. The writes run as tasks of their own, so that a slow API server delays no decision. Long computations
run in a thread.

Invariant: a process that ends doesn't wait for such a computation. (`asyncio.to_thread` and executors would make it
wait.)
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import structlog

from fluence_extender.cluster.errors import ClusterError
from fluence_extender.cluster.port import Changed, Cluster, ListOwnPods, Observation
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.binder import Binder
from fluence_extender.gangs.execution.executor import DRY_RUNS_AT_ONCE, Executor
from fluence_extender.gangs.execution.writes import Fence
from fluence_extender.gangs.leadership.lease import ALONE, Leadership
from fluence_extender.gangs.planning.view import Plan, View
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

# Computations in a thread.

SWITCH_INTERVAL = 0.0001
"""Seconds after which a computing thread hands the interpreter over to another thread that waits for it."""

_intervals_before: list[float] = []
"""The switch interval before the first computation, once for each computation that is under way."""

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a computation. The awaitable ends when the computation does, and raises what it raises."""


async def run_in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread."""
    done: Future[None] = Future()
    # From now on the future can't be cancelled, because the thread can't be cancelled either.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="computation", daemon=True).start()
    await asyncio.wrap_future(done)


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Set the short switch interval within this context. Only the event loop's thread may enter and leave it."""
    _intervals_before.append(_intervals_before[0] if _intervals_before else sys.getswitchinterval())
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        before = _intervals_before.pop()
        if not _intervals_before:
            sys.setswitchinterval(before)


# The loop.

GATHER = 0.01
"""The fewest seconds in which observations are gathered before a decision."""

GATHER_MOST = 0.1
"""The most seconds of gathering, also if no observation is urgent."""

GATHER_FACTOR = 2
"""Gathering takes this many times as long as the last decision, because a large gang causes thousands of changes."""

YIELDS = 8
"""How often other tasks of the loop get their turn between two steps while some gangs aren't tried yet."""

TICK = 1.0
"""Seconds between looks at the clock when nothing is observed."""


class Driver:
    """Runs a controller against a cluster.

    ``executor`` and ``binder`` write to the cluster through ``fence``, while we lead. ``clock`` measures, in seconds,
    how long a decision takes. Passes over the waiting gangs run ``in_thread``.
    """

    def __init__(
        self,
        controller: Controller,
        cluster: Cluster,
        leadership: Leadership = ALONE,
        clock: Callable[[], float] = time.perf_counter,
        in_thread: RunInThread = run_in_thread,
    ) -> None:
        self._clock = clock
        self._in_thread = in_thread
        self._pass_under_way: asyncio.Task[None] | None = None
        self._plan: Plan | None = None
        self._cluster = cluster
        self._controller = controller
        self._leadership = leadership
        self.fence = Fence(cluster, leadership, self._end_term)
        self._led = asyncio.Event()
        self._something_new = asyncio.Event()
        self._urgent = asyncio.Event()
        self._pods_awaited: dict[str, asyncio.Event] = {}
        self._held_back: list[Observation] | None = None
        self._gather_for = GATHER
        self._cut_short = False
        parts = controller.registry, controller.lifecycle, self.fence
        self.binder = Binder(*parts, lambda: self.leading, self.wake)
        self.executor = Executor(*parts, self.binder, self.wake)

    def sink(self, seen: Observation) -> None:
        """Take in an observation; call it from the event loop."""
        if self._held_back is not None:
            self._held_back.append(seen)
            return
        self._controller.observe(seen)
        self._something_new.set()
        if _is_urgent(seen) or self._controller.queue.outdated:
            self._urgent.set()
        if self._pods_awaited and isinstance(seen, Changed) and isinstance(seen.object, Pod):
            shown = self._pods_awaited.get(seen.object.uid)
            if shown is not None:
                shown.set()

    async def start(self) -> None:
        """Let the controller replay what runs already, in a thread, because the loop has probes to answer.

        Raises what `Controller.start` raises. Observations that come meanwhile are taken in afterwards.
        """
        self._held_back = []
        try:
            await self._find_shapes()
            await self._in_thread(self._controller.start)
        finally:
            held_back, self._held_back = self._held_back, None
        for seen in held_back:
            self.sink(seen)
        self.wake()

    async def _find_shapes(self) -> None:
        """Ask for the shapes of expected pods. With them, the places of planned pods are held from the start."""
        expected_pods = self._controller.lifecycle.expected_pods

        async def ask(job: Resumable) -> None:
            try:
                expected_pods.shapes_known(job, await self._cluster.dry_run(job))
            except ClusterError as error:
                log.warning(
                    "planned pods aren't known yet", job=f"{job.namespace}/{job.name}", error=str(error)
                )

        jobs = expected_pods.without_shapes()
        for first in range(0, len(jobs), DRY_RUNS_AT_ONCE):
            await asyncio.gather(*map(ask, jobs[first : first + DRY_RUNS_AT_ONCE]))

    def wake(self) -> None:
        """Have the next decision made at once rather than at the next tick."""
        self._something_new.set()
        self._urgent.set()

    @property
    def leading(self) -> bool:
        """Whether we decide. Our writes may have to wait until the Lease is confirmed."""
        return self._controller.leading and self._leadership.holds

    async def lead(self, look: ListOwnPods) -> None:
        """Begin to decide, after a ``look`` at our pods, which shows what the previous leader has written.

        Raises what the look raises, and `NotLeading` if the lead is lost meanwhile.
        """
        try:
            own_pods = await look(self._controller.begin_look())
            await self._find_shapes()
            await self.fence.confirmed()
            self._controller.lead(own_pods)
        finally:
            self._controller.end_look()
        self._led.set()
        self.wake()

    def stand_down(self) -> None:
        """Stop deciding and writing: fail the waits at barriers, and give up the writes under way."""
        self._led.clear()
        self._controller.stand_down(self.fence.why_not_leading)
        self.executor.cancel()
        self.fence.give_up()

    def _end_term(self) -> None:
        """End the term because a write was refused.

        However short the lapse was, no other replica knows our plans, so they are void.
        """
        if self._controller.leading:
            self.stand_down()

    async def seen(self, uid: str, seconds: float) -> None:
        """Wait until the watch shows the pod ``uid``, but no longer than ``seconds``."""
        shown = self._pods_awaited.setdefault(uid, asyncio.Event())
        try:
            await _within(seconds, shown)
        finally:
            self._pods_awaited.pop(uid, None)

    async def led(self, seconds: float) -> None:
        """Wait until we lead, but no longer than ``seconds``."""
        await _within(seconds, self._led)

    async def run(self) -> None:
        """Decide and act until cancelled."""
        try:
            while True:
                await self._wait_until_due()
                self._something_new.clear()
                self._urgent.clear()
                began = self._clock()
                self.step()
                took = self._clock() - began
                self._gather_for = (
                    GATHER if self._urgent.is_set() else min(max(GATHER, GATHER_FACTOR * took), GATHER_MOST)
                )
        finally:
            if self._pass_under_way is not None:
                self._pass_under_way.cancel()
            self.executor.cancel()
            await self.executor.finish()

    async def _wait_until_due(self) -> None:
        """Wait until a decision is due. If the last one was cut short, only give other tasks their turn."""
        if self._cut_short:
            for _ in range(YIELDS):
                await asyncio.sleep(0)
            return
        await _within(TICK, self._something_new)
        if self._something_new.is_set():
            await _within(GATHER_MOST, self._urgent)
        if self._urgent.is_set():
            await asyncio.sleep(self._gather_for)

    def step(self) -> None:
        """Decide once, and start to carry it out."""
        if self._controller.leading and not self._leadership.holds:
            self.stand_down()
        self._cut_short = False
        plan, self._plan = self._plan, None
        try:
            view = self._controller.begin()
            if view is not None:
                self._pass_under_way = asyncio.create_task(self._pass(view))
            actions = self._controller.finish(plan)
        except Exception:
            log.exception("planning failed; trying again at the next change")
            if plan is not None:
                self._controller.lifecycle.passes.drop()
            return
        self.executor.start(actions)
        self._cut_short = self._controller.leading and self._controller.lifecycle.behind
        if self._controller.restless:
            self.wake()

    async def passed(self) -> bool:
        """Wait until the pass under way is over; return whether the next step has a plan to carry out."""
        if self._pass_under_way is not None:
            await self._pass_under_way
        return self._plan is not None

    async def _pass(self, view: View) -> None:
        """Make a pass, whose plan is carried out by the next step."""

        def work() -> None:
            self._plan = self._controller.plan(view)

        try:
            with short_switch_interval():
                await self._in_thread(work)
        except Exception:
            log.exception("a pass failed; trying again at the next change")
            self._controller.lifecycle.passes.drop()
            return
        self.wake()


def _is_urgent(seen: Observation) -> bool:
    """Return whether a decision may be due at once.

    A living pod of ours that has its node isn't urgent. Such a pod changes several times after its placement, and other
    gangs depend on that only where there are reservations.
    """
    if not isinstance(seen, Changed) or not isinstance(seen.object, Pod):
        return True
    pod = seen.object
    return not (pod.ours and pod.node) or pod.deleting or pod.finished


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait until the event is set, but no longer than so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
