"""Members near each other: the required level holds, the smallest domain that fits is used, ranks follow the racks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    TOPOLOGY_PREFERRED_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.topology_constraints import (
    PODSET_GROUP,
    PODSET_PREFERRED,
    PODSET_REQUIRED,
    SLICE_REQUIRED,
    SLICE_SIZE,
    TopologyConstraint,
    topology_constraints,
)
from tests.core.planning import LedgerPlanner
from tests.core.values import node, pod
from tests.unit.placement.conftest import Bench, MakeBench

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
LEVELS = {"zone": ZONE, "rack": RACK}
LOCAL = "resources: [{type: chip, name: chip0, parent: b1x1, with: [{type: lane, count: 2}]}]"


def rack(zone: str, name: str, count: int, cpu: int = 4000) -> list[Node]:
    """Make the nodes of one rack, named after zone and rack."""
    labels = {ZONE: zone, RACK: name}
    return [node(f"{zone}{name}x{number}", cpu, labels=labels) for number in range(count)]


def cluster() -> list[Node]:
    """Zone a with racks of 4, 2 and 1 nodes, zone b with racks of 3 and 2."""
    return [
        *rack("a", "1", 4),
        *rack("a", "2", 2),
        *rack("a", "3", 1),
        *rack("b", "1", 3),
        *rack("b", "2", 2),
    ]


@pytest.fixture
def make(bench: MakeBench) -> MakeBench:
    def made(nodes: Sequence[Node], resources: str = "", policy: str = "lonode") -> Bench:
        return bench(nodes, resources, policy, LEVELS)

    return made


def members(
    count: int,
    notes: Mapping[str, str],
    cpu: int = 4000,
    first: int = 0,
    labels: Mapping[str, str] | None = None,
) -> list[Pod]:
    return [
        pod(f"p-{first + number}", cpu, annotations=notes, labels=labels or {}) for number in range(count)
    ]


def required(level: str) -> dict[str, str]:
    return {TOPOLOGY_REQUIRED_ANNOTATION: level}


def preferred(level: str) -> dict[str, str]:
    return {TOPOLOGY_PREFERRED_ANNOTATION: level}


def racks(planner: LedgerPlanner, pods: Sequence[Pod], settled: Sequence[SettledMember] = ()) -> Counter[str]:
    """Return how many members each rack gets."""
    return Counter(
        one.node.split("x")[0] for one in planner.plan([Demand(one) for one in pods], "gang", settled)
    )


def refused(planner: LedgerPlanner, pods: Sequence[Pod], settled: Sequence[SettledMember] = ()) -> Reason:
    with pytest.raises(GangRefused) as caught:
        planner.plan([Demand(one) for one in pods], "gang", settled)
    return caught.value.reason


@pytest.mark.parametrize(
    ("count", "expected"), [(1, {"a3": 1}), (2, {"a2": 2}), (3, {"b1": 3}), (4, {"a1": 4})]
)
@pytest.mark.parametrize("level", ["rack", RACK])
def test_required_level_gets_the_smallest_domain_that_fits(
    make: MakeBench, level: str, count: int, expected: dict[str, int]
) -> None:
    planner, _, _ = make(cluster())
    assert racks(planner, members(count, required(level))) == expected


def test_domains_of_equal_names_in_two_zones_are_different(make: MakeBench) -> None:
    planner, ledger, _ = make(cluster())
    assert refused(planner, members(5, required("rack"))) == Reason(
        ReasonCode.UNSATISFIABLE,
        "unsatisfiable: no rack holds 5 x 4 cpu + 1Gi memory (the largest holds 4, short of cpu)",
    )
    assert not ledger.holdings


def test_required_level_that_is_full_now_is_busy_and_names_the_most_that_fits(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    planner.plan([Demand(pod("other", 4000, node_selector={RACK: "1", ZONE: "a"}))], "other")
    assert refused(planner, members(4, required("rack"))).text == (
        "busy: no rack has room for 4 x 4 cpu + 1Gi memory now (the most is 3, short of cpu)"
    )


def test_level_that_no_usable_node_has_is_unsatisfiable(make: MakeBench) -> None:
    planner, _, _ = make([node("n0"), *rack("a", "1", 1)])
    one = pod("p", 100, annotations=required("rack"), node_selector={"kubernetes.io/hostname": "n0"})
    assert refused(planner, [one]).code is ReasonCode.UNSATISFIABLE
    assert refused(planner, members(1, required("example.com/block"))).text == (
        "unsatisfiable: no node that the members may use has a example.com/block (example.com/block)"
    )


def test_unknown_level_is_named_with_the_known_ones(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    assert refused(planner, members(1, required("rak"))) == Reason(
        ReasonCode.INVALID_REQUEST,
        "there is no topology level 'rak': known are zone, rack, host, and node labels",
    )


def test_host_level_puts_all_members_on_one_node(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    placed = planner.plan([Demand(one) for one in members(4, required("host"), 1000)], "gang")
    assert len({one.node for one in placed}) == 1
    assert refused(planner, members(5, required("host"), 1000)).code is ReasonCode.UNSATISFIABLE


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, {"a2": 2}),
        (4, {"a1": 4}),
        (5, {"b1": 3, "b2": 2}),
        (6, {"a1": 4, "a2": 2}),
        (7, {"a1": 4, "a2": 2, "a3": 1}),
        (9, {"a1": 4, "b1": 3, "a2": 2}),
        (10, {"a1": 4, "b1": 3, "a2": 2, "a3": 1}),
    ],
)
def test_preferred_level_falls_back_level_by_level_to_the_fewest_domains(
    make: MakeBench, count: int, expected: dict[str, int]
) -> None:
    planner, _, _ = make(cluster())
    found = racks(planner, members(count, preferred("rack")))
    assert sorted(found.values()) == sorted(expected.values())
    assert found.keys() == expected.keys() or count >= 9


def test_preferred_rack_within_required_zone(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    both = {**required("zone"), **preferred("rack")}
    assert racks(planner, members(6, both)) == {"a1": 4, "a2": 2}
    assert refused(planner, members(8, both)).text == (
        "unsatisfiable: no zone holds 8 x 4 cpu + 1Gi memory (the largest holds 7, short of cpu)"
    )


def test_members_without_the_annotation_run_anywhere(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    pods = members(3, required("rack")) + members(9, {}, first=3)
    placed = planner.plan([Demand(one) for one in pods], "gang")
    assert len({one.node.split("x")[0] for one in placed[:3]}) == 1
    assert len({one.node for one in placed}) == 12


def test_unequal_members_share_the_required_domain(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    pods = members(1, required("rack"), 3000) + members(5, required("rack"), 1000, first=1)
    assert racks(planner, pods) == {"a2": 6}
    assert refused(planner, members(4, required("rack"), 3000) + members(5, required("rack"), 1000)).text == (
        "unsatisfiable: no rack holds all 9 members (the largest holds 8, short of cpu)"
    )


def test_kueue_pod_sets_choose_a_domain_each_unless_they_are_grouped(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    notes = {PODSET_REQUIRED: RACK}
    role = "jobset.sigs.k8s.io/replicatedjob-name"
    first = members(4, notes, labels={role: "workers"})
    second = members(3, notes, first=4, labels={role: "servers"})
    assert racks(planner, [*first, *second]) == {"a1": 4, "b1": 3}
    planner.release([one.uid for one in [*first, *second]])
    grouped = {**notes, PODSET_GROUP: "one"}
    assert (
        refused(planner, members(4, grouped) + members(3, grouped, labels={role: "servers"})).code
        is ReasonCode.UNSATISFIABLE
    )
    assert racks(planner, members(5, {PODSET_PREFERRED: RACK})) == {"b1": 3, "b2": 2}


def test_kueue_slices_share_a_domain_each(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    notes = {SLICE_REQUIRED: RACK, SLICE_SIZE: "2"}
    pods = [
        pod(f"p-{number}", 4000, annotations={**notes, COMPLETION_INDEX: str(number)}) for number in range(8)
    ]
    placed = planner.plan([Demand(one) for one in pods], "gang")
    where = [one.node.split("x")[0] for one in placed]
    assert all(where[number] == where[number + 1] for number in range(0, 8, 2))


@pytest.mark.parametrize(
    ("size", "job_size", "together"),
    [
        ("4", 2, [{(0, 0), (0, 1), (1, 0), (1, 1)}, {(2, 0), (2, 1), (3, 0), (3, 1)}]),
        ("3", 2, [{(0, 0), (0, 1), (1, 0)}, {(1, 1), (2, 0), (2, 1)}, {(3, 0), (3, 1)}]),
        ("2", 2, [{(job, 0), (job, 1)} for job in range(4)]),
        ("4", 0, [{(job, 0), (job, 1)} for job in range(4)]),
    ],
)
def test_slices_continue_from_one_job_of_a_job_set_to_the_next(
    size: str, job_size: int, together: list[set[tuple[int, int]]]
) -> None:
    found: dict[tuple[TopologyConstraint, ...], set[tuple[int, int]]] = {}
    for job, index in itertools.product(range(4), range(2)):
        notes = {SLICE_REQUIRED: RACK, SLICE_SIZE: size, COMPLETION_INDEX: str(index)}
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": str(job)}
        one = pod(f"js-w-{job}-{index}", annotations=notes, labels=labels)
        found.setdefault(topology_constraints(one, (), job_size), set()).add((job, index))
    assert sorted(found.values(), key=sorted) == together


def test_levels_of_a_pod_group_bind_its_members(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    demands = [Demand(one, levels=(RACK,)) for one in members(3, {})]
    assert {one.node.split("x")[0] for one in planner.plan(demands, "gang")} == {"b1"}


def test_domain_of_settled_members_binds_later_members(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    (first,) = members(1, required("rack"))
    there = planner.plan([Demand(first)], "gang")[0].node
    assert there == "a3x0"
    settled = [SettledMember(Demand(first), there)]
    assert refused(planner, members(1, required("rack")), settled).text == (
        "busy: rack a/3, where other members are, has room for 0 of 1 x 4 cpu + 1Gi memory, short of cpu"
    )
    beside = [SettledMember(Demand(first), "a1x0")]
    assert racks(planner, members(2, required("rack")), beside) == {"a1": 2}
    assert racks(
        planner,
        members(1, preferred("rack")),
        [SettledMember(Demand(members(1, preferred("rack"))[0]), "b2x0")],
    ) == {"b2": 1}


def test_ranks_follow_the_racks(make: MakeBench) -> None:
    planner, _, _ = make(cluster())
    pods = [
        pod(f"job-{number}-abcde", 2000, annotations={**preferred("rack"), COMPLETION_INDEX: str(number)})
        for number in reversed(range(12))
    ]
    placed = planner.plan([Demand(one) for one in pods], "gang")
    where = [one.node.split("x")[0] for one in reversed(placed)]
    assert where == sorted(where)
    assert len(set(where)) == 2


def test_device_on_a_node_decides_the_rack(make: MakeBench) -> None:
    planner, _, _ = make(cluster(), LOCAL)
    pods = [
        pod("near", 4000, devices={"lane": 1}, annotations=required("rack")),
        *members(2, required("rack")),
    ]
    placed = planner.plan([Demand(one) for one in pods], "gang")
    assert placed[0].node == "b1x1"
    assert {one.node.split("x")[0] for one in placed} == {"b1"}
    assert (
        refused(planner, [pod("more", 100, devices={"lane": 2}, annotations=required("rack"))]).code
        is ReasonCode.BUSY
    )


def test_topology_follows_a_node_to_another_rack(make: MakeBench) -> None:
    planner, ledger, index = make(cluster())
    assert refused(planner, members(5, required("rack"))).code is ReasonCode.UNSATISFIABLE
    moved = node("b2x0", labels={ZONE: "a", RACK: "1"})
    index.put(moved)
    ledger.put_node(moved)
    assert len(racks(planner, members(5, required("rack")))) == 2


def test_failed_plan_with_constraints_leaves_nothing_allocated(make: MakeBench) -> None:
    planner, ledger, _ = make(cluster())
    pods = members(4, {PODSET_REQUIRED: RACK, PODSET_GROUP: "a"}) + members(
        4, {PODSET_REQUIRED: RACK, PODSET_GROUP: "b"}, first=4
    )
    assert refused(planner, pods).code in (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
    assert not ledger.holdings
