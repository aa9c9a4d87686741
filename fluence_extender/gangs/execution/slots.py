"""Writes take turns by namespace, and large ones count as many.

Problem: the API server takes as long for a write about one pod of 200 KB as for dozens about usual pods. Thousands of
writes for one tenant, or a few large ones, would make the single pod of another tenant wait for seconds, here and in
the API server.

Invariants: a free slot goes to the namespace that has the fewest; within a namespace writes start in order. No
namespace has more than `SHARE` of the slots, so a newcomer finds some free.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fluence_extender.model.pod import Pod

SHARE = 0.75
"""The most of all slots that one namespace has."""

SLOT_BYTES = 8192
"""Bytes of labels, annotations and ports of a pod for which a write takes one more slot."""

PORT_BYTES = 64
"""Bytes of one port of a pod, about."""


def slots_of(pod: Pod) -> int:
    """Return how many slots a write about the pod takes."""
    size = sum(len(key) + len(text) for one in (pod.labels, pod.annotations) for key, text in one.items())
    return 1 + (size + PORT_BYTES * len(pod.host_ports)) // SLOT_BYTES


class FairSlots:
    """The slots of writes under way, ``count`` in all."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._most = int(count * SHARE)
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], int, int]]] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def taken(self, namespace: str, slots: int = 1) -> AsyncIterator[None]:
        """Hold slots of a namespace within this context, once it is the namespace's turn."""
        slots = min(slots, self._most)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append((turn, slots, next(self._arrivals)))
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._return(namespace, slots)
            raise
        try:
            yield
        finally:
            self._return(namespace, slots)

    def _return(self, namespace: str, slots: int) -> None:
        self._free += slots
        self._taken[namespace] -= slots
        if not self._taken[namespace]:
            del self._taken[namespace]
        self._give()

    def _give(self) -> None:
        """Give free slots to those that wait, in turn."""
        barred: set[str] = set()
        while self._free and (open_to := [name for name in self._waiting if name not in barred]):
            # Of those with equally few slots the one that has waited longest.
            namespace = min(open_to, key=lambda name: (self._taken.get(name, 0), self._waiting[name][0][2]))
            turn, slots, _ = self._waiting[namespace][0]
            if not turn.done() and self._taken.get(namespace, 0) + slots > self._most:
                barred.add(namespace)
                continue
            if not turn.done() and slots > self._free:
                # Slots that come free are saved for it: smaller writes would keep it waiting for ever.
                return
            self._waiting[namespace].popleft()
            if not self._waiting[namespace]:
                del self._waiting[namespace]
            if not turn.done():
                self._free -= slots
                self._taken[namespace] += slots
                turn.set_result(None)
