"""The one loop of the process that reads ``/v1``: twice a second for all visitors, however many pages are open.

It reads for one visitor first and for all others right after, each in his own name. What the first was sent is offered
to the others by its entity tag, so whoever may see the same costs the service an answer without content.

While nobody looks, nothing is read. Where reading, or making pages of what was read, takes long, it is done less often:
reading takes a tenth of the time at most, and the process a tenth of a core, as long as no change waits for longer than
`LONGEST`.

Invariant: what a visitor sees comes from answers to requests in his name, and from nothing else.
"""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256

from fluence_extender.dashboard.poller import Poller
from fluence_extender.dashboard.service import ServiceReader

PERIOD = 0.5
"""Seconds between two readings."""

SHARE = 10
"""Reading takes at most one part in this many of the time, and the process one part in this many of a core."""

LONGEST = 15.0
"""Seconds between two readings, however much there is to do."""

INTEREST = 60.0
"""Seconds after the last visit in which reading goes on."""

MOST_VISITORS = 500

FIRST_AT_ONCE = 4
"""Visitors who are read for the first time at the same time."""


class TooManyVisitors(Exception):
    """There is no room for another visitor now."""


class VisitorWatch:
    """Keeps a `Poller` for each visitor, by the Authorization header of his requests; "" is who started the process."""

    def __init__(self, reader: ServiceReader) -> None:
        self._reader = reader
        self._pollers: dict[bytes, Poller] = {}
        self._wanted = asyncio.Event()
        self._first = asyncio.Semaphore(FIRST_AT_ONCE)

    async def visited(self, authorization: str) -> Poller:
        """Return the poller of a visitor, which has a state that isn't old. Raise `TooManyVisitors`."""
        key = sha256(authorization.encode()).digest()
        poller = self._pollers.get(key)
        if poller is None:
            if len(self._pollers) >= MOST_VISITORS:
                raise TooManyVisitors
            reader = self._reader.as_caller(authorization) if authorization else self._reader
            poller = self._pollers[key] = Poller(reader)
        if poller.state.version == 0:
            async with self._first:
                await poller.seen(INTEREST)
        else:
            await poller.seen(INTEREST)
        if poller.refused and authorization:
            self._pollers.pop(key, None)
        self._wanted.set()
        return poller

    async def run(self) -> None:
        """Read until cancelled."""
        paid = time.process_time()
        while True:
            await self._wanted.wait()
            began = time.monotonic()
            await self.read_once()
            reading = time.monotonic() - began
            left = PERIOD
            while left > 0:
                await asyncio.sleep(min(PERIOD, left))
                # Pages are made meanwhile, which may call for a longer pause.
                computed = time.process_time()
                left = pause(reading, computed - paid) - (time.monotonic() - began)
            # What is computed from here on counts for the next pause.
            paid = computed

    async def read_once(self) -> None:
        """Read for all who look, and forget those who don't any more."""
        for key, poller in list(self._pollers.items()):
            if poller.reader is not self._reader and (poller.idle(INTEREST) or poller.refused):
                del self._pollers[key]
        looking = [poller for poller in self._pollers.values() if not poller.idle(INTEREST)]
        if not looking:
            self._wanted.clear()
            return
        first, *others = looking
        await first.read_once()
        await asyncio.gather(*(poller.read_once() for poller in others))

    async def end(self) -> None:
        """End all waits for news."""
        for poller in list(self._pollers.values()):
            await poller.end()


def pause(reading: float, computed: float) -> float:
    """Return how many seconds are between the beginnings of two readings.

    ``reading`` is how long the first took, and ``computed`` the CPU time of the process since it began.
    """
    return min(max(PERIOD + reading, SHARE * reading, SHARE * computed), max(LONGEST, SHARE * reading))
