"""The containment tree: ranks, unique ids, levels and virtual resources."""

from itertools import pairwise

import pytest

from fluence_extender.graph.cluster_graph import check_against_cluster
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from tests.unit.graph.clusters import QUANTUM, RACK, TOPOLOGY, ZONE, cluster, node


def test_nodes_are_ranked_in_natural_order_with_their_leaves_as_entries() -> None:
    graph = cluster([node("node10"), node("node2", nvidia_com__gpu=3, example_com__fpga=1)])
    assert list(graph.walk()) == [
        "/cluster",
        "/cluster/node2",
        "/cluster/node2/core0",
        "/cluster/node2/memory0",
        "/cluster/node2/gpu0",
        "/cluster/node2/fpga@example.com0",
        "/cluster/node10",
        "/cluster/node10/core0",
        "/cluster/node10/memory0",
    ]
    second = graph.vertex("/cluster/node10")
    assert (second.type, second.basename, second.name, second.id, second.rank) == (
        "node",
        "node",
        "node10",
        1,
        1,
    )
    assert second.properties == {"virtual=false": ""}
    gpus = graph.vertex("/cluster/node2/gpu0")
    assert (gpus.type, gpus.name, gpus.id, gpus.count, gpus.rank) == ("gpu", "gpu0", 0, 3, 0)


def test_unique_ids_are_disjoint_ranges() -> None:
    graph = cluster([node("a", cores=7), node("b", cores=5)], QUANTUM)
    ranges = sorted((one.uniq_id, one.uniq_id + one.count) for one in map(graph.vertex, graph.walk()))
    assert ranges[0][0] == 0
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))


def test_topology_levels_come_from_labels_and_missing_ones_are_left_out() -> None:
    graph = cluster(
        [
            node("a", labels={ZONE: "z1", RACK: "r1"}),
            node("b", labels={ZONE: "z2", RACK: "r1"}),
            node("c", labels={ZONE: "z1"}),
            node("d", labels={RACK: "z1"}),
            node("e", labels={ZONE: ""}),
        ],
        levels=TOPOLOGY,
    )
    assert graph.nodes == {
        "a": "/cluster/zone=z1/rack=r1/a",
        "b": "/cluster/zone=z2/rack=r1/b",
        "c": "/cluster/zone=z1/c",
        "d": "/cluster/rack=z1/d",
        "e": "/cluster/e",
    }
    levels = [graph.vertex(path) for path in graph.walk() if "=" in path.rpartition("/")[2]]
    assert [(one.type, one.id, one.rank) for one in levels] == [
        ("zone", 0, -1), ("rack", 1, -1), ("zone", 2, -1), ("rack", 3, -1), ("rack", 4, -1),
    ]  # fmt: skip


def test_a_level_can_not_be_of_a_type_with_another_meaning() -> None:
    with pytest.raises(ValueError, match="'core'"):
        cluster(levels={"core": ZONE})


def test_virtual_resources_are_node_typed_at_every_depth() -> None:
    graph = cluster([node("a")], QUANTUM)
    device = graph.vertex("/cluster/ibm_fez")
    assert (device.type, device.basename, device.name, device.rank) == ("node", "qdevice", "ibm_fez", 1)
    assert list(device.properties) == [
        "virtual=true",
        "class=qdevice",
        "class=qpu",
        "class=qubit",
        "fluxion.flux-framework.org/region=us",
        "fluxion.flux-framework.org/vendor=ibm",
        "fluxion.flux-framework.org/backend=ibm_fez",
    ]
    pool = graph.vertex("/cluster/ibm_fez/qpu1/qubit0")
    assert (pool.type, pool.basename, pool.count) == ("node", "qubit", 1)
    assert "class=qpu" not in pool.properties
    assert "fluxion.flux-framework.org/backend=ibm_fez" in pool.properties
    leaves = graph.vertex("/cluster/ibm_fez/qpu1/qubit0/qubit0")
    assert (leaves.type, leaves.count, leaves.rank) == ("qubit", 156, pool.rank)


def test_a_count_makes_siblings_of_a_type_with_children_and_a_pool_of_a_leaf_type() -> None:
    graph = cluster([], QUANTUM)
    assert graph.children("/cluster/ibm_fez") == ["/cluster/ibm_fez/qpu0", "/cluster/ibm_fez/qpu1"]
    assert graph.children("/cluster/sv1") == ["/cluster/sv1/simulator0"]
    assert graph.vertex("/cluster/sv1/simulator0").count == 4


def test_inner_vertices_are_numbered_before_the_outer_ones_within_their_ranks() -> None:
    graph = cluster([node("a")], QUANTUM)
    numbers = {path: (graph.vertex(path).rank, graph.vertex(path).id) for path in graph.devices}
    assert numbers == {
        "/cluster/ibm_fez": (1, 5),
        "/cluster/ibm_fez/qpu0": (2, 2),
        "/cluster/ibm_fez/qpu0/qubit0": (3, 1),
        "/cluster/ibm_fez/qpu1": (4, 4),
        "/cluster/ibm_fez/qpu1/qubit0": (5, 3),
        "/cluster/rigetti_ankaa": (6, 8),
        "/cluster/rigetti_ankaa/ankaa": (7, 7),
        "/cluster/rigetti_ankaa/ankaa/qubit1": (8, 6),
        "/cluster/sv1": (9, 9),
    }


def test_devices_on_a_physical_node_weigh_as_much_as_the_node() -> None:
    text = "resources: [{type: qpu, name: q, count: 2, parent: b, with: [{type: qubit, count: 3}]}]"
    graph = cluster([node("a"), node("b")], text)
    host = graph.vertex("/cluster/b")
    inner = [graph.vertex(path) for path in graph.devices]
    assert {(one.id, one.uniq_id % 10_000) for one in inner} == {(host.id, host.uniq_id % 10_000)}
    assert len({one.uniq_id for one in inner}) == len({one.rank for one in inner}) == 4


def test_each_copy_of_a_backend_is_a_backend_of_its_own() -> None:
    graph = cluster([], "resources: [{type: qpu, name: q, count: 2, with: [{type: qubit}]}]")
    assert [graph.vertex(path).backend for path in graph.devices] == ["q0", "q0", "q1", "q1"]


def test_a_physical_parent_stays_physical_and_names_the_classes_below_it() -> None:
    graph = cluster(
        [node("a"), node("b")], "resources: [{type: qpu, name: q, parent: b, with: [{type: qubit}]}]"
    )
    assert graph.vertex("/cluster/b").properties == {"virtual=false": "", "class=qpu": "", "class=qubit": ""}
    assert graph.vertex("/cluster/a").properties == {"virtual=false": ""}
    assert graph.children("/cluster/b")[-1] == "/cluster/b/q"
    assert graph.vertex("/cluster/b/q").rank == 2


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            "- {type: qpu, parent: node7}",
            "references unknown parent vertex \"node7\" (did you mean 'node1'?)",
        ),
        ("- {type: qpu, name: a}\n- {type: qpu, name: b, parent: a}", 'unknown parent vertex "a"'),
        ("- {type: qpu, name: node1}", "name 'node1' is the name of a node of the cluster"),
        (
            "- {type: qpu, with: [{type: q, name: node1}]}",
            "resources[0].with[0]: name 'node1' is the name of a node",
        ),
        ("- {type: zone}", "type 'zone' is one the graph uses itself"),
        ("- {type: qpu, name: core0, parent: node1}", "name 'core0' is the name of a leaf"),
    ],
)
def test_a_file_that_contradicts_the_cluster_is_refused(resources: str, message: str) -> None:
    with pytest.raises(InvalidResourcesFile) as refused:
        cluster([node("node1")], f"resources:\n{resources}")
    assert message in str(refused.value)


def test_all_contradictions_are_reported_at_once() -> None:
    file = parse_resources("resources: [{type: zone, name: n1}, {type: qpu, parent: gone}]", "here.yaml")
    names = {f"n{index}" for index in range(20)}
    found = check_against_cluster(file, names)
    assert [(one.source, one.path) for one in found] == [
        ("here.yaml", "resources[0]"),
        ("here.yaml", "resources[0]"),
        ("here.yaml", "resources[1].parent"),
    ]
    assert all(one.fix for one in found)


def test_an_empty_cluster_is_only_a_root() -> None:
    assert list(cluster().walk()) == ["/cluster"]
