"""How long an event loop doesn't take its turn."""

from __future__ import annotations

import asyncio
import time

EVERY = 0.001


class Stalls:
    """``wall`` and ``own`` are the longest time between two turns: by the clock, and of the loop's thread at work."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.own = 0.0

    async def run(self) -> None:
        """Ask for a turn every millisecond until cancelled."""
        while True:
            wall, own = time.monotonic(), time.thread_time()
            await asyncio.sleep(EVERY)
            self.wall = max(self.wall, time.monotonic() - wall - EVERY)
            self.own = max(self.own, time.thread_time() - own)
