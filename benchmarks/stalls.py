"""Measure how long an event loop is blocked."""

from __future__ import annotations

import asyncio
import time

EVERY = 0.001


class Stalls:
    """The longest time between two turns of the loop: ``wall`` by the clock, ``own`` in CPU time of its thread."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.own = 0.0

    async def run(self) -> None:
        """Wait for a turn every millisecond until cancelled."""
        while True:
            wall, own = time.monotonic(), time.thread_time()
            await asyncio.sleep(EVERY)
            self.wall = max(self.wall, time.monotonic() - wall - EVERY)
            self.own = max(self.own, time.thread_time() - own)
