"""Random clusters in racks and zones: the required level holds, best-fit is the best fit, ranks follow the racks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    TOPOLOGY_PREFERRED_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from tests.core.engine import EMBEDDED
from tests.core.planning import LedgerPlanner
from tests.core.values import node, pod

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
LEVELS = {"zone": ZONE, "rack": RACK}
Place = tuple[str, str]

places = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(("1", "2", "3", "")), st.integers(0, 4)),
    min_size=1,
    max_size=12,
)


def made(shape: list[tuple[str, str, int]]) -> list[Node]:
    return [
        node(f"n{number}", cores * 1000, labels={ZONE: zone, **({RACK: rack} if rack else {})})
        for number, (zone, rack, cores) in enumerate(shape)
    ]


def planner(nodes: list[Node]) -> LedgerPlanner:
    ledger, index = EMBEDDED.ledger(levels=LEVELS), EligibilityIndex()
    for one in nodes:
        index.put(one)
    ledger.load(nodes)
    return LedgerPlanner(ledger, index)


def members(sizes: list[int], notes: dict[str, str]) -> list[Pod]:
    return [
        pod(f"p{rank}", cores * 1000, 0, annotations={**notes, COMPLETION_INDEX: str(rank)})
        for rank, cores in enumerate(sizes)
    ]


def rack_of(nodes: list[Node]) -> dict[str, Place]:
    return {one.name: (one.labels[ZONE], one.labels.get(RACK, "")) for one in nodes}


def capacity(nodes: list[Node], each: int) -> Counter[Place]:
    """Return how many members of ``each`` cores every rack takes, without full racks and nodes in no rack."""
    found: Counter[Place] = Counter()
    for one in nodes:
        if RACK in one.labels:
            found[rack_of(nodes)[one.name]] += one.allocatable["cpu"] // 1000 // each
    return +found


@given(places, st.integers(1, 6), st.integers(1, 3))
def test_equal_members_get_the_smallest_rack_that_holds_them(
    shape: list[tuple[str, str, int]], count: int, each: int
) -> None:
    nodes = made(shape)
    fitting = {place: slots for place, slots in capacity(nodes, each).items() if slots >= count}
    demands = [Demand(one) for one in members([each] * count, {TOPOLOGY_REQUIRED_ANNOTATION: "rack"})]
    try:
        placed = planner(nodes).plan(demands, "gang")
    except GangRefused:
        assert not fitting
        return
    (used,) = {rack_of(nodes)[one.node] for one in placed}
    assert fitting[used] == min(fitting.values())


@given(places, st.lists(st.integers(1, 3), min_size=1, max_size=5), st.booleans())
def test_required_level_is_never_violated(
    shape: list[tuple[str, str, int]], sizes: list[int], settle: bool
) -> None:
    nodes = made(shape)
    notes = {TOPOLOGY_REQUIRED_ANNOTATION: "rack", TOPOLOGY_PREFERRED_ANNOTATION: "host"}
    pods = members(sizes, notes)
    settled = [SettledMember(Demand(members([1], notes)[0]), nodes[0].name)] if settle else []
    try:
        placed = planner(nodes).plan([Demand(one) for one in pods], "gang", settled)
    except GangRefused:
        return
    used = {rack_of(nodes)[one.node] for one in placed}
    assert len(used) == 1
    assert all(rack for _, rack in used)
    if settle and RACK in nodes[0].labels:
        assert used == {rack_of(nodes)[nodes[0].name]}


@given(places, st.integers(1, 12))
def test_preferred_level_uses_one_rack_if_one_is_enough_and_never_refuses_what_fits(
    shape: list[tuple[str, str, int]], count: int
) -> None:
    nodes = made(shape)
    slots = capacity(nodes, 1)
    demands = [Demand(one) for one in members([1] * count, {TOPOLOGY_PREFERRED_ANNOTATION: "rack"})]
    try:
        placed = planner(nodes).plan(demands, "gang")
    except GangRefused:
        assert sum(cores for _, _, cores in shape) < count
        return
    used = {rack_of(nodes)[one.node] for one in placed}
    if max(slots.values(), default=0) >= count:
        assert len(used) == 1
    elif sum(slots.values()) >= count and not any(place[1] == "" for place in used):
        zones = {zone for zone, _ in used}
        whole = [zone for zone in "ab" if sum(n for place, n in slots.items() if place[0] == zone) >= count]
        assert len(zones) == 1 or not whole


@given(places, st.integers(2, 10), st.sampled_from(({}, {TOPOLOGY_PREFERRED_ANNOTATION: "rack"})))
def test_ranks_of_equal_members_never_return_to_a_rack(
    shape: list[tuple[str, str, int]], count: int, notes: dict[str, str]
) -> None:
    nodes = made(shape)
    try:
        placed = planner(nodes).plan([Demand(one) for one in members([1] * count, notes)], "gang")
    except GangRefused:
        return
    where = [[natural_order(value) for value in rack_of(nodes)[one.node]] for one in placed]
    assert where == sorted(where)
