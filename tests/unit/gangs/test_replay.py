"""After a restart: what runs is taken over, what was begun is finished, nothing is booked twice."""

from __future__ import annotations

import json

from fluence_extender.cluster.port import WATCHED, ResourcesFile
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import ALLOCATION_ANNOTATION, BACKEND_ANNOTATION, GATE
from fluence_extender.model.pod import Pod
from tests.core.invariants import check_at_rest
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang

PAIR = ResourcesFile(
    "test", "resources: [{type: simulator, name: a, count: 2}, {type: simulator, name: b, count: 2}]"
)


def backend(w: World, one: Pod) -> str:
    return w.now(one).annotations.get(BACKEND_ANNOTATION, "")


def held_backend(w: World, one: Pod) -> str:
    return w.ledger.holdings[one.uid].assignment.backend


def test_restart_books_nothing_twice(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), PAIR)
    pods = gang(w, "g", 1000, 1000, devices={"simulator": 2})
    w.foreign("n1", "daemon", requests=asks(500))
    w.advance(3)
    before = {uid: held.assignment for uid, held in w.ledger.holdings.items()}
    w.restart()
    assert {uid: held.assignment for uid, held in w.ledger.holdings.items()} == before
    assert w.gang("g").state is GangState.BOUND
    assert {backend(w, one) for one in pods} == {"a", "b"}
    check_at_rest(w)


def test_steered_pods_keep_their_nodes(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), PAIR, scheduling=False)
    pods = gang(w, "g", 3000, 3000, devices={"simulator": 2})
    w.advance(1)
    where = [w.now(one).nominated for one in pods]
    w.cluster.calls.clear()
    w.restart()
    w.advance(2)
    assert [w.ledger.holdings[one.uid].assignment.node for one in pods] == where
    assert {held_backend(w, one) for one in pods} == {"a", "b"}
    assert w.gang("g").state is GangState.COMMITTED
    assert w.cluster.calls == []


def test_steered_pod_leaves_a_node_that_was_cordoned_meanwhile(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    one = gang(w, "g", 1000)[0]
    w.advance(1)
    w.kill()
    w.change(node("n0"), unschedulable=True)
    w.start()
    w.advance(1)
    assert w.now(one).nominated == "n1"


def test_nomination_without_a_plan_is_taken_back(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    one = w.pod("p", nominated="n7", requests=asks(9000))
    w.restart()
    w.advance(1)
    assert w.now(one).nominated == ""


def test_half_bound_gang_is_finished_before_others_are_served(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    pods = gang(w, "z", 3000, 3000)
    w.advance(1)
    w.run(w.cluster.bind(w.now(pods[0]), "n0", {}))
    w.kill()
    w.change(pods[1], nominated="")
    gang(w, "a", 3000, priority=100, preempts=False)
    w.start()
    w.advance(1)
    assert w.now(pods[1]).nominated == "n1"
    assert w.gang("a").state is GangState.WAITING


def test_steered_part_of_a_gang_that_can_not_be_completed_starts_over(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), scheduling=False)
    pods = gang(w, "g", 3000, 3000)
    w.advance(1)
    w.kill()
    w.foreign("n1", "daemon", requests=asks(4000))
    w.start()
    w.advance(2)
    assert [w.now(one).nominated for one in pods] == ["", ""]
    assert not w.ledger.holdings
    assert str(w.gang("g").reason).startswith("busy")


def test_what_ended_while_we_were_away_is_free(world: MakeWorld) -> None:
    w = world(node("n0"))
    done, gone = gang(w, "g", 2000, 2000)
    w.advance(3)
    w.kill()
    w.change(done, phase="Succeeded")
    w.cluster.remove(gone)
    w.start()
    assert not w.ledger.holdings
    after = gang(w, "h", 4000)[0]
    w.advance(3)
    assert w.nodes_of(after) == ["n0"]


def test_stamped_pods_choose_their_devices_first(world: MakeWorld) -> None:
    w = world(node("n0"), PAIR)
    older = w.pod(
        "older",
        node="n0",
        requests=asks(100),
        devices={"simulator": 2},
        annotations={ALLOCATION_ANNOTATION: "{}"},
    )
    newer = gang(w, "g", 100, devices={"simulator": 2})[0]
    w.advance(3)
    assert backend(w, newer) == "b"
    stamp = json.dumps({"devices": [{"path": "/cluster/a", "type": "simulator", "amount": 2}]})
    w.change(newer, annotations={**w.now(newer).annotations, ALLOCATION_ANNOTATION: stamp})
    w.restart()
    assert held_backend(w, newer) == "a"
    assert held_backend(w, older) == "b"


def test_forged_stamp_gains_nothing(world: MakeWorld) -> None:
    w = world(node("n0"), PAIR)
    honest = gang(w, "g", 100, devices={"simulator": 2})[0]
    w.advance(3)
    mine = backend(w, honest)
    forged = json.dumps(
        {"devices": [{"path": f"/cluster/{mine}", "type": "simulator", "amount": 2}] * 9, "node": "n9"}
    )
    thief = gang(w, "h", 100)[0]
    w.advance(3)
    w.change(thief, annotations={**w.now(thief).annotations, ALLOCATION_ANNOTATION: forged})
    w.restart()
    assert held_backend(w, honest) == mine
    assert w.ledger.holdings[thief.uid].assignment.devices == ()
    assert w.ledger.holds(thief.uid, "n0")


def test_lists_that_come_again_are_the_whole_truth(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    one, other = gang(w, "g", 1000, 1000)
    w.advance(3)
    w.cluster.held = True
    w.cluster.remove(one)
    w.cluster.remove(node("n1"))
    w.cluster._queue.clear()
    w.cluster.held = False
    for kind in WATCHED:
        w.cluster.relist(kind)
    w.advance(1)
    assert set(w.ledger.holdings) == {other.uid}
    assert set(w.ledger.accounts) == {"n0"}


def test_restart_in_the_middle_of_steering(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.cluster.delays = {"nominate": 0.5, "ungate": 0.5, "bind": 0.5}
    pods = gang(w, "g", 3000, 3000)
    for _ in range(6):
        w.advance(0.7)
        w.restart()
    w.advance(10)
    assert sorted(w.nodes_of(*pods)) == ["n0", "n1"]
    assert all(GATE not in w.now(one).gates for one in pods)


def test_device_that_comes_back_after_a_restart_is_not_given_away_twice(world: MakeWorld) -> None:
    w = world(node("n0"), PAIR)
    first = gang(w, "g", 1000, devices={"simulator": 2})[0]
    w.advance(2)
    taken = backend(w, first)
    w.cluster.put(ResourcesFile("test", None))
    w.restart()
    assert held_backend(w, first) == ""
    w.cluster.put(PAIR)
    second, third = (w.pod(name, requests=asks(1000), devices={"simulator": 2}) for name in ("x", "y"))
    w.advance(3)
    assert held_backend(w, first) == taken
    assert w.nodes_of(second, third) in (["n0", ""], ["", "n0"])
    check_at_rest(w)


def test_device_that_comes_back_is_its_pods_again_though_that_held_another_meanwhile(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), PAIR)
    first = gang(w, "g", 1000, devices={"simulator": 2})[0]
    w.advance(2)
    taken = backend(w, first)
    other = "a" if taken == "b" else "b"
    w.cluster.put(ResourcesFile("test", f"resources: [{{type: simulator, name: {other}, count: 2}}]"))
    w.restart()
    assert held_backend(w, first) == other
    w.cluster.put(PAIR)
    second, third = (w.pod(name, requests=asks(1000), devices={"simulator": 2}) for name in ("x", "y"))
    w.advance(3)
    assert held_backend(w, first) == taken
    assert [backend(w, one) for one in (second, third) if w.now(one).node] == [other]
    check_at_rest(w)


def test_device_of_a_node_that_comes_back_is_not_given_away_twice(world: MakeWorld) -> None:
    hung = ResourcesFile("test", "resources: [{type: fpga, name: f, parent: n0}]")
    w = world(node("n0"), node("n1"), hung)
    first = gang(w, "g", 1000, devices={"fpga": 1})[0]
    w.advance(2)
    w.cluster.remove(node("n0"))
    w.restart()
    w.cluster.put(node("n0"))
    w.disturb("n0")
    second = w.pod("x", requests=asks(1000), devices={"fpga": 1})
    w.advance(3)
    assert held_backend(w, first) == "f"
    assert w.nodes_of(second) == [""]
