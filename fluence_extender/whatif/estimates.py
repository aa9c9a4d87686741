"""About when waiting gangs start: computed beside the event loop every now and then, kept with each gang.

The most important gangs that wait are looked at, each after what the ones before it were promised. An estimate is only
replaced by one that differs noticeably, so that what people read doesn't flicker; how far the first and the last one
were off is measured when the gang gets its places.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.lifecycle.attempts import needy
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.workloads import owner_topology
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.placement.plan import Demand, SettledMember
from fluence_extender.placement.ranks import rank_key
from fluence_extender.whatif.forecast import Forecast
from fluence_extender.whatif.live import copied
from fluence_extender.whatif.simulation import OutOfTime
from fluence_extender.whatif.snapshot import Snapshot, planning
from fluence_extender.whatif.turns import short_turns

PERIOD = 10.0
"""Seconds between two looks at who waits; while nothing has changed nothing is computed."""

REST = 20.0
"""So many times as long as a computation took passes before the next: it takes a twentieth of one core at most."""

MOST = 32
"""How many waiting gangs get an estimate at once."""

PATIENCE = 5.0
"""Seconds of computing for all of them together."""

LOOK = 1.0
"""Seconds between two looks at who has got places."""

NOTICEABLE = 60.0, 0.1
"""An estimate that differs by less than so many seconds, and by less than this share of the wait, isn't told."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting gang as the computation needs it."""

    key: GangKey
    demands: tuple[Demand, ...]
    settled: tuple[SettledMember, ...]
    duration: float | None


@dataclass(slots=True)
class _Given:
    first: float
    last: float


def estimate(
    taken: Snapshot,
    ends: Mapping[str, float],
    queue: Sequence[Queued],
    now: float,
    patience: float = PATIENCE,
) -> dict[GangKey, float]:
    """When each gang of ``queue`` starts, seconds since the epoch; those for which that can't be said are left out."""
    until = time.monotonic() + patience

    def tick() -> None:
        if time.monotonic() > until:
            raise OutOfTime

    copy, planner = planning(taken)
    forecast = Forecast(copy, planner, ends, taken.uses, tick)
    found: dict[GangKey, float] = {}
    try:
        for one in queue:
            at = forecast.earliest(one.demands, one.key, now, one.settled)
            if at is None:
                continue
            found[one.key] = at
            until_end = at + one.duration if one.duration is not None else None
            forecast.promise(one.demands, one.key, at, until_end, one.settled)
    except OutOfTime:
        log.info("estimates of starts took too long", estimated=len(found), waiting=len(queue))
    return found


class Estimates:
    """Keeps `Gang.starts_about` up to date; ``missed`` is told by how many seconds the first and last one were off."""

    def __init__(
        self,
        controller: Controller,
        missed: Callable[[str, float], None] = lambda _, __: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._missed = missed
        self._now = now
        self._given: dict[GangKey, _Given] = {}
        self._seen: object = None
        self._next = 0.0

    async def run(self) -> None:
        """Estimate and measure until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            self.measure()
            began = time.monotonic()
            if began < self._next or not self._controller.started:
                continue
            try:
                await self.refresh()
            except Exception:
                # A defect here must not end the service, which does without estimates.
                log.exception("starts could not be estimated")
            self._next = began + max(PERIOD, REST * (time.monotonic() - began))

    async def refresh(self) -> None:
        """Compute the estimates anew if anything has changed that they depend on."""
        queue = self._queue()
        seen = (self._controller.ledger.version, tuple(one.key for one in queue))
        if seen == self._seen:
            return
        self._seen = seen
        if not queue:
            self._tell({})
            return
        taken, ends = copied(self._controller)
        if not ends:
            self._tell({})
            return
        with short_turns():
            found = await asyncio.to_thread(estimate, taken, ends, queue, self._now())
        self._tell(found)

    def measure(self) -> None:
        """Compare the estimates of gangs that have got their places with what came true."""
        gangs = self._controller.registry.gangs
        for key in list(self._given):
            gang = gangs.get(key)
            if gang is not None and needy(gang):
                continue
            given = self._given.pop(key)
            if gang is None or not gang.alive():
                continue
            gang.starts_about = None
            self._missed("first", self._now() - given.first)
            self._missed("last", self._now() - given.last)

    def _queue(self) -> list[Queued]:
        """Who waits for room, in the order in which they are tried."""
        waiting = [
            gang
            for gang in self._controller.registry.gangs.values()
            if gang.reason is not None and gang.reason.code is ReasonCode.BUSY and needy(gang)
        ]
        waiting.sort(key=lambda gang: (not gang.begun, -gang.priority, gang.created, gang.key))
        return [self._queued(gang) for gang in waiting[:MOST]]

    def _queued(self, gang: Gang) -> Queued:
        def demand(pod: Pod) -> Demand:
            return Demand(pod, frozenset(), *owner_topology(self._controller.registry.workloads, pod))

        pods = sorted((member.pod for member in needy(gang)), key=rank_key)
        settled = [
            SettledMember(demand(one.pod), one.assignment.node)
            for one in gang.alive()
            if one.assignment is not None
        ]
        missing = max(gang.size - len(settled) - gang.ended, 1)
        durations = [pod.duration for pod in pods]
        longest = None if None in durations else max(one for one in durations if one is not None)
        return Queued(gang.key, tuple(demand(pod) for pod in pods[:missing]), tuple(settled), longest)

    def _tell(self, found: Mapping[GangKey, float]) -> None:
        now = self._now()
        for key, gang in self._controller.registry.gangs.items():
            at = found.get(key)
            if at is not None and not needy(gang):
                at = None
            old = gang.starts_about
            if at is None:
                if old is not None:
                    gang.starts_about = None
                    self._controller.registry.revision += 1
                continue
            given = self._given.setdefault(key, _Given(at, at))
            given.last = at
            if old is None or abs(at - old) > max(NOTICEABLE[0], NOTICEABLE[1] * (at - now)):
                gang.starts_about = at
                self._controller.registry.revision += 1
