"""What the demo keeps running is started again when it ends, and that is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fluence_extender.demo.upkeep import Upkeep
from fluence_extender.localcluster import StartFailed


@dataclass
class Named:
    """A process that runs, or has ended, and starts or doesn't."""

    name: str
    running: bool = True
    startable: bool = True
    started: list[str] = field(default_factory=list)
    log: Path = Path("/logs/x")

    def start(self) -> None:
        self.started.append(self.name)
        if not self.startable:
            raise StartFailed(self.name, "isn't running (exit code 1)", self.log, "no such file")
        self.running = True


def test_nothing_is_told_while_all_run() -> None:
    assert list(Upkeep([Named("a"), Named("b")]).look()) == []


def test_what_has_ended_is_started_again_in_order_and_told() -> None:
    started: list[str] = []
    upkeep = Upkeep([Named(name, running=name == "b", started=started) for name in "abc"])
    assert list(upkeep.look()) == [
        "a has ended (log: /logs/x); starting it again",
        "a is up again",
        "c has ended (log: /logs/x); starting it again",
        "c is up again",
    ]
    assert started == ["a", "c"]
    assert list(upkeep.look()) == []


def test_what_cannot_be_started_is_told_once_and_tried_again() -> None:
    webhook = Named("webhook", running=False, startable=False)
    upkeep = Upkeep([webhook])
    _, failed = upkeep.look()
    assert failed.startswith("webhook can't be started, trying on: webhook isn't running (exit code 1)")
    assert list(upkeep.look()) == []
    webhook.startable = True
    assert list(upkeep.look()) == ["webhook is up again"]
    webhook.running = False
    assert len(list(upkeep.look())) == 2
