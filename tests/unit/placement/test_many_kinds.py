"""A gang of thousands of different pods, placed or refused, costs in proportion to its pods and to the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement import packing, search
from fluence_extender.placement.reasons import ShapeNodes, never_a_place, no_place_now
from fluence_extender.placement.search import BUDGET, FIRST_FIT_WORK, Shape, place, work
from fluence_extender.placement.shortage import TRIED_WORK
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from tests.core.growth import assert_linear

NODES = 64
CPU = 100_000


def cluster(nodes: int = NODES, cpu: int = CPU) -> CapacityTable:
    free = NodeCapacity(Resources({"cpu": cpu, "memory": cpu, "pods": 110}))
    return CapacityTable.of({f"n{number:04}": free for number in range(nodes)})


def kinds(count: int, nodes: int = NODES, least: int = CPU // 2) -> list[Shape]:
    """``count`` members, all different. With the default ``least`` a node has room for one of them."""
    names = tuple(f"n{number:04}" for number in range(nodes))
    return [
        Shape(Resources({"cpu": least + 1 + number, "memory": count - number, "pods": 1}), 1, names)
        for number in range(count)
    ]


def shape_nodes(shapes: list[Shape]) -> list[ShapeNodes]:
    return [ShapeNodes(shape, shape.nodes) for shape in shapes]


def explained(shapes: list[ShapeNodes]) -> None:
    table = cluster()
    never_a_place(shapes, table)
    no_place_now(shapes, table)


def test_reason_of_a_gang_of_many_kinds_takes_linear_time() -> None:
    assert_linear(explained, lambda count: shape_nodes(kinds(count)))


def test_pod_that_requests_many_resources_is_told_which_are_short() -> None:
    requests = Resources({f"r{number:02}": 1 for number in range(100)})
    found = no_place_now(shape_nodes([Shape(requests, 1, ("n0000",))]), cluster(1))
    assert found.code is ReasonCode.BUSY
    assert "r00" in found.text


def test_search_for_a_gang_of_many_kinds_takes_linear_time() -> None:
    table = cluster()
    assert_linear(lambda shapes: place(shapes, table), kinds)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often shapes were filled in, and compared with a node by the exact search."""
    calls: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        method: Callable[..., object] = getattr(owner, name)

        def called(*given: object) -> object:
            calls[name] += 1
            return method(*given)

        monkeypatch.setattr(owner, name, called)

    counting(search._Filling, "fill")
    counting(packing._Packing, "_fitting")
    return calls


@pytest.mark.parametrize("count", [640, 5000])
def test_refused_gang_of_many_kinds_is_filled_in_a_few_times(count: int, counted: Counter[str]) -> None:
    shapes, table = kinds(count, 1000), cluster(1000)
    assert place(shapes[:1001], table) is None or count < 1000
    reason = never_a_place(shape_nodes(shapes), table)
    no_place_now(shape_nodes(shapes), table)
    assert (reason is None) == (count < 1000)
    most = 3 * (FIRST_FIT_WORK + TRIED_WORK) // work(shapes) + 4
    assert counted["fill"] <= most * count
    assert counted["_fitting"] <= 3 * 20 * BUDGET


def test_reason_that_was_cut_short_says_so() -> None:
    few = never_a_place(shape_nodes(kinds(NODES + 1, least=CPU - 200)), cluster())
    many = never_a_place(shape_nodes(kinds(5000)), cluster())
    assert few is not None
    assert many is not None
    assert few.code is many.code is ReasonCode.UNSATISFIABLE
    assert few.text.startswith("unsatisfiable: 64 of 65 members would fit if nothing else ran, short of cpu")
    assert many.text.startswith("unsatisfiable: at least 64 of 5000 members would fit if nothing else ran")


def test_exact_search_over_many_shapes_spends_its_budget_in_fewer_ways(counted: Counter[str]) -> None:
    # All amounts are even, and each of the two nodes would have to be filled with an odd one.
    names = ("n0000", "n0001")
    amounts = [2 * number for number in range(100, 500)]
    shapes = [Shape(Resources({"cpu": amount}), 1, names) for amount in amounts]
    half = sum(amounts) // 2
    shapes.append(Shape(Resources({"cpu": 2 if half % 2 == 0 else 4}), 1, names))
    total = sum(shape.requests["cpu"] for shape in shapes)
    assert total // 2 % 2 == 1
    assert place(shapes, cluster(2, total // 2)) is None
    assert 0 < counted["_fitting"] <= 20 * BUDGET
