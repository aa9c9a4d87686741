"""Measure the service's own part of the cost of a pod by cluster size, without a network, on an embedded cluster.

Pods are created in lots. The controller plans them, the executor nominates and ungates them, and each is bound as
kube-scheduler would request it. Kubelets and other schedulers are left out.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from fluence_extender.cluster.port import Changed, Listed, Observation
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.room.ledger import Ledger

ROUNDS = 3

LOT = 25
"""Gangs created at once, between two looks of the controller."""

NODE = Resources({"cpu": 32_000, "memory": 128 * 2**30, "pods": 110, "ephemeral-storage": 100 * 2**30})
ASKED = Resources({"cpu": 1000, "memory": 2**30, "pods": 1})


def cost_by_size(sizes: tuple[int, ...], gangs: dict[str, tuple[int, int]]) -> dict[str, dict[int, float]]:
    """Return the milliseconds of CPU for each pod, by workload (name -> number of gangs, members of each) and nodes.

    Sizes take turns, and the fastest round of each counts: other work on the machine only adds to it.
    """
    found: dict[str, dict[int, float]] = {}
    for name, (count, members) in gangs.items():
        rounds = [{size: asyncio.run(_cost(size, count, members)) for size in sizes} for _ in range(ROUNDS)]
        found[name] = {size: min(one[size] for one in rounds) for size in sizes}
    return found


async def _cost(nodes: int, gangs: int, members: int) -> float:
    cluster = EmbeddedCluster(*(Node(f"node-{number}", allocatable=NODE) for number in range(nodes)))
    ledger = Ledger()
    controller = Controller(ledger)
    driver = Driver(controller, cluster)
    controller.observe(Listed(Node, tuple(cluster.nodes())))
    controller.start()
    cluster.watch(_changes(driver.sink))
    await _place(cluster, controller, driver, "warm", LOT, members)
    # As the service does once it has started.
    gc.collect()
    gc.freeze()
    began = time.process_time()
    await _place(cluster, controller, driver, "timed", gangs, members)
    spent = time.process_time() - began
    gc.unfreeze()
    return spent * 1000 / (gangs * members)


def _changes(sink: Callable[[Observation], None]) -> Callable[[Observation], None]:
    """Pass on only observations of pods; the nodes were listed before."""

    def take(seen: Observation) -> None:
        if isinstance(seen, Changed) and seen.kind is Pod:
            sink(seen)

    return take


async def _place(
    cluster: EmbeddedCluster, controller: Controller, driver: Driver, name: str, gangs: int, members: int
) -> None:
    for first in range(0, gangs, LOT):
        pods = [
            _pod(f"{name}-{gang}", member, members)
            for gang in range(first, min(first + LOT, gangs))
            for member in range(members)
        ]
        for pod in pods:
            cluster.put(pod)
        driver.step()
        while await driver.passed() or controller.lifecycle.restless:
            driver.step()
        await driver.executor.finish()
        await asyncio.gather(*(driver.binder.bind(pod.uid, cluster.pod(pod).nominated) for pod in pods))
        driver.step()


def _pod(gang: str, member: int, members: int) -> Pod:
    name = f"{gang}-{member}"
    labels = {GROUP_LABEL: gang} if members > 1 else {}
    annotations = {GROUP_SIZE_ANNOTATION: str(members)} if members > 1 else {}
    return Pod("default", name, name, labels, annotations, gates=(GATE,), requests=ASKED)
