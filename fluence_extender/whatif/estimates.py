"""The expected starts of waiting gangs, computed now and then by a pass that reserves room for many of them.

Only the first of the waiting gangs are estimated, each beside the reservations of the gangs before it. An estimate is
too early if a pod runs beyond its declared end, or if a more important gang comes later. It is replaced only by one
that differs noticeably, so that the text for users doesn't flicker. When a gang gets its places, the errors of its
first and its last estimate are measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import short_switch_interval
from fluence_extender.gangs.planning.known_reasons import PassMemory
from fluence_extender.gangs.planning.one_pass import plan
from fluence_extender.gangs.planning.view import View
from fluence_extender.gangs.queue.book import waits_for_turn
from fluence_extender.gangs.queue.submissions import RANK, ToTry
from fluence_extender.model.gang import GangKey
from fluence_extender.queueing.entry import NEVER, PolicyName, QueuePolicy

PERIOD = 10.0
"""The fewest seconds between two computations. While nothing has changed, nothing is computed."""

REST = 20.0
"""The least pause after a computation, in multiples of its duration: it takes at most a twentieth of one core."""

MOST = 32
"""The most waiting gangs that are estimated at the same time."""

RESERVING = QueuePolicy(PolicyName.HYBRID, reservation_depth=MOST, starvation_after=NEVER)
"""The policy by which gangs are estimated: each gets a reservation, and no nodes are drained for it."""

MEASURE_PERIOD = 1.0
"""Seconds between two checks for gangs that have got places."""

NOTICEABLE = 60.0, 0.1
"""An estimate stays if the new one differs by less than these seconds, or by less than this share of the wait."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Published:
    """The first and the last estimate of a gang, in seconds since the epoch."""

    first: float
    last: float


def estimate(view: View, memory: PassMemory) -> dict[GangKey, float]:
    """Return when each gang in line in a view starts, in seconds since the epoch, as far as known ends tell.

    A gang that has a reservation in the view keeps it. No victims are searched for.
    """
    keys = {key for _, key in view.line}
    reserved = {key for key, one in view.ends.blocked.items() if one.reservation is not None}
    made = plan(
        replace(
            view,
            untried=frozenset(keys - reserved),
            queues=replace(view.queues, policy=RESERVING, cut=None),
            preemption=replace(view.preemption, not_before=dict.fromkeys(keys, NEVER)),
        ),
        memory,
    )
    starts = {one.key: one.reservation.start for one in made.blocked if one.reservation is not None}
    starts.update((one.key, view.calendar) for one in made.decided if one.placed)
    return {key: start for key, start in starts.items() if start < NEVER}


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
        line = self._line()
        state = self._controller.ledger.version, line, self._controller.queue.reserved_starts()
        if state == self._state:
            return
        self._state = state
        if not line or not self._controller.queue.known_ends.any:
            self._publish({})
            return
        view, memory = replace(self._controller.simulation_view(), line=line), self._controller.new_memory()
        with short_switch_interval():
            self._publish(await asyncio.to_thread(estimate, view, memory))

    def measure(self) -> None:
        """Measure the errors of the estimates of gangs that have got their places."""
        for key, start in self._controller.queue.reserved_starts().items():
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
            gang.remember(starts_about=None)
            self._missed("first", self._now() - published.first)
            self._missed("last", self._now() - published.last)

    def _line(self) -> list[ToTry]:
        """Return the first of the gangs that wait for capacity, and all that have a reservation, in their order."""
        gangs, turns = self._controller.registry.gangs, self._controller.queue.turns

        def waits_for_capacity(place: ToTry) -> bool:
            gang = gangs.get(place.key)
            return gang is not None and waits_for_turn(gang) and bool(gang.placeless())

        first = list(islice(filter(waits_for_capacity, turns.ready), MOST))
        reserved = (place for key in self._controller.queue.reserved_starts() if (place := turns.find(key)))
        return sorted({*first, *(ToTry(place.rank, place.gang.key) for place in reserved)}, key=RANK)

    def _publish(self, found: Mapping[GangKey, float]) -> None:
        now = self._now()
        for key, gang in self._controller.registry.gangs.items():
            at = found.get(key)
            if at is not None and not gang.placeless():
                at = None
            old = gang.starts_about
            if at is None:
                if old is not None:
                    gang.remember(starts_about=None)
                    self._controller.registry.revision += 1
                continue
            published = self._published.setdefault(key, _Published(at, at))
            published.last = at
            if old is None or abs(at - old) > max(NOTICEABLE[0], NOTICEABLE[1] * (at - now)):
                gang.remember(starts_about=at)
                self._controller.registry.revision += 1
