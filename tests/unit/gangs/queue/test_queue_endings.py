"""Queues end what runs longer than it may, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest
from msgspec import structs

from fluence_extender.gangs.queue.endings import why_ended
from fluence_extender.model.names import GATE, QUEUE_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import OverrunAction, Queue, Stop
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld

PHYSICS = Queue("physics", uid="q")
POD = Pod("ns", "p", "u", started=1000.0)
stated = attrgetter("duration")
EVICT, REQUEUE, EXTEND = OverrunAction.EVICT, OverrunAction.REQUEUE, OverrunAction.EXTEND


@pytest.mark.parametrize(
    ("overrun", "declared", "usual", "most", "after"),
    [
        (EXTEND, 60.0, 30.0, None, None),
        (EXTEND, 60.0, 30.0, 90.0, 90.0),
        (EVICT, 60.0, 30.0, None, 60.0),
        (REQUEUE, 60.0, None, None, 60.0),
        (EVICT, None, 30.0, None, 30.0),
        (EVICT, None, None, None, None),
        (EVICT, 60.0, None, 45.0, 45.0),
        (EVICT, None, None, 45.0, 45.0),
    ],
)
def test_when_a_queue_ends_what_runs(
    overrun: OverrunAction,
    declared: float | None,
    usual: float | None,
    most: float | None,
    after: float | None,
) -> None:
    queue = structs.replace(PHYSICS, overrun=overrun, default_duration=usual, max_duration=most)
    pod = replace(POD, duration=declared)
    end = 1e9 if after is None else 1000.0 + after
    assert not why_ended(queue, [pod], stated, end - 1 if after is not None else end)
    assert bool(why_ended(queue, [pod], stated, end)) is (after is not None)
    assert not why_ended(queue, [replace(pod, started=0.0)], stated, end)


def test_reason_names_the_pod_and_what_it_was_allowed() -> None:
    queue = structs.replace(PHYSICS, max_duration=5400.0)
    assert why_ended(queue, [POD], stated, 1e6) == (
        "pod p has run for 1h30m, and queue physics ends work that runs longer"
    )


def test_what_a_job_says_of_its_pods_counts_against_the_limit_of_its_queue(world: MakeWorld) -> None:
    w = world(node("n0"), structs.replace(PHYSICS, name="default", max_duration=60.0, overrun=EVICT))
    long, short = w.jobs.submit("long", 2), w.jobs.submit("short", 2)
    w.change_job(long, duration=100.0)
    w.change_job(short, duration=20.0)
    w.advance(2)
    reason = w.gang("long").reason
    assert reason is not None
    assert reason.text == "it declares that it runs for 1m40s, and queue default takes work of at most 1m"
    for pod in w.jobs.pods(short):
        w.change(pod, started=w.loop.time(), phase="Running")
    w.advance(15)
    assert len(w.jobs.pods(short)) == 2
    w.advance(10)
    told = [one.message for one in w.cluster.events if one.reason == "Evicted"]
    assert told[0].endswith("has run for 20s, and queue default ends work that runs longer")


def test_stopped_queue_ends_what_runs_in_it_and_nothing_else(world: MakeWorld) -> None:
    w = world(node("n0"), PHYSICS)
    mine = w.pod("a", labels={QUEUE_LABEL: "physics"}, gates=(GATE,), requests=asks(1000, 1))
    other = w.pod("b", gates=(GATE,), requests=asks(1000, 1))
    w.advance(5)
    assert w.cluster.pod(mine).node
    w.cluster.put(structs.replace(PHYSICS, stop=Stop.EVICT))
    w.advance(5)
    w.cluster.reap()
    assert mine.uid not in {one.uid for one in w.cluster.pods()}
    assert w.cluster.pod(other).node
