"""Answers that are cached for a few seconds, so that not every request of a client causes a question.

Invariants: no answer is older than its time. The number of answers is bounded. Callers that need the same answer at the
same time share one question. Failures aren't cached.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BriefCache(Generic[K, V]):
    """Keeps at most ``most`` answers, each for ``seconds``."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the cached answer for ``key``, or else the one of ``ask``. Raises what ``ask`` raises."""
        found = self._kept.get(key)
        if found is not None and self._clock() < found[0]:
            return found[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(self._ask(key, ask))
            task.add_done_callback(_retrieve)
        # A cancelled caller mustn't cancel the question of the others.
        return await asyncio.shield(task)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        began = self._clock()
        try:
            answer = await ask()
        finally:
            del self._asked[key]
        self._kept[key] = (began + self._seconds, answer)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return answer


def _retrieve(task: asyncio.Task[V]) -> None:
    """Retrieve a failure that may have no caller left, because asyncio would log it otherwise."""
    if not task.cancelled():
        task.exception()
