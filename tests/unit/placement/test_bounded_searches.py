"""One attempt at a gang that is hard to place looks at a limited number of ways and host ports."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement import packing, search
from fluence_extender.placement.demand import MOST_PORTS, unplannable
from fluence_extender.placement.reasons import ShapeNodes, never_a_place, no_place_now
from fluence_extender.placement.search import Shape, homeless, place
from fluence_extender.room import capacity
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from fluence_extender.room.holdings import PortIndex

PUTS = 30_000
"""How often a kind of member is put on a node for one attempt and its reason. It takes a tenth of a second."""


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often a kind of member is put on a node, and the host ports that are indexed or looked up."""
    found: Counter[str] = Counter()
    put = packing._Packing._put

    def counted(*given: Any) -> None:
        found["puts"] += 1
        put(*given)

    class CountedIndex(PortIndex):
        def __init__(self, held: Iterable[tuple[int, Iterable[HostPort]]]) -> None:
            pairs = [(holder, list(ports)) for holder, ports in held]
            found["ports"] += sum(len(ports) for _, ports in pairs)
            super().__init__(pairs)

        def clashing(self, wanted: Iterable[HostPort]) -> set[int]:
            ports = list(wanted)
            found["ports"] += len(ports)
            return super().clashing(ports)

    monkeypatch.setattr(packing._Packing, "_put", counted)
    monkeypatch.setattr(search, "PortIndex", CountedIndex)
    monkeypatch.setattr(capacity, "PortIndex", CountedIndex)
    search._clashes.cache_clear()
    return found


def tight(nodes: int, members: int, seed: int) -> tuple[list[Shape], CapacityTable]:
    """Return members that together need nearly all of the cpu of the nodes."""
    random_numbers = random.Random(seed)
    cpu = [10_000 + 13 * number for number in range(nodes)]
    table = CapacityTable.of(
        {f"n{number}": NodeCapacity(Resources({"cpu": one, "pods": 110})) for number, one in enumerate(cpu)}
    )
    sizes = [random_numbers.randrange(2000, 6000) for _ in range(members)]
    factor = sum(cpu) / sum(sizes)
    names = tuple(table.rows)
    return [
        Shape(Resources({"cpu": min(int(size * factor), 9900), "pods": 1}), 1, names) for size in sizes
    ], table


@pytest.mark.parametrize(("nodes", "members"), [(10, 20), (10, 40), (50, 60), (20, 100)])
def test_attempt_and_its_reason_try_a_limited_number_of_ways(
    nodes: int, members: int, looked: Counter[str]
) -> None:
    most = 0
    for seed in range(5):
        looked.clear()
        shapes, table = tight(nodes, members, seed)
        if place(shapes, table) is None:
            given = [ShapeNodes(shape, shape.nodes) for shape in shapes]
            if never_a_place(given, table) is None:
                no_place_now(given, table)
        most = max(most, looked["puts"])
    assert 0 < most <= PUTS


def with_ports(members: int, ports: int, nodes: int = 50) -> list[Shape]:
    """Return members of which each wants host ports that some others want, too."""
    names = tuple(f"n{number}" for number in range(nodes))
    wanted = (tuple(HostPort(1 + number + 7 * at) for at in range(ports)) for number in range(members))
    return [Shape(Resources({"cpu": 1, "pods": 1}), 1, names, some) for some in wanted]


def cluster(ports: tuple[HostPort, ...] = (), nodes: int = 50) -> CapacityTable:
    free = NodeCapacity(Resources({"cpu": 1000, "pods": 110}), ports)
    return CapacityTable.of({f"n{number}": free for number in range(nodes)})


def test_host_ports_of_a_gang_are_compared_with_each_other_once(looked: Counter[str]) -> None:
    shapes, table = with_ports(200, 100), cluster()
    for _ in range(3):
        place(shapes, table)
        assert not list(homeless(shapes, table))
    assert looked["ports"] <= 200 * 100 * (2 + 6)


def test_host_ports_in_use_are_indexed_once_until_they_change(looked: Counter[str]) -> None:
    used = tuple(HostPort(port) for port in range(30_000, 31_000))
    shapes, table = with_ports(1, 1), cluster(used)
    for _ in range(10):
        assert place(shapes, table) is not None
    assert looked["ports"] <= 50 * 1000 + 100
    table = table.changed([("n0", Resources({"cpu": 1}), (HostPort(1),))], ())
    assert place(shapes, table) == [{"n1": 1}]


def test_node_with_more_host_ports_in_use_than_are_indexed_takes_no_pod_with_host_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "PORTS_INDEXED", 3)
    free = Resources({"cpu": 1000, "pods": 9})
    table = CapacityTable.of(
        {
            "n0": NodeCapacity(free, (HostPort(5), HostPort(6), HostPort(7))),
            "n1": NodeCapacity(free, (HostPort(8), HostPort(9))),
        }
    )
    names = "n0", "n1"
    assert place([Shape(Resources({"pods": 1}), 1, names, (HostPort(1),))], table) == [{"n1": 1}]
    assert place([Shape(Resources({"pods": 1}), 1, names)], table) == [{"n0": 1}]


def test_gang_with_more_host_ports_than_can_be_compared_is_told_so() -> None:
    ports = tuple(HostPort(1 + port) for port in range(256))
    some = [
        Pod("physics", f"p{number}", f"u{number}", host_ports=ports) for number in range(MOST_PORTS // 256)
    ]
    assert unplannable(some) is None
    reason = unplannable([*some, *some])
    assert reason is not None
    assert reason.code is ReasonCode.INVALID_REQUEST
    assert "host ports" in reason.text
