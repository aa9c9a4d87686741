"""Beside the producer: finds its quantum task, follows it through the vendor's queue, and lets the consumers go.

It is started before the producer's own containers and told to end (SIGTERM) after them. Invariants: it never ends by
itself and never fails the pod; what it has decided stands on its pod before it acts, so a restart goes on with that; it
goes on for consumers that come late. A producer that is deleted or evicted releases nobody, since another takes its
place; one that has ended releases all, since nobody will do it after.

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
from fluence_extender.coordination.following import Following, Verdict
from fluence_extender.coordination.guarded import Guarded
from fluence_extender.coordination.options import Options, annotated
from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.release import (
    Pods,
    handover,
    recorded_verdict,
    release_all,
    verdict_annotations,
    waiting,
)
from fluence_extender.model.pod import Pod

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
LOOK_AT_END = 10.0

T = TypeVar("T")


class Sidecar:
    """One run. ``wall`` is the node's clock, as the pod's start time is; ``clock`` only goes forward."""

    def __init__(
        self,
        options: Options,
        pods: Pods,
        queue: Guarded,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._pods = pods
        self._queue = queue
        self._clock = clock
        self._wall = wall
        self._following = Following(options.limits, clock())
        self._own: Pod | None = None
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self._stopped_at = 0.0

    def stop(self) -> None:
        """The pod's containers have ended, or the pod is to end: come to an end soon."""
        if not self._stopping.is_set():
            self._stopped_at = self._clock()
        self._stopping.set()
        self._news.set()

    def reported(self, task: str) -> None:
        """The interceptor says that the producer has submitted ``task``."""
        log.info("the producer has submitted a task", task=task)
        self._following.found([task], self._clock())
        self._news.set()

    async def run(self) -> int:
        """Until `stop`; 0, or 1 where the task wasn't found or nothing more was heard of it."""
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
        """Read our pod: what was decided before, its annotations, and when it began. None: told to stop first."""
        own = self._own = await self._insist(self._pods.own)
        if own is None:
            return None
        self._options, problems = annotated(self._options, own.annotations)
        for problem in problems:
            log.warning("an annotation can't be read", problem=problem)
        before = max(0.0, self._wall() - own.started) if own.started else 0.0
        self._following.limits = self._options.limits
        self._following.begun = self._clock() - min(before, self._options.discovery)
        return own

    # Following.

    async def _follow(self) -> Verdict | None:
        """Until the consumers may start; None: told to stop first."""
        next_status = 0.0
        while not self._stopping.is_set():
            self._news.clear()
            if not self._following.tasks or self._clock() >= next_status:
                await self._look()
            if self._following.tasks and self._clock() >= next_status:
                await self._ask()
                next_status = self._clock() + self._options.poll
            verdict = self._following.judge(self._clock())
            if verdict is not None:
                return verdict
            heard = await self._pause(self._options.poll if self._following.tasks else self._options.look)
            if heard:
                next_status = 0.0
        return None

    async def _look(self) -> None:
        """Look for tasks of the producer that aren't known yet."""
        try:
            found = await self._queue.find_my_tasks(self._options.pod_uid)
        except ProviderError as error:
            self._failed(error)
            return
        for task in found:
            if task not in self._following.tasks:
                log.info("found a task of the producer", task=task)
        self._following.found(found, self._clock())

    async def _ask(self) -> None:
        """Ask where the tasks stand."""
        for task in self._following.open:
            try:
                status = await self._queue.status(task)
            except ProviderError as error:
                self._failed(error)
                continue
            if status != self._following.tasks[task]:
                log.info("where the task stands", task=task, status=str(status))
            self._following.told(task, status, self._clock())
            if status.ready:
                return

    def _failed(self, error: ProviderError) -> None:
        if str(error) != self._following.trouble:
            log.warning("the vendor can't be asked", error=str(error))
        self._following.failed(str(error))

    async def _end(self) -> Verdict | None:
        """The verdict where we are told to stop first; None: nobody is released."""
        own = await self._insist(self._still_there, self._options.ungate)
        if own is None:
            log.warning("our own pod is gone or can't be read, so nobody is released")
            return None
        self._own = own
        if own.deleting:
            log.info("the producer is deleted before its task was about to run: nobody is released")
            return None
        if not self._following.tasks:
            try:
                async with asyncio.timeout(LOOK_AT_END):
                    await self._look()
            except TimeoutError:
                log.warning("the vendor gave no answer at the end")
        return self._following.end("the producer has ended")

    async def _still_there(self) -> Pod | None:
        try:
            return await self._pods.own()
        except Gone:
            return None

    # Releasing.

    async def _release(self, verdict: Verdict) -> None:
        """Write the verdict on our pod, then release consumers as they come; until told to stop, and once after."""
        await self._insist(
            lambda: self._pods.annotate_own(verdict_annotations(verdict, self._options.pod_uid)),
            self._options.ungate,
        )
        told = handover(self._own.annotations if self._own is not None else {}, verdict.task)
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        last: list[str] = []
        while True:
            ending = self._stopping.is_set()
            problems = await self._release_once(told)
            if problems and problems != last:
                log.warning("consumers couldn't be released yet", problems=problems[:5], count=len(problems))
            last = problems
            if ending and (not problems or self._clock() >= self._leave_at):
                return
            if problems:
                await self._pause(pauses.delay(), self._stopping.is_set())
            else:
                pauses.reset()
                await self._pause(self._options.look)

    async def _release_once(self, told: dict[str, str]) -> list[str]:
        """Release who is gated now; what went wrong."""
        names, group = self._options.gated, self._options.gang_group
        try:
            pods = await (self._pods.named(names) if names else self._pods.group(group))
        except ClusterError as error:
            return [str(error)]
        return await release_all(self._pods, waiting(pods, group, names), told)

    # Waiting.

    @property
    def _leave_at(self) -> float:
        """When nothing more is tried; without end while we aren't told to stop."""
        return self._stopped_at + self._options.ungate

    async def _pause(self, seconds: float, stopping: bool = False) -> bool:
        """Wait, at most until there is news or we are to stop; whether there was. ``stopping``: that is known."""
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
        """What ``call`` gives, tried until it does; None once ``after_stop`` seconds have passed after `stop`."""
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return await call()
            except ClusterError as error:
                log.warning("the API server refuses or is away; trying again", error=str(error))
            if self._stopping.is_set() and self._clock() >= self._stopped_at + after_stop:
                return None
            await self._pause(pauses.delay(), self._stopping.is_set())
