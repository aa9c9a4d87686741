"""A process of the demo that ends is started again, and reported."""

from __future__ import annotations

from pathlib import Path

from fluence_extender.demo.kubernetes import Upkeep
from fluence_extender.localcluster import Component, StartFailed


class Named(Component):
    """A process that is ``up`` or has ended, and can be started or not."""

    def __init__(
        self, name: str, up: bool = True, startable: bool = True, started: list[str] | None = None
    ) -> None:
        super().__init__(name, (), Path("/logs/x"))
        self.up = up
        self.startable = startable
        self.started = [] if started is None else started

    @property
    def running(self) -> bool:
        return self.up

    def start(self) -> None:
        self.started.append(self.name)
        if not self.startable:
            raise StartFailed(self.name, "isn't running (exit code 1)", self.log, "no such file")
        self.up = True


def test_nothing_is_reported_while_all_processes_run() -> None:
    assert list(Upkeep([Named("a"), Named("b")]).check()) == []


def test_ended_processes_are_started_again_in_order_and_reported() -> None:
    started: list[str] = []
    upkeep = Upkeep([Named(name, up=name == "b", started=started) for name in "abc"])
    assert list(upkeep.check()) == [
        "a has ended (log: /logs/x); starting it again",
        "a is up again",
        "c has ended (log: /logs/x); starting it again",
        "c is up again",
    ]
    assert started == ["a", "c"]
    assert list(upkeep.check()) == []


def test_process_that_cannot_be_started_is_reported_once_and_tried_again() -> None:
    webhook = Named("webhook", up=False, startable=False)
    upkeep = Upkeep([webhook])
    _, failed = upkeep.check()
    assert failed.startswith(
        "webhook can't be started; it is tried again: webhook isn't running (exit code 1)"
    )
    assert list(upkeep.check()) == []
    webhook.startable = True
    assert list(upkeep.check()) == ["webhook is up again"]
    webhook.up = False
    assert len(list(upkeep.check())) == 2
