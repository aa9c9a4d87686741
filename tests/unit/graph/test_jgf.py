"""The JGF of a containment tree, compact and with a vertex for each leaf."""

import json
from typing import Any

import pytest

from fluence_extender.graph.jgf import to_jgf
from fluence_extender.graph.units import FINE
from fluence_extender.matcher.expansion import TooManyVertices, expanded
from tests.unit.graph.clusters import QUANTUM, ZONE, cluster, node


def by_path(jgf: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["metadata"]["paths"]["containment"]: entry for entry in jgf["graph"]["nodes"]}


def test_the_compact_form_has_one_entry_for_equal_sibling_leaves() -> None:
    jgf = to_jgf(cluster([node("a", cores=3)]))
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
            "count": 3,
        },
    }
    assert by_path(jgf)["/cluster/a/memory0"]["metadata"]["count"] == 1
    assert json.loads(json.dumps(jgf)) == jgf


def test_the_size_of_the_compact_form_does_not_depend_on_the_units() -> None:
    nodes = [node("a", cores=64, gib=512), node("b")]
    assert len(to_jgf(cluster(nodes, units=FINE))["graph"]["nodes"]) == 7


def test_expanding_makes_a_vertex_of_each_leaf_with_its_nodes_rank() -> None:
    jgf = expanded(to_jgf(cluster([node("a", cores=2), node("b", cores=3)], QUANTUM)))
    found = by_path(jgf)
    third = found["/cluster/b/core2"]["metadata"]
    assert (third["name"], third["id"], third["rank"], third["type"]) == ("core2", 2, 1, "core")
    assert found["/cluster/ibm_fez/qpu1/qubit0/qubit155"]["metadata"]["rank"] == 6
    assert all("count" not in entry["metadata"] for entry in jgf["graph"]["nodes"])
    assert [path for path, entry in found.items() if entry["metadata"]["rank"] < 0] == ["/cluster"]
    assert all(entry["id"] == str(entry["metadata"]["uniq_id"]) for entry in found.values())
    assert len({entry["id"] for entry in found.values()}) == len(jgf["graph"]["nodes"])


def test_edges_follow_the_paths_in_order() -> None:
    jgf = expanded(to_jgf(cluster([node("a", labels={ZONE: "z"}), node("b")], QUANTUM)))
    paths = {entry["id"]: path for path, entry in by_path(jgf).items()}
    edges = [(paths[edge["source"]], paths[edge["target"]]) for edge in jgf["graph"]["edges"]]
    assert all(target.rpartition("/")[0] == source for source, target in edges)
    assert len(edges) == len(paths) - 1
    below: dict[str, list[str]] = {}
    for source, target in edges:
        below.setdefault(source, []).append(target)
    assert below["/cluster"] == ["/cluster/zone=z", "/cluster/b", "/cluster/ibm_fez", "/cluster/rigetti_ankaa", "/cluster/sv1"]  # fmt: skip  # noqa: E501
    assert below["/cluster/b"] == ["/cluster/b/core0", "/cluster/b/core1", "/cluster/b/memory0"]


def test_expanding_a_document_without_counts_changes_nothing() -> None:
    plain = expanded(to_jgf(cluster([node("a")], QUANTUM)))
    assert expanded(plain) == plain
    foreign = {
        "graph": {"directed": True, "nodes": [{"id": "x", "metadata": {"type": "cluster"}}], "edges": []}
    }
    assert expanded(foreign) == foreign


def test_a_graph_that_would_be_too_large_is_refused_with_advice() -> None:
    jgf = to_jgf(cluster([node("a", gib=64)], units=FINE))
    with pytest.raises(TooManyVertices, match=f"{2 + 2000 + 64 * 2**20} vertices: .* choose larger units"):
        expanded(jgf)
    with pytest.raises(TooManyVertices):
        expanded(to_jgf(cluster([node("a", cores=2)])), most=4)
