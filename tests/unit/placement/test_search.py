"""Mixed gangs on exact amounts: what brute force can place is placed, and no node is overcommitted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.pod import HostPort
from fluence_extender.model.resources import Resources
from fluence_extender.placement.search import Counts, Shape, capacity, lacks_room, place
from fluence_extender.placement.shortage import largest_part, part_that_fits
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from fluence_extender.room.holdings import ports_clash

NAMES = ("n0", "n1", "n2")
PORT = (HostPort(80),)
OTHER_PORT = (HostPort(81),)
ALL_PORTS = ((), (), PORT, OTHER_PORT)


def vector(cpu: int, memory: int) -> Resources:
    return Resources({"cpu": cpu, "memory": memory, "pods": 1})


def fits(placed: Mapping[str, list[Shape]], table: Mapping[str, NodeCapacity]) -> bool:
    for name, members in placed.items():
        if not Resources.total(shape.requests for shape in members).fits(table[name].free):
            return False
        taken = table[name].ports
        for shape in members:
            if ports_clash(shape.ports, taken):
                return False
            taken += shape.ports
    return True


def by_force(shapes: list[Shape], table: Mapping[str, NodeCapacity]) -> bool:
    members = [shape for shape in shapes for _ in range(shape.count)]
    for nodes in itertools.product(*(shape.nodes for shape in members)):
        placed: dict[str, list[Shape]] = {}
        for name, shape in zip(nodes, members, strict=True):
            placed.setdefault(name, []).append(shape)
        if fits(placed, table):
            return True
    return False


def members_by_node(shapes: list[Shape], counts: Counts) -> dict[str, list[Shape]]:
    placed: dict[str, list[Shape]] = {}
    for shape, where in zip(shapes, counts, strict=True):
        assert sum(where.values()) == shape.count
        assert set(where) <= set(shape.nodes)
        for name, count in where.items():
            placed.setdefault(name, []).extend([shape] * count)
    return placed


shapes = st.lists(
    st.builds(
        Shape,
        st.builds(vector, st.integers(0, 4), st.integers(0, 4)),
        st.integers(1, 2),
        st.sets(st.sampled_from(NAMES), min_size=1).map(lambda names: tuple(sorted(names))),
        st.sampled_from(ALL_PORTS),
    ),
    min_size=1,
    max_size=3,
)
table = st.fixed_dictionaries(
    {
        name: st.builds(
            NodeCapacity,
            st.builds(
                lambda cpu, memory, pods: Resources({"cpu": cpu, "memory": memory, "pods": pods}),
                st.integers(-1, 6),
                st.integers(0, 6),
                st.integers(0, 3),
            ),
            st.sampled_from(((), (), PORT)),
        )
        for name in NAMES
    }
)


@given(shapes, table)
def test_what_brute_force_places_is_placed_and_no_node_is_overfull(
    wanted: list[Shape], have: dict[str, NodeCapacity]
) -> None:
    capacity = CapacityTable.of(have)
    before = capacity.copy()
    found = place(wanted, capacity)
    assert all(capacity.of_node(name).items() >= before.of_node(name).items() for name in have)
    assert (found is not None) == by_force(wanted, have)
    if found is not None:
        assert fits(members_by_node(wanted, found), have)


@given(shapes, table)
def test_largest_part_fits_and_excludes_no_member_that_would_also_fit(
    wanted: list[Shape], have: dict[str, NodeCapacity]
) -> None:
    part = largest_part(wanted, CapacityTable.of(have))
    selected = [replace(shape, count=count) for shape, count in zip(wanted, part.counts, strict=True)]
    assert by_force([shape for shape in selected if shape.count], have)
    assert part.members >= part_that_fits(wanted, CapacityTable.of(have)).members
    for index, shape in enumerate(wanted):
        if part.counts[index] < shape.count:
            more = [replace(one, count=one.count + (at == index)) for at, one in enumerate(selected)]
            assert not by_force([one for one in more if one.count], have)
            assert part.short_of or shape.exclusive


def test_pair_for_which_greedy_placements_leave_no_place_is_placed() -> None:
    table = CapacityTable.of({"n0": NodeCapacity(vector(3, 3)), "n1": NodeCapacity(vector(1, 1))})
    small = Shape(vector(1, 1), 1, NAMES[:2])
    large = Shape(vector(3, 3), 1, NAMES[:2])
    assert place([small, large], table) == [{"n1": 1}, {"n0": 1}]


def test_members_with_the_same_host_port_go_to_different_nodes() -> None:
    table = CapacityTable.of(
        {name: NodeCapacity(Resources({"cpu": 9, "memory": 9, "pods": 9})) for name in NAMES}
    )
    assert place([Shape(vector(1, 1), 3, NAMES, PORT)], table) == [{"n0": 1, "n1": 1, "n2": 1}]
    assert place([Shape(vector(1, 1), 4, NAMES, PORT)], table) is None


def test_host_port_in_use_excludes_members() -> None:
    free = Resources({"cpu": 9, "memory": 9, "pods": 9})
    taken = NodeCapacity(free, (HostPort(80, "TCP", "10.0.0.1"),))
    table = CapacityTable.of({"n0": taken, "n1": NodeCapacity(free)})
    assert place([Shape(vector(1, 1), 1, NAMES[:2], PORT)], table) == [{"n1": 1}]
    udp = Shape(vector(1, 1), 1, NAMES[:2], (HostPort(80, "UDP"),))
    assert place([udp], table) == [{"n0": 1}]


def test_nodes_are_filled_in_the_order_given() -> None:
    table = CapacityTable.of(
        {name: NodeCapacity(Resources({"cpu": 4, "memory": 4, "pods": 4})) for name in NAMES}
    )
    assert place([Shape(vector(2, 1), 3, ("n2", "n0", "n1"))], table) == [{"n2": 2, "n0": 1}]


def many(count: int) -> Iterator[str]:
    return (f"n{number:05}" for number in range(count))


def test_gang_with_more_members_than_python_has_frames() -> None:
    names = tuple(many(3000))
    table = CapacityTable.of(
        {name: NodeCapacity(Resources({"cpu": 3, "memory": 3, "pods": 2})) for name in names}
    )
    # Each node takes one member of either shape, and there is one large member too many.
    pair = [Shape(vector(2, 1), 2999, names), Shape(vector(1, 2), 3002, names)]
    assert place(pair, table, budget=20_000) is None


def test_search_finds_within_its_budget_what_first_fit_does_not() -> None:
    free = map(NodeCapacity, map(rich, (7, 6, 4), (4, 6, 7)))
    table = CapacityTable.of(dict(zip(NAMES, free, strict=True)))
    wanted = [Shape(vector(1, 4), 2, NAMES), Shape(vector(2, 3), 1, NAMES), Shape(vector(4, 4), 1, NAMES)]
    assert place(wanted, table, budget=0) is None
    assert place(wanted, table) == [{"n0": 1, "n2": 1}, {"n2": 1}, {"n1": 1}]


def rich(cpu: int, memory: int) -> Resources:
    return Resources({"cpu": cpu, "memory": memory, "pods": 3})


def test_more_pods_than_can_be_counted_are_as_many_as_fit() -> None:
    table = CapacityTable.of(
        {name: NodeCapacity(vector(cpu, 8)) for name, cpu in zip(NAMES, (8, 1), strict=False)}
    )
    for ports in ((), PORT):
        shape = Shape(Resources({"cpu": 2}), 2**126, NAMES[:2], ports)
        assert capacity(shape, table).tolist() == ([1, 0] if ports else [4, 0])
        assert lacks_room(shape, table)
