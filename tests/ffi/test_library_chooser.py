"""The chooser on libreapi_cli itself; these tests run only where it is installed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial

import pytest

from fluence_extender.engine.graph_worker import library_process, shared_policy
from fluence_extender.engine.library import Library
from fluence_extender.engine.worker import WorkerProcess
from fluence_extender.graph.containment import LEVELS, Containment
from fluence_extender.graph.current import CurrentGraph
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.names import ZONE
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import CapacityTable
from tests.core.values import GIB, node
from tests.engines import FLUXION
from tests.unit.engine.oracle_worker import OracleWorker
from tests.unit.engine.rooms import DEVICES, all_free, licenses, qubits, room

GPU = "nvidia.com/gpu"
KINDS = Resources({"cpu": 1, "memory": 1, "pods": 1, GPU: 1})
POLICIES = (
    "lonode",
    "hinode",
    "lonodex",
    "hinodex",
    "first",
    "firstnodex",
    "low",
    "high",
    "locality",
    "variation",
)


class Cluster:
    """Six nodes in two zones with devices, whose use changes at random, and libraries on its graph."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.nodes = {
            f"n{number}": node(
                f"n{number}",
                cpu=2000 + 1500 * number,
                gib=4 + number,
                extra={GPU: number % 3},
                labels={ZONE: f"z{number % 2}"} if number else {},
            )
            for number in range(6)
        }
        self.graph = CurrentGraph(self.nodes, LEVELS)
        self.graph.declare(DEVICES)
        self.free = {name: one.allocatable for name, one in self.nodes.items()}
        self.shares: list[DeviceShare] = []

    @property
    def table(self) -> CapacityTable:
        return room(self.free, KINDS)

    def library(self, start: Callable[[Containment], OracleWorker | WorkerProcess]) -> Library:
        made = Library(self.graph, lambda: self.shares, start)
        made.load(self.table).result()
        return made

    def change(self) -> None:
        """Change what is in use on up to three nodes, and which devices are."""
        for name in self._random.sample(sorted(self.nodes), self._random.randint(0, 3)):
            offer = self.nodes[name].allocatable
            self.free[name] = Resources(
                {kind: amount - self._random.randint(0, amount * 5 // 4) for kind, amount in offer.items()}
            )
        devices = [licenses(1), licenses(2), qubits(2), qubits(5)]
        self.shares = self._random.sample(devices, self._random.randint(0, 2))

    def question(self) -> tuple[Resources, int, tuple[str, ...]]:
        requests = {
            "cpu": self._random.choice([0, 500, 1000, 2000]),
            "memory": self._random.choice([0, 1, GIB]),
            GPU: self._random.choice([0, 0, 0, 1]),
        }
        nodes = self._random.sample(sorted(self.nodes), self._random.choice([1, 3, 6]))
        return Resources(requests), self._random.randint(1, 5), tuple(nodes)


def processes(started: list[WorkerProcess]) -> Callable[[Containment], WorkerProcess]:
    """Return what starts the library's processes, which are added to ``started``."""

    def start(containment: Containment) -> WorkerProcess:
        started.append(library_process(containment, "lonode"))
        return started[-1]

    return start


def answered(ask: Callable[[], dict[str, int] | None]) -> dict[str, int]:
    """Ask until there is an answer."""
    deadline = time.monotonic() + 60
    while (answer := ask()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def whole(nodes: dict[str, Node], library: Library, count: int) -> dict[str, int] | None:
    return library.choose(Resources({"cpu": 1000}), count, tuple(nodes), all_free(nodes.values()))


if FLUXION.library is not None:

    @pytest.mark.parametrize("policy", POLICIES)
    def test_the_library_chooses_as_the_oracle_does(policy: str) -> None:
        cluster = Cluster(seed=39)
        real = cluster.library(partial(library_process, policy=policy))
        oracle = cluster.library(partial(OracleWorker, policy=shared_policy(policy)))
        places = 0
        for _ in range(100):
            cluster.change()
            requests, count, nodes = cluster.question()
            chosen = real.choose(requests, count, nodes, cluster.table)
            assert chosen == oracle.choose(requests, count, nodes, cluster.table)
            places += chosen is not None
        assert 20 < places < 80
        assert not real.fault
        real.close()

    def test_a_killed_process_is_replaced_and_its_jobs_are_made_again() -> None:
        nodes = {"n0": node("n0"), "n1": node("n1")}
        started: list[WorkerProcess] = []
        library = Library(
            CurrentGraph(nodes, {}), tuple, processes(started), clock=iter(range(0, 9999, 40)).__next__
        )
        used = room({"n0": Resources({}), "n1": nodes["n1"].allocatable}, KINDS)
        library.load(used).result()
        ask = partial(library.choose, Resources({"cpu": 2000}), 2, ("n0", "n1"), used)
        assert ask() == {"n1": 2}
        os.kill(started[0]._process.pid, signal.SIGKILL)
        assert ask() is None
        assert "has ended" in library.fault
        assert answered(ask) == {"n1": 2}
        assert not library.fault
        assert len(started) == 2
        library.close()
        assert started[1]._process.poll() is not None

    def test_a_changed_graph_is_loaded_beside_the_old_one() -> None:
        nodes = {"n0": node("n0")}
        graph = CurrentGraph(nodes, {})
        started: list[WorkerProcess] = []
        library = Library(graph, tuple, processes(started))
        library.load(all_free(nodes.values())).result()
        nodes["n1"] = node("n1")
        graph.node_changed(None, nodes["n1"])
        assert whole(nodes, library, 4) == {"n0": 4}
        assert whole(nodes, library, 5) is None
        assert answered(partial(whole, nodes, library, 5)) == {"n0": 4, "n1": 1}
        assert started[0]._process.poll() is not None
        library.close()
