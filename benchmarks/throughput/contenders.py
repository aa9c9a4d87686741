"""The two that are compared: the stock kube-scheduler, and this project beside a kube-scheduler of its own.

Each is started for one measurement and stopped after it, so that neither costs the other anything.
"""

from __future__ import annotations

import time
from typing import Protocol

from benchmarks.throughput.workloads import STOCK
from fluence_extender.demo.stack import SCHEDULER, Stack
from fluence_extender.localcluster import ControlPlane
from fluence_extender.model.names import SCHEDULER_NAME

PLANE = ("etcd", "kube-apiserver")


class Contender(Protocol):
    """What is measured; ``processes`` are its own, by the name they are reported under."""

    name: str
    scheduler: str

    def start(self) -> None:
        """Start it, and return as soon as it is ready."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name."""
        ...


class StockScheduler:
    """kube-scheduler as it comes, but for the limit of its client's rate."""

    name = "stock"
    scheduler = STOCK

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> None:
        """Start it."""
        self._plane.start_scheduler(name="kube-scheduler")

    def stop(self) -> None:
        """Stop it."""
        self._plane.stop_component("kube-scheduler")

    @property
    def processes(self) -> dict[str, int]:
        """kube-scheduler and what every contender uses."""
        return _pids(self._plane, {"kube-scheduler": "kube-scheduler"})


class Fluence:
    """The extender on its default engine and its kube-scheduler; ``beside`` is a stock scheduler for others' pods."""

    name = "fluence"
    scheduler = SCHEDULER_NAME

    def __init__(self, plane: ControlPlane, engine: str, beside: StockScheduler | None = None) -> None:
        self._plane = plane
        self._beside = beside
        self._stack = Stack(plane, arguments=["--engine", engine])

    def start(self) -> None:
        """Start kube-scheduler first: it finds nothing to do until the extender has placed something."""
        if self._beside is not None:
            self._beside.start()
        self._stack.start_scheduler()
        self._stack.extender.launch()
        while not self._stack.ready():
            self._stack.extender.check()
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop both."""
        self._stack.stop()
        if self._beside is not None:
            self._beside.stop()

    @property
    def processes(self) -> dict[str, int]:
        """kube-scheduler, the extender and what every contender uses."""
        extender = self._stack.extender.pid
        assert extender is not None
        found = _pids(self._plane, {"kube-scheduler": SCHEDULER}) | {"extender": extender}
        if self._beside is not None:
            found |= _pids(self._plane, {"other scheduler": "kube-scheduler"})
        return found


def _pids(plane: ControlPlane, named: dict[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for shown, component in {**{name: name for name in PLANE}, **named}.items():
        pid = plane.component(component).pid
        assert pid is not None, f"{component} isn't running"
        found[shown] = pid
    return found
