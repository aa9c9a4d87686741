"""A level-driven control loop: compare objects with their wanted state, and write the difference.

The triggers for a look at an object (watch events, time, a failed write) come in bursts and in any order. So a trigger
only enqueues the object's key. The loop later decides by the state at that time.

Invariants: a key that is enqueued while it is being reconciled is reconciled once more afterwards. A key is never
reconciled twice at the same time. A failure delays only its own key.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import structlog

from fluence_extender.cluster.errors import ClusterError, Conflict, Gone
from fluence_extender.cluster.pacing import Backoff

log = structlog.get_logger(__name__)

CONCURRENCY = 16
"""The most keys that are reconciled at the same time."""
GATHER = 0.05
"""Seconds to wait before each round, so that several events lead to one look."""
FIRST_RETRY, LONGEST_RETRY = 1.0, 15.0
"""Seconds until a failed key is tried again: after the first failure, and the most."""

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Reconciler(ABC, Generic[Key]):
    """Calls `reconcile` for each key that is due, in rounds. A subclass defines it for one kind of object.

    ``kind`` names the objects in the log; ``clock`` counts seconds.
    """

    def __init__(
        self, kind: str, gather: float = GATHER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kind = kind
        self._gather = gather
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._retries: dict[Key, Backoff] = {}
        self._enqueued = asyncio.Event()

    @abstractmethod
    async def reconcile(self, key: Key) -> float | None:
        """Bring the object to the state it should have.

        Return in how many seconds to look at it again, None if only a new event can change anything. After a
        `ClusterError` the key is tried again with a growing delay. `Conflict` and `Gone` aren't logged: another replica
        was faster, and the next look sees what it did.
        """

    def enqueue(self, keys: Iterable[Key], delay: float = 0.0) -> None:
        """Reconcile these keys after ``delay`` seconds, or sooner if they are due sooner."""
        at = self._clock() + delay
        for key in keys:
            self._due[key] = min(at, self._due.get(key, at))
            self._enqueued.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        while True:
            await asyncio.sleep(self._gather)
            self._enqueued.clear()
            await self.round()
            first = min(self._due.values(), default=None)
            try:
                async with asyncio.timeout(None if first is None else max(first - self._clock(), 0.0)):
                    await self._enqueued.wait()
            except TimeoutError:
                continue

    async def round(self) -> None:
        """Reconcile every key that is due now, once."""
        now = self._clock()
        due = [key for key, at in self._due.items() if at <= now]
        for key in due:
            del self._due[key]
        await each(self._reconcile_one, due)

    async def _reconcile_one(self, key: Key) -> None:
        try:
            delay = await self.reconcile(key)
        except ClusterError as error:
            if not isinstance(error, Conflict | Gone):
                log.warning(f"{self._kind} can't be reconciled yet", key=key, problem=str(error))
            delay = self._retries.setdefault(key, Backoff(FIRST_RETRY, LONGEST_RETRY)).delay()
        else:
            self._retries.pop(key, None)
        if delay is not None:
            self.enqueue((key,), delay)


async def each(do: Callable[[Item], Awaitable[Result]], items: Sequence[Item]) -> list[Result]:
    """Return what ``do`` returns for each item, in order. At most `CONCURRENCY` calls run at once."""
    turn = asyncio.Semaphore(CONCURRENCY)

    async def one(item: Item) -> Result:
        async with turn:
            return await do(item)

    return list(await asyncio.gather(*map(one, items)))
