"""Growing branches of a containment graph: from a node or a virtual resource to vertices with numbers.

Invariant: nothing here changes the graph; a branch is a value until it is applied, and its cost is its own size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fluence_extender.graph.containment import ROOT, Containment
from fluence_extender.graph.units import leaf_counts
from fluence_extender.graph.vertex import (
    NO_RANK,
    NODE_TYPE,
    PHYSICAL,
    UNIQ_ID_CYCLE,
    VIRTUAL,
    Counters,
    Vertex,
)
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.node import Node


@dataclass(frozen=True, slots=True)
class Addition:
    """What joins a graph: ``vertices`` below their parents' paths, parents first.

    ``nodes`` and ``devices`` are the entries for the graph's indexes, ``replaced`` the physical nodes that
    carry more properties now, ``counters`` the numbers that are free afterwards.
    """

    vertices: tuple[tuple[str, Vertex], ...]
    counters: Counters
    nodes: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[Vertex, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a device grows: ``depth`` devices below its backend's vertex, on the physical node ``host`` if any."""

    parent: str
    backend: str
    host: Vertex | None
    depth: int = 0

    def below(self, vertex: Vertex) -> _Place:
        return replace(self, parent=vertex.path, depth=self.depth + 1)

    def vertex_id(self, rank: int, resource: VirtualResource) -> int:
        """An id by which the node-centric policies can score nested nodes.

        They weigh a node by its id, then its ``uniq_id``, and on leaving it take back the weight of the node entered
        last, an inner one's (fluxion reference 4.5): an inner node that weighs more would leave a score below zero,
        which disqualifies all that follows. So a backend's vertices are numbered with the innermost first, within its
        range of ranks; and on a physical node, which has its id already, they weigh exactly what it does.
        """
        if self.host is not None:
            return self.host.id
        parts = sum(child.vertices() for child in resource.children)
        return rank - self.depth + parts


class Growth:
    """Collects one `Addition` to ``containment``."""

    def __init__(self, containment: Containment) -> None:
        self._containment = containment
        self._counters = containment.counters
        self._added: dict[str, tuple[str, Vertex]] = {}
        self._replaced: dict[str, Vertex] = {}
        self._nodes: dict[str, str] = {}
        self._devices: dict[str, str] = {}

    def done(self) -> Addition:
        """The branch as it has grown."""
        return Addition(
            tuple(self._added.values()),
            self._counters,
            self._nodes,
            self._devices,
            tuple(self._replaced.values()),
        )

    def node(self, node: Node) -> None:
        """Grow a physical node below its topology levels; a level whose label it lacks is left out."""
        parent = ROOT
        for level, label in self._containment.levels.items():
            value = node.labels.get(label)
            if value:
                parent = self._level(parent, level, value)
        rank = self._take_rank()
        vertex = Vertex(
            path=f"{parent}/{node.name}",
            type=NODE_TYPE,
            basename=NODE_TYPE,
            name=node.name,
            id=rank,
            rank=rank,
            uniq_id=self._take_ids(1),
            properties={PHYSICAL: ""},
        )
        self._add(parent, vertex)
        self._nodes[node.name] = vertex.path
        for leaf, count in leaf_counts(node.allocatable, self._containment.units).items():
            self._leaves(vertex, leaf, count)

    def resource(self, resource: VirtualResource) -> None:
        """Grow a top-level virtual resource below its parent. Raises `KeyError` for an unknown parent."""
        joining = self._nodes.get(resource.parent) if resource.parent != CLUSTER_PARENT else None
        parent = joining or self._containment.parent_path(resource.parent)
        host = None if parent == ROOT else self._mark(parent, resource)
        for name in resource.names:
            self._device(_Place(parent, name, host), name, resource)

    def _device(self, place: _Place, name: str, resource: VirtualResource) -> None:
        rank = self._take_rank()
        if place.host is not None:
            self._skip_ids(place.host)
        properties = {VIRTUAL: ""}
        properties |= {class_property(kind): "" for kind in sorted(resource.types())}
        properties |= {
            attribute_property(key, value): "" for key, value in sorted(resource.attributes.items())
        }
        properties[attribute_property("backend", place.backend)] = ""
        vertex = Vertex(
            path=f"{place.parent}/{name}",
            type=NODE_TYPE,
            basename=resource.type,
            name=name,
            id=place.vertex_id(rank, resource),
            rank=rank,
            uniq_id=self._take_ids(1),
            properties=properties,
            resource=resource,
            backend=place.backend,
        )
        self._add(place.parent, vertex)
        self._devices[vertex.path] = place.parent
        if resource.is_leaf:
            self._leaves(vertex, resource.type, resource.count)
        for child in resource.children:
            for child_name in child.names:
                self._device(place.below(vertex), child_name, child)

    def _level(self, parent: str, level: str, value: str) -> str:
        # "=" is in no node's or backend's name, so a level never takes the path of either.
        name = f"{level}={value}"
        path = f"{parent}/{name}"
        if path not in self._containment and path not in self._added:
            number = self._counters.level
            self._counters = replace(self._counters, level=number + 1)
            self._add(parent, Vertex(path, level, level, name, number, NO_RANK, self._take_ids(1)))
        return path

    def _leaves(self, owner: Vertex, leaf: str, count: int) -> None:
        self._add(
            owner.path,
            Vertex(
                path=f"{owner.path}/{leaf}0",
                type=leaf,
                basename=leaf,
                name=f"{leaf}0",
                id=0,
                rank=owner.rank,
                uniq_id=self._take_ids(count),
                count=count,
            ),
        )

    def _mark(self, path: str, resource: VirtualResource) -> Vertex:
        """Let a physical node say which classes hang below it."""
        _, added = self._added.get(path, ("", None))
        vertex = added or self._replaced.get(path) or self._containment.vertex(path)
        classes = {class_property(kind): "" for kind in sorted(resource.types())}
        marked = replace(vertex, properties={**vertex.properties, **classes})
        if added is not None:
            self._added[path] = (self._added[path][0], marked)
        else:
            self._replaced[path] = marked
        return marked

    def _add(self, parent: str, vertex: Vertex) -> None:
        if vertex.path in self._containment or vertex.path in self._added:
            raise ValueError(f"the graph already has a vertex at {vertex.path}")
        self._added[vertex.path] = (parent, vertex)

    def _take_rank(self) -> int:
        now = self._counters
        self._counters = Counters(now.rank + 1, now.uniq_id, now.level)
        return now.rank

    def _skip_ids(self, host: Vertex) -> None:
        """Make the next ``uniq_id`` one that weighs the same as the host's (see `_Place.vertex_id`)."""
        uniq_id = self._counters.uniq_id
        uniq_id += (host.uniq_id - uniq_id) % UNIQ_ID_CYCLE
        self._counters = replace(self._counters, uniq_id=uniq_id)

    def _take_ids(self, count: int) -> int:
        now = self._counters
        self._counters = Counters(now.rank, now.uniq_id + count, now.level)
        return now.uniq_id


def class_property(kind: str) -> str:
    """The property of a vertex that is, or has below it, a device of type ``kind``."""
    return f"class={kind}"


def attribute_property(key: str, value: str) -> str:
    """The property of a vertex whose attribute ``key`` is ``value``."""
    return f"{RESOURCE_PREFIX}{key}={value}"
