"""What the API server was found to say of a namespace, believed for a while.

Invariant: who asks about a namespace while it is being asked about waits for that answer; two namespaces wait for each
other never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Cached(Generic[T]):
    """``find`` finds the answer for a namespace out, and for how many seconds of ``clock`` it is believed."""

    def __init__(self, find: Callable[[str], Awaitable[tuple[T, float]]], clock: Callable[[], float]) -> None:
        self._find = find
        self._clock = clock
        self._known: dict[str, tuple[T, float]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def of(self, namespace: str) -> T:
        """The answer for ``namespace``. Raises what ``find`` raises, and then knows nothing new."""
        async with self._turns.setdefault(namespace, asyncio.Lock()):
            known = self._known.get(namespace)
            if known is not None and self._clock() < known[1]:
                return known[0]
            answer, seconds = await self._find(namespace)
            self._known[namespace] = answer, self._clock() + seconds
            return answer
