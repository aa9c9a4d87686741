"""The bind barrier: no member of a gang is bound before every member has reached bind.

kube-scheduler runs each bind call in a goroutine of its own, so a call that waits delays no other. A barrier opens once
and stays open. When a plan changes, it gets a new barrier, and the waits at the old one fail.

A member whose wait has timed out still counts as arrived on its node: it has passed the scheduler's filters there and
will come again. So a gang gathers however long the scheduler takes. This is different once a member was refused.
Members that exclude each other (by anti-affinity, say) may pass the filters one after the other, and never together.
Then only members that wait at the same time count, and when one wait times out, all end. kube-scheduler backs all of
these members off at that moment, so they come back together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

Gathered = Callable[[Mapping[str, str]], bool]
"""Returns whether the members that have arrived (uid -> node) are enough."""


class BarrierFailed(Exception):
    """The wait ended without all members; the text says why."""


class Barrier:
    """Where the members of one plan gather.

    ``open``: members pass without waiting. ``doubted``: a member was refused, so members may exclude each other, and
    only members that wait at the same time count.
    """

    __slots__ = ("_arrived", "_failure", "_waiting", "doubted", "open")

    def __init__(self, doubted: bool = False) -> None:
        self._arrived: dict[str, str] = {}
        self.open = False
        self._failure: str | None = None
        self._waiting: dict[asyncio.Future[None], str] = {}
        self.doubted = doubted

    def release(self) -> None:
        """Open the barrier for good."""
        self.open = True
        self._wake()

    def fail(self, why: str) -> None:
        """Fail all waits; the barrier can't be used afterwards."""
        if not self.open:
            self._failure = why
            self._wake()

    def doubt(self) -> None:
        """Count only waiting members from now on: after a refusal, members may exclude each other."""
        self.doubted = True
        waiting = set(self._waiting.values())
        self._arrived = {uid: node for uid, node in self._arrived.items() if uid in waiting}

    def recheck(self, gathered: Gathered) -> None:
        """Open the barrier if members wait and enough have arrived. Fewer than before may be enough now."""
        if self._waiting and self._waits and gathered(self._arrived):
            self.release()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def arrive(self, uid: str, node: str, gathered: Gathered, seconds: float) -> None:
        """Wait until ``gathered`` holds for the arrived members, at most ``seconds``. Raises `BarrierFailed`."""
        self._arrived[uid] = node
        if self._waits and gathered(self._arrived):
            self.release()
        if self._waits:
            await self._wait(uid, seconds)
        if self.open:
            return
        if self.doubted:
            self._arrived.pop(uid, None)
        raise BarrierFailed(self._failure or f"the other members have not reached bind within {seconds:g} s")

    @property
    def _waits(self) -> bool:
        return not self.open and self._failure is None

    async def _wait(self, uid: str, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = uid
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            if self.doubted:
                self._wake()
        finally:
            del self._waiting[future]
