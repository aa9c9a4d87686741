"""The bind barrier: no member of a gang is bound before every member has reached bind.

kube-scheduler runs each bind call in a goroutine of its own, so holding one holds nothing else up. A barrier opens once
and stays open; a plan that changes gets a new barrier, and whoever waits at the old one is told so.

Who has waited in vain still counts as having arrived on its node: it has passed the scheduler's filters there, and
comes again. So a gang gathers however long the scheduler takes for all of it. Once a member was refused that is no
longer believed: those who stand in each other's way pass one after the other, but never together. From then on all
waits end with the first: kube-scheduler backs all off at the same moment, so that they come back together, where waits
that began and ended at different times could miss each other again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

Complete = Callable[[Mapping[str, str]], bool]
"""Whether those who have arrived (uid -> node) are all that are needed."""


class BarrierFailed(Exception):
    """The wait ended without all members: the text says why."""


class Barrier:
    """Where the members of one plan gather; ``doubted`` if some were refused before, who may be in each other's way."""

    __slots__ = ("_arrived", "_doubted", "_failure", "_open", "_waiting")

    def __init__(self, doubted: bool = False) -> None:
        self._arrived: dict[str, str] = {}
        self._open = False
        self._failure: str | None = None
        self._waiting: dict[asyncio.Future[None], str] = {}
        self._doubted = doubted

    @property
    def open(self) -> bool:
        """Whether members pass without waiting."""
        return self._open

    @property
    def doubted(self) -> bool:
        """Whether a member was refused, so that only those who wait at once count."""
        return self._doubted

    def release(self) -> None:
        """Open it for good."""
        self._open = True
        self._wake()

    def fail(self, why: str) -> None:
        """End the wait of everyone here; the barrier can't be used afterwards."""
        if not self._open:
            self._failure = why
            self._wake()

    def doubt(self) -> None:
        """Count from now on only who waits here: a member was refused, so some may not be able to be there together."""
        self._doubted = True
        here = set(self._waiting.values())
        self._arrived = {uid: node for uid, node in self._arrived.items() if uid in here}

    def look(self, complete: Complete) -> None:
        """Open it if those who wait are complete by now: who counts may have changed since the last one came."""
        if self._waiting and self._waits and complete(self._arrived):
            self.release()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def arrive(self, uid: str, node: str, complete: Complete, seconds: float) -> None:
        """Wait until ``complete`` holds for those who have arrived, at most ``seconds``. Raises `BarrierFailed`."""
        self._arrived[uid] = node
        if self._waits and complete(self._arrived):
            self.release()
        if self._waits:
            await self._wait(uid, seconds)
        if self._open:
            return
        if self._doubted:
            self._arrived.pop(uid, None)
        raise BarrierFailed(self._failure or f"the other members have not reached bind within {seconds:g} s")

    @property
    def _waits(self) -> bool:
        return not self._open and self._failure is None

    async def _wait(self, uid: str, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = uid
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            if self._doubted:
                self._wake()
        finally:
            del self._waiting[future]
