"""The resource graph of the present cluster, which is built when somebody asks for it.

Nothing is placed on this graph: it is shown, and it is what libreapi_cli reads. The virtual devices are kept, because
each plan with devices reads them. A declared resource is left out while its parent node is away or while a node has its
name, so that the rest still works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import structlog

from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue
from fluence_extender.graph.cluster_graph import NO_RESOURCES, build_containment, check_against_cluster
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.units import leaf_counts
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.model.node import Node

log = structlog.get_logger(__name__)

MOST_LOGGED = 10
"""The most problems of resources in one message."""


@dataclass(frozen=True, slots=True)
class GraphSource:
    """The nodes and the virtual resources of one moment, from which a graph can be built in any thread."""

    nodes: Mapping[str, Node]
    resources: VirtualResources
    levels: Mapping[str, str]

    def build(self) -> Containment:
        """Build the graph."""
        return build_containment(self.nodes.values(), self.resources, levels=self.levels)


class CurrentGraph:
    """What the graph of ``nodes`` is made from; ``nodes`` is the ledger's own mapping, which it changes itself.

    ``levels`` are the topology levels, outermost first, with the node labels that name them. ``descending`` says that
    the policy takes the last devices first. ``revision`` grows whenever the graph would be another one.
    """

    def __init__(
        self, nodes: Mapping[str, Node], levels: Mapping[str, str], descending: bool = False
    ) -> None:
        self._nodes = nodes
        self._descending = descending
        self.levels = levels
        self.revision = 0
        self._declared = NO_RESOURCES
        self._named: frozenset[str] = frozenset()
        self._attached: VirtualResources | None = NO_RESOURCES
        self._left_out: Set[str] = frozenset()
        self._catalogue: DeviceCatalogue | None = None

    @property
    def declared(self) -> VirtualResources:
        """All virtual resources of the file, also those that the present nodes don't allow."""
        return self._declared

    def declare(self, resources: VirtualResources) -> None:
        """Replace the virtual resources."""
        self._declared = resources
        self._named = frozenset(_names(resources.resources))
        self._forget()

    def node_changed(self, before: Node | None, after: Node | None) -> None:
        """Follow a node that joins (``before`` is None), has changed, or leaves (``after`` is None)."""
        if before is not None and after is not None:
            moved = self._level_values(before) != self._level_values(after)
            if not moved and leaf_counts(before.allocatable) == leaf_counts(after.allocatable):
                return
        else:
            moved = True
        self.revision += 1
        node = after or before
        if moved and node is not None and node.name in self._named:
            self._forget()

    def loaded(self) -> None:
        """Follow a replacement of all nodes."""
        self._forget()

    @property
    def catalogue(self) -> DeviceCatalogue:
        """The virtual devices that can be allocated."""
        if self._catalogue is None:
            attached = self._attach()
            parents = {
                top.parent: self._nodes[top.parent] for top in attached.resources if top.parent in self._nodes
            }
            self._catalogue = device_catalogue(
                GraphSource(parents, attached, self.levels).build(), self._descending
            )
        return self._catalogue

    def source(self) -> GraphSource:
        """Return what the graph of this moment is built from."""
        return GraphSource(dict(self._nodes), self._attach(), self.levels)

    def _level_values(self, node: Node) -> tuple[str, ...]:
        return tuple(node.labels.get(label, "") for label in self.levels.values())

    def _forget(self) -> None:
        self.revision += 1
        self._attached = self._catalogue = None

    def _attach(self) -> VirtualResources:
        """Return the resources that the present nodes allow, and log which others are left out now."""
        if self._attached is None:
            allowed: list[VirtualResource] = []
            left_out: dict[str, None] = {}
            for top in self._declared.resources:
                one = VirtualResources("", (top,))
                problems = check_against_cluster(one, self._nodes.keys(), self.levels)
                if not problems:
                    allowed.append(top)
                left_out.update(dict.fromkeys(map(str, problems)))
            new = [problem for problem in left_out if problem not in self._left_out]
            if new:
                log.warning("virtual resources are left out", number=len(new), problems=new[:MOST_LOGGED])
            self._left_out = left_out.keys()
            self._attached = VirtualResources(self._declared.source, tuple(allowed))
        return self._attached


def _names(resources: Iterable[VirtualResource]) -> Iterable[str]:
    """Yield the names of nodes that decide which of the resources are attached."""
    for top in resources:
        yield from (name for resource in top.walk() for name in resource.names)
        if top.parent != CLUSTER_PARENT:
            yield top.parent
