"""Growing a containment graph: from a node or a virtual resource to numbered vertices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fluence_extender.graph.containment import ROOT, Containment
from fluence_extender.graph.units import leaf_counts
from fluence_extender.graph.vertex import NO_RANK, NODE_TYPE, PHYSICAL, UNIQ_ID_CYCLE, VIRTUAL, Vertex
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource
from fluence_extender.model.names import RESOURCE_PREFIX
from fluence_extender.model.node import Node


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
    """Adds nodes and virtual resources to ``containment``; ranks and ``uniq_id`` are counted up."""

    def __init__(self, containment: Containment) -> None:
        self._containment = containment
        self._next_rank = 0
        self._next_uniq_id = 1
        self._next_level = 0

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
        self._containment.add(parent, vertex)
        self._containment.nodes[node.name] = vertex.path
        for leaf, count in leaf_counts(node.allocatable).items():
            self._leaves(vertex, leaf, count)

    def resource(self, resource: VirtualResource) -> None:
        """Add a top-level virtual resource below its parent. Raises `KeyError` for an unknown parent."""
        parent = ROOT if resource.parent == CLUSTER_PARENT else self._containment.nodes[resource.parent]
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
        self._containment.add(place.parent, vertex)
        self._containment.devices[vertex.path] = place.parent
        if resource.is_leaf:
            self._leaves(vertex, resource.type, resource.count)
        for child in resource.children:
            for child_name in child.names:
                self._device(place.below(vertex), child_name, child)

    def _level(self, parent: str, level: str, value: str) -> str:
        # No node or backend has "=" in its name, so a level never takes the path of either.
        name = f"{level}={value}"
        path = f"{parent}/{name}"
        if path not in self._containment:
            number = self._next_level
            self._next_level += 1
            vertex = Vertex(path, level, level, name, number, NO_RANK, self._take_ids(1))
            self._containment.add(parent, vertex)
        return path

    def _leaves(self, owner: Vertex, leaf: str, count: int) -> None:
        self._containment.add(
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
        vertex = self._containment.vertex(path)
        classes = {class_property(kind): "" for kind in sorted(resource.types())}
        marked = replace(vertex, properties={**vertex.properties, **classes})
        self._containment.replace(marked)
        return marked

    def _take_rank(self) -> int:
        rank = self._next_rank
        self._next_rank += 1
        return rank

    def _take_ids(self, count: int) -> int:
        first = self._next_uniq_id
        self._next_uniq_id += count
        return first

    def _skip_ids(self, host: Vertex) -> None:
        """Skip to the next ``uniq_id`` that weighs the same as the host's (see `_Place.vertex_id`)."""
        self._next_uniq_id += (host.uniq_id - self._next_uniq_id) % UNIQ_ID_CYCLE


def class_property(kind: str) -> str:
    """Return the property of a vertex that is a device of type ``kind`` or has one below it."""
    return f"class={kind}"


def attribute_property(key: str, value: str) -> str:
    """Return the property of a vertex whose attribute ``key`` is ``value``."""
    return f"{RESOURCE_PREFIX}{key}={value}"
