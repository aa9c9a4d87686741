"""Changes of nodes and devices: what they add and remove, and that the rest stays the same."""

from typing import Any

import pytest

from fluence_extender.graph.changes import (
    Removal,
    apply,
    edited_resources,
    plan_node,
    plan_node_removal,
    plan_resource,
    plan_resource_removal,
)
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import addition_jgf, to_jgf
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.vertex import Vertex
from fluence_extender.graph.virtual import VirtualResource
from tests.unit.graph.clusters import QUANTUM, ZONE, cluster, node


def vertices(graph: Containment) -> dict[str, Vertex]:
    return {path: graph.vertex(path) for path in graph.walk()}


def paths(jgf: dict[str, Any]) -> list[str]:
    return [entry["metadata"]["paths"]["containment"] for entry in jgf["graph"]["nodes"]]


def one_resource(text: str) -> VirtualResource:
    return parse_resources(f"resources: [{text}]").resources[0]


def test_a_joining_node_changes_no_other_node() -> None:
    graph = cluster([node("a"), node("b")], QUANTUM)
    before = vertices(graph)
    addition = plan_node(graph, node("c", labels={ZONE: "z"}))
    assert vertices(graph) == before
    jgf = addition_jgf(graph, addition)
    assert paths(jgf) == [
        "/cluster",
        "/cluster/zone=z",
        "/cluster/zone=z/c",
        "/cluster/zone=z/c/core0",
        "/cluster/zone=z/c/memory0",
    ]
    apply(graph, addition)
    after = vertices(graph)
    assert {path: after[path] for path in before} == before
    assert after["/cluster/zone=z/c"].rank == 11
    whole = to_jgf(graph)["graph"]
    assert all(entry in whole["nodes"] for entry in jgf["graph"]["nodes"])
    assert all(edge in whole["edges"] for edge in jgf["graph"]["edges"])


def test_a_node_joins_an_existing_level() -> None:
    graph = cluster([node("a", labels={ZONE: "z"})])
    addition = plan_node(graph, node("b", labels={ZONE: "z"}))
    jgf = addition_jgf(graph, addition)
    assert paths(jgf)[:3] == ["/cluster", "/cluster/zone=z", "/cluster/zone=z/b"]
    assert len(jgf["graph"]["edges"]) == len(jgf["graph"]["nodes"]) - 1


def test_the_cost_of_a_change_does_not_grow_with_the_cluster() -> None:
    small, large = (cluster([node(f"n{index}") for index in range(size)]) for size in (2, 200))
    documents = [addition_jgf(graph, plan_node(graph, node("new"))) for graph in (small, large)]
    assert len(documents[0]["graph"]["nodes"]) == len(documents[1]["graph"]["nodes"]) == 4
    assert len(plan_node_removal(large, "n7").paths) == 3


def test_ranks_and_unique_ids_are_never_used_again() -> None:
    graph = cluster([node("a"), node("b")])
    gone = {one.uniq_id for path, one in vertices(graph).items() if path.startswith("/cluster/b")}
    apply(graph, plan_node_removal(graph, "b"))
    apply(graph, plan_node(graph, node("b")))
    assert graph.vertex("/cluster/b").rank == 2
    assert gone.isdisjoint(one.uniq_id for one in vertices(graph).values())


def test_the_last_node_of_a_level_takes_the_level_with_it() -> None:
    graph = cluster([node("a", labels={ZONE: "z"}), node("b", labels={ZONE: "z"}), node("c")])
    first = plan_node_removal(graph, "a")
    assert first.path == "/cluster/zone=z/a"
    apply(graph, first)
    second = plan_node_removal(graph, "b")
    assert (second.path, second.empties_root) == ("/cluster/zone=z", False)
    apply(graph, second)
    assert list(graph.nodes) == ["c"]
    assert plan_node_removal(graph, "c").empties_root


def test_a_node_leaves_and_returns_with_its_virtual_resources() -> None:
    text = "resources: [{type: qpu, name: q, parent: b, with: [{type: qubit}]}, {type: qpu, name: r}]"
    graph = cluster([node("a"), node("b")], text)
    apply(graph, plan_node_removal(graph, "b"))
    assert list(graph.devices) == ["/cluster/r"]
    addition = plan_node(graph, node("b"), parse_resources(text).resources)
    apply(graph, addition)
    assert list(graph.devices) == ["/cluster/r", "/cluster/b/q", "/cluster/b/q/qubit0"]
    assert "class=qubit" in graph.vertex("/cluster/b").properties
    assert addition.replaced == ()


def test_a_resource_joins_and_leaves_a_physical_node() -> None:
    graph = cluster([node("a"), node("b")], "resources: [{type: sim, name: s, parent: b}]")
    before = vertices(graph)
    resource = one_resource("{type: qpu, name: q, count: 2, parent: b, with: [{type: sim}]}")
    addition = plan_resource(graph, resource)
    jgf = addition_jgf(graph, addition)
    assert paths(jgf)[:3] == ["/cluster", "/cluster/b", "/cluster/b/q0"]
    assert "class=qpu" in jgf["graph"]["nodes"][1]["metadata"]["properties"]
    apply(graph, addition)
    assert "class=qpu" in graph.vertex("/cluster/b").properties
    removals = plan_resource_removal(graph, resource)
    assert [one.path for one in removals] == ["/cluster/b/q0", "/cluster/b/q1"]
    for removal in removals:
        apply(graph, removal)
    assert vertices(graph) == before


def test_removing_the_only_resource_of_an_empty_cluster_is_flagged() -> None:
    graph = cluster([], "resources: [{type: qpu, name: q, count: 2, with: [{type: qubit}]}]")
    resource = one_resource("{type: qpu, name: q, count: 2, with: [{type: qubit}]}")
    assert [one.empties_root for one in plan_resource_removal(graph, resource)] == [False, True]


def test_a_node_named_cluster_is_not_the_cluster() -> None:
    file = parse_resources("resources: [{type: qpu, name: q}]")
    graph = cluster()
    apply(graph, plan_node(graph, node("cluster"), file.resources))
    apply(graph, plan_resource(graph, file.resources[0]))
    assert list(graph.devices) == ["/cluster/q"]


def test_taken_and_unknown_names_are_refused() -> None:
    graph = cluster([node("a")], "resources: [{type: qpu, name: q}]")
    with pytest.raises(ValueError, match="node a is in the graph already"):
        plan_node(graph, node("a"))
    with pytest.raises(ValueError, match="already has a vertex at /cluster/q"):
        plan_resource(graph, one_resource("{type: qpu, name: q}"))
    with pytest.raises(KeyError):
        plan_resource(graph, one_resource("{type: qpu, parent: gone}"))
    with pytest.raises(KeyError):
        plan_node_removal(graph, "gone")


def test_an_edit_has_what_changed_and_nothing_else() -> None:
    old = parse_resources(
        "resources:\n- {type: a, name: x}\n- {type: b, name: y, with: [{type: c, count: 2}]}"
    )
    new = parse_resources(
        "# moved down\nresources:\n- {type: d, name: z}\n- {type: a, name: x}\n"
        "- {type: b, name: y, with: [{type: c, count: 3}]}"
    )
    removed, added = edited_resources(old, new)
    assert [one.name for one in removed] == ["y"]
    assert [one.name for one in added] == ["z", "y"]
    assert edited_resources(old, old) == ((), ())


def test_a_removal_lists_its_whole_subtree() -> None:
    graph = cluster([node("a")], QUANTUM)
    ibm = parse_resources(QUANTUM).resources[0]
    (removal,) = plan_resource_removal(graph, ibm)
    assert isinstance(removal, Removal)
    assert len(removal.paths) == 7
    apply(graph, removal)
    assert all(not path.startswith("/cluster/ibm_fez") for path in [*graph.walk(), *graph.devices])
