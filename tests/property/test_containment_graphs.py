"""Random clusters and resources: what holds for every containment graph, whether built or changed."""

from itertools import pairwise
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.graph.catalogue import device_catalogue
from fluence_extender.graph.changes import (
    apply,
    plan_node,
    plan_node_removal,
    plan_resource,
    plan_resource_removal,
)
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import addition_jgf, to_jgf
from fluence_extender.graph.jobspecs import jobspecs_for
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.matcher.expansion import expanded
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from tests.oracle import Matcher, MatcherError, MatcherOptions, MatchOp
from tests.oracle.walker import Walker

ZONE = "topology.kubernetes.io/zone"
NAMES = ["n1", "n2", "n10", "n20"]


def declarations(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    parts = st.lists(declarations(depth - 1), max_size=2) if depth else st.just([])
    return st.fixed_dictionaries(
        {
            "type": st.sampled_from(["qpu", "qubit", "site", "chip"]),
            "count": st.integers(1, 3),
            "with": parts,
            "attributes": st.dictionaries(
                st.sampled_from(["vendor", "tier"]), st.sampled_from(["", "a", "b"])
            ),
        }
    )


def forests(parents: list[str]) -> st.SearchStrategy[VirtualResources]:
    top = st.builds(lambda one, parent: {**one, "parent": parent}, declarations(2), st.sampled_from(parents))
    return st.lists(top, min_size=1, max_size=4).map(
        lambda resources: parse_resources(yaml.safe_dump({"resources": resources}, sort_keys=False))
    )


nodes = st.builds(
    lambda name, cores, zone: Node(
        name=name,
        labels={ZONE: zone} if zone else {},
        allocatable=Resources({"cpu": cores * 1000, "memory": 2**30, "pods": 10}),
    ),
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.sampled_from(["", "z1", "z2"]),
)
clusters = st.lists(nodes, unique_by=lambda node: node.name, max_size=4)


def check_invariants(graph: Containment) -> None:
    vertices = [graph.vertex(path) for path in graph.walk()]
    assert [one.path for one in vertices] == list(graph.walk())
    assert len(vertices) == len(graph.tree) == graph.tree.number_of_edges() + 1
    ranges = sorted((one.uniq_id, one.uniq_id + one.count) for one in vertices)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    nodes = [one for one in vertices if one.type == "node"]
    assert len({one.rank for one in nodes}) == len(nodes)
    assert {one.path for one in nodes} == {*graph.nodes.values(), *graph.devices}
    plain = expanded(to_jgf(graph))["graph"]
    paths = [entry["metadata"]["paths"]["containment"] for entry in plain["nodes"]]
    assert len(set(paths)) == len(paths) == sum(one.count for one in vertices)
    assert len(plain["edges"]) == len(paths) - 1


def weight(id_: int, uniq_id: int) -> int:
    return (id_ + 2) * 10_000 + abs(uniq_id % 10_000 - 1)


@given(clusters, forests(["cluster"]), forests(["cluster", "host"]))
def test_every_graph_is_a_tree_with_unique_numbers(
    members: list[Node], first: VirtualResources, second: VirtualResources
) -> None:
    host = Node(name="host", allocatable=Resources({"cpu": 1000}))
    for forest in (first, second):
        graph = build_containment([*members, host], forest, units=COARSE)
        check_invariants(graph)
        for path, parent in graph.devices.items():
            inner, outer = graph.vertex(path), graph.vertex(parent)
            if outer.type == "node":
                assert weight(inner.id, inner.uniq_id) <= weight(outer.id, outer.uniq_id)


@given(clusters, clusters, forests(["cluster"]), forests(["cluster"]))
def test_changes_lead_to_the_graph_that_a_build_would_give(
    before: list[Node], after: list[Node], old: VirtualResources, new: VirtualResources
) -> None:
    graph = build_containment(before, old, units=COARSE)
    ranks = graph.counters.rank
    for resource in old.resources:
        for removal in plan_resource_removal(graph, resource):
            apply(graph, removal)
    for name in list(graph.nodes):
        apply(graph, plan_node_removal(graph, name))
        check_invariants(graph)
    assert list(graph.walk()) == ["/cluster"]
    for addition in after:
        apply(graph, plan_node(graph, addition))
    for resource in new.resources:
        apply(graph, plan_resource(graph, resource))
    check_invariants(graph)
    built = build_containment(after, new, units=COARSE)
    assert set(graph.walk()) == set(built.walk())
    for path in built.walk():
        ours, theirs = graph.vertex(path), built.vertex(path)
        assert (ours.count, ours.properties, ours.backend) == (
            theirs.count,
            theirs.properties,
            theirs.backend,
        )
        assert ours.type != "node" or ours.rank >= ranks


def granted(matcher: Matcher, jobspec: dict[str, Any]) -> bool:
    try:
        matcher.match(MatchOp.ALLOCATE, jobspec)
    except MatcherError:
        return False
    return True


@settings(max_examples=40, deadline=None)
@given(
    clusters.filter(lambda members: any(node.allocatable["cpu"] for node in members)),
    forests(["cluster", "host"]),
    st.sampled_from(["first", "lonode", "hinode", "low", "high"]),
)
def test_every_device_of_an_idle_cluster_can_be_granted(
    members: list[Node], forest: VirtualResources, policy: str
) -> None:
    host = Node(name="host", allocatable=Resources({"cpu": 1000}))
    graph = build_containment([*members, host], forest, units=COARSE)
    document = expanded(to_jgf(graph))
    for device in device_catalogue(graph).devices:
        (jobspec,) = jobspecs_for([device], device.count)
        matcher = Walker(document, MatcherOptions(policy=policy))
        assert granted(matcher, jobspec), device
        assert not granted(matcher, jobspec), device


@settings(max_examples=40, deadline=None)
@given(clusters.filter(bool), nodes, forests(["cluster"]))
def test_an_engine_takes_the_document_of_an_addition(
    members: list[Node], joining: Node, forest: VirtualResources
) -> None:
    graph = build_containment([node for node in members if node.name != joining.name], forest, units=COARSE)
    matcher = Walker(expanded(to_jgf(graph)))
    addition = plan_node(graph, joining)
    matcher.add_subgraph(expanded(addition_jgf(graph, addition)))
    apply(graph, addition)
    removal = plan_node_removal(graph, joining.name)
    matcher.remove_subgraph(removal.path)
    apply(graph, removal)
    check_invariants(graph)
