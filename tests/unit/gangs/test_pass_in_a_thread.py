"""A pass runs in a thread of its own, and what it decides is carried out only where it still holds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.planning.view import Plan, View
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.room.ledger import Ledger
from tests.core.faulty_cluster import FaultyCluster
from tests.core.values import asks, node

PATIENCE = 60.0


class SlowPasses:
    """A running service on a real event loop, whose passes begin when the loop lets them."""

    def __init__(self, *objects: Node | Pod) -> None:
        self.cluster = FaultyCluster(*objects)
        self.controller = Controller(Ledger(), clock=time.monotonic)
        self.driver = Driver(self.controller, self.cluster)
        self.cluster.watch(self.driver.sink)
        self.views: list[set[str]] = []
        """The pods that each pass sees."""
        self.go_on = threading.Event()
        plan = self.controller.plan

        def slow(view: View) -> Plan:
            self.views.append({uid for gang in view.registry.gangs.values() for uid in gang.members})
            assert self.go_on.wait(PATIENCE), "the loop didn't run beside the pass"
            return plan(view)

        self.controller.plan = slow  # type: ignore[method-assign]

    def pod(self, name: str, cpu: int = 3000) -> Pod:
        """Create a pod that waits for its place."""
        pod = Pod("default", name, name, gates=(GATE,), requests=asks(cpu, 1))
        self.cluster.put(pod)
        return pod

    def play(self, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the service while a scene is played."""

        async def play() -> None:
            await self.driver.start()
            running = asyncio.create_task(self.driver.run())
            try:
                await asyncio.wait_for(scene(), 2 * PATIENCE)
            finally:
                self.go_on.set()
                running.cancel()

        asyncio.run(play())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the loop run until something holds."""
        for _ in range(int(PATIENCE / 0.001)):
            if holds():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it never came about")

    def requests_of(self, uid: str) -> Resources:
        """Return what a pod asks for as far as the service knows."""
        found = self.controller.member(uid)
        assert found is not None
        return found[1].pod.requests

    def nominated(self, pod: Pod) -> str:
        """Return the node to which a pod was steered."""
        return self.cluster.pod(pod).nominated


def test_event_loop_takes_in_changes_while_a_pass_runs() -> None:
    service = SlowPasses(node("n0"))

    async def scene() -> None:
        first = service.pod("first")
        await service.until(lambda: bool(service.views))
        second = service.pod("second", 1000)
        await service.until(lambda: service.controller.member("second") is not None)
        service.go_on.set()
        await service.until(lambda: service.nominated(first) == service.nominated(second) == "n0")

    service.play(scene)
    assert service.views[0] == {"first"}


def test_pod_that_is_deleted_during_a_pass_gets_no_place_and_its_room_goes_to_the_next() -> None:
    service = SlowPasses(node("n0"))

    async def scene() -> None:
        first = service.pod("first")
        await service.until(lambda: bool(service.views))
        second = service.pod("second")
        service.cluster.remove(service.cluster.pod(first))
        await service.until(lambda: service.controller.member("first") is None)
        service.go_on.set()
        await service.until(lambda: service.nominated(second) == "n0")

    service.play(scene)
    assert {key for _, key in service.cluster.calls} == {"default/second"}


def test_node_that_is_cordoned_during_a_pass_gets_no_pod() -> None:
    service = SlowPasses(node("n0"), node("n1"))

    async def scene() -> None:
        first = service.pod("first")
        await service.until(lambda: bool(service.views))
        service.cluster.put(replace(node("n0"), unschedulable=True))
        await service.until(lambda: service.controller.eligibility.nodes["n0"].unschedulable)
        service.go_on.set()
        await service.until(lambda: service.nominated(first) == "n1")

    service.play(scene)
    assert service.cluster.calls[0] == ("nominate", "default/first")
    assert service.controller.member("first") is not None


def test_pod_that_asks_for_more_during_a_pass_is_placed_where_that_fits() -> None:
    service = SlowPasses(node("n0"), node("n1", cpu=16_000))

    async def scene() -> None:
        first = service.pod("first")
        await service.until(lambda: bool(service.views))
        service.cluster.put(replace(service.cluster.pod(first), requests=asks(8000, 1)))
        await service.until(lambda: service.requests_of("first") == asks(8000, 1))
        service.go_on.set()
        await service.until(lambda: service.nominated(first) == "n1")

    service.play(scene)
