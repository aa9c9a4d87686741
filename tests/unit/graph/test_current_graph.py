"""The graph of the present cluster: built when it is asked for, and devices that follow nodes and the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fluence_extender.graph.current import CurrentGraph
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from tests.unit.graph.clusters import TOPOLOGY, ZONE, node

LOCAL = """
resources:
  - {type: simulator, name: s0, parent: n0, count: 2}
  - {type: simulator, name: everywhere, count: 4}
"""


class Cluster:
    """Nodes and the graph that follows them."""

    def __init__(self, *names: str, resources: str = LOCAL) -> None:
        self.nodes = {name: node(name) for name in names}
        self.graph = CurrentGraph(self.nodes, TOPOLOGY)
        self.graph.declare(parse_resources(resources))

    def put(self, present: Node) -> None:
        before = self.nodes.get(present.name)
        self.nodes[present.name] = present
        self.graph.node_changed(before, present)

    def drop(self, name: str) -> None:
        self.graph.node_changed(self.nodes.pop(name), None)

    @property
    def backends(self) -> list[str]:
        return [device.backend for device in self.graph.catalogue.devices]


def test_device_of_a_node_is_offered_while_the_node_is_there() -> None:
    cluster = Cluster("n1")
    assert cluster.backends == ["everywhere"]
    cluster.put(node("n0"))
    assert cluster.backends == ["s0", "everywhere"]
    cluster.drop("n0")
    assert cluster.backends == ["everywhere"]


def test_device_whose_name_a_node_takes_is_left_out_until_that_node_goes() -> None:
    cluster = Cluster("n1")
    cluster.put(node("everywhere"))
    assert cluster.backends == []
    cluster.drop("everywhere")
    assert cluster.backends == ["everywhere"]


def test_device_moves_with_its_node_in_the_topology() -> None:
    cluster = Cluster("n0")
    assert next(device.path for device in cluster.graph.catalogue.devices) == "/cluster/n0/s0"
    cluster.put(node("n0", labels={ZONE: "z"}))
    assert next(device.path for device in cluster.graph.catalogue.devices) == "/cluster/zone=z/n0/s0"


def test_devices_are_the_same_ones_until_something_changes_them() -> None:
    cluster = Cluster("n0", "n1")
    before = cluster.graph.catalogue
    cluster.put(node("n2"))
    cluster.put(node("n1", cores=8))
    assert cluster.graph.catalogue is before
    cluster.graph.declare(parse_resources(LOCAL))
    assert cluster.graph.catalogue is not before


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"allocatable": Resources({"cpu": 9000})}, True),
        ({"labels": {ZONE: "z"}}, True),
        ({"labels": {"example.com/unknown": "x"}}, False),
        ({"unschedulable": True}, False),
    ],
)
def test_revision_grows_exactly_when_the_graph_is_another_one(change: dict[str, object], other: bool) -> None:
    cluster = Cluster("n0", "n1")
    before = cluster.graph.revision
    cluster.put(replace(cluster.nodes["n1"], **change))  # type: ignore[arg-type]
    assert (cluster.graph.revision != before) == other


def test_source_is_the_graph_of_the_moment_at_which_it_was_taken() -> None:
    cluster = Cluster("n10", "n2")
    source = cluster.graph.source()
    cluster.drop("n2")
    cluster.put(node("n1"))
    graph = source.build()
    assert list(graph.nodes) == ["n2", "n10"]
    assert [graph.vertex(path).rank for path in graph.nodes.values()] == [0, 1]
    assert list(graph.devices) == ["/cluster/everywhere"]
