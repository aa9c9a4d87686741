"""The devices of pods: which pod holds which device, when a stamp counts, and what a new resources.yaml changes."""

from __future__ import annotations

import dataclasses

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.names import ALLOCATION_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.room.devices import serve, shares_of
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.ledger import Ledger
from tests.core.values import asks, node, pod
from tests.unit.room.conftest import MakeLedger

POOL = "resources: [{{type: simulator, name: sv1, count: {count}}}]"
PAIR = "resources: [{type: simulator, name: a, count: 2}, {type: simulator, name: b, count: 2}]"


def simulate(ledger: Ledger, amount: int, name: str = "p") -> Pod:
    one = pod(name, 100, devices={"simulator": amount})
    served = serve(one, ledger.room().devices.copy(), {"n0"})
    assert not isinstance(served, str)
    ledger.take_all([(one, Assignment(one.uid, "n0", shares_of(served)))], "g")
    return one


def free(ledger: Ledger, most: int) -> int:
    """Return how many units of simulators one request can get."""
    for amount in range(most, 0, -1):
        if not isinstance(
            serve(pod("probe", devices={"simulator": amount}), ledger.room().devices.copy(), {"n0"}), str
        ):
            return amount
    return 0


def test_devices_stay_held_when_the_resources_are_replaced(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=POOL.format(count=3))
    held = simulate(ledger, 2)
    ledger.load([node("n0")], parse_resources(POOL.format(count=4)))
    assert free(ledger, 4) == 2
    ledger.release(held.uid)
    assert free(ledger, 4) == 4


def test_removed_device_is_held_to_the_end_and_gets_no_new_pod(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=PAIR)
    held = simulate(ledger, 2)
    assert ledger.holdings[held.uid].assignment.backend == "a"
    ledger.load([node("n0")], parse_resources("resources: [{type: simulator, name: b, count: 2}]"))
    assert ledger.holdings[held.uid].assignment.backend == "a"
    assert free(ledger, 4) == 2
    ledger.load([node("n0")], parse_resources(PAIR))
    assert free(ledger, 4) == 2
    ledger.release(held.uid)
    simulate(ledger, 2)
    assert free(ledger, 4) == 2


def test_pool_smaller_than_its_allocations_grants_nothing_until_enough_is_free(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=POOL.format(count=4))
    first, second = simulate(ledger, 2, "first"), simulate(ledger, 2, "second")
    ledger.load([node("n0")], parse_resources(POOL.format(count=3)))
    assert free(ledger, 3) == 0
    ledger.release(first.uid)
    assert free(ledger, 3) == 1
    ledger.release(second.uid)
    assert free(ledger, 3) == 3


def stamped(path: str, kind: str = "simulator", amount: int = 2, uid: str | None = None) -> Pod:
    stamp = f'{{"devices":[{{"path":"{path}","type":"{kind}","amount":{amount}}}]}}'
    return pod(uid=uid, devices={"simulator": 2}, node="n0", annotations={ALLOCATION_ANNOTATION: stamp})


def test_bound_pod_gets_the_device_that_its_stamp_names(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=PAIR)
    assert ledger.adopt(stamped("/cluster/b"), "g", Firmness.BOUND).backend == "b"


@pytest.mark.parametrize(
    "stamp",
    [
        stamped("/cluster/none"),
        stamped("/cluster/b", "laser"),
        stamped("/cluster/b", "simulator", -1),
        stamped('"]}'),
    ],
    ids=["no such path", "another type", "an amount below nought", "no document"],
)
def test_stamp_that_does_not_fit_is_not_believed(make: MakeLedger, stamp: Pod) -> None:
    ledger = make(node("n0"), resources=PAIR)
    assert ledger.adopt(stamp, "g", Firmness.BOUND).backend == "a"


def test_stamp_gives_no_more_than_was_asked_for(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=PAIR)
    ledger.adopt(stamped("/cluster/b", amount=2_000), "g", Firmness.BOUND)
    assert free(ledger, 2) == 2
    held = next(iter(ledger.holdings.values()))
    assert [share.amount for share in held.assignment.devices] == [2]


def test_second_stamp_for_one_device_gets_another_or_none(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=PAIR)
    backends = [ledger.adopt(stamped("/cluster/b", uid=uid), "g", Firmness.BOUND).backend for uid in "xyz"]
    assert backends == ["b", "a", ""]


def test_bound_pods_devices_are_not_taken_from_another_node(make: MakeLedger) -> None:
    local = "resources: [{type: simulator, name: s1, parent: n1, count: 2}, {type: simulator, name: s2, count: 2}]"
    ledger = make(node("n0"), node("n1"), resources=local)
    assert ledger.adopt(stamped("/cluster/n1/s1"), "g", Firmness.BOUND).backend == "s2"


def test_steered_pod_resumes_with_a_device_of_its_node(make: MakeLedger) -> None:
    local = """
resources:
  - {type: simulator, name: s0, parent: n0, count: 1}
  - {type: simulator, name: s1, parent: n1, count: 1}
"""
    ledger = make(node("n0"), node("n1"), resources=local)
    resumed = ledger.restore(pod(devices={"simulator": 1}, nominated="n1"), "g")
    assert resumed is not None
    assert resumed.backend == "s1"


def test_node_with_devices_is_resized_with_the_devices_held(make: MakeLedger) -> None:
    local = "resources: [{type: simulator, name: s0, parent: n0, count: 2}]"
    ledger = make(node("n0"), node("n1"), resources=local)
    held = simulate(ledger, 1)
    ledger.put_node(node("n0", 8000))
    assert free(ledger, 2) == 1
    ledger.drop_node("n0")
    assert free(ledger, 2) == 0
    ledger.put_node(node("n0"))
    assert free(ledger, 2) == 1
    ledger.release(held.uid)
    assert free(ledger, 2) == 2


def test_resized_pod_keeps_its_devices(make: MakeLedger) -> None:
    ledger = make(node("n0"), resources=PAIR)
    one = pod("a", 1000, node="n0", devices={"simulator": 2})
    held = ledger.adopt(one, "g", Firmness.BOUND)
    ledger.amend(dataclasses.replace(one, requests=asks(2000, 1)))
    assert ledger.holdings[one.uid].assignment == held
    assert free(ledger, 4) == 2
