"""Changes of a containment graph: a node joins or leaves, or resources.yaml is edited.

A change is planned as a value, sent to the matcher, and applied. What stays keeps its path, rank and ``uniq_id``.

Invariant: planning reads only the affected branch, so a change costs its own size; numbers are never used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fluence_extender.graph.containment import ROOT, Containment
from fluence_extender.graph.growth import Addition, Growth, class_property
from fluence_extender.graph.vertex import Vertex
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.model.node import Node


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of the whole subtree at ``path``, whose vertices are ``paths``.

    ``path`` is a topology level when the last node of that level leaves. ``empties_root`` says that nothing would
    remain below the cluster. libreapi_cli can't do that: load a new graph instead.
    ``replaced`` are the physical nodes that have fewer properties afterwards.
    """

    path: str
    paths: tuple[str, ...]
    empties_root: bool = False
    replaced: tuple[Vertex, ...] = ()


def plan_node(containment: Containment, node: Node, resources: Iterable[VirtualResource] = ()) -> Addition:
    """Plan the addition of a node, with those of the top-level ``resources`` whose parent it is.

    Raises `ValueError` when the graph has a node of this name already.
    """
    if node.name in containment.nodes:
        raise ValueError(f"node {node.name} is in the graph already")
    growth = Growth(containment)
    growth.node(node)
    for resource in resources:
        if resource.parent == node.name != CLUSTER_PARENT:
            growth.resource(resource)
    return growth.done()


def plan_nodes(containment: Containment, nodes: Iterable[Node]) -> Addition:
    """Plan the addition of many nodes, in order. Raises `ValueError` when two have the same name."""
    growth = Growth(containment)
    for node in nodes:
        growth.node(node)
    return growth.done()


def plan_resource(containment: Containment, resource: VirtualResource) -> Addition:
    """Plan the addition of a top-level virtual resource with everything below it.

    Raises `KeyError` when its parent isn't in the graph, `ValueError` when one of its paths is taken. A matcher can't
    change the properties of the physical parent, so jobspecs select devices by rank.
    """
    growth = Growth(containment)
    growth.resource(resource)
    return growth.done()


def plan_node_removal(containment: Containment, name: str) -> Removal:
    """Plan the removal of a node, with the virtual resources below it. Raises `KeyError`."""
    path = containment.nodes[name]
    above = containment.parent(path)
    while above is not None and above != ROOT and containment.tree.out_degree(above) == 1:
        path, above = above, containment.parent(above)
    return _removal(containment, path)


def plan_resource_removal(containment: Containment, resource: VirtualResource) -> tuple[Removal, ...]:
    """Plan the removal of a top-level virtual resource: one removal for each vertex, to apply in order.

    Raises `KeyError` when the resource isn't in the graph.
    """
    parent = containment.parent_path(resource.parent)
    removals = [_removal(containment, f"{parent}/{name}") for name in resource.names]
    if parent == ROOT:
        remaining = containment.tree.out_degree(ROOT) - len(removals)
        removals[-1] = replace(removals[-1], empties_root=remaining == 0)
    else:
        removals[-1] = replace(removals[-1], replaced=(_unmarked(containment, parent, resource),))
    return tuple(removals)


def apply(containment: Containment, change: Addition | Removal) -> None:
    """Apply a planned change; no other change may have been applied since it was planned."""
    for vertex in change.replaced:
        containment.replace(vertex)
    if isinstance(change, Removal):
        for path in change.paths:
            containment.devices.pop(path, None)
            vertex = containment.vertex(path)
            if containment.nodes.get(vertex.name) == path:
                del containment.nodes[vertex.name]
        containment.remove(change.paths)
        return
    for parent, vertex in change.vertices:
        containment.add(parent, vertex)
    containment.nodes.update(change.nodes)
    containment.devices.update(change.devices)
    containment.counters = change.counters


def edited_resources(
    old: VirtualResources, new: VirtualResources
) -> tuple[tuple[VirtualResource, ...], tuple[VirtualResource, ...]]:
    """Return the top-level resources that an edit removes, and those that it adds.

    A changed resource is in both; one that only moved in the file is in neither.
    """
    before = {_meaning(one) for one in old.resources}
    after = {_meaning(one) for one in new.resources}
    removed = tuple(one for one in old.resources if _meaning(one) not in after)
    added = tuple(one for one in new.resources if _meaning(one) not in before)
    return removed, added


def _removal(containment: Containment, path: str) -> Removal:
    last = containment.parent(path) == ROOT and containment.tree.out_degree(ROOT) == 1
    return Removal(path, tuple(containment.walk(path)), last)


def _unmarked(containment: Containment, parent: str, leaving: VirtualResource) -> Vertex:
    """Return the physical node without the classes that only ``leaving`` had below it."""
    vertex = containment.vertex(parent)
    others = {
        kind
        for child in containment.children(parent)
        for resource in [containment.vertex(child).resource]
        if resource is not None and child.rpartition("/")[2] not in leaving.names
        for kind in resource.types()
    }
    gone = {class_property(kind) for kind in leaving.types() - others}
    return replace(
        vertex, properties={key: value for key, value in vertex.properties.items() if key not in gone}
    )


def _meaning(resource: VirtualResource) -> str:
    """Return the content of a declaration, without its position in the file."""
    attributes = sorted(resource.attributes.items())
    parts = [_meaning(child) for child in resource.children]
    parent = resource.parent or CLUSTER_PARENT
    return repr((resource.type, resource.names, resource.count, parent, attributes, parts))
