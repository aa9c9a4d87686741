"""The writes of a replica that may lose the lead at any moment.

Invariant: nothing is written by a replica that doesn't lead: each write is checked just before it is sent, and given
up when the lead is lost while it is under way. A write may wait long before it is sent, for a connection or for
another try, so `demand` is also the `Connection.permit` of the connection below. What was sent and given up may still
be carried out: `lease` leaves time for that.

A replica may write only for a short time after it has read the Lease. If it was busy or got no answer for longer, it
keeps its plans, and its writes wait for the next answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fluence_extender.cluster.errors import NotLeading
from fluence_extender.cluster.port import Cluster
from fluence_extender.gangs.leadership.lease import Leadership

T = TypeVar("T")

AGAIN = 0.02
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
            await asyncio.sleep(AGAIN)
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
