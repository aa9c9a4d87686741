"""The two contenders: the stock kube-scheduler, and this project with a kube-scheduler of its own.

Each is started for one measurement and stopped after it, so that neither affects the other.
"""

from __future__ import annotations

import time
from typing import Protocol

from benchmarks.throughput.workloads import LABELLED, LOOSE, Form
from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.localcluster import ControlPlane
from tests.localcluster.stack import SCHEDULER, Stack

PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")


class Contender(Protocol):
    """A contender; ``processes`` are its process ids, by the name in the report, and ``form`` is what it schedules."""

    name: str
    form: Form

    def start(self) -> None:
        """Start it, and return once it is ready."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...

    @property
    def processes(self) -> dict[str, int]:
        """Return the process ids by name."""
        ...


class StockScheduler:
    """kube-scheduler with its defaults, except for the rate limit of its client."""

    name = "stock"
    form = LOOSE

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> None:
        """Start it."""
        self._plane.start_scheduler(name="kube-scheduler")

    def stop(self) -> None:
        """Stop it."""
        self._plane.component("kube-scheduler").stop()

    @property
    def processes(self) -> dict[str, int]:
        """Return the processes of kube-scheduler and of the control plane."""
        return process_ids(self._plane, {"kube-scheduler": "kube-scheduler"})


class Fluence:
    """The extender on its default engine and its kube-scheduler, with the rights that ``deploy/`` grants them.

    ``beside`` is a stock scheduler for others' pods.
    """

    name = "fluence"
    form = LABELLED

    def __init__(self, plane: ControlPlane, engine: str, beside: StockScheduler | None = None) -> None:
        self._plane = plane
        self._beside = beside
        account = plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence")
        self._stack = Stack(plane, kubeconfig=account, arguments=["--engine", engine])

    def start(self) -> None:
        """Start kube-scheduler first; it has nothing to do until the extender has placed pods."""
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
        """Return the processes of kube-scheduler, of the extender and of the control plane."""
        extender = self._stack.extender.pid
        assert extender is not None
        found = process_ids(self._plane, {"kube-scheduler": SCHEDULER}) | {"extender": extender}
        if self._beside is not None:
            found |= process_ids(self._plane, {"other scheduler": "kube-scheduler"})
        return found


def process_ids(plane: ControlPlane, named: dict[str, str]) -> dict[str, int]:
    """Return the process ids of the control plane and of the ``named`` components (shown name -> component)."""
    found: dict[str, int] = {}
    for shown, component in {**{name: name for name in PLANE}, **named}.items():
        pid = plane.component(component).pid
        assert pid is not None, f"{component} isn't running"
        found[shown] = pid
    return found
