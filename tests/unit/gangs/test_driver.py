"""Doing what was decided: in order, again when it failed, and bindings all together."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.cluster.errors import AlreadyBound, Conflict, Denied, Gone
from fluence_extender.gangs.execution.binder import CannotBind
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.planning.view import View
from fluence_extender.http.scheduler.port import BindRefused, On
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import ALLOCATION_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def bind(w: World, *pods: Pod) -> list[BaseException | None]:
    """Call bind for each on its planned node, at once; what came of each."""

    async def one(pod: Pod) -> None:
        asked = w.asked(pod)
        location = w.placements.locate(asked)
        assert isinstance(location, On)
        await w.placements.bind(asked, location.node)

    async def all_of_them() -> list[BaseException | None]:
        return await asyncio.gather(*(one(pod) for pod in pods), return_exceptions=True)

    return w.run(all_of_them())


def test_pod_is_nominated_before_it_is_ungated(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 1000)
    w.advance(1)
    assert w.cluster.calls == [("nominate", "default/g-0"), ("ungate", "default/g-0")]


def test_loop_does_not_rest_while_gangs_are_left_to_try_and_lets_others_work(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0", 1000), scheduling=False)
    w.advance(1)
    steps: list[float] = []
    others, begun = 0, asyncio.Event()
    monkeypatch.setattr(type(w.controller.lifecycle), "behind", property(lambda _: len(steps) < 50))
    begin = w.controller.begin

    def step() -> View | None:
        steps.append(w.loop.time())
        begun.set()
        return begin()

    async def work() -> None:
        nonlocal others
        await begun.wait()
        while len(steps) < 50:
            others += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(w.controller, "begin", step)
    w.driver.wake()
    w.run(work())
    # Virtual time passes only while the loop rests.
    assert steps[-1] == steps[0]
    assert others > len(steps)


def test_nominations_are_taken_back_before_others_are_made(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    w.cluster.delays["nominate"] = 0.2
    gang(w, "weak", 3000)
    w.advance(1)
    pod = gang(w, "next", 3000)[0]
    w.cluster.calls.clear()
    w.cluster.delete(w.gang("weak").members[next(iter(w.gang("weak").members))].pod)
    w.advance(1)
    assert w.now(pod).nominated == "n0"


def test_cleared_member_is_steered_after_the_clear(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    w.cluster.delays["nominate"] = 0.3
    first, second = gang(w, "a", 3000)[0], gang(w, "b", 3000)[0]
    w.advance(1)
    w.cluster.calls.clear()
    w.change(node("n0"), unschedulable=True)
    w.cluster.remove(second)
    w.advance(2)
    assert w.now(first).nominated == "n1"
    assert [verb for verb, _ in w.cluster.calls] == ["nominate", "nominate"]


@pytest.mark.parametrize("verb", ["nominate", "ungate"])
@pytest.mark.parametrize("error", [None, Denied("no right to patch pods", 403), Conflict("changed", 409)])
def test_steer_that_fails_is_done_again(world: MakeWorld, verb: str, error: Exception | None) -> None:
    w = world(node("n0"))
    w.cluster.fail(verb, error, times=3)
    one = gang(w, "g", 1000)[0]
    w.advance(10)
    assert w.nodes_of(one) == ["n0"]


def test_clear_that_fails_is_done_again(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one, other = gang(w, "g", 2000, 2000)
    w.advance(1)
    w.cluster.fail("nominate", times=2)
    w.cluster.delete(other)
    w.advance(5)
    assert w.now(one).nominated == ""


def test_steer_of_a_pod_that_is_gone_is_given_up(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    w.cluster.fail("nominate", Gone("gone", 404))
    gang(w, "g", 1000)
    w.advance(10)
    assert [verb for verb, _ in w.cluster.calls] == ["nominate"]


def test_no_member_is_bound_before_all_have_arrived(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 1000, 1000, gates=())
    w.advance(1)
    refused = bind(w, pods[0])[0]
    assert isinstance(refused, BindRefused)
    assert "have not reached bind within 5 s" in str(refused)
    assert w.nodes_of(*pods) == ["", ""]
    assert bind(w, *pods) == [None, None]
    assert w.nodes_of(*pods) == ["n0", "n0"]
    w.advance(1)
    assert w.gang("g").state is GangState.BOUND


def test_barrier_holds_two_hundred_members_and_lets_all_go(world: MakeWorld) -> None:
    nodes = [node(f"n{number}", 50_000, 64, pods=100) for number in range(4)]
    w = world(*nodes, scheduling=False, limits=Limits())
    pods = gang(w, "g", *[1000] * 200, gates=())
    w.advance(1)
    bound: list[float] = []

    async def come(number: int) -> None:
        await asyncio.sleep(number * 0.05)
        asked = w.asked(pods[number])
        location = w.placements.locate(asked)
        assert isinstance(location, On)
        await w.placements.bind(asked, location.node)
        bound.append(w.loop.time())

    async def all_come() -> None:
        await asyncio.gather(*(come(number) for number in range(200)))

    start = w.loop.time()
    w.run(all_come())
    assert min(bound) >= start + 199 * 0.05
    assert sum(1 for verb, _ in w.cluster.calls if verb == "bind") == 200
    assert all(w.nodes_of(*pods))


def test_bind_is_idempotent(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    assert bind(w, one, one) == [None, None]
    w.advance(1)
    assert bind(w, one) == [None]
    assert len([verb for verb, _ in w.cluster.calls if verb == "bind"]) <= 2
    assert ALLOCATION_ANNOTATION in w.now(one).annotations


def test_bind_of_unknown_pods_and_of_other_nodes_is_refused(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    with pytest.raises(CannotBind, match="not known here"):
        w.run(w.driver.binder.bind("nobody", "n0"))
    with pytest.raises(CannotBind, match="now goes to n0, not to n1"):
        w.run(w.driver.binder.bind(one.uid, "n1"))
    bind(w, one)
    with pytest.raises(CannotBind, match="bound to n0 already"):
        w.run(w.driver.binder.bind(one.uid, "n1"))


def test_binding_without_an_answer_is_tried_again(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.cluster.fail("bind", times=3)
    assert bind(w, one) == [None]
    assert w.nodes_of(one) == ["n0"]


def test_binding_that_hangs_is_an_error_before_kube_scheduler_stops_waiting(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 1000, 1000)
    w.advance(1)
    w.cluster.delays["bind"] = 60.0
    began = w.loop.time()
    refused = bind(w, *pods)
    assert w.loop.time() - began < 30.0 - Limits().bind_wait
    assert all("no answer within 8 s" in str(one) for one in refused), refused
    w.cluster.delays.clear()
    assert bind(w, *pods) == [None, None]


@pytest.mark.parametrize("error", [Gone("gone", 404), AlreadyBound("bound elsewhere", "n1")])
def test_binding_that_can_never_be_is_not_tried_again(world: MakeWorld, error: Exception) -> None:
    w = world(node("n0"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.cluster.fail("bind", error)
    assert isinstance(bind(w, one)[0], BindRefused)
    assert [verb for verb, _ in w.cluster.calls].count("bind") == 1


def test_place_of_a_binding_under_way_is_not_given_to_others(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    pods = gang(w, "g", 2000, 2000, gates=())
    w.advance(1)
    w.cluster.delays["bind"] = 1.0

    async def scene() -> None:
        binding = [asyncio.create_task(w.placements.bind(w.asked(one), "n0")) for one in pods]
        await asyncio.sleep(0.5)
        w.cluster.delete(pods[0])
        gang(w, "thief", 2000, 2000, gates=())
        await asyncio.sleep(0.2)
        assert w.ledger.holds(pods[1].uid, "n0")
        await asyncio.gather(*binding, return_exceptions=True)

    w.run(scene())
    w.advance(1)
    assert w.nodes_of(pods[1]) == ["n0"]
    assert w.ledger.overcommitted == set()


def test_waiting_binds_end_when_the_plan_is_withdrawn(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False, limits=Limits())
    pods = gang(w, "g", 1000, 1000, gates=())
    w.advance(1)

    async def scene() -> str:
        waiting = asyncio.create_task(w.driver.binder.bind(pods[0].uid, "n0"))
        await asyncio.sleep(1)
        w.cluster.delete(pods[1])
        with pytest.raises(CannotBind) as caught:
            await waiting
        return str(caught.value)

    start = w.loop.time()
    assert "withdrawn" in w.run(scene())
    assert w.loop.time() - start < 2


def test_member_that_was_bound_while_it_waited_is_not_bound_again(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False, limits=Limits())
    pods = gang(w, "g", 1000, 1000, gates=())
    w.advance(1)

    async def scene() -> None:
        first = asyncio.create_task(w.driver.binder.bind(pods[0].uid, "n0"))
        await asyncio.sleep(1)
        w.change(pods[0], node="n0")
        await w.driver.binder.bind(pods[1].uid, "n0")
        await first

    w.run(scene())
    assert w.nodes_of(*pods) == ["n0", "n0"]
    assert [key for verb, key in w.cluster.calls if verb == "bind"] == [pods[1].key]


def test_waiting_members_go_on_when_a_member_beyond_the_minimum_leaves(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "pg", "uid", 2), scheduling=False, limits=Limits())
    pods = [w.pod(f"p{number}", group="pg", requests=asks(1000)) for number in range(3)]
    w.advance(1)

    async def scene() -> None:
        waiting = [asyncio.create_task(w.driver.binder.bind(one.uid, "n0")) for one in pods[:2]]
        await asyncio.sleep(1)
        w.cluster.delete(pods[2])
        await asyncio.gather(*waiting)

    start = w.loop.time()
    w.run(scene())
    assert w.loop.time() - start < 2
    assert w.nodes_of(*pods[:2]) == ["n0", "n0"]


def test_new_gang_under_an_old_name_gathers_anew(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    for one in gang(w, "g", 1000, 1000, gates=()):
        w.change(one, phase="Succeeded")
    w.advance(1)
    old = gang(w, "g", 1000, 1000, gates=())
    w.advance(1)
    assert bind(w, *old) == [None, None]
    for one in old:
        w.change(one, phase="Failed")
    w.advance(1)
    new = gang(w, "g", 1000, 1000, gates=())
    w.advance(1)
    assert isinstance(bind(w, new[0])[0], BindRefused)
    assert w.nodes_of(*new) == ["", ""]


def decisions(w: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times of all decisions from now on, which grows as they are made."""
    made: list[float] = []
    begin = w.controller.begin

    def noted() -> View | None:
        made.append(w.loop.time())
        return begin()

    monkeypatch.setattr(w.controller, "begin", noted)
    return made


def test_what_becomes_of_placed_pods_waits_for_the_next_decision(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0", 64_000, 64, pods=100))
    decided = decisions(w, monkeypatch)
    pods = gang(w, "g", *[1000] * 20)
    w.advance(5)
    assert w.nodes_of(*pods) == ["n0"] * 20
    decided.clear()
    for pod in pods:
        w.change(w.now(pod), ready=True)
        w.advance(0.01)
    assert len(decided) <= 4


def test_new_pod_is_decided_about_at_once_while_others_run(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0", 64_000, 64, pods=100))
    pod = gang(w, "g", 1000)[0]
    w.advance(5)
    decided = decisions(w, monkeypatch)
    began = w.loop.time()
    w.change(w.now(pod), ready=True)
    gang(w, "next", 1000)
    w.advance(1)
    assert decided[0] - began < 0.02
