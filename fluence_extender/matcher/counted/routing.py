"""Which half of the engine answers a jobspec: arithmetic over physical nodes, or the walk over virtual vertices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from fluence_extender.matcher.counted.compact import CompactGraph
from fluence_extender.matcher.counted.document import NODE
from fluence_extender.matcher.counted.request import constraint_of, types_in
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.embedded.jobspec import SLOT, Jobspec, Resource


class Half(Enum):
    """The two halves."""

    COUNTED = "counted"
    WALKED = "walked"


def half_of(jobspec: Jobspec, text: Mapping[str, Any], graph: CompactGraph) -> Half:
    """Raises `Uncountable` for a request that would need both."""
    types = types_in(jobspec.resources)
    named = types & graph.state.tree.types
    if named:
        raise Uncountable(f"resources: {min(named)!r} is a level of the graph")
    walked = types & graph.walked_types
    counted = types & graph.leaf_types
    if walked and counted:
        raise Uncountable(
            f"resources: {min(counted)!r} is on physical nodes and {min(walked)!r} below virtual ones: "
            "one jobspec can't ask for both, match them one after the other"
        )
    nested = _nodes_in_nodes(jobspec.resources, exclusive=False, inside=False)
    if walked or nested:
        if counted:
            raise Uncountable(f"resources: {min(counted)!r} can't be asked for beside a node below a node")
        return Half.WALKED
    if not counted and types == {NODE} and _names_virtual(jobspec, text, graph):
        return Half.WALKED
    return Half.COUNTED


def _nodes_in_nodes(resources: Sequence[Resource], *, exclusive: bool, inside: bool) -> bool:
    """Whether a node is asked for below a node. The outer one, a physical one perhaps, must not be exclusive."""
    found = False
    for resource in resources:
        here = exclusive or resource.type == SLOT
        if resource.type == NODE:
            here = here or resource.exclusive is True
            found |= inside
        below = _nodes_in_nodes(resource.with_, exclusive=here, inside=inside or resource.type == NODE)
        if below and resource.type == NODE and here:
            raise Uncountable(
                "resources: a node that holds nodes can't be taken exclusively on a graph with counts"
            )
        found |= below
    return found


def _names_virtual(jobspec: Jobspec, text: Mapping[str, Any], graph: CompactGraph) -> bool:
    """Whether a request for bare nodes can only mean virtual ones. Raises `Uncountable` if it may mean either."""
    constraint = jobspec.constraint
    virtual = graph.count_walked(lambda vertex: constraint is None or constraint(vertex))
    if not virtual:
        return False
    state = graph.state
    if constraint is None:
        physical = len(state.by_path)
    else:
        physical = len(state.index.rows_where(constraint_of(text), constraint, state.table))
    if physical:
        raise Uncountable(
            "resources: the node asked for may be a physical or a virtual one; "
            "say which by a constraint on the property virtual=true or virtual=false"
        )
    return True
