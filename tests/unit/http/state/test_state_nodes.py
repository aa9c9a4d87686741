"""Nodes in the state API: which pods use what, and why nothing new may be placed there."""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.api.nodes import Node
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.names import GATE, USER_ANNOTATION
from fluence_extender.model.taints import Taint
from tests.core.state_api import every
from tests.core.values import GIB, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def only(w: World) -> Node:
    (found,) = every(w.state.nodes())
    return found


def test_held_used_by_others_and_free_add_up(world: MakeWorld) -> None:
    w = world(node("n0", 4000, 8), scheduling=False)
    gang(w, "g", 1500)
    w.foreign("n0", "daemon", requests=asks(250, 1))
    w.advance(1)
    found = only(w)
    assert (found.schedulable, found.problems) == (True, ())
    assert found.allocatable == {"cpu": 4.0, "memory": 8 * GIB, "pods": 110}
    assert found.held == {"cpu": 1.5, "memory": GIB, "pods": 1}
    assert found.others == {"cpu": 0.25, "memory": GIB, "pods": 1}
    assert found.free == {"cpu": 2.25, "memory": 6 * GIB, "pods": 108}


def test_one_node_names_the_pods_that_use_it(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    gang(w, "g", 1500)
    w.foreign("n0", "daemon", requests=asks(250, 1))
    w.advance(1)
    found = w.state.node("n0")
    assert found is not None
    assert [
        (one.namespace, one.pod, one.gang, one.claim, one.requests["cpu"]) for one in found.item.pods
    ] == [
        ("default", "g-0", "g", "committed", 1.5),
        ("others", "daemon", "", "other", 0.25),
    ]
    assert w.state.node("nowhere") is None


def test_gangs_and_nodes_name_who_has_submitted_the_pods(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    robot = "system:serviceaccount:lab:bot"
    for name, notes in (("p", {USER_ANNOTATION: "ada"}), ("q", {USER_ANNOTATION: robot}), ("r", {})):
        w.pod(name, annotations=notes, gates=(GATE,), requests=asks(500, 1))
    w.foreign("n0", "daemon", requests=asks(250, 1), annotations={USER_ANNOTATION: "forged"})
    w.advance(1)
    listing = w.state.gangs(False, EVERYTHING).read()
    gangs = [gang for key in listing.keys if (gang := listing.make(key)) is not None]
    users = {"p": "ada", "q": robot, "r": "namespace default"}
    assert {one.name: one.user for one in gangs} == users
    detail = w.state.gang("default", "p", "", EVERYTHING)
    assert detail is not None
    assert detail.item.user == "ada"
    found = w.state.node("n0")
    assert found is not None
    assert {one.pod: one.user for one in found.item.pods} == {**users, "daemon": ""}


def test_node_that_cannot_be_read_says_why(world: MakeWorld) -> None:
    w = world(replace(node("n0"), problem="no taints"), scheduling=False)
    assert (only(w).schedulable, only(w).problems) == (False, ("can't be read: no taints",))


def test_gang_shows_which_amounts_of_nodes_it_lacks(world: MakeWorld) -> None:
    w = world(node("n0", 4000, 8), scheduling=False)
    gang(w, "g", 3000, 3000)
    gang(w, "partial", 1000, size=2)
    w.advance(1)
    short, waiting = (
        w.state.gang("default", "g", "", EVERYTHING),
        w.state.gang("default", "partial", "", EVERYTHING),
    )
    assert short is not None
    assert waiting is not None
    assert (short.item.fitting, short.item.lacking) == (1, ("cpu",))
    assert (waiting.item.fitting, waiting.item.lacking) == (None, ())


def test_all_reasons_why_a_node_is_closed_are_shown(world: MakeWorld) -> None:
    taint = Taint("dedicated", "NoSchedule", "ml")
    shunned = replace(
        node("n0"),
        unschedulable=True,
        ready=False,
        taints=(
            taint,
            Taint("wobbly", "PreferNoSchedule"),
            Taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        ),
    )
    w = world(shunned)
    found = only(w)
    assert (found.schedulable, found.problems) == (
        False,
        ("cordoned", "not ready", "taint dedicated=ml:NoSchedule"),
    )
    w.change(shunned, unschedulable=False, ready=True, taints=())
    assert only(w).schedulable


def test_an_overcommitted_node_shows_by_how_much(world: MakeWorld) -> None:
    w = world(node("n0", 4000, 8))
    w.foreign("n0", "greedy", requests=asks(5500, 1))
    found = only(w)
    assert found.problems == ("deficit: 1500m cpu more in use than it has",)
    assert found.free["cpu"] == -1.5


def test_a_node_that_is_gone_is_shown_while_it_has_pods(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    gang(w, "g", 1000)
    w.advance(3)
    (held,) = every(w.state.allocations())
    w.cluster.remove(node(held.node))
    shown = {one.name: one for one in every(w.state.nodes())}
    assert shown[held.node].problems == ("the node is gone; these pods were there",)
    assert shown[held.node].allocatable == {}
    assert shown[held.node].held["cpu"] == 1.0
    assert shown[held.node].free["cpu"] == -1.0


def test_the_topology_comes_from_the_labels(world: MakeWorld) -> None:
    w = world(replace(node("n0"), labels={"topology.kubernetes.io/zone": "z1", "other": "x"}))
    assert only(w).levels == {"zone": "z1"}
