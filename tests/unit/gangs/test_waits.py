"""The waits of a gang that has become whole are counted by namespace, reason and priority."""

from __future__ import annotations

from fluence_extender.http.metrics import Metrics
from fluence_extender.model.names import GATE
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld, gang


def counted(metrics: Metrics) -> tuple[float, float]:
    """The number of waits for what is busy, and their seconds."""
    labels = {"namespace": "default", "reason": "Busy", "priority": "0"}
    number = metrics.registry.get_sample_value("fluence_waits_total", labels)
    seconds = metrics.registry.get_sample_value("fluence_wait_seconds_total", labels)
    return number or 0, seconds or 0


def test_gang_that_is_whole_again_tells_only_the_waits_since(world: MakeWorld) -> None:
    metrics = Metrics()
    w = world(node("n0", cpu=4000), on_waited=metrics.count_wait)
    first = w.pod("first", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    pods = gang(w, "g", 2000, 2000)
    w.advance(30)
    w.change(first, phase="Succeeded")
    w.advance(5)
    assert all(w.nodes_of(*pods))
    before = counted(metrics)
    assert before[0] == 1
    w.cluster.remove(w.now(pods[0]))
    second = w.pod("second", requests=asks(2000), gates=(GATE,))
    w.advance(60)
    lost = pods[0]
    w.pod("g-2", labels=lost.labels, annotations=lost.annotations, requests=lost.requests, gates=(GATE,))
    w.advance(20)
    w.change(second, phase="Succeeded")
    w.advance(5)
    number, seconds = counted(metrics)
    assert number == 2
    assert 19 <= seconds - before[1] < 26


def test_gang_that_runs_already_has_no_waits_after_a_restart(world: MakeWorld) -> None:
    metrics = Metrics()
    w = world(node("n0", cpu=4000), on_waited=metrics.count_wait)
    first = w.pod("first", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    gang(w, "g", 2000, 2000)
    w.advance(30)
    w.change(first, phase="Succeeded")
    w.advance(5)
    before = counted(metrics)
    assert before[0] == 1
    w.restart()
    w.advance(5)
    assert counted(metrics) == before


def test_waits_are_counted_by_namespace_reason_and_priority(world: MakeWorld) -> None:
    metrics = Metrics()
    w = world(node("n0", cpu=4000), on_waited=metrics.count_wait)
    first = w.pod("first", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    gang(w, "g", 2000, 2000, priority=-3)
    w.advance(30)
    labels = {"namespace": "default", "reason": "Busy", "priority": "-3"}
    assert metrics.registry.get_sample_value("fluence_waits_total", labels) is None
    w.change(first, phase="Succeeded")
    w.advance(5)
    assert metrics.registry.get_sample_value("fluence_waits_total", labels) == 1
    seconds = metrics.registry.get_sample_value("fluence_wait_seconds_total", labels)
    assert seconds is not None
    assert 29 <= seconds < 36
