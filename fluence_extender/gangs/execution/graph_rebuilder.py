"""Rebuilding the graph in a thread, whenever it has fallen behind the cluster.

Changes are gathered for a moment, so that a storm of them causes one rebuild. Meanwhile look-ups, bindings and plans go
on with the old graph. Invariant: nothing is loaded on the loop's thread, and few bookings are made there at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.threads import RunInThread, run_in_thread
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.matcher.errors import MatcherError

log = structlog.get_logger(__name__)

GATHER = 0.25
"""Seconds to let more changes come in before a rebuild."""

PAUSE = 5.0
"""Seconds before a rebuild that has failed is tried again without a further change."""

ROUNDS = 8
"""How many times the thread makes bookings that came in meanwhile, before the loop makes the rest."""


class GraphRebuilder:
    """Rebuilds the controller's graph.

    ``refused`` is called with resources of which no graph can be built, and why.
    """

    def __init__(
        self,
        controller: Controller,
        refused: Callable[[VirtualResources, str], None],
        wake: Callable[[], None],
        in_thread: RunInThread = run_in_thread,
    ) -> None:
        self._controller = controller
        self._ledger = controller.ledger
        self._refused = refused
        self._wake = wake
        self._in_thread = in_thread
        self._behind = asyncio.Event()
        self._ledger.graph.on_behind = self._behind.set

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        while True:
            await self._behind.wait()
            await asyncio.sleep(GATHER)
            self._behind.clear()
            if self._ledger.graph.behind and not await self._renewed():
                await asyncio.sleep(PAUSE)
                self._behind.set()

    async def _renewed(self) -> bool:
        try:
            await self._renew()
            return True
        except MatcherError as error:
            log.error("the graph can't be rebuilt; the old one serves on", error=str(error))
            self._ledger.graph.fault = f"the resource graph can't be rebuilt: {error}"
            resources = self._ledger.graph.take_back_resources()
            if resources is not None:
                self._refused(resources, str(error))
            return False

    async def _renew(self) -> None:
        rebuild = self._ledger.graph.begin_rebuild()
        try:
            await self._in_thread(rebuild.run)
            for _ in range(ROUNDS):
                if self._ledger.graph.finish_rebuild(rebuild):
                    break
                await self._in_thread(rebuild.run)
            else:
                self._ledger.graph.finish_rebuild(rebuild, None)
        except BaseException:
            rebuild.close()
            raise
        log.info("the graph has been rebuilt", nodes=len(self._ledger.graph.matched.nodes))
        self._controller.graph_changed()
        self._wake()
