"""Changes of a containment graph while the cluster lives: a node joins or leaves, resources.yaml is edited.

A change is planned as a value, sent to the matcher, and applied. What stays keeps its path, rank and ``uniq_id``.

Invariant: planning reads only the branch concerned, so a change costs its own size; numbers are never used again.
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
    """What leaves a graph: the whole subtree at ``path``.

    ``path`` is a topology level where the last node of it leaves. ``empties_root`` warns that nothing would
    remain below the cluster, which libreapi_cli can't do (fluxion reference 1.7): load a new graph instead.
    """

    path: str
    paths: tuple[str, ...]
    empties_root: bool = False
    replaced: tuple[Vertex, ...] = ()


def plan_node(containment: Containment, node: Node, resources: Iterable[VirtualResource] = ()) -> Addition:
    """Plan a node's joining, together with those of the top-level ``resources`` whose parent it is.

    Raises `ValueError` when the graph has its name already.
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
    """Plan the joining of many nodes, one after the other. Raises `ValueError` when two have one name."""
    growth = Growth(containment)
    for node in nodes:
        growth.node(node)
    return growth.done()


def plan_resource(containment: Containment, resource: VirtualResource) -> Addition:
    """Plan the joining of a top-level virtual resource with all below it.

    Raises `KeyError` when its parent isn't in the graph, `ValueError` when one of its paths is taken. A
    matcher can't change the properties of a physical parent, so select devices by rank.
    """
    growth = Growth(containment)
    growth.resource(resource)
    return growth.done()


def plan_node_removal(containment: Containment, name: str) -> Removal:
    """Plan a node's leaving, with the virtual resources below it. Raises `KeyError`."""
    path = containment.nodes[name]
    above = containment.parent(path)
    while above is not None and above != ROOT and containment.tree.out_degree(above) == 1:
        path, above = above, containment.parent(above)
    return _removal(containment, path)


def plan_resource_removal(containment: Containment, resource: VirtualResource) -> tuple[Removal, ...]:
    """Plan the leaving of a top-level virtual resource: a removal for each vertex, to apply in order.

    Raises `KeyError` when it isn't in the graph.
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
    """Carry out a planned change; no other may have been applied since it was planned."""
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
    """Return the top-level resources that an edit takes out, and those it brings in.

    One that changed is in both; one that only moved in the file is in neither.
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
    """The physical node without the classes that only ``leaving`` had below it."""
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
    """What a declaration says, apart from where in the file it says so."""
    attributes = sorted(resource.attributes.items())
    parts = [_meaning(child) for child in resource.children]
    parent = resource.parent or CLUSTER_PARENT
    return repr((resource.type, resource.names, resource.count, parent, attributes, parts))
