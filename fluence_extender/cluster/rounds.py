"""Work that follows what is seen, in rounds: a moment for things that come together, then all that is to be done.

A round begins when something was seen, when something comes due, or some time after one in which something failed.
Invariant: what is seen during a round is looked at in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fluence_extender.cluster.backoff import jittered

AT_ONCE = 16

T = TypeVar("T")


class Rounds:
    """``work`` does a round and says when the next one is due at the latest, None: not before something is seen.

    Times are in seconds of ``clock``; ``breather`` is the moment before each round.
    """

    def __init__(
        self, work: Callable[[], Awaitable[float | None]], clock: Callable[[], float], breather: float
    ) -> None:
        self._work = work
        self._clock = clock
        self._breather = breather
        self._seen = asyncio.Event()

    def wake(self) -> None:
        """Something was seen."""
        self._seen.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(self._breather)
            self._seen.clear()
            due = await self._work()
            try:
                async with asyncio.timeout(None if due is None else jittered(max(due - self._clock(), 0.0))):
                    await self._seen.wait()
            except TimeoutError:
                continue


async def each(do: Callable[[T], Awaitable[bool]], things: Sequence[T]) -> bool:
    """``do`` all of ``things``, some of them at once; whether each has come about."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(thing: T) -> bool:
        async with turn:
            return await do(thing)

    return all(await asyncio.gather(*map(one, things)))
