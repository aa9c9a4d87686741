"""Following the Lease: beginning to lead when our kube-scheduler has it, standing down when it hasn't.

Asking for it often keeps the lead, and shows early who has lost it; when that is enough to write, `leadership` says.
Whoever takes over takes one consistent look at our pods, and then decides. Invariant: between two terms, also two of
our own, there is always such a look.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

import structlog

from fluence_extender.cluster.errors import ClusterError, NotLeading
from fluence_extender.cluster.port import Lease, OwnPods
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.leadership.lease import ASKED_OF_DURATION, ByLease, Term

log = structlog.get_logger(__name__)

ReadLease = Callable[[float], Awaitable[Lease | None]]
"""Reads the Lease within so many seconds. Raises `ClusterError`."""

LookAtOurs = Callable[[Mapping[str, str]], Awaitable[OwnPods]]
"""Looks at our pods, given the versions that we know. Raises `ClusterError`."""

AT_LEAST = 0.1
"""Seconds between two questions for the Lease."""

QUESTIONS = 30
"""Questions in one duration of the Lease."""

USUAL = 15.0
"""Seconds of a Lease that nobody holds: kube-scheduler's default."""

AGAIN = 0.5
"""Seconds until a look that failed is tried again."""


class Election:
    """Drives ``driver`` into and out of the lead, as ``leadership`` allows; ``run`` it as a task."""

    def __init__(
        self,
        leadership: ByLease,
        driver: Driver,
        read: ReadLease,
        look: LookAtOurs,
        ready: Callable[[], bool],
    ) -> None:
        self._leadership = leadership
        self._driver = driver
        self._read = read
        self._look = look
        self._ready = ready
        self._clock = leadership.clock
        self._asked = self._clock()
        self._poked = asyncio.Event()
        self._term: Term | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._failure = ""

    def poke(self) -> None:
        """Ask for the Lease now: there is reason to think that it has changed."""
        self._poked.set()

    async def run(self) -> None:
        """Follow the Lease until cancelled."""
        try:
            while True:
                await self._ask()
                self._follow()
                await self._pause()
        finally:
            self._stop_taking_over()

    @property
    def _duration(self) -> float:
        return self._leadership.duration or USUAL

    async def _pause(self) -> None:
        await asyncio.sleep(AT_LEAST)
        now = self._clock()
        next_one = self._asked + self._duration / QUESTIONS
        if now < self._leadership.begins_at < next_one:
            next_one = self._leadership.begins_at
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(next_one - now):
                await self._poked.wait()
        self._poked.clear()

    async def _ask(self) -> None:
        self._asked = self._clock()
        try:
            # A later answer would come too late to go on by.
            lease = await self._read(ASKED_OF_DURATION * self._duration)
        except ClusterError as error:
            if not self._failure:
                log.warning("the lease can't be read; trying again", error=str(error))
            self._failure = str(error)
            return
        self._failure = ""
        self._leadership.saw(lease, self._asked)

    def _follow(self) -> None:
        term = self._leadership.term if self._ready() else None
        if term == self._term and (term is None or self._driver.leading or self._taking_over is not None):
            return
        self._stop_taking_over()
        if self._term is not None:
            log.warning("standing by", reason=self._leadership.why_not or "a new term begins")
            self._driver.stand_down()
        self._term = term
        if term is not None:
            self._taking_over = asyncio.create_task(self._take_over(term), name="take over")

    def _stop_taking_over(self) -> None:
        if self._taking_over is not None:
            self._taking_over.cancel()
            self._taking_over = None

    async def _take_over(self, term: Term) -> None:
        began = self._clock()
        while self._leadership.term == term:
            try:
                await self._driver.lead(self._look)
            except (ClusterError, NotLeading) as error:
                log.warning("taking over failed; trying again", error=str(error))
                await asyncio.sleep(AGAIN)
                continue
            except Exception:
                log.exception("taking over failed; trying again")
                await asyncio.sleep(AGAIN)
                continue
            log.info("leading", holder=term[0], transitions=term[1], seconds=round(self._clock() - began, 3))
            break
        self._taking_over = None
