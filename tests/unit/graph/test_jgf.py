"""The JGF of a containment tree, with sizes and with a vertex for each leaf."""

import json
from typing import Any

import pytest

from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import TooManyVertices, sized_jgf, unit_jgf, with_parents
from tests.unit.graph.clusters import QUANTUM, ZONE, cluster, node


def by_path(jgf: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["metadata"]["paths"]["containment"]: entry for entry in jgf["graph"]["nodes"]}


def sized(containment: Containment) -> dict[str, Any]:
    return sized_jgf(with_parents(containment))


def test_equal_sibling_leaves_are_one_vertex_with_a_size() -> None:
    jgf = sized(cluster([node("a", cores=3)]))
    cores = by_path(jgf)["/cluster/a/core0"]
    assert cores == {
        "id": "2",
        "metadata": {
            "type": "core",
            "basename": "core",
            "name": "core0",
            "id": 0,
            "uniq_id": 2,
            "rank": 0,
            "paths": {"containment": "/cluster/a/core0"},
            "size": 3,
        },
    }
    assert "size" not in by_path(jgf)["/cluster/a/memory0"]["metadata"]
    assert json.loads(json.dumps(jgf)) == jgf


def test_number_of_vertices_with_sizes_does_not_depend_on_how_large_nodes_are() -> None:
    assert len(sized(cluster([node("a", cores=64, gib=512), node("b")]))["graph"]["nodes"]) == 7


def test_each_leaf_is_a_vertex_with_its_nodes_rank() -> None:
    jgf = unit_jgf(cluster([node("a", cores=2), node("b", cores=3)], QUANTUM))
    found = by_path(jgf)
    third = found["/cluster/b/core2"]["metadata"]
    assert (third["name"], third["id"], third["rank"], third["type"]) == ("core2", 2, 1, "core")
    assert found["/cluster/ibm_fez/qpu1/qubit0/qubit155"]["metadata"]["rank"] == 6
    assert all("size" not in entry["metadata"] for entry in jgf["graph"]["nodes"])
    assert [path for path, entry in found.items() if entry["metadata"]["rank"] < 0] == ["/cluster"]
    assert all(entry["id"] == str(entry["metadata"]["uniq_id"]) for entry in found.values())
    assert len({entry["id"] for entry in found.values()}) == len(jgf["graph"]["nodes"])


def test_edges_follow_the_paths_in_order() -> None:
    jgf = unit_jgf(cluster([node("a", labels={ZONE: "z"}), node("b")], QUANTUM))
    paths = {entry["id"]: path for path, entry in by_path(jgf).items()}
    edges = [(paths[edge["source"]], paths[edge["target"]]) for edge in jgf["graph"]["edges"]]
    assert all(target.rpartition("/")[0] == source for source, target in edges)
    assert len(edges) == len(paths) - 1
    below: dict[str, list[str]] = {}
    for source, target in edges:
        below.setdefault(source, []).append(target)
    assert below["/cluster"] == ["/cluster/zone=z", "/cluster/b", "/cluster/ibm_fez", "/cluster/rigetti_ankaa", "/cluster/sv1"]  # fmt: skip  # noqa: E501
    assert below["/cluster/b"] == ["/cluster/b/core0", "/cluster/b/core1", "/cluster/b/memory0"]


def test_a_graph_that_would_be_too_large_is_refused() -> None:
    graph = cluster([node("a", cores=2)])
    assert len(unit_jgf(graph, most=5)["graph"]["nodes"]) == 5
    with pytest.raises(TooManyVertices, match="5 vertices"):
        unit_jgf(graph, most=4)
