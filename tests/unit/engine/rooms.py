"""Small clusters and the room in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.current import CurrentGraph
from fluence_extender.graph.virtual import VirtualResource, VirtualResources
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.room.capacity import CapacityTable, NodeCapacity

DEVICES = VirtualResources(
    "resources.yaml",
    (
        VirtualResource(
            "qpu", "fez", ("fez",), children=(VirtualResource("qubit", "qubits", ("qubits",), count=5),)
        ),
        VirtualResource("license", "solver", ("solver",), count=3, parent="n0"),
    ),
)
QPU = DeviceShare("/cluster/fez", "qpu", 1, "fez")
LICENSES = "/cluster/n0/solver"


def licenses(amount: int) -> DeviceShare:
    return DeviceShare(LICENSES, "license", amount, "solver")


def qubits(amount: int) -> DeviceShare:
    return DeviceShare("/cluster/fez/qubits", "qubit", amount, "fez")


def graph_of(nodes: Iterable[Node], declared: VirtualResources | None = None) -> CurrentGraph:
    graph = CurrentGraph({one.name: one for one in nodes}, LEVELS)
    if declared is not None:
        graph.declare(declared)
    return graph


def room(free: Mapping[str, Resources], kinds: Resources) -> CapacityTable:
    """The table of nodes with these free amounts; ``kinds`` are the resources that some node has."""
    return CapacityTable.of({name: NodeCapacity(amounts, kinds=kinds) for name, amounts in free.items()})


def all_free(nodes: Iterable[Node]) -> CapacityTable:
    return CapacityTable.of({one.name: NodeCapacity(one.allocatable, kinds=one.allocatable) for one in nodes})
