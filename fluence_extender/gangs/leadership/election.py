"""Following the Lease: leading while our kube-scheduler holds it, standing down when it doesn't.

Frequent reads of the Lease keep the lead, and show early that another replica has lost it. Module `lease` decides when
the reads allow writing. Invariant: at the beginning of each term, even of two consecutive terms of our own, there is
one consistent look at our pods before anything is decided.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from fluence_extender.cluster.errors import ClusterError, NotLeading
from fluence_extender.cluster.port import Lease, ListOwnPods
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.leadership.lease import ASKED_OF_DURATION, LONG_AGO, ByLease, Term, since_boot

log = structlog.get_logger(__name__)

ReadLease = Callable[[float], Awaitable[Lease | None]]
"""Reads the Lease within a number of seconds. Raises `ClusterError`."""

MarkLeader = Callable[[], Awaitable[None]]
"""Has the Service select this replica. Raises `ClusterError` or `NotLeading`."""

AT_LEAST = 0.1
"""The fewest seconds between two reads of the Lease."""

READS = 30
"""Reads in one duration of the Lease."""

USUAL = 15.0
"""Seconds that count as the duration of a Lease without a holder: kube-scheduler's default."""

RETRY = 0.5
"""Seconds until a failed takeover is tried again, and between two checks whether this replica leads."""

MARK_RETRY = 5.0
"""Seconds until a failed mark is tried again."""

MARK_EVERY = 30.0
"""Seconds after which the leader's mark is checked again, because anybody may remove it."""


class Election:
    """Has ``driver`` lead and stand down as ``leadership`` allows; ``run`` it as a task."""

    def __init__(
        self,
        leadership: ByLease,
        driver: Driver,
        read: ReadLease,
        look: ListOwnPods,
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
        """Read the Lease now, because it may have changed."""
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
        next_read = self._asked + self._duration / READS
        if now < self._leadership.begins_at < next_read:
            next_read = self._leadership.begins_at
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(next_read - now):
                await self._poked.wait()
        self._poked.clear()

    async def _ask(self) -> None:
        self._asked = self._clock()
        try:
            # An answer after this time would come too late to keep the lead.
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
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                log.exception("taking over failed; trying again")
                # It may be half done, and nothing must be decided with only a part of the facts.
                self._driver.stand_down()
                await asyncio.sleep(RETRY)
                continue
            log.info("leading", holder=term[0], transitions=term[1], seconds=round(self._clock() - began, 3))
            break
        self._taking_over = None


async def keep_marked(
    leading: Callable[[], bool], mark: MarkLeader, clock: Callable[[], float] = since_boot
) -> None:
    """Have the Service select this replica while it is ``leading``, until cancelled.

    Nothing that the leader does depends on this. A failure is logged, and the mark is tried again.
    """
    due = LONG_AGO
    while True:
        if not leading():
            due = LONG_AGO
        elif clock() >= due:
            try:
                await mark()
            except (ClusterError, NotLeading) as error:
                log.warning("the Service doesn't select this leader yet; trying again", error=str(error))
                due = clock() + MARK_RETRY
            else:
                due = clock() + MARK_EVERY
        await asyncio.sleep(RETRY)
