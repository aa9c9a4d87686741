"""How long to wait: between tries after a failure, in the watches, between rounds of work, and before asking again.

All times are in seconds. Waits that several replicas share are jittered, so that the replicas don't act in step.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

AT_ONCE = 16
"""How many of the calls in `each` are under way at the same time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of the watches. The defaults suit any cluster; tests shorten them.

    ``watch`` is the lifetime of one watch that is requested from the API server (jittered). ``silence`` ends a watch on
    which not even a bookmark came: one is sent each minute (KEP-956), and a busy API server may drop one. ``retry`` and
    ``retry_cap`` bound the back-off, and ``denied`` bounds it while a right is missing. ``rediscover`` is the time
    between two checks for a kind that isn't served, ``heartbeat`` the time between two checks that the API server
    answers at all. ``page`` is the number of objects in a page of a list.
    """

    watch: float = 360.0
    silence: float = 150.0
    retry: float = 0.25
    retry_cap: float = 10.0
    denied: float = 20.0
    rediscover: float = 30.0
    heartbeat: float = 5.0
    page: int = 500


STANDARD = Timing()


class Backoff:
    """Delays that double from ``first`` to ``cap`` seconds.

    Each is drawn at random from the upper half of its range.
    """

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._next = first

    def delay(self) -> float:
        """Return the seconds to wait before the next try."""
        limit = self._next
        self._next = min(limit * 2, self._cap)
        return random.uniform(limit / 2, limit)

    def reset(self) -> None:
        """Start again at the first delay, after a success."""
        self._next = self._first


def jittered(seconds: float) -> float:
    """Return ``seconds`` plus or minus up to a quarter."""
    return random.uniform(0.75 * seconds, 1.25 * seconds)


class Rounds:
    """Work in rounds: wait a moment for observations that come together, then do all the work that they cause.

    ``work`` does one round. It returns the time by which the next round is due, on ``clock``, or None if only a new
    observation makes one due. ``breather`` is the wait before each round. Invariant: an observation that arrives during
    a round is handled in the next round.
    """

    def __init__(
        self, work: Callable[[], Awaitable[float | None]], clock: Callable[[], float], breather: float
    ) -> None:
        self._work = work
        self._clock = clock
        self._breather = breather
        self._observed = asyncio.Event()

    def wake(self) -> None:
        """Make a round due now, after an observation."""
        self._observed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(self._breather)
            self._observed.clear()
            due = await self._work()
            try:
                async with asyncio.timeout(None if due is None else jittered(max(due - self._clock(), 0.0))):
                    await self._observed.wait()
            except TimeoutError:
                continue


async def each(do: Callable[[T], Awaitable[bool]], things: Sequence[T]) -> bool:
    """Call ``do`` with each of ``things``, several at the same time; return whether every call returned true."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(thing: T) -> bool:
        async with turn:
            return await do(thing)

    return all(await asyncio.gather(*map(one, things)))


class Cached(Generic[T]):
    """One answer for each namespace, kept for a while.

    ``find`` returns the answer for a namespace and how many seconds it is kept, on ``clock``. Callers that ask about
    the same namespace at the same time share one call of ``find``; different namespaces never wait for each other.
    """

    def __init__(self, find: Callable[[str], Awaitable[tuple[T, float]]], clock: Callable[[], float]) -> None:
        self._find = find
        self._clock = clock
        self._known: dict[str, tuple[T, float]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def of(self, namespace: str) -> T:
        """Return the answer for ``namespace``. Raise what ``find`` raises, and keep nothing then."""
        async with self._turns.setdefault(namespace, asyncio.Lock()):
            known = self._known.get(namespace)
            if known is not None and self._clock() < known[1]:
                return known[0]
            answer, seconds = await self._find(namespace)
            self._known[namespace] = answer, self._clock() + seconds
            return answer
