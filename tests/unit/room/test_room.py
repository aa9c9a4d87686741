"""A room is a value: taking and giving back make other rooms, and the ledger and the first room stay as they are."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.pod import HostPort, Pod, PodTerm, Requirement
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.holds import Hold, HoldKind
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.room import Room
from tests.core.planning import planner_for
from tests.core.values import asks, node, pod

QPUS = "resources: [{type: qpu, name: fez, count: 2}]"
PORT = (HostPort(80),)
APART = (PodTerm(HOSTNAME, namespaces=("default",), selector=(Requirement("app", "In", ("shy",)),)),)


def shown(room: Room, known: Ledger) -> object:
    """Return all that a room says is free, and to whom."""
    devices = {device.path: room.devices.free(device) for device in room.devices.catalogue.devices}
    shy = pod("asker", labels={"app": "shy"})
    ports = {row: sorted(ports) for row, ports in room.free.ports.items()}
    return (
        {name: room.free.of_node(name) for name in known.accounts},
        ports,
        devices,
        room.closed,
        room.kept_apart.nodes(shy),
    )


def running(number: int, where: str, dice: random.Random) -> Pod:
    return pod(
        f"p{number}",
        requests=asks(dice.choice((100, 500, 1000))),
        uid=f"u{number}",
        node=where,
        labels={"app": "shy"} if dice.random() < 0.3 else {},
        apart=APART if dice.random() < 0.3 else (),
        host_ports=PORT if dice.random() < 0.2 else (),
        devices={"qpu": 1} if dice.random() < 0.2 else {},
    )


def ledger_of(pods: list[Pod], policy: str = "lonode") -> Ledger:
    ledger = Ledger(policy)
    nodes = [node(f"n{number}", labels={HOSTNAME: f"n{number}"}) for number in range(3)]
    ledger.load(nodes, parse_resources(QPUS))
    ledger.adopt_all([(one, one.name) for one in pods], Firmness.BOUND)
    return ledger


@given(st.integers(0, 2**20), st.sampled_from(["lonode", "lonodex"]))
def test_room_without_pods_is_the_room_of_a_ledger_that_never_had_them(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    pods = [running(number, f"n{dice.randint(0, 2)}", dice) for number in range(dice.randint(0, 8))]
    # Who gets a device is decided in order, so those that have none must not get one because others are gone.
    asked = [one for one in pods if one.devices][:2]
    pods = [one for one in pods if not one.devices or one in asked]
    ledger = ledger_of(pods, policy)
    before = shown(ledger.room(), ledger)
    room = dice.choice((ledger.room, ledger.snapshot))()
    for _ in range(4):
        gone = {one.uid for one in pods if dice.random() < 0.5}
        room = room.without(gone)
        fewer = ledger_of([one for one in pods if one.uid not in gone], policy)
        assert shown(room, ledger) == shown(fewer.room(), ledger)
    assert shown(room.without(()), ledger) == before == shown(ledger.room(), ledger)


@given(st.integers(0, 2**20), st.sampled_from(["lonode", "lonodex"]))
def test_taken_room_is_the_room_of_a_ledger_that_holds_the_places(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    ledger = ledger_of([running(100, "n0", dice)], policy)
    new = [running(number, "", dice) for number in range(dice.randint(1, 4))]
    places = []
    room = ledger.room().open_to("gang")
    for at, one in enumerate(new):
        where = Assignment(one.uid, f"n{at % 3}")
        room = room.take([(one, where)])
        places.append((one, where))
    other = ledger_of([], policy)
    other.adopt_all([(one, one.name) for one in [running(100, "n0", random.Random(seed))]], Firmness.BOUND)
    assert shown(ledger.room(), ledger) == shown(other.room(), ledger)
    other.take_all(places, "gang")
    for gang in ("gang", "another"):
        assert shown(room.open_to(gang), ledger) == shown(other.room().open_to(gang), ledger)
    assert shown(room.without({one.uid for one in new}), ledger) == shown(ledger.room(), ledger)


def test_plan_that_fails_leaves_nothing_behind() -> None:
    ledger = ledger_of([pod("low", 3000, uid="low", node="n0", devices={"qpu": 1})])
    index = EligibilityIndex()
    for number in range(3):
        index.put(node(f"n{number}"))
    planner = planner_for(ledger, index)
    before, version = shown(ledger.room(), ledger), ledger.version
    wide = [Demand(pod("a", 4000, uid="a", devices={"qpu": 2})), Demand(pod("b", 4000, uid="b"))]
    room = ledger.room().open_to("wide")
    assert planner.find(room, wide) is None
    assert planner.find(room.without({"low"}), wide) is not None
    assert (shown(ledger.room(), ledger), ledger.version) == (before, version)


def test_hold_keeps_amounts_devices_and_nodes() -> None:
    ledger = ledger_of([])
    room = ledger.room()
    size = room.free.row_of(asks(1500))
    fez = next(device for device in room.devices.catalogue.devices if device.leaf)
    hold = Hold(["n1", "gone"], np.array([size, size]), room.free.columns, (fez.share(1),), frozenset({"n2"}))
    left = room.less(hold)
    assert left.free.of_node("n1")["cpu"] == 2500
    assert left.free.of_node("n0") == room.free.of_node("n0")
    assert left.devices.free(fez) == room.devices.free(fez) - 1
    assert left.usable({"n0", "n1", "n2"}) == {"n0", "n1"}
    assert room.usable({"n0", "n1", "n2"}) == {"n0", "n1", "n2"}


def test_held_nodes_are_open_to_their_holder_and_to_who_may_pass() -> None:
    ledger = ledger_of([])
    ledger.held_nodes.hold(HoldKind.PREEMPTION, "first", {"n0"})
    ledger.held_nodes.hold(HoldKind.NEW_NODES, "second", {"n1"})
    everywhere = {"n0", "n1", "n2"}
    room = ledger.room()
    assert room.open_to("other").usable(everywhere) == {"n2"}
    assert room.open_to("first").usable(everywhere) == {"n0", "n2"}
    assert room.open_to("other", {"first"}).usable(everywhere) == {"n0", "n2"}
    assert room.open_to("second").within({"n1"}).usable(everywhere) == {"n1"}
    ledger.held_nodes.hold(HoldKind.PREEMPTION, "first", ())
    assert ledger.held_nodes.all_nodes() == {"n1"}


def test_rooms_that_differ_in_pods_follow_the_ledger() -> None:
    ledger = ledger_of([])
    shy, new = pod("shy", labels={"app": "shy"}), pod("new", uid="new", apart=APART)
    taken = ledger.room().take([(new, Assignment("new", "n1"))])
    assert taken.kept_from(shy) == {"n1"}
    ledger.adopt(pod("old", uid="old", node="n0", apart=APART), "old", Firmness.BOUND)
    taken = ledger.room().take([(new, Assignment("new", "n1"))])
    assert taken.kept_from(shy) == {"n0", "n1"}
    assert ledger.room().without({"old"}).kept_from(shy) == set()
