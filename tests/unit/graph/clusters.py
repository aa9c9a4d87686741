"""Small clusters for the tests of the graph."""

from collections.abc import Iterable, Mapping

from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.containment import LEVELS, Containment
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

GIB = 2**30
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
TOPOLOGY = {"zone": ZONE, "rack": RACK}

QUANTUM = """
resources:
  - type: qdevice
    name: ibm_fez
    attributes: {vendor: ibm, region: us}
    with:
      - type: qpu
        count: 2
        with: [{type: qubit, count: 156}]
  - type: qdevice
    name: rigetti_ankaa
    attributes: {vendor: rigetti}
    with:
      - type: qpu
        name: ankaa
        with: [{type: qubit, count: 84}]
  - {type: simulator, name: sv1, count: 4, attributes: {vendor: aws}}
"""


def node(
    name: str, cores: int = 2, gib: int = 1, labels: Mapping[str, str] | None = None, **more: int
) -> Node:
    """Make a node with ``cores`` CPUs and ``gib`` GiB; further resources by keyword with ``__`` for ``/``."""
    extended = {resource.replace("__", "/").replace("_", "."): amount for resource, amount in more.items()}
    amounts = {"cpu": cores * 1000, "memory": gib * GIB, "pods": 110, **extended}
    return Node(name=name, labels=dict(labels or {}), allocatable=Resources(amounts))


def cluster(
    nodes: Iterable[Node] = (),
    resources: str = "",
    levels: Mapping[str, str] = LEVELS,
) -> Containment:
    """Build the graph of ``nodes`` and the text of a resources file."""
    return build_containment(nodes, parse_resources(resources), levels=levels)
