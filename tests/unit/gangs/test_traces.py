"""The trace of a gang covers its way from its creation to its last binding, without gaps."""

from __future__ import annotations

from itertools import pairwise

from fluence_extender.http.metrics import Metrics
from fluence_extender.model.names import GATE
from fluence_extender.model.tracing import GangTrace
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld, gang


class Traces:
    """Takes in traces."""

    def __init__(self) -> None:
        self.all: list[GangTrace] = []

    def send(self, trace: GangTrace) -> None:
        self.all.append(trace)


def assert_without_gaps(trace: GangTrace) -> None:
    ends = [trace.whole.start, *(one.end for one in trace.parts)]
    assert [one.start for one in trace.parts] == ends[:-1]
    assert ends[-1] == trace.whole.end
    assert all(one.start < one.end for one in trace.parts)
    assert all(one.at <= other.at for one, other in pairwise(trace.events))


def test_gang_that_waited_tells_how_long_it_waited_and_why(world: MakeWorld) -> None:
    sink = Traces()
    w = world(node("n0", cpu=4000), traces=[sink])
    first = w.pod("first", requests=asks(4000), gates=(GATE,))
    w.advance(3)
    pods = gang(w, "g", 2000, 2000)
    w.advance(30)
    w.change(first, phase="Succeeded")
    w.advance(5)
    assert all(w.nodes_of(*pods))
    alone, trace = sink.all
    assert (alone.whole.attributes["fluence.pods"], alone.whole.attributes["fluence.nodes"]) == (1, 1)
    assert_without_gaps(trace)
    assert trace.whole.attributes["fluence.gang"] == "default/g"
    assert trace.whole.attributes["fluence.queue"] == "default"
    waits = [one for one in trace.parts if one.attributes.get("fluence.reason") == "Busy"]
    assert sum(one.end - one.start for one in waits) >= 29
    assert trace.parts[-1].name == "bind"
    names = [one.name for one in trace.events]
    assert names.index("waiting") < names.index("planned") < names.index("bound") < names.index("complete")


def test_gang_that_is_whole_again_tells_only_what_happened_since(world: MakeWorld) -> None:
    sink = Traces()
    w = world(node("n0"), node("n1"), traces=[sink])
    pods = gang(w, "g", 1000, 1000)
    w.advance(5)
    w.cluster.remove(w.now(pods[0]))
    w.advance(60)
    w.pod(
        "g-2",
        labels=pods[0].labels,
        annotations=pods[0].annotations,
        requests=pods[0].requests,
        gates=(GATE,),
    )
    w.advance(5)
    before, again = sink.all
    assert again.whole.start > before.whole.end
    assert_without_gaps(again)


def test_gang_that_runs_already_has_no_trace_after_a_restart(world: MakeWorld) -> None:
    sink = Traces()
    w = world(node("n0"), traces=[sink])
    gang(w, "g", 1000, 1000)
    w.advance(5)
    w.restart()
    w.advance(5)
    assert len(sink.all) == 1


def test_waits_are_counted_by_namespace_reason_and_priority(world: MakeWorld) -> None:
    metrics = Metrics()
    w = world(node("n0", cpu=4000), traces=[metrics])
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
