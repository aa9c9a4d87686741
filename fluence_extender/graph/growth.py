"""Growing branches of a containment graph: from a node or a virtual resource to numbered vertices.

Invariant: nothing here changes the graph. A branch is a value until it is applied, and costs its own size.
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
    """What is added to a graph: ``vertices``, each with its parent's path, parents first.

    ``nodes`` and ``devices`` are the entries for the graph's indexes. ``replaced`` are the physical nodes that have
    more properties afterwards, ``counters`` the numbers that are free afterwards.
    """

    vertices: tuple[tuple[str, Vertex], ...]
    counters: Counters
    nodes: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[Vertex, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a new device: ``depth`` devices below its backend's vertex, on the physical node ``host`` if any."""

    parent: str
    backend: str
    host: Vertex | None
    depth: int = 0

    def below(self, vertex: Vertex) -> _Place:
        return replace(self, parent=vertex.path, depth=self.depth + 1)

    def vertex_id(self, rank: int, resource: VirtualResource) -> int:
        """Return an id with which the node-centric policies can score nested nodes.

        They weigh a node by its id, then by its ``uniq_id``. On leaving it they subtract the weight of the node entered
        last, which is an inner one. If that one weighed more, the score would fall below zero,
        and everything that follows would be disqualified. So the vertices of a backend are numbered innermost first,
        within its range of ranks. On a physical node, which has its id already, they weigh exactly as much as it.
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
        """Return what has been collected."""
        return Addition(
            tuple(self._added.values()),
            self._counters,
            self._nodes,
            self._devices,
            tuple(self._replaced.values()),
        )

    def node(self, node: Node) -> None:
        """Add a physical node below its topology levels; a level whose label the node lacks is left out."""
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
        """Add a top-level virtual resource below its parent. Raises `KeyError` for an unknown parent."""
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
        # No node or backend has "=" in its name, so a level never takes the path of either.
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
        """Add the classes of a resource to the properties of the physical node above it."""
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
        """Skip to the next ``uniq_id`` that weighs the same as the host's (see `_Place.vertex_id`)."""
        uniq_id = self._counters.uniq_id
        uniq_id += (host.uniq_id - uniq_id) % UNIQ_ID_CYCLE
        self._counters = replace(self._counters, uniq_id=uniq_id)

    def _take_ids(self, count: int) -> int:
        now = self._counters
        self._counters = Counters(now.rank, now.uniq_id + count, now.level)
        return now.uniq_id


def class_property(kind: str) -> str:
    """Return the property of a vertex that is a device of type ``kind`` or has one below it."""
    return f"class={kind}"


def attribute_property(key: str, value: str) -> str:
    """Return the property of a vertex whose attribute ``key`` is ``value``."""
    return f"{RESOURCE_PREFIX}{key}={value}"
