"""Each member gets a node where it fits; nodes are shared, exactly to what they have."""

from __future__ import annotations

from collections import Counter

from tests.e2e.deployed import Operations
from tests.e2e.harness import Namespace, node_of
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, labelled, ours


def test_unequal_pair_goes_where_each_fits(fluence: Fluence, namespace: Namespace, room: NodeFactory) -> None:
    (small,) = room(1, cpu="1", prefix="small")
    (large,) = room(1, cpu="3", prefix="large")
    namespace.create(labelled(ours("light", cpu="1"), "pair", 2), labelled(ours("heavy", cpu="3"), "pair", 2))
    heavy, light = namespace.wait_until_bound(2)
    assert (node_of(heavy), node_of(light)) == (large, small)


def test_unequal_pair_that_only_fits_crosswise_takes_nothing_else(
    fluence: Fluence, namespace: Namespace, room: NodeFactory
) -> None:
    (many_cores,) = room(1, cpu="4", memory="2Gi", prefix="cores")
    (much_memory,) = room(1, cpu="2", memory="8Gi", prefix="memory")
    namespace.create(
        labelled(ours("thinks", cpu="4", memory="512Mi"), "odd", 3),
        labelled(ours("stores", cpu="1", memory="6Gi"), "odd", 3),
        labelled(ours("helps", cpu="1", memory="2Gi"), "odd", 3),
    )
    helps, stores, thinks = namespace.wait_until_bound(3)
    assert node_of(thinks) == many_cores
    assert {node_of(stores), node_of(helps)} == {much_memory}


def test_three_pods_share_one_node(fluence: Fluence, namespace: Namespace, room: NodeFactory) -> None:
    (node,) = room(1, cpu="3")
    namespace.create(*gang("trio", 3, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(3)} == {node}


def test_four_quarters_of_a_core_fill_one_core(
    fluence: Fluence, namespace: Namespace, room: NodeFactory
) -> None:
    (node,) = room(1, cpu="1", memory="1Gi")
    namespace.create(*gang("quarters", 4, cpu="250m", memory="256Mi"))
    fluence.wait_for_state(namespace.name, "quarters", "bound")
    assert {node_of(one) for one in namespace.wait_until_bound(4)} == {node}
    assert sum(one["core"] for one in fluence.allocations(namespace.name)) == 1.0
    namespace.create(ours("fifth", cpu="1m"))
    fluence.wait_for_reason(namespace.name, "fifth", "busy: 0 of 1 fit now, short of cpu")


def test_pod_slots_are_counted(fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory) -> None:
    own_nodes(1, cpu="8", pods=2)
    namespace.create(*gang("idle", 2))
    namespace.wait_until_bound(2)
    namespace.create(ours("third"))
    fluence.wait_for_reason(namespace.name, "third", "busy: 0 of 1 fit now, short of pods")


def test_devices_of_a_node_are_counted(fluence: Fluence, namespace: Namespace, room: NodeFactory) -> None:
    room(1, cpu="8", prefix="plain")
    (node,) = room(1, cpu="8", extended={"nvidia.com/gpu": 2}, prefix="gpu")
    requests = {"nvidia.com/gpu": 1}
    namespace.create(*gang("train", 2, cpu="1", requests=requests))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {node}
    assert [one["gpu"] for one in fluence.allocations(namespace.name)] == [1, 1]
    namespace.create(ours("more", requests=requests), ours("most", requests={"nvidia.com/gpu": 3}))
    fluence.wait_for_reason(namespace.name, "more", "busy: 0 of 1 fit now, short of nvidia.com/gpu")
    fluence.wait_for_reason(namespace.name, "most", "unsatisfiable: no node has 3 nvidia.com/gpu")


def test_sixty_four_pods_fill_eight_nodes(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    names = own_nodes(8, cpu="8", memory="16Gi")
    namespace.create(*gang("grid", 64, cpu="1", memory="2Gi"))
    pods = namespace.wait_until_bound(64)
    assert Counter(node_of(one) for one in pods) == dict.fromkeys(names, 8)
    assert len(fluence.allocations(namespace.name)) == 64
    assert fluence.wait_for_state(namespace.name, "grid", "bound")["size"] == 64


def test_host_ports_keep_members_apart(fluence: Fluence, namespace: Namespace, room: NodeFactory) -> None:
    names = room(2, cpu="8")
    members = gang("servers", 2, cpu="1")
    for member in members:
        member["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    namespace.create(*members)
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == set(names)


def test_lonode_fills_nodes_from_the_lowest_up(
    fluence: Fluence, namespace: Namespace, room: NodeFactory
) -> None:
    names = room(2, cpu="2")
    fills_from(names, fluence, namespace)


def test_hinode_fills_nodes_from_the_highest_down(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, operations: Operations
) -> None:
    names = room(2, cpu="2")
    with operations.other("--policy", "hinode"):
        fills_from(names[::-1], fluence, namespace)


def fills_from(names: list[str], fluence: Fluence, namespace: Namespace) -> None:
    """The same jobs land on the nodes in this order."""
    namespace.create(*gang("pair", 2, cpu="1"))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {names[0]}
    for number, name in enumerate(names[1:]):
        namespace.create(ours(f"next-{number}", cpu="2"))
        assert node_of(namespace.wait_for_phase(f"next-{number}", "Running")) == name


def test_node_exclusive_policy_gives_each_gang_nodes_of_its_own(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    first, second = own_nodes(2, cpu="4")
    with installation.other("--policy", "lonodex"):
        for name in ("one", "two", "three"):
            namespace.create(*gang(name, 2, cpu="1"))
            state = "waiting" if name == "three" else "bound"
            fluence.wait_for_state(namespace.name, name, state)
        where = {one["pod"]: one["node"] for one in fluence.allocations(namespace.name)}
        assert where == {"one-0": first, "one-1": first, "two-0": second, "two-1": second}
        fluence.wait_for_reason(namespace.name, "three", "busy")
