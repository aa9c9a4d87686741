"""Planning gangs on the ledger: all pods get a node and devices, or none does and nothing is allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.names import REQUIRE_PREFIX
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Toleration
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.errors import GangRefused
from fluence_extender.room.ledger import Ledger
from tests.core.planning import LedgerPlanner
from tests.core.values import GIB, asks, node, pod
from tests.unit.placement.conftest import MakeBench

QUANTUM = """
resources:
  - type: qdevice
    name: fez
    attributes: {vendor: ibm}
    with: [{type: qpu, count: 2, attributes: {vendor: ibm}, with: [{type: qubit, count: 4}]}]
  - {type: simulator, name: sv1, count: 3, attributes: {vendor: aws}}
  - {type: simulator, name: sv2, count: 2, attributes: {vendor: ibm}}
"""
LOCAL = """
resources:
  - {type: accelerator, name: chip0, parent: n0, with: [{type: lane, count: 2}]}
  - {type: accelerator, name: chip1, parent: n1, with: [{type: lane, count: 2}]}
"""

NO_THREE = "unsatisfiable: the backends that match have 2 qpu for one pod, and it asks for 3: ask for less in each pod"


def plan(planner: LedgerPlanner, pods: Sequence[Pod], gang: object = "gang") -> tuple[Assignment, ...]:
    return planner.plan([Demand(one) for one in pods], gang)


def nodes_of(assignments: Sequence[Assignment]) -> Counter[str]:
    return Counter(one.node for one in assignments)


def refused(planner: LedgerPlanner, pods: Sequence[Pod]) -> GangRefused:
    with pytest.raises(GangRefused) as caught:
        plan(planner, pods)
    return caught.value


def state(ledger: Ledger) -> object:
    """Return everything that a failed plan must leave as it was."""
    return (
        dict(ledger.holdings),
        {name: (account.free, account.ports) for name, account in ledger.accounts.items()},
        ledger.overcommitted,
        ledger.version,
    )


def test_equal_members_fill_nodes_in_the_order_of_the_policy(bench: MakeBench) -> None:
    nodes = [node(f"n{number}") for number in range(3)]
    low, _, _ = bench(nodes, policy="lonode")
    high, _, _ = bench(nodes, policy="hinode")
    pods = [pod(f"p{number}", 2000) for number in range(3)]
    assert nodes_of(plan(low, pods)) == {"n0": 2, "n1": 1}
    assert nodes_of(plan(high, pods)) == {"n2": 2, "n1": 1}


def test_each_pod_is_an_allocation_of_its_own(bench: MakeBench) -> None:
    planner, ledger, _ = bench([node("n0"), node("n1")])
    pods = [pod(f"p{number}", 2000) for number in range(4)]
    plan(planner, pods)
    assert {held.requests for held in ledger.holdings.values()} == {asks(2000, 1)}
    ledger.release(pods[1].uid)
    assert nodes_of(plan(planner, [pod("q", 2000)])) == {"n0": 1}


def test_mixed_members_are_placed_together(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0", 3000), node("n1", 1000)])
    small, large = pod("small", 1000), pod("large", 3000)
    placed = plan(planner, [small, large])
    assert [one.node for one in placed] == ["n1", "n0"]


def test_pods_without_requests_take_pod_slots_only(bench: MakeBench) -> None:
    planner, ledger, _ = bench([node("n0", pods=2), node("n1", pods=2)])
    pods = [pod(f"p{number}", requests=Resources({"pods": 1})) for number in range(3)]
    assert nodes_of(plan(planner, pods)) == {"n0": 2, "n1": 1}
    assert ledger.accounts["n0"].free == Resources({"cpu": 4000, "memory": 16 * GIB})
    assert (
        refused(planner, [pod("a", 0, 0), pod("b", 0, 0)]).reason.text
        == "busy: 1 of 2 fit now, short of pods"
    )


def test_host_ports_spread_members_and_avoid_those_in_use(bench: MakeBench) -> None:
    planner, ledger, _ = bench([node(f"n{number}") for number in range(3)])
    ledger.put_foreign(pod("other", 0, 0, scheduler="x", node="n1", host_ports=(HostPort(80),)))
    web = [pod(f"p{number}", 100, 0, host_ports=(HostPort(80),)) for number in range(2)]
    assert nodes_of(plan(planner, web)) == {"n0": 1, "n2": 1}
    assert refused(planner, [pod("more", 100, 0, host_ports=(HostPort(80),))]).reason.code is ReasonCode.BUSY


def test_pod_slots_and_ephemeral_storage_bound_what_the_matcher_does_not_count(bench: MakeBench) -> None:
    disk = {"ephemeral-storage": 10 * GIB}
    planner, _, _ = bench([node("n0", pods=1, extra=disk), node("n1", extra=disk)])
    pods = [
        pod(f"p{number}", requests=Resources({**asks(100), "ephemeral-storage": 5 * GIB}))
        for number in range(3)
    ]
    assert nodes_of(plan(planner, pods)) == {"n0": 1, "n1": 2}


def test_extended_resource_that_no_node_has_is_unsatisfiable(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0")])
    one = pod(requests=asks(100, 0, example_com__fpga=1))
    assert refused(planner, [one]).reason.text == (
        "unsatisfiable: no node has 1 example.com/fpga (the largest has none)"
    )


def test_extended_resources_are_counted_separately(bench: MakeBench) -> None:
    extra = {"nvidia.com/gpu": 1, "amd.com/gpu": 1}
    planner, _, _ = bench([node("n0", extra=extra), node("n1", extra=extra)])
    pods = [pod(f"p{number}", requests=asks(100, 0, nvidia_com__gpu=1)) for number in range(2)]
    assert nodes_of(plan(planner, pods)) == {"n0": 1, "n1": 1}
    more = refused(planner, [pod("more", requests=asks(100, 0, nvidia_com__gpu=1))])
    assert more.reason.text == "busy: 0 of 1 fit now, short of nvidia.com/gpu"
    assert nodes_of(plan(planner, [pod("amd", requests=asks(100, 0, amd_com__gpu=1))])) == {"n0": 1}


def test_barred_nodes_and_ineligible_ones_are_left_out(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0"), node("n1", unschedulable=True), node("n2")])
    one = pod()
    assert planner.plan([Demand(one, frozenset({"n0"}))], "gang")[0].node == "n2"
    tolerant = pod(tolerations=(Toleration("", "Exists"),))
    assert planner.plan([Demand(tolerant, frozenset({"n0", "n2"}))], "gang")[0].node == "n1"


def test_overcommitted_node_takes_nothing_new(bench: MakeBench) -> None:
    planner, ledger, _ = bench([node("n0"), node("n1")])
    plan(planner, [pod("mine", 3000)])
    ledger.put_foreign(pod("other", 2000, scheduler="x", node="n0"))
    assert ledger.overcommitted == {"n0"}
    assert plan(planner, [pod("tiny", 100)])[0].node == "n1"


def test_node_exclusive_policy_keeps_gangs_apart_and_members_together(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0"), node("n1")], policy="lonodex")
    assert nodes_of(plan(planner, [pod("a0", 1000), pod("a1", 1000)], "a")) == {"n0": 2}
    assert nodes_of(plan(planner, [pod("b0", 1000)], "b")) == {"n1": 1}
    with pytest.raises(GangRefused):
        plan(planner, [pod("c0", 100)], "c")
    assert nodes_of(plan(planner, [pod("a2", 1000)], "a")) == {"n0": 1}


def test_compute_and_device_are_placed_together_and_the_requirement_holds(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0")], QUANTUM)
    annotations = {f"{REQUIRE_PREFIX}vendor": "ibm"}
    one = plan(planner, [pod(devices={"simulator": 1}, annotations=annotations)])[0]
    assert one.node == "n0"
    assert [(share.backend, share.amount) for share in one.devices] == [("sv2", 1)]
    pinned = plan(planner, [pod(devices={"qpu": 1}, annotations={f"{REQUIRE_PREFIX}backend": "fez"})])[0]
    assert pinned.backend == "fez"


def test_members_share_pools_and_each_whole_device_serves_one(bench: MakeBench) -> None:
    planner, ledger, _ = bench([node("n0")], QUANTUM)
    pods = [pod(f"p{number}", 100, devices={"qpu": 1}) for number in range(2)]
    paths = [share.path for one in plan(planner, pods) for share in one.devices]
    assert len(set(paths)) == 2
    assert refused(planner, [pod(devices={"qpu": 1})]).reason.text == (
        "busy: 1 qpu not free on any backend that matches (fez)"
    )
    assert refused(planner, [pod(devices={"qubit": 1})]).reason.code is ReasonCode.BUSY
    ledger.release(pods[0].uid)
    assert plan(planner, [pod("part", 100, devices={"qubit": 3})])[0].backend == "fez"
    assert refused(planner, [pod("whole", 100, devices={"qpu": 1})]).reason.code is ReasonCode.BUSY


@pytest.mark.parametrize(
    ("devices", "annotations", "why", "text"),
    [
        (
            {"simulator": 6},
            {},
            ReasonCode.UNSATISFIABLE,
            "unsatisfiable: the backends that match have 5 simulator for one pod, and it asks for 6: ask for less in "
            "each pod",
        ),
        ({"qpu": 3}, {}, ReasonCode.UNSATISFIABLE, NO_THREE),
        (
            {"laser": 1},
            {},
            ReasonCode.NO_BACKEND,
            "no backend: no resource of type laser is configured; known types: qdevice, qpu, qubit, simulator",
        ),
        (
            {"simulator": 1},
            {f"{REQUIRE_PREFIX}vendor": "dwave"},
            ReasonCode.NO_BACKEND,
            "no backend: require-vendor=dwave matches none of 2 backends (vendor: aws, ibm)",
        ),
    ],
)
def test_reason_when_no_device_is_available(
    bench: MakeBench, devices: dict[str, int], annotations: dict[str, str], why: ReasonCode, text: str
) -> None:
    planner, ledger, _ = bench([node("n0")], QUANTUM)
    before = state(ledger)
    reason = refused(planner, [pod(devices=devices, annotations=annotations)]).reason
    assert (reason.code, reason.text) == (why, text)
    assert state(ledger) == before


TWO_BOXES = """
resources:
  - {type: box, name: a, with: [{type: qpu, count: 2, with: [{type: qubit, count: 1}]}]}
  - {type: box, name: b, with: [{type: qpu, count: 2, with: [{type: qubit, count: 1}]}]}
"""


def test_devices_come_from_two_backends_where_none_has_enough(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0")], TWO_BOXES)
    (first,) = plan(planner, [pod("first", devices={"qpu": 3})], "first")
    assert Counter(share.backend for share in first.devices) == {"a": 2, "b": 1}
    (second,) = plan(planner, [pod("second", devices={"qpu": 1})], "second")
    assert second.backend == "b"
    assert refused(planner, [pod("third", devices={"qpu": 1})]).reason.code is ReasonCode.BUSY


def test_devices_come_from_one_backend_if_one_has_enough(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0")], TWO_BOXES)
    plan(planner, [pod("small", devices={"qpu": 1})], "small")
    (placed,) = plan(planner, [pod(devices={"qpu": 2, "qubit": 1})])
    assert placed.backend == "b,a"
    assert Counter((share.type, share.backend) for share in placed.devices) == {
        ("qpu", "b"): 2,
        ("qubit", "a"): 1,
    }


def test_devices_of_two_nodes_never_serve_one_pod(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0"), node("n1")], LOCAL)
    assert refused(planner, [pod(devices={"accelerator": 2})]).reason.text == (
        "unsatisfiable: the backends that match have 1 accelerator for one pod, and it asks for 2: ask for less in "
        "each pod"
    )


def test_member_takes_the_node_with_the_most_room_under_spread(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0"), node("n1", 8000), node("n2")], policy="spread")
    assert nodes_of(plan(planner, [pod(f"a{number}", 2000) for number in range(3)], "a")) == {
        "n1": 2,
        "n0": 1,
    }
    assert nodes_of(plan(planner, [pod(f"b{number}", 2000) for number in range(3)], "b")) == {
        "n0": 1,
        "n1": 1,
        "n2": 1,
    }


def test_device_on_a_node_decides_the_node_of_its_pod(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0", 500), node("n1"), node("n2")], LOCAL)
    placed = plan(planner, [pod("near", 1000, devices={"lane": 1}), pod("far", 4000)])
    assert [one.node for one in placed] == ["n1", "n2"]
    assert placed[0].backend == "chip1"


def test_device_on_a_node_that_the_pod_may_not_use_is_passed_over(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0", unschedulable=True), node("n1")], LOCAL)
    assert plan(planner, [pod(devices={"accelerator": 1})])[0].node == "n1"


def test_device_on_nodes_that_the_pod_may_never_use_is_unsatisfiable(bench: MakeBench) -> None:
    hosts = [node(name, labels={"pool": name}) for name in ("n0", "n1", "n2")]
    planner, ledger, _ = bench(hosts, LOCAL)
    before = state(ledger)
    one = pod(devices={"lane": 1}, node_selector={"pool": "n2"})
    reason = refused(planner, [one]).reason
    assert (reason.code, reason.text) == (
        ReasonCode.UNSATISFIABLE,
        "unsatisfiable: no node with lane may be used (nodes refused: 2 node selector pool=n2)",
    )
    beside = refused(planner, [one, pod("free", 100)]).reason
    assert beside.text.endswith("(nodes refused: 2 node selector pool=n2), for 1 of 2 members")
    assert state(ledger) == before


def test_device_on_nodes_that_are_closed_for_now_is_waited_for(bench: MakeBench) -> None:
    hosts = [node("n0", unschedulable=True), node("n1", unschedulable=True), node("n2")]
    planner, _, _ = bench(hosts, LOCAL)
    reason = refused(planner, [pod(devices={"lane": 1})]).reason
    assert (reason.code, reason.text) == (
        ReasonCode.BUSY,
        "busy: no node with lane may be used now (nodes refused: 2 cordoned)",
    )


def test_pod_that_is_too_large_for_the_nodes_of_its_device_is_unsatisfiable(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0"), node("n1"), node("n2", 9000)], LOCAL)
    assert refused(planner, [pod("big", 8000, devices={"lane": 1})]).reason.text == (
        "unsatisfiable: no node with lane has 8 cpu (the largest has 4 cpu)"
    )


def test_reason_says_how_many_members_find_devices(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0")], QUANTUM)
    gang = [pod(f"p{number}", 100, devices={"qpu": 1}) for number in range(3)]
    assert refused(planner, gang).reason.text == (
        "unsatisfiable: 2 of 3 members would fit if nothing else ran, short of qpu (backends that match: fez)"
    )
    plan(planner, [pod("other", 100, devices={"qpu": 1})], "other")
    assert refused(planner, [*gang[:2], pod("aside", 100)]).reason.text == (
        "busy: 2 of 3 fit now, short of qpu (backends that match: fez)"
    )


def test_devices_are_drafted_on_the_graph_as_it_is_now(bench: MakeBench) -> None:
    planner, ledger, index = bench([node("n0")], LOCAL.split("- {type: accelerator, name: chip1")[0])
    index.put(node("n0", 8000))
    ledger.put_node(node("n0", 8000))
    first = plan(planner, [pod("first", devices={"accelerator": 1})])[0]
    assert first.node == "n0"
    assert refused(planner, [pod("second", devices={"accelerator": 1})]).reason.code is ReasonCode.BUSY


@pytest.mark.parametrize(
    "pods",
    [
        [pod("big", 9000)],
        [pod("a", 3000), pod("b", 3000), pod("c", 3000)],
        [pod("a", 3000), pod("b", 3500), pod("c", 3000)],
        [pod("a", 100, devices={"simulator": 3}), pod("b", 100, devices={"simulator": 3})],
        [pod("a", 100, devices={"qpu": 1, "simulator": 1}), pod("b", 9000)],
        [pod("a", 100, devices={"laser": 1, "qpu": 1})],
        [pod("a", 100, host_ports=(HostPort(1),)) for _ in range(3)],
    ],
)
def test_plan_that_fails_leaves_the_ledger_as_it_was(bench: MakeBench, pods: list[Pod]) -> None:
    planner, ledger, _ = bench([node("n0"), node("n1")], QUANTUM)
    plan(planner, [pod("there", 1000, devices={"simulator": 1})], "other")
    before = state(ledger)
    assert refused(planner, pods).reason.text
    assert state(ledger) == before
    assert plan(planner, [pod("all", 100, devices={"qpu": 2})])[0].backend == "fez"


def test_plan_that_runs_out_of_leaves_is_undone(bench: MakeBench) -> None:
    """A node may have more memory than the matcher can count: its account has it, the matcher has no leaf for it."""
    planner, ledger, _ = bench(
        [Node("n0", allocatable=Resources({"cpu": 64000, "pods": 9, "memory": 2**33 * GIB}))]
    )
    before = state(ledger)
    pods = [pod(f"p{number}", 1000, 2**31) for number in range(3)]
    reason = refused(planner, pods).reason
    assert reason.code in (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
    assert state(ledger) == before
