"""Writes for one namespace that hang, or that are about large pods, delay no other namespace's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.gangs.execution.writes import BYTES_A_SECOND, BYTES_AT_ONCE, USUAL_BYTES
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import Pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

CROWD = 200
LARGE = 200_000


def roomy(world: MakeWorld, *, direct: bool = False) -> World:
    return world(node("n0", 1_000_000, 1000, pods=1000), direct=direct)


def put(w: World, namespace: str, name: str, size: int = 0) -> Pod:
    """Create a small gated pod."""
    return w.pod(name, namespace, requests=asks(1), gates=(GATE,), size=size)


@pytest.mark.parametrize(("verb", "direct"), [("nominate", False), ("ungate", False), ("bind", True)])
def test_pod_is_bound_while_the_writes_of_another_namespace_hang(
    verb: str, direct: bool, world: MakeWorld
) -> None:
    w = roomy(world, direct=direct)
    w.cluster.hanging.add((verb, "crowd"))
    for number in range(CROWD):
        put(w, "crowd", f"c-{number}")
    w.advance(3)
    assert sum(call == verb for call, _ in w.cluster.calls) < CROWD
    other = put(w, "others", "p")
    w.advance(1)
    assert w.nodes_of(other) == ["n0"]
    w.cluster.hanging.clear()


def test_reason_is_told_while_reports_of_another_namespace_hang(world: MakeWorld) -> None:
    w = roomy(world)
    w.cluster.hanging.add(("report_pod", "crowd"))
    for number in range(CROWD):
        w.pod(f"c-{number}", "crowd", requests=asks(2_000_000 + number), gates=(GATE,))
    w.advance(60)
    other = w.pod("p", "others", requests=asks(2_000_000), gates=(GATE,))
    w.advance(60)
    assert other.uid in w.cluster.waiting
    w.cluster.hanging.clear()


def test_job_is_placed_while_dry_runs_of_another_namespace_hang(world: MakeWorld) -> None:
    w = roomy(world)
    w.cluster.hanging.add(("dry_run", "crowd"))
    for number in range(20):
        w.jobs.submit(f"c-{number}", 1, namespace="crowd")
    w.advance(3)
    other = w.jobs.submit("p", 1)
    w.advance(3)
    assert w.jobs.nodes(other) == ["n0"]
    w.cluster.hanging.clear()


def test_large_pods_are_steered_at_a_pace_and_others_at_once(world: MakeWorld) -> None:
    w = roomy(world)
    for number in range(CROWD):
        put(w, "crowd", f"c-{number}", LARGE)
    w.advance(0.5)
    other = put(w, "others", "p")
    w.advance(0.5)
    assert w.nodes_of(other) == ["n0"]

    def steered() -> int:
        return sum(call == "ungate" for call, key in w.cluster.calls if key.startswith("crowd/"))

    excess = LARGE - USUAL_BYTES
    assert steered() <= (BYTES_AT_ONCE + BYTES_A_SECOND) / excess + 1
    before = steered()
    w.advance(10)
    assert steered() - before == pytest.approx(10 * BYTES_A_SECOND / excess, rel=0.1)
    w.advance(CROWD * excess / BYTES_A_SECOND)
    assert steered() == CROWD


def test_pods_of_usual_size_have_no_pace(world: MakeWorld) -> None:
    w = roomy(world)
    for number in range(CROWD):
        put(w, "crowd", f"c-{number}", USUAL_BYTES)
    w.advance(1)
    assert sum(call == "ungate" for call, _ in w.cluster.calls) == CROWD


def test_large_job_waits_for_its_pace_and_other_jobs_do_not(world: MakeWorld) -> None:
    w = roomy(world)
    for number in range(20):
        job = w.jobs.submit(f"c-{number}", 1, namespace="crowd")
        w.cluster.put(replace(w.cluster.job(job), size=1_000_000))
    w.advance(0.1)
    other = w.jobs.submit("p", 1)
    w.advance(1.5)
    assert w.jobs.nodes(other) == ["n0"]
    resumed = sum(call == "resume" for call, key in w.cluster.calls if key.startswith("crowd/"))
    assert 0 < resumed < 20
    w.advance(60)
    assert sum(call == "resume" for call, key in w.cluster.calls if key.startswith("crowd/")) == 20


def test_victims_of_any_size_are_evicted_at_once(world: MakeWorld) -> None:
    w = world(node("n0", 4000, 1000, pods=1000), direct=False)
    victims = [w.pod(f"v-{number}", "crowd", requests=asks(200, 1), gates=(GATE,)) for number in range(20)]
    w.advance(2)
    for victim in victims:
        w.cluster.put(replace(w.now(victim), size=1_400_000))
    gang(w, "high", 4000, priority=10)
    w.advance(2)
    assert [w.now(victim).deleting for victim in victims] == [True] * 20
