"""Run beside the producer: find its quantum task, follow it through the vendor's queue, release the consumers.

The sidecar starts before the producer's own containers and gets SIGTERM after them. Invariants: it never ends by itself
and never fails the pod. Its decision is recorded on its pod before it acts, so a restarted sidecar continues with it.
It keeps running for consumers that come late. Privileged consumers are released by the webhook's process, once the
decision is recorded. A producer that is deleted or evicted releases no consumers, because
another takes its place; one that has ended releases all, because no other pod will.

    reading -> following -> releasing (again and again) -> ended
                   |              ^
                   +-- SIGTERM ---+
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.cluster.pacing import Backoff
from fluence_extender.coordination.guarded_queue import GuardedQueue
from fluence_extender.coordination.options import Options, with_annotations
from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.release import (
    Pods,
    handover,
    is_privileged,
    recorded_verdict,
    release_all,
    verdict_annotations,
    waiting,
)
from fluence_extender.coordination.tracker import TaskTracker, Verdict
from fluence_extender.model.coordination import QUANTUM_JOB_ID_ANNOTATION, TASK_STATUS_ANNOTATION
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
LAST_SEARCH = 10.0
"""Seconds for a last search for tasks once the sidecar has to stop."""

T = TypeVar("T")


class Sidecar:
    """One run. ``wall`` is the node's clock, like the pod's start time."""

    def __init__(
        self,
        options: Options,
        pods: Pods,
        queue: GuardedQueue,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._pods = pods
        self._queue = queue
        self._wall = wall
        self._tracker = TaskTracker(options.discovery, options.silence, time.monotonic())
        self._own: Pod | None = None
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self._stopped_at = 0.0

    def stop(self) -> None:
        """Come to an end soon, because the pod's containers have ended or the pod is terminating."""
        if not self._stopping.is_set():
            self._stopped_at = time.monotonic()
        self._stopping.set()
        self._news.set()

    def reported(self, task: str) -> None:
        """Note that the producer has submitted ``task``, as the interceptor reports."""
        log.info("the producer has submitted a task", task=task)
        self._tracker.found([task], time.monotonic())
        self._news.set()

    async def run(self) -> int:
        """Run until `stop`. Return 0, or 1 if no task was found or news of it ceased."""
        own = await self._begin()
        verdict = recorded_verdict(own) if own is not None else None
        if verdict is None:
            verdict = await self._follow()
        if verdict is None:
            verdict = await self._end()
        if verdict is None:
            return 0
        log.info("consumers may start" if self._releases else "the task is about to run", why=verdict.why)
        if self._releases:
            await self._release(verdict)
        else:
            await self._stopping.wait()
        return 0 if verdict.known else 1

    @property
    def _releases(self) -> bool:
        return not self._options.observes and bool(self._options.gang_group or self._options.gated)

    async def _begin(self) -> Pod | None:
        """Read our pod: an earlier decision, its annotations, and when it started. Return None if stopped first."""
        own = self._own = await self._insist(self._pods.own)
        if own is None:
            return None
        self._options, problems = with_annotations(self._options, own.annotations)
        for problem in problems:
            log.warning("an annotation can't be read", problem=problem)
        age = max(0.0, self._wall() - own.started) if own.started else 0.0
        self._tracker.discovery = self._options.discovery
        self._tracker.begun = time.monotonic() - min(age, self._options.discovery)
        return own

    # Following.

    async def _follow(self) -> Verdict | None:
        """Return the verdict once the consumers may start, None if stopped first."""
        next_status = 0.0
        while not self._stopping.is_set():
            self._news.clear()
            if not self._tracker.tasks or time.monotonic() >= next_status:
                await self._search()
            if self._tracker.tasks and time.monotonic() >= next_status:
                await self._read_statuses()
                next_status = time.monotonic() + self._options.poll
            verdict = self._tracker.judge(time.monotonic())
            if verdict is not None:
                return verdict
            if await self._pause(self._options.poll if self._tracker.tasks else self._options.look):
                next_status = 0.0
        return None

    async def _search(self) -> None:
        """Search for tasks of the producer that aren't known yet."""
        try:
            found = await self._queue.find_my_tasks(self._options.pod_uid)
        except ProviderError as error:
            self._failed(error)
            return
        for task in found:
            if task not in self._tracker.tasks:
                log.info("found a task of the producer", task=task)
        self._tracker.found(found, time.monotonic())

    async def _read_statuses(self) -> None:
        """Read the status of each open task, until one is ready."""
        for task in self._tracker.open:
            try:
                status = await self._queue.status(task)
            except ProviderError as error:
                self._failed(error)
                continue
            if status != self._tracker.tasks[task]:
                log.info("status of the task", task=task, status=str(status))
                await self._show(task, str(status))
            self._tracker.update(task, status, time.monotonic())
            if status.ready:
                return

    async def _show(self, task: str, status: str) -> None:
        """Write on our pod where a task is, for people; a write that fails isn't repeated."""
        try:
            await self._pods.annotate_own({QUANTUM_JOB_ID_ANNOTATION: task, TASK_STATUS_ANNOTATION: status})
        except ClusterError as error:
            log.warning("the status of the task isn't shown", problem=str(error))

    def _failed(self, error: ProviderError) -> None:
        if str(error) != self._tracker.trouble:
            log.warning("the vendor can't be asked", problem=str(error))
        self._tracker.failed(str(error))

    async def _end(self) -> Verdict | None:
        """Return the verdict of a sidecar that has to stop, None if it releases no consumers."""
        own = await self._insist(self._own_pod, self._options.ungate)
        if own is None:
            log.warning("our own pod is gone or can't be read, so no consumers are released")
            return None
        self._own = own
        if own.deleting:
            log.info("the producer is deleted before its task was about to run, so no consumers are released")
            return None
        if not self._tracker.tasks:
            try:
                async with asyncio.timeout(LAST_SEARCH):
                    await self._search()
            except TimeoutError:
                log.warning("the vendor didn't answer the last search")
        return self._tracker.end("the producer has ended")

    async def _own_pod(self) -> Pod | None:
        try:
            return await self._pods.own()
        except Gone:
            return None

    # Releasing.

    async def _release(self, verdict: Verdict) -> None:
        """Record the verdict on our pod, then release consumers as they come, until stopped and once after that."""
        await self._insist(
            lambda: self._pods.annotate_own(verdict_annotations(verdict, self._options.pod_uid)),
            self._options.ungate,
        )
        annotations = handover(self._own.annotations if self._own is not None else {}, verdict.task)
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        last: list[str] = []
        while True:
            ending = self._stopping.is_set()
            problems = await self._release_once(annotations)
            if problems and problems != last:
                log.warning("consumers couldn't be released yet", problems=problems[:5], count=len(problems))
            last = problems
            if ending and (not problems or time.monotonic() >= self._stopped_at + self._options.ungate):
                return
            if problems:
                await self._pause(pauses.delay(), self._stopping.is_set())
            else:
                pauses.reset()
                await self._pause(self._options.look)

    async def _release_once(self, annotations: dict[str, str]) -> list[str]:
        """Release the consumers that are gated now and aren't privileged. Return what went wrong."""
        names, group = self._options.gated, self._options.gang_group
        try:
            pods = await (self._pods.named(names) if names else self._pods.group(group))
        except ClusterError as error:
            return [str(error)]
        consumers = [one for one in waiting(pods, group, names) if not is_privileged(one)]
        return await release_all(self._pods, consumers, annotations)

    # Waiting.

    async def _pause(self, seconds: float, stopping: bool = False) -> bool:
        """Wait, but not beyond news or a stop. Return whether there was one.

        ``stopping``: the stop is known already, so wait the whole time.
        """
        if stopping:
            await asyncio.sleep(seconds)
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    async def _insist(self, call: Callable[[], Awaitable[T]], after_stop: float = 0.0) -> T | None:
        """Return what ``call`` returns, repeating it until it succeeds.

        Return None once ``after_stop`` seconds have passed after `stop`.
        """
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return await call()
            except ClusterError as error:
                log.warning("the API server refuses or is away; trying again", problem=str(error))
            if self._stopping.is_set() and time.monotonic() >= self._stopped_at + after_stop:
                return None
            await self._pause(pauses.delay(), self._stopping.is_set())
