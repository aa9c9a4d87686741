"""What becomes of a place if a Binding fails or has no answer, and of a nomination if the watch is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from fluence_extender.cluster.errors import Denied, NoAnswer
from fluence_extender.gangs.execution.binder import CannotBind
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.pod import Pod
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

NO_ANSWER, NO = NoAnswer("no answer", 0), Denied("no", 403)


def place_of(w: World, pod: Pod) -> str:
    place = w.member(pod.uid).assignment
    return place.node if place is not None else ""


def cordon(w: World, name: str) -> None:
    w.change(next(one for one in w.cluster.nodes() if one.name == name), unschedulable=True)


def bind(w: World, pod: Pod, name: str) -> asyncio.Task[None]:
    """Have kube-scheduler call the bind verb."""

    async def call() -> None:
        with suppress(CannotBind):
            await w.driver.binder.bind(pod.uid, name)

    return w.loop.create_task(call())


def test_pod_whose_node_is_cordoned_while_its_binding_is_refused_goes_elsewhere(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500))
    w.cluster.fail("bind", NO)
    w.cluster.delays["bind"] = 1.0
    (pod,) = gang(w, "g", 500)
    w.advance(0.5)
    first = place_of(w, pod)
    cordon(w, first)
    with capture_logs() as logs:
        w.advance(20)
    assert not any("fault" in line["event"] for line in logs)
    assert w.nodes_of(pod)[0] not in ("", first)


def test_pod_that_somebody_else_binds_during_our_binding_is_bound_there(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500))
    w.cluster.delays["bind"] = 1.0
    (pod,) = gang(w, "g", 500)
    w.advance(0.5)
    other = "n1" if place_of(w, pod) == "n0" else "n0"
    w.cluster.put(replace(w.now(pod), node=other))
    with capture_logs() as logs:
        w.advance(10)
    assert not any("fault" in line["event"] for line in logs)
    assert place_of(w, pod) == other


def test_binding_without_an_answer_keeps_its_place_although_the_node_is_cordoned(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500), direct=False)
    w.cluster.fail("bind", NO_ANSWER)
    w.cluster.delays["bind"] = 0.2
    (pod,) = gang(w, "g", 500)
    until(w, lambda: any(verb == "bind" for verb, _ in w.cluster.calls))
    first = place_of(w, pod)
    cordon(w, first)
    for _ in range(40):
        w.advance(0.1)
        assert place_of(w, pod) == first


def test_binding_without_an_answer_keeps_its_place_although_the_next_ones_are_refused(
    world: MakeWorld,
) -> None:
    w = world(node("n0", cpu=500), direct=False)
    w.cluster.fail("bind", NO_ANSWER)
    w.cluster.fail("bind", NO, times=10_000)
    (pod,) = gang(w, "g", 500)
    w.advance(8)
    gang(w, "other", 500, priority=10)
    for _ in range(40):
        w.advance(0.5)
        assert w.member(pod.uid).binding
        assert place_of(w, pod) == "n0"


def test_another_binding_under_way_outlives_the_time_of_one_without_an_answer(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), node("n1", cpu=500), direct=False, scheduling=False)
    (pod,) = gang(w, "g", 500)
    w.advance(1)
    first = place_of(w, pod)
    w.cluster.fail("bind", NO_ANSWER, times=5)
    bind(w, pod, first)
    w.advance(59)
    assert w.member(pod.uid).binding
    w.cluster.delays["bind"] = 7.0
    task = bind(w, pod, first)
    for _ in range(13):
        w.advance(0.5)
        assert w.member(pod.uid).binding or w.member(pod.uid).bound or task.done()


def test_binding_without_an_answer_keeps_its_place_for_a_minute_only(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), direct=False, scheduling=False)
    (pod,) = gang(w, "g", 500)
    w.advance(1)
    w.cluster.fail("bind", NO_ANSWER, times=5)
    bind(w, pod, "n0")
    w.advance(30)
    assert w.member(pod.uid).binding
    w.advance(40)
    assert not w.member(pod.uid).binding


def test_bind_call_that_is_cut_off_may_have_taken_effect(world: MakeWorld) -> None:
    w = world(node("n0", cpu=500), direct=False, scheduling=False)
    (pod,) = gang(w, "g", 500)
    w.advance(1)
    w.cluster.delays["bind"] = 3.0
    task = bind(w, pod, place_of(w, pod))
    w.advance(1)
    task.cancel()
    w.advance(0.5)
    assert w.member(pod.uid).binding


@pytest.mark.parametrize("late", [0.5, 1.0, 3.0])
def test_nomination_that_we_took_back_is_no_refusal(world: MakeWorld, late: float) -> None:
    w = world(node("n0", cpu=500), direct=False, scheduling=False)
    (pod,) = gang(w, "g", 500)
    w.advance(2)
    assert w.now(pod).nominated == "n0"
    only = w.cluster.nodes()[0]
    w.cluster.delays["nominate"] = 0.2
    cordon(w, "n0")
    w.advance(0.1)
    w.change(only, unschedulable=False)
    w.cluster.held = True
    w.advance(late)
    w.cluster.held = False
    w.cluster.deliver()
    w.advance(3)
    assert not [entry for entry in w.gang("g").history.entries if entry.kind is HistoryKind.REFUSED]
    assert w.now(pod).nominated == "n0"


def until(w: World, condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        w.advance(0.05)
    raise AssertionError("it doesn't come to that")


def test_reason_of_a_pod_that_can_not_be_told_its_node_is_in_the_next_view(world: MakeWorld) -> None:
    # The world compares each view with the gangs.
    w = world(node("n0"), direct=False)
    w.cluster.fail("nominate", NO, times=20)
    w.cluster.delays["nominate"] = 0.3
    gang(w, "g", 500)
    for number in range(40):
        gang(w, f"other{number}", 5)
        w.advance(0.05)
    reason = w.gang("g").reason
    assert reason is not None
    assert "can't be told its node" in reason.text
