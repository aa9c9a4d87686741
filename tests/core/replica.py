"""One replica of the pod {kube-scheduler, extender}, and the election it takes part in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.cluster.port import Lease, ListOwnPods
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.execution.driver import Driver, RunInThread
from fluence_extender.gangs.leadership.election import Election
from fluence_extender.gangs.leadership.lease import ByLease
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.http.state.service import ServiceState
from fluence_extender.room.ledger import Ledger
from fluence_extender.whatif.simulator import Simulator
from tests.core.faulty_cluster import FaultyCluster
from tests.core.link import Link
from tests.core.scheduler import FaultyScheduler
from tests.core.values import SEAL

DURATION, DEADLINE, RETRY = 15.0, 10.0, 2.0
"""kube-scheduler's defaults for its election, in seconds."""


@dataclass
class LeaseBoard:
    """The one Lease, as the API server has it."""

    lease: Lease | None = None
    written: int = 0

    def write(self, holder: str) -> Lease:
        """Acquire or renew it for ``holder``; "" releases it."""
        self.written += 1
        transitions = self.lease.transitions if self.lease is not None else 0
        if self.lease is not None and holder and holder != self.lease.holder:
            transitions += 1
        self.lease = Lease(holder, f"t{self.written}", transitions, DURATION if holder else 1.0)
        return self.lease


class WatchedDriver(Driver):
    """A driver that says when it begins to lead."""

    def __init__(
        self,
        controller: Controller,
        link: Link,
        leadership: ByLease,
        beside: RunInThread,
        on_led: Callable[[], None],
    ) -> None:
        super().__init__(controller, link, leadership, asyncio.get_running_loop().time, beside)
        self._on_led = on_led

    async def lead(self, look: ListOwnPods) -> None:
        """See `Driver.lead`."""
        await super().lead(look)
        self._on_led()


class Replica:
    """Both processes of one pod.

    ``offset`` is how much later than others' its election's clock ticks, ``lag`` how long a question for the Lease
    takes each way, both in seconds: by their lags replicas learn at different times who has it. ``on_led`` is called
    when its extender begins to lead.
    """

    def __init__(
        self,
        name: str,
        cluster: FaultyCluster,
        board: LeaseBoard,
        ledger: Ledger,
        limits: Limits,
        offset: float,
        lag: float,
        beside: RunInThread,
        on_led: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.board = board
        self.shown: tuple[object, dict[str, tuple[str, str]]] = (None, {})
        self.link = Link(cluster, lag)
        self.ledger = ledger
        self.live = LiveResources(lambda _, __: None)
        self.controller = Controller(
            ledger,
            limits,
            clock=loop.time,
            calendar=loop.time,
            leading=False,
            ports=Ports(read_resources=self.live.read),
        )
        self.controller.registry.seal = SEAL
        self.leadership = ByLease(name, loop.time)
        self.driver = WatchedDriver(self.controller, self.link, self.leadership, beside, on_led)
        self.election = Election(
            self.leadership,
            self.driver,
            lambda limit: self.link.read(lambda: board.lease, limit),
            self.link.own_pods,
            lambda: self.controller.started,
        )
        self.placements = LivePlacements(self.controller, self.driver, lambda: "", self.election.poke)
        session = EmbeddedSession(cluster)
        simulator = Simulator(self.controller, session.try_pod, session.disruption_budgets)
        self.state = ServiceState(self.controller, self.placements, simulator)
        self.scheduler = FaultyScheduler(self.link)
        self.scheduler.placements = self.placements
        self.link.watch(self.driver.sink)
        self.controller.start()
        self._scheduling: asyncio.Task[None] | None = None
        self._starts = 0
        self._renewed = 0.0
        self._now = loop.time
        self._seen: Lease | None = None
        self._seen_at = loop.time()
        self._candidate = asyncio.create_task(self._candidacy(offset))
        working = (self.driver.run(), self.election.run())
        self._tasks = [asyncio.create_task(work) for work in working]

    @property
    def leading(self) -> bool:
        """Whether its extender leads, and may write now."""
        return self.driver.leading and self.leadership.leads

    @property
    def _holder(self) -> str:
        return f"{self.name}_{self._starts}"

    # kube-scheduler.

    async def _candidacy(self, offset: float) -> None:
        """Take part in the election as client-go does."""
        await asyncio.sleep(offset)
        while True:
            await self.stand()
            if self._scheduling is not None and self._now() - self._renewed > DEADLINE:
                self.scheduler_ends()
            await asyncio.sleep(RETRY)

    async def stand(self) -> None:
        """Renew the Lease, or take it where it is free."""
        if self.link.cut:
            return
        if self.board.lease != self._seen:
            self._seen, self._seen_at = self.board.lease, self._now()
        seen = self._seen
        free = seen is None or not seen.holder or self._now() - self._seen_at >= seen.duration
        if free or (seen is not None and seen.holder == self._holder):
            self._seen = self.board.write(self._holder)
            self._seen_at = self._renewed = self._now()
            self._begin_scheduling()

    def _begin_scheduling(self) -> None:
        if self._scheduling is None:
            self._scheduling = asyncio.create_task(self.scheduler.run())

    def scheduler_ends(self, release: bool = False) -> None:
        """kube-scheduler's process ends, letting go of the Lease if it may; another one is started."""
        if release and self.board.lease is not None and self.board.lease.holder == self._holder:
            self.board.write("")
        if self._scheduling is not None:
            self._scheduling.cancel()
            self._scheduling = None
        self.scheduler.end()
        self._starts += 1

    def scheduler_stops(self) -> None:
        """kube-scheduler is asked to end: it lets go of the Lease, and nobody starts another."""
        self._candidate.cancel()
        self.scheduler_ends(release=True)

    # Both.

    def kill(self) -> None:
        """End both processes at once."""
        self.scheduler_ends()
        self.link.close()
        for task in (self._candidate, *self._tasks):
            task.cancel()

    def share(self, other: FaultyScheduler) -> None:
        """Judge by what ``other`` knows of disturbances, and report to it."""
        mine = self.scheduler
        mine.disturbed, mine.refusing = other.disturbed, other.refusing
        mine.begun_elsewhere, mine.came = other.begun_elsewhere, other.came
        mine.overcommitted, mine.premature = other.overcommitted, other.premature
