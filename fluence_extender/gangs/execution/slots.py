"""Writes take turns by namespace, and those about large objects are few at the same time, at a pace.

Problem: thousands of writes for one tenant would make the single pod of another tenant wait for seconds. So would some
hundred writes about pods of 200 KB: each costs the API server as much as dozens about usual pods, and etcd sends it the
whole object again. All watches of pods are then seconds behind. A pace alone would go on while the API server is slow.

Invariants: a free slot goes to the namespace that has the fewest, and of several to the one that has had no turn for
the longest. Within a namespace writes start in order. No namespace has more than `SHARE` of the slots, so a newcomer
finds some free. A namespace whose next write has to wait for its pace, or for the end of others about large objects,
keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fluence_extender.model.pace import Pace

AT_ONCE = 128
"""Writes under way at the same time, Bindings aside.

On a busy API server, steering competes with everything that follows a Binding (Events, the kubelets' statuses). With
few writes under way, the pods that were bound first are served before the others have their nodes. Each write has a
connection of its own (HTTP/1.1), whose TLS handshake costs both sides as much as several writes. A priority level of
the API server's fairness queues 300 or more requests of one client (Kubernetes, API Priority and Fairness: six queues
of fifty).
"""

SHARE = 0.75
"""The most of all slots that one namespace has."""

USUAL_BYTES = 16_384
"""Bytes of an object that don't count. Most objects are smaller."""

BYTES_AT_ONCE, BYTES_A_SECOND = 500_000, 1_000_000
"""The bytes, beyond `USUAL_BYTES` of each object, about which a namespace has writes at once, and in each second then.

Each pod that is steered causes four or five more writes of others: kube-scheduler binds it, and its kubelet reports.
"""

BYTES_UNDER_WAY = 100_000
"""A namespace starts no write while the objects of those under way have so many bytes beyond `USUAL_BYTES`."""

SHORTEST_WAIT = 0.01
"""The fewest seconds until the pace is looked at again."""


class FairSlots:
    """The slots of writes under way, ``count`` in all; ``bytes_a_second`` is the pace of one namespace."""

    def __init__(self, count: int, bytes_a_second: float = BYTES_A_SECOND) -> None:
        self._free = count
        self._most = max(int(count * SHARE), 1)
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], int]]] = {}
        """By namespace; the one that has waited for its turn the longest is the first."""
        self._under_way: defaultdict[str, int] = defaultdict(int)
        """By namespace: the bytes beyond `USUAL_BYTES` of the objects about which writes are under way."""
        self._pace = Pace(BYTES_AT_ONCE, bytes_a_second, lambda: asyncio.get_running_loop().time())
        self._alarm: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def taken(self, namespace: str, size: int = 0) -> AsyncIterator[None]:
        """Hold a slot within this context, once it is the namespace's turn to write about an object of ``size``."""
        turn = asyncio.get_running_loop().create_future()
        excess = max(size - USUAL_BYTES, 0)
        self._waiting.setdefault(namespace, deque()).append((turn, excess))
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._return(namespace, excess)
            raise
        try:
            yield
        finally:
            self._return(namespace, excess)

    def _return(self, namespace: str, excess: int) -> None:
        self._free += 1
        self._taken[namespace] -= 1
        self._under_way[namespace] -= excess
        if not self._taken[namespace]:
            del self._taken[namespace], self._under_way[namespace]
        self._give()

    def _give(self) -> None:
        """Give free slots to those that wait, in turn."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._free and (open_to := [name for name in self._waiting if self._may_have(name)]):
            namespace = min(open_to, key=lambda name: self._taken.get(name, 0))
            queue = self._waiting.pop(namespace)
            turn, excess = queue.popleft()
            if queue:
                self._waiting[namespace] = queue
            if not turn.done():
                self._free -= 1
                self._taken[namespace] += 1
                self._pace.spend(namespace, excess)
                self._under_way[namespace] += excess
                turn.set_result(None)
        if self._free and (due := [wait for name in self._waiting if (wait := self._pace.wait(name))]):
            self._alarm = asyncio.get_running_loop().call_later(max(min(due), SHORTEST_WAIT), self._give)

    def _may_have(self, namespace: str) -> bool:
        return (
            self._taken.get(namespace, 0) < self._most
            and self._under_way.get(namespace, 0) < BYTES_UNDER_WAY
            and not self._pace.wait(namespace)
        )
