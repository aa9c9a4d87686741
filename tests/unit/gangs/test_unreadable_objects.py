"""An object that can't be read in full keeps its own gang, or its own node, from being used, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.gang import GangState
from fluence_extender.model.node import Node
from fluence_extender.model.quantity import LARGEST
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from tests.core.values import asks, node
from tests.unit.gangs.conftest import MakeWorld, gang

PROBLEM = "Expected `int`, got `str` - at `$.spec`"


def test_node_that_cannot_be_read_takes_no_pods_until_it_can(world: MakeWorld) -> None:
    readable = node("n0")
    w = world(replace(readable, problem=PROBLEM))
    (one,) = gang(w, "g", 1000)
    w.advance(3)
    reason = w.gang("g").reason
    assert reason is not None
    assert "can't be read" in reason.text
    assert PROBLEM not in reason.text
    w.change(readable, problem="")
    w.advance(10)
    assert w.nodes_of(one) == ["n0"]


def test_pods_that_run_on_a_node_that_cannot_be_read_stay_and_count(world: MakeWorld) -> None:
    first = node("n0")
    w = world(first, node("n1"))
    gang(w, "running", 1000)
    w.advance(5)
    w.change(first, problem=PROBLEM)
    (other,) = gang(w, "g", 1000)
    w.advance(5)
    assert w.gang("running").state is GangState.BOUND
    assert w.ledger.accounts["n0"].free["cpu"] == first.allocatable["cpu"] - 1000
    assert w.nodes_of(other) == ["n1"]


def test_gang_whose_workload_cannot_be_read_waits_with_the_problem(world: MakeWorld) -> None:
    group = PodGroup("default", "pg", "uid", 1, problem=PROBLEM)
    w = world(node("n0"), group)
    pods = [w.pod(f"p{number}", group="pg", requests=asks(500)) for number in range(2)]
    (other,) = gang(w, "g", 1000)
    w.advance(5)
    reason = w.gang("pg").reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        ReasonCode.INVALID_REQUEST,
        f"PodGroup default/pg can't be read: {PROBLEM}",
    )
    assert w.nodes_of(*pods, other) == ["", "", "n0"]
    w.cluster.put(replace(group, min_count=2, problem=""))
    w.advance(5)
    assert w.nodes_of(*pods) == ["n0", "n0"]


@pytest.mark.parametrize("amount", [LARGEST, 1000 * LARGEST, 2**61, 2**61 - 1])
def test_absurd_amounts_of_one_node_and_pod_keep_no_other_from_its_place(
    world: MakeWorld, amount: int
) -> None:
    huge = Resources(
        {**asks(64_000, 64), **dict.fromkeys(("pods", "ephemeral-storage", "hugepages-2Mi"), amount)}
    )
    w = world(*(Node(f"huge-{number}", f"h{number}", allocatable=huge) for number in range(9)), node("n0"))
    w.pod("demanding", requests=huge)
    for number in range(3):
        w.foreign("huge-0", f"greedy-{number}", requests=huge)
    small = gang(w, "g", 1000, 1000)
    w.advance(10)
    assert all(w.nodes_of(*small))
