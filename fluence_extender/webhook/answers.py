"""Remember answers of the API server for a moment, because pods come in bursts.

Invariants: a caller that asks about something while it is being asked about waits for that answer; callers that ask
about different things don't wait for each other; a fixed number of answers is kept, and a failure isn't.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

MOST_ANSWERS = 1000
"""Answers that are kept; beyond that the oldest is forgotten."""

T = TypeVar("T")


class Cached(Generic[T]):
    """Answers to keys; ``find`` returns an answer and for how many seconds of ``clock`` to believe it."""

    def __init__(self, find: Callable[[str], Awaitable[tuple[T, float]]], clock: Callable[[], float]) -> None:
        self._find = find
        self._clock = clock
        self._known: dict[str, tuple[T, float]] = {}
        self._asking: dict[str, asyncio.Future[T]] = {}

    async def get(self, key: str) -> T:
        """Return the answer for ``key``. Raises what ``find`` raises, and then remembers nothing."""
        known = self._known.get(key)
        if known is not None and self._clock() < known[1]:
            return known[0]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key))
            asking.add_done_callback(lambda _: self._asking.pop(key))
        # A caller that is cancelled leaves the question to the others.
        return await asyncio.shield(asking)

    async def _ask(self, key: str) -> T:
        answer, seconds = await self._find(key)
        self._known.pop(key, None)
        self._known[key] = answer, self._clock() + seconds
        if len(self._known) > MOST_ANSWERS:
            del self._known[next(iter(self._known))]
        return answer
