"""Random clusters and resources: what holds for every containment graph."""

from itertools import pairwise
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.engine.jobspec import jobspecs_for
from fluence_extender.graph.catalogue import device_catalogue
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.jgf import unit_jgf
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources
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
    plain = unit_jgf(graph)["graph"]
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
        graph = build_containment([*members, host], forest)
        check_invariants(graph)
        for path, parent in graph.devices.items():
            inner, outer = graph.vertex(path), graph.vertex(parent)
            if outer.type == "node":
                assert weight(inner.id, inner.uniq_id) <= weight(outer.id, outer.uniq_id)


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
    graph = build_containment([*members, host], forest)
    document = unit_jgf(graph)
    for device in device_catalogue(graph).devices:
        (jobspec,) = jobspecs_for([device], device.count)
        matcher = Walker(document, MatcherOptions(policy=policy))
        assert granted(matcher, jobspec), device
        assert not granted(matcher, jobspec), device
