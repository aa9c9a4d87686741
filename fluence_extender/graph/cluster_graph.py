"""Building the whole graph from the nodes and the resources file, and checking one against the other.

Invariant: physical nodes get the first ranks, in the natural order of their names (node2 before node10), followed by
virtual resources in file order. So two builds from the same cluster are equal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set

from fluence_extender.graph.containment import LEVELS, Containment
from fluence_extender.graph.errors import InvalidResourcesFile, Problem
from fluence_extender.graph.growth import Growth
from fluence_extender.graph.naming_rules import nearest, type_rule
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.model.node import Node
from fluence_extender.model.notation import natural_order

NO_RESOURCES = VirtualResources("")
_LEAF_NAME = re.compile(r"(?:core|memory|gpu)\d+", re.ASCII)


def build_containment(
    nodes: Iterable[Node],
    resources: VirtualResources = NO_RESOURCES,
    levels: Mapping[str, str] = LEVELS,
) -> Containment:
    """Build the graph of a cluster; a leaf's count is the allocatable amount in whole leaves, rounded down.

    Raises `InvalidResourcesFile` when the file and the nodes contradict each other (see `check_against_cluster`).
    """
    ordered = sorted(nodes, key=lambda node: natural_order(node.name))
    problems = check_against_cluster(resources, [node.name for node in ordered], levels)
    if problems:
        raise InvalidResourcesFile(problems)
    containment = Containment(levels)
    growth = Growth(containment)
    for node in ordered:
        growth.node(node)
    for resource in resources.resources:
        growth.resource(resource)
    return containment


def check_against_cluster(
    resources: VirtualResources, node_names: Collection[str], levels: Mapping[str, str] = LEVELS
) -> tuple[Problem, ...]:
    """Return the problems that only the cluster reveals: unknown parents, names of nodes, types of topology levels."""
    names = node_names if isinstance(node_names, Set) else set(node_names)
    problems: list[Problem] = []
    for top in resources.resources:
        if top.parent != CLUSTER_PARENT and top.parent not in names:
            problems.append(
                Problem(
                    resources.source,
                    f"{top.path}.parent",
                    top.line,
                    f'resource "{top.type}" references unknown parent vertex "{top.parent}"',
                    _parent_advice(top.parent, names),
                )
            )
        for one in top.walk():
            problems.extend(
                Problem(resources.source, one.path, one.line, message, fix)
                for message, fix in _faults(one, names, levels, one is top)
            )
    return tuple(problems)


def _faults(
    one: VirtualResource, node_names: Set[str], levels: Mapping[str, str], is_top: bool
) -> Iterable[tuple[str, str]]:
    rule = type_rule(one.type, levels.keys())
    if rule is not None:
        yield rule
    for name in one.names:
        if name in node_names:
            yield f"name {name!r} is the name of a node of the cluster", "choose another name"
        if is_top and one.parent != CLUSTER_PARENT and _LEAF_NAME.fullmatch(name):
            yield f"name {name!r} is the name of a leaf of every node", "choose another name"


def _parent_advice(parent: str, node_names: Set[str]) -> str:
    if len(node_names) <= 10:
        return nearest(parent, {*node_names, CLUSTER_PARENT})
    return "use 'cluster' or the name of a physical node; a virtual resource can't be a parent"
