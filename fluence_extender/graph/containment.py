"""The cluster as a containment graph: cluster, topology levels, nodes and virtual resources, and their leaves.

The graph is shown, and libreapi_cli reads it. Equal sibling leaves are one entry with a count, so the size of the graph
doesn't depend on how large nodes are.

Invariant: a tree rooted at ``/cluster``; a vertex's key is its path; siblings keep the order in which they joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import networkx as nx

from fluence_extender.graph.naming_rules import RESERVED_TYPES
from fluence_extender.graph.vertex import CLUSTER_TYPE, NO_RANK, Vertex
from fluence_extender.model.names import ZONE

ROOT = f"/{CLUSTER_TYPE}"
LEVELS: Mapping[str, str] = MappingProxyType({"zone": ZONE})
"""The topology levels, outermost first: vertex type -> the node label that names it."""


@dataclass(slots=True)
class Containment:
    """The graph of a cluster. Only `fluence_extender.graph.growth` adds to it.

    ``nodes`` maps the name of each physical node to its path, ``devices`` the path of each virtual vertex to its
    parent's.
    """

    levels: Mapping[str, str]
    tree: nx.DiGraph[str] = field(default_factory=nx.DiGraph)
    nodes: dict[str, str] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unusable = sorted(set(self.levels) & (RESERVED_TYPES - {"rack", "socket"}))
        if unusable:
            raise ValueError(
                f"a topology level can't be of the type {unusable[0]!r}, which the graph uses itself"
            )
        root = Vertex(ROOT, CLUSTER_TYPE, CLUSTER_TYPE, CLUSTER_TYPE, 0, NO_RANK, 0)
        self.tree.add_node(ROOT, vertex=root)

    def vertex(self, path: str) -> Vertex:
        """Return the vertex (or entry of leaves) at ``path``. Raises `KeyError`."""
        found: Vertex = self.tree.nodes[path]["vertex"]
        return found

    def __contains__(self, path: object) -> bool:
        return path in self.tree

    def children(self, path: str) -> list[str]:
        """Return the paths directly below ``path``, in the order of their edges."""
        return list(self.tree.successors(path))

    def parent(self, path: str) -> str | None:
        """Return the path directly above, or None for the root."""
        return next(iter(self.tree.predecessors(path)), None)

    def ancestors(self, path: str) -> Iterator[str]:
        """Yield the paths above, from the nearest to the root."""
        above = self.parent(path)
        while above is not None:
            yield above
            above = self.parent(above)

    def walk(self, path: str = ROOT) -> Iterator[str]:
        """Yield ``path`` and all paths below it, a vertex before its children, children in order."""
        pending = [path]
        while pending:
            current = pending.pop()
            yield current
            pending.extend(reversed(self.children(current)))

    def add(self, parent: str, vertex: Vertex) -> None:
        """Add ``vertex`` below ``parent``, after its present children. Raises `ValueError` if its path is taken."""
        if vertex.path in self.tree:
            raise ValueError(f"the graph already has a vertex at {vertex.path}")
        self.tree.add_node(vertex.path, vertex=vertex)
        self.tree.add_edge(parent, vertex.path)

    def replace(self, vertex: Vertex) -> None:
        """Replace the vertex that has the path of ``vertex``."""
        self.tree.nodes[vertex.path]["vertex"] = vertex


def without_levels(path: str) -> str:
    """Return a vertex's path without topology levels, which doesn't change if its node moves in the topology.

    The name of a level is ``type=value``, and no node or device has a ``=`` in its name.
    """
    if "=" not in path:
        return path
    return "/".join(part for part in path.split("/") if "=" not in part)


def paths_above(path: str) -> Iterator[str]:
    """Yield the paths above a vertex's path, from the nearest to the root."""
    while (path := path.rpartition("/")[0]) != "":
        yield path
