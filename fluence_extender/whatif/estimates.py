"""The expected starts of waiting gangs, computed now and then in another thread, and kept with each gang.

Only the first of the waiting gangs are estimated, each after the promises to the gangs before it. An estimate is
replaced only by one that differs noticeably, so that the text for users doesn't flicker. When a gang gets its places,
the errors of its first and its last estimate are measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.threads import short_switch_interval
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.workloads import owner_topology
from fluence_extender.gangs.queue.book import BLOCKED, STOPPED
from fluence_extender.gangs.queue.turns import turn
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.ranks import rank_key
from fluence_extender.queueing.entry import NEVER
from fluence_extender.whatif.forecast import Forecast, OutOfTime
from fluence_extender.whatif.simulator import snapshot_with_ends
from fluence_extender.whatif.snapshot import Snapshot

PERIOD = 10.0
"""The fewest seconds between two computations. While nothing has changed, nothing is computed."""

REST = 20.0
"""The least pause after a computation, in multiples of its duration: it takes at most a twentieth of one core."""

MOST = 32
"""The most waiting gangs that are estimated at the same time."""

PATIENCE = 5.0
"""The most seconds for all of them together."""

MEASURE_PERIOD = 1.0
"""Seconds between two checks for gangs that have got places."""

NOTICEABLE = 60.0, 0.1
"""An estimate stays if the new one differs by less than these seconds, or by less than this share of the wait."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting gang for the computation; ``duration`` is `NEVER` if the duration of a member isn't known."""

    key: GangKey
    demands: tuple[Demand, ...]
    settled: tuple[SettledMember, ...]
    duration: float


@dataclass(slots=True)
class _Published:
    """The first and the last estimate of a gang, in seconds since the epoch."""

    first: float
    last: float


def estimate(
    taken: Snapshot,
    ends: Mapping[str, float],
    queue: Sequence[Queued],
    now: float,
    patience: float = PATIENCE,
    reserved: Mapping[GangKey, float] | None = None,
) -> dict[GangKey, float]:
    """Return when each gang of ``queue`` starts, in seconds since the epoch; gangs without an estimate are left out.

    ``reserved`` has the starts of gangs with a reservation.
    """
    promised = reserved or {}
    until = time.monotonic() + patience

    def tick() -> None:
        if time.monotonic() > until:
            raise OutOfTime

    forecast = Forecast(taken.planner(), taken.room, ends, now, tick)
    found: dict[GangKey, float] = {}
    try:
        for gang in queue:
            at = promised.get(gang.key)
            start = forecast.start(gang.demands, gang.key, gang.settled, gang.duration, at or 0.0)
            start = start if at is None else at
            if start is not None:
                found[gang.key] = start
    except OutOfTime:
        log.info("estimates of starts took too long", estimated=len(found), waiting=len(queue))
    return found


class Estimates:
    """Keeps `Gang.starts_about` up to date.

    ``missed`` is called with ``first`` or ``last`` and with the number of seconds by which that estimate was off.
    """

    def __init__(
        self,
        controller: Controller,
        missed: Callable[[str, float], None] = lambda _, __: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._missed = missed
        self._now = now
        self._published: dict[GangKey, _Published] = {}
        self._state: object = None
        self._next = 0.0

    async def run(self) -> None:
        """Estimate and measure until cancelled."""
        while True:
            await asyncio.sleep(MEASURE_PERIOD)
            self.measure()
            began = time.monotonic()
            if began < self._next or not self._controller.started:
                continue
            try:
                await self.refresh()
            except Exception:
                # A defect here must not end the service, which works without estimates.
                log.exception("starts could not be estimated")
            self._next = began + max(PERIOD, REST * (time.monotonic() - began))

    async def refresh(self) -> None:
        """Compute the estimates again if anything has changed that they depend on."""
        queue = self._queue()
        now, starts = self._now(), self._controller.queue.promised_starts()
        reserved = {key: start for key, start in starts.items() if now < start < NEVER}
        state = (self._controller.ledger.version, tuple(gang.key for gang in queue), reserved)
        if state == self._state:
            return
        self._state = state
        if not queue:
            self._publish({})
            return
        taken, ends = snapshot_with_ends(self._controller, self._now())
        if not ends:
            self._publish({})
            return
        with short_switch_interval():
            found = await asyncio.to_thread(estimate, taken, ends, queue, self._now(), PATIENCE, reserved)
        self._publish(found)

    def measure(self) -> None:
        """Measure the errors of the estimates of gangs that have got their places."""
        for key, start in self._controller.queue.promised_starts().items():
            if start < NEVER:
                # The queue sets the start of such a gang as soon as it is reserved.
                self._published.setdefault(key, _Published(start, start)).last = start
        gangs = self._controller.registry.gangs
        for key in list(self._published):
            gang = gangs.get(key)
            if gang is not None and gang.placeless():
                continue
            published = self._published.pop(key)
            if gang is None or not gang.alive():
                continue
            gang.starts_about = None
            self._missed("first", self._now() - published.first)
            self._missed("last", self._now() - published.last)

    def _queue(self) -> list[Queued]:
        """Return the first of the gangs that wait for capacity, in the order in which they are tried."""
        waiting = [
            gang
            for gang in self._controller.registry.gangs.values()
            if gang.reason is not None and gang.reason.code in (*BLOCKED, *STOPPED) and gang.placeless()
        ]
        waiting.sort(key=turn)
        return [self._queued(gang) for gang in waiting[:MOST]]

    def _queued(self, gang: Gang) -> Queued:
        def demand(pod: Pod) -> Demand:
            return Demand(pod, frozenset(), *owner_topology(self._controller.registry.workloads, pod))

        pods = sorted((member.pod for member in gang.placeless()), key=rank_key)
        settled = [
            SettledMember(demand(one.pod), one.assignment.node)
            for one in gang.alive()
            if one.assignment is not None
        ]
        missing = max(gang.size - len(settled) - gang.ended, 1)
        longest = self._controller.queue.ends.duration(pods, self._now())
        return Queued(gang.key, tuple(demand(pod) for pod in pods[:missing]), tuple(settled), longest)

    def _publish(self, found: Mapping[GangKey, float]) -> None:
        now = self._now()
        for key, gang in self._controller.registry.gangs.items():
            at = found.get(key)
            if at is not None and not gang.placeless():
                at = None
            old = gang.starts_about
            if at is None:
                if old is not None:
                    gang.starts_about = None
                    self._controller.registry.revision += 1
                continue
            published = self._published.setdefault(key, _Published(at, at))
            published.last = at
            if old is None or abs(at - old) > max(NOTICEABLE[0], NOTICEABLE[1] * (at - now)):
                gang.starts_about = at
                self._controller.registry.revision += 1
