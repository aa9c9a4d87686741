"""When a write is sent: only while the replica leads, and in turns.

**The fence.** A replica may write only for a short time after it has read the Lease. If it was busy or got no answer
for longer, it keeps its plans, and its writes wait for the next answer.

Invariant: a replica that doesn't lead writes nothing. Each write is checked just before it is sent, and given up if the
lead is lost while it is under way. A write may wait long before it is sent, for a connection or for another try. So
`demand` is also the `Connection.permit` of the connection below. A write that was sent and given up may still take
effect: `lease` leaves time for that.

**The turns.** Thousands of writes for one tenant would make the single pod of another tenant wait for seconds. So would
some hundred writes about pods of 200 KB: each costs the API server as much as dozens about usual pods, and etcd sends
it the whole object again. All watches of pods are then seconds behind. So the namespaces take turns, and each has a
pace in bytes. A pace alone would go on while the API server is slow, so the bytes under way are bounded, too.

Invariants: a free slot goes to the namespace that has the fewest, and of several to the one that has had no turn for
the longest. Within a namespace writes start in order. No namespace has more than `SHARE` of the slots, so another
namespace finds some free. A namespace whose next write has to wait for its pace, or for the end of writes about large
objects, doesn't delay the others.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fluence_extender.cluster.errors import NotLeading
from fluence_extender.cluster.port import Cluster
from fluence_extender.gangs.leadership.lease import Leadership
from fluence_extender.model.pace import Pace

T = TypeVar("T")

# The fence.

CHECK_EVERY = 0.02
"""Seconds between two checks whether the Lease has been read."""


class Fence:
    """Lets writes through to ``cluster`` for as long as ``leadership`` says that we lead.

    ``lead_lost`` is called when a write is refused because we don't lead.
    """

    def __init__(
        self, cluster: Cluster, leadership: Leadership, lead_lost: Callable[[], None] = lambda: None
    ) -> None:
        self._cluster = cluster
        self._leadership = leadership
        self._lead_lost = lead_lost
        self._under_way: set[asyncio.Timeout] = set()

    @property
    def why_not_leading(self) -> str:
        """Why we don't lead, in stable words."""
        return f"not the leader: {self._leadership.why_not or 'taking over from the last one'}"

    def demand(self) -> None:
        """Raise `NotLeading` unless we lead at this moment."""
        if not self._leadership.leads:
            raise NotLeading(f"not the leader: {self._leadership.why_not}")

    async def confirmed(self) -> None:
        """Wait until it is known that we still lead. Raises `NotLeading` if we don't."""
        while self._leadership.holds and not self._leadership.leads:  # noqa: ASYNC110 - no event tells that time ran out
            await asyncio.sleep(CHECK_EVERY)
        self.demand()

    def give_up(self) -> None:
        """End the writes under way: they raise `NotLeading`."""
        now = asyncio.get_running_loop().time()
        for write in self._under_way:
            write.reschedule(now)

    async def write(self, request: Callable[[Cluster], Awaitable[T]]) -> T:
        """Call ``request`` with the cluster, to make one write. Raises what it raises, and `NotLeading`."""
        try:
            return await self._write(request)
        except NotLeading:
            self._lead_lost()
            raise

    async def _write(self, request: Callable[[Cluster], Awaitable[T]]) -> T:
        until_given_up = asyncio.timeout(None)
        try:
            async with until_given_up:
                self._under_way.add(until_given_up)
                try:
                    await self.confirmed()
                    return await request(self._cluster)
                finally:
                    self._under_way.discard(until_given_up)
        except TimeoutError:
            if not until_given_up.expired():
                raise
            raise NotLeading("not the leader: the lead was lost during the write") from None


# The turns.

AT_ONCE = 128
"""The most writes under way at the same time, not counting Bindings.

On a busy API server, steering competes with everything that follows a Binding (Events, the kubelets' statuses). With
few writes under way, the pods that were bound first are served before the others have their nodes. Each write has a
connection of its own (HTTP/1.1), whose TLS handshake costs both sides as much as several writes. A priority level of
the API server's fairness queues 300 or more requests of one client (Kubernetes, API Priority and Fairness: six queues
of fifty).
"""

SHARE = 0.75
"""The most of all slots that one namespace has."""

USUAL_BYTES = 16_384
"""So many bytes of each object don't count. Most objects are smaller."""

BYTES_AT_ONCE, BYTES_A_SECOND = 500_000, 1_000_000
"""The pace of one namespace: the bytes beyond `USUAL_BYTES` of each object in one go, and then in each second.

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
        """By namespace: the turns that are waited for, with the bytes that count. The next namespace comes first."""
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
        while self._free and (open_to := [name for name in self._waiting if self._may_have_slot(name)]):
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

    def _may_have_slot(self, namespace: str) -> bool:
        return (
            self._taken.get(namespace, 0) < self._most
            and self._under_way.get(namespace, 0) < BYTES_UNDER_WAY
            and not self._pace.wait(namespace)
        )
