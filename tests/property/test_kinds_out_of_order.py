"""The placement core when each kind is watched at a pace of its own.

Watches of nodes, pods, Jobs and the rest are independent: a node may be seen long after the pods on it, a pod long
after its node went and came again. Whatever is decided meanwhile, once all has been seen the ledger equal the cluster,
and nobody waits who could go on.
"""

from __future__ import annotations

from collections import deque

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from fluence_extender.cluster.port import WATCHED, Kind, Observation, ResourcesFile, Sink
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.property.test_core_state_machine import QUANTUM, SHARE, Core, running

KINDS = st.sampled_from([Node, Pod, Job, PodGroup, ResourcesFile])


class Lag:
    """Between the cluster and a sink: kinds that are ``late`` wait in line until they catch up."""

    def __init__(self, sink: Sink) -> None:
        self.late: set[Kind] = set()
        self._sink = sink
        self._lines: dict[Kind, deque[Observation]] = {kind: deque() for kind in WATCHED}

    @property
    def lagging(self) -> bool:
        """Whether anything is unseen."""
        return any(self._lines.values())

    def __call__(self, seen: Observation) -> None:
        line = self._lines[seen.kind]
        line.append(seen)
        if seen.kind not in self.late:
            self.catch_up(seen.kind, len(line))

    def catch_up(self, kind: Kind, count: int) -> None:
        """Show the oldest ``count`` of what is unseen of a kind."""
        line = self._lines[kind]
        for _ in range(min(count, len(line))):
            self._sink(line.popleft())

    def end(self) -> None:
        """Show everything, and go in step from now on."""
        for kind in WATCHED:
            self.late.discard(kind)
            self.catch_up(kind, len(self._lines[kind]))


class Lagging(Core):
    """The core's state machine with watches that fall behind each other."""

    @initialize(
        count=st.integers(2, 4),
        size=st.integers(2, 6),
        text=st.sampled_from([None, QUANTUM]),
        running=running,
    )
    def begin(self, count: int, size: int, text: str | None, running: list[int]) -> None:
        super().begin(count, size, text, running)
        self._stand_between()

    def _stand_between(self) -> None:
        sinks = self.world.cluster._sinks
        self.lag = Lag(sinks[-1])
        sinks[-1] = self.lag

    @rule(kind=KINDS)
    def watch_falls_behind(self, kind: Kind) -> None:
        self.lag.late.add(kind)

    @rule(kind=KINDS, count=st.integers(1, 3))
    def watch_shows_some_of_what_it_missed(self, kind: Kind, count: int) -> None:
        self.lag.catch_up(kind, count)

    @rule(kind=KINDS)
    def watch_is_in_step_again(self, kind: Kind) -> None:
        self.lag.late.discard(kind)
        self.lag.catch_up(kind, 10**6)

    @rule()
    def extender_restarts(self) -> None:
        super().extender_restarts()
        self._stand_between()

    def quiet(self) -> None:
        self.lag.end()
        super().quiet()

    def is_up_to_date(self) -> bool:
        return not self.lag.lagging

    @invariant()
    def core_is_consistent(self) -> None:
        if hasattr(self, "lag") and self.lag.lagging:
            # What isn't seen can't be heeded: nobody is to blame for what is bound over it.
            for node in self.world.cluster.nodes():
                self.world.disturb(node.name)
        super().core_is_consistent()


def test_core_is_consistent_once_every_kind_has_been_seen() -> None:
    run_state_machine_as_test(
        Lagging,
        settings=settings(
            max_examples=settings().max_examples // (2 * SHARE),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
