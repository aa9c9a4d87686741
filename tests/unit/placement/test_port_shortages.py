"""The work to name the host ports that a gang is short of is bounded, whatever its members ask for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.placement import shortage
from fluence_extender.placement.search import Shape
from fluence_extender.placement.shortage import PORT_WORK, part_that_fits
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from fluence_extender.room.holdings import PortIndex


class CountedIndex(PortIndex):
    """An index of host ports that counts how many exist, and how many ports are put into them or looked up."""

    made = 0
    ports = 0

    def __init__(self, held: Iterable[tuple[int, Iterable[HostPort]]]) -> None:
        pairs = [(holder, list(ports)) for holder, ports in held]
        CountedIndex.made += 1
        CountedIndex.ports += sum(len(ports) for _, ports in pairs)
        super().__init__(pairs)

    def clashing(self, wanted: Iterable[HostPort]) -> set[int]:
        ports = list(wanted)
        CountedIndex.ports += len(ports)
        return super().clashing(ports)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedIndex]:
    monkeypatch.setattr(CountedIndex, "made", 0)
    monkeypatch.setattr(CountedIndex, "ports", 0)
    monkeypatch.setattr(shortage, "PortIndex", CountedIndex)
    return CountedIndex


def cluster(nodes: int, ports: tuple[HostPort, ...] = ()) -> CapacityTable:
    free = NodeCapacity(Resources({"cpu": 100_000, "pods": 110}), ports)
    return CapacityTable.of({f"n{number}": free for number in range(nodes)})


def overlapping(members: int, ports: int, nodes: int) -> list[Shape]:
    """Return members of which each wants other host ports, and some that many others want."""
    names = tuple(f"n{number}" for number in range(nodes))
    return [
        Shape(
            Resources({"cpu": 1, "pods": 1}),
            1,
            names,
            tuple(HostPort(1 + member + 7 * port) for port in range(ports)),
        )
        for member in range(members)
    ]


def test_ports_in_use_on_a_node_are_indexed_once_for_all_members(counted: type[CountedIndex]) -> None:
    part = part_that_fits(overlapping(40, 8, nodes=3), cluster(3))
    assert part.members < 40
    assert part.short_of
    assert counted.made == 3


def test_host_ports_of_many_members_and_nodes_are_looked_at_within_a_bound(
    counted: type[CountedIndex],
) -> None:
    part = part_that_fits(overlapping(200, 256, nodes=50), cluster(50))
    assert part.short_of
    assert all(name.startswith("host port ") for name in part.short_of)
    assert counted.ports <= PORT_WORK


def test_node_without_host_ports_in_use_gives_the_shortage_beyond_the_bound(
    counted: type[CountedIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortage, "PORT_WORK", 0)
    full = CapacityTable.of(
        {
            "n0": NodeCapacity(Resources({"cpu": 1000, "pods": 9}), (HostPort(1),)),
            "n1": NodeCapacity(Resources({"cpu": 0, "pods": 0})),
        }
    )
    assert part_that_fits(overlapping(1, 1, nodes=2), full).short_of == ("cpu", "pods")
    assert counted.made == 0
