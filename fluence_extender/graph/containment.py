"""The cluster as a containment graph: cluster, topology levels, nodes and virtual resources, their leaves.

The graph is the contract between the cluster and a matcher. It is kept in compact form, equal sibling leaves as one
entry with a count, so that its size doesn't depend on the units.

Invariant: a tree rooted at ``/cluster``; a vertex's key is its path; siblings keep the order in which they joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import networkx as nx

from fluence_extender.graph.naming_rules import RESERVED_TYPES
from fluence_extender.graph.units import Units
from fluence_extender.graph.vertex import CLUSTER_TYPE, NO_RANK, Counters, Vertex
from fluence_extender.graph.virtual import CLUSTER_PARENT
from fluence_extender.model.names import ZONE

ROOT = f"/{CLUSTER_TYPE}"
LEVELS: Mapping[str, str] = MappingProxyType({"zone": ZONE})
"""Topology levels from the outermost: vertex type -> the node label that names it."""


@dataclass(slots=True)
class Containment:
    """A cluster's graph, changed in place by `apply` (see `fluence_extender.graph.changes`) and nothing else.

    ``nodes`` maps the name of each physical node to its path, ``devices`` each virtual vertex's path to its parent's;
    ``revision`` grows with every change of the tree.
    """

    units: Units
    levels: Mapping[str, str]
    tree: nx.DiGraph[str] = field(default_factory=nx.DiGraph)
    counters: Counters = field(default_factory=Counters)
    nodes: dict[str, str] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    revision: int = 0

    def __post_init__(self) -> None:
        unusable = sorted(set(self.levels) & (RESERVED_TYPES - {"rack", "socket"}))
        if unusable:
            raise ValueError(
                f"a topology level can't be of the type {unusable[0]!r}, which the graph uses itself"
            )
        root = Vertex(ROOT, CLUSTER_TYPE, CLUSTER_TYPE, CLUSTER_TYPE, 0, NO_RANK, 0)
        self.tree.add_node(ROOT, vertex=root)

    def vertex(self, path: str) -> Vertex:
        """The vertex (or leaf entry) at ``path``. Raises `KeyError`."""
        found: Vertex = self.tree.nodes[path]["vertex"]
        return found

    def __contains__(self, path: object) -> bool:
        return path in self.tree

    def children(self, path: str) -> list[str]:
        """The paths right below ``path``, in the order of their edges."""
        return list(self.tree.successors(path))

    def parent(self, path: str) -> str | None:
        """The path right above, None for the root."""
        return next(iter(self.tree.predecessors(path)), None)

    def ancestors(self, path: str) -> Iterator[str]:
        """The paths above, from the nearest to the root."""
        above = self.parent(path)
        while above is not None:
            yield above
            above = self.parent(above)

    def walk(self, path: str = ROOT) -> Iterator[str]:
        """``path`` and all below it, a vertex before its children, children in order."""
        pending = [path]
        while pending:
            here = pending.pop()
            yield here
            pending.extend(reversed(self.children(here)))

    def parent_path(self, parent: str) -> str:
        """The path of what a top-level resource calls its ``parent``. Raises `KeyError` for a node that isn't here."""
        return ROOT if parent == CLUSTER_PARENT else self.nodes[parent]

    def add(self, parent: str, vertex: Vertex) -> None:
        """Hang ``vertex`` below ``parent``, after its present children."""
        self.revision += 1
        self.tree.add_node(vertex.path, vertex=vertex)
        self.tree.add_edge(parent, vertex.path)

    def replace(self, vertex: Vertex) -> None:
        """Put ``vertex`` in the place of the one that has its path."""
        self.revision += 1
        self.tree.nodes[vertex.path]["vertex"] = vertex

    def remove(self, paths: Iterable[str]) -> None:
        """Take out ``paths``, which must be a whole subtree."""
        self.revision += 1
        self.tree.remove_nodes_from(list(paths))


def without_levels(path: str) -> str:
    """A vertex's path less the topology levels in it: the same wherever its node hangs.

    A level's name is ``type=value``, and no node or device has a ``=`` in its name.
    """
    if "=" not in path:
        return path
    return "/".join(part for part in path.split("/") if "=" not in part)
