"""Virtual devices in the state API, and that the matcher agrees on what is free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.api.nodes import Backend
from fluence_extender.cluster.port import ResourcesFile, Watched
from tests.core.state_api import every
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

DEVICES = ResourcesFile(
    "test",
    """
resources:
  - type: qdevice
    name: fez
    attributes: {vendor: ibm}
    with:
      - {type: qpu, count: 2, with: [{type: qubit, count: 5}]}
  - {type: licence, name: pool, count: 3}
  - {type: qpu, name: lab, parent: n1, attributes: {vendor: lab}}
""",
)


def shown(w: World) -> dict[str, Backend]:
    return {one.path: one for one in every(w.state.backends())}


def counts(w: World) -> dict[str, tuple[int, int, int]]:
    """Return total, held and free by name, as shown; check that the matcher would allocate what is free."""
    found = shown(w)
    devices = {device.path: device for device in w.ledger.graph.catalogue.devices}
    for path, view in found.items():
        if path in devices:
            assert view.free == obtainable(w, path), path
            assert view.held == view.total - view.free
    return {view.name: (view.total, view.held, view.free) for view in found.values()}


def obtainable(w: World, path: str) -> int:
    """Return how many units of one device a pod could get."""
    device = next(one for one in w.ledger.graph.catalogue.devices if one.path == path)
    return w.ledger.room().devices.free(device)


def test_every_device_is_shown_with_its_attributes_and_parents(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), DEVICES)
    found = shown(w)
    assert {view.backend for view in found.values()} == {"fez", "pool", "lab"}
    kinds = sorted((view.backend, view.type, view.node, view.total) for view in found.values())
    assert kinds == [
        ("fez", "qdevice", "", 1),
        ("fez", "qpu", "", 1),
        ("fez", "qpu", "", 1),
        ("fez", "qubit", "", 5),
        ("fez", "qubit", "", 5),
        ("lab", "qpu", "n1", 1),
        ("pool", "licence", "", 3),
    ]
    assert all(view.attributes == {"vendor": "ibm"} for view in found.values() if view.backend == "fez")
    assert all((view.held, view.usable, view.problems) == (0, True, ()) for view in found.values())
    assert all(total == free for total, _, free in counts(w).values())


@pytest.mark.parametrize(
    ("requested", "free"),
    [
        ({"licence": 2}, {"pool": 1}),
        ({"qubit": 3}, {"fez": 0}),
        ({"qpu": 1}, {"fez": 0}),
        ({"qdevice": 1}, {"fez": 0}),
    ],
)
def test_an_allocated_device_is_held_with_its_parts_and_its_whole(
    requested: dict[str, int], free: dict[str, int], world: MakeWorld
) -> None:
    w = world(node("n0"), node("n1"), DEVICES)
    requires = {} if "licence" in requested else {"fluence.flux-framework.org/require-backend": "fez"}
    w.pod("p", requests=asks(100, 1), devices=requested, annotations=requires)
    w.advance(3)
    now = counts(w)
    assert {name: now[name][2] for name in free} == free
    units = sum(view.free for view in shown(w).values() if view.type == "qubit")
    assert units == {"licence": 10, "qubit": 7, "qpu": 5, "qdevice": 0}[next(iter(requested))]


def test_holders_are_named_with_what_they_hold(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), DEVICES)
    pod = w.pod("p", requests=asks(100, 1), devices={"licence": 2})
    w.advance(3)
    (pool,) = [view for view in shown(w).values() if view.name == "pool"]
    (holder,) = pool.holders
    assert (holder.namespace, holder.pod, holder.uid, holder.gang) == ("default", "p", pod.uid, "p")
    assert (holder.amount, holder.path, holder.claim) == (2, pool.path, "bound")
    assert (pool.total, pool.held, pool.free) == (3, 2, 1)


def test_a_device_on_a_closed_node_has_a_problem(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), DEVICES)
    w.change(node("n1"), unschedulable=True)
    (lab,) = [view for view in shown(w).values() if view.backend == "lab"]
    assert (lab.usable, lab.problems) == (False, ("its node n1: cordoned",))


def test_a_device_without_its_node_is_shown_as_unusable(world: MakeWorld) -> None:
    w = world(node("n0"), DEVICES)
    (lab,) = [view for view in shown(w).values() if view.backend == "lab"]
    assert (lab.usable, lab.total, lab.node, lab.attributes) == (False, 0, "n1", {"vendor": "lab"})
    assert lab.problems == ('resource "qpu" references unknown parent vertex "n1"',)
    w.cluster.put(node("n1"))
    (lab,) = [view for view in shown(w).values() if view.backend == "lab"]
    assert (lab.usable, lab.total) == (True, 1)


def test_a_device_that_was_removed_while_held_is_shown_until_it_is_released(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), DEVICES)
    pod = w.pod("p", requests=asks(100, 1), devices={"licence": 2})
    w.advance(3)
    w.cluster.put(replace(DEVICES, text=""))
    w.advance(1)
    (pool,) = shown(w).values()
    assert (pool.name, pool.usable, pool.held, pool.free) == ("pool", False, 2, 0)
    assert pool.problems == (
        "no longer in resources.yaml: pods that hold it may finish, no other pod gets it",
    )
    assert [holder.pod for holder in pool.holders] == ["p"]
    w.change(pod, phase="Succeeded")
    w.advance(1)
    assert shown(w) == {}


@pytest.mark.parametrize("devices_first", [True, False])
def test_devices_and_nodes_count_the_same_whichever_came_first(devices_first: bool, world: MakeWorld) -> None:
    w = world()
    comers: list[Watched] = [
        replace(DEVICES, text="resources: [{type: licence, name: one}, {type: seat, name: pool, count: 3}]"),
        node("n0"),
    ]
    for comer in comers if devices_first else reversed(comers):
        w.cluster.put(comer)
        w.advance(1)
    for number in range(2):
        w.pod(f"p{number}", requests=asks(1500, 1), devices={"seat": 1})
    w.advance(3)
    assert counts(w) == {"one": (1, 0, 1), "pool": (3, 2, 1)}
    (shown_node,) = every(w.state.nodes())
    assert shown_node.held["cpu"] == 3.0
