"""The requests of production: slots of leaves, from now on, or virtual devices.

Requests for leaves of physical nodes become a `SlotRequest`, which counts answer. Requests that only virtual vertices
can meet are matched vertex by vertex on the skeleton. Any other request is `Uncountable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluence_extender.matcher.counted.document import NODE, Uncountable
from fluence_extender.matcher.counted.graph import CompactGraph
from fluence_extender.matcher.walker.jobspec import SLOT, Jobspec, Resource


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """``slots`` times ``leaves`` (type, count), each slot on one physical node that meets the constraint."""

    slots: int
    leaves: tuple[tuple[str, int], ...]
    constraint: Callable[[Any], bool] | None
    constraint_text: Mapping[str, Any]


def slot_request(jobspec: Jobspec, text: Mapping[str, Any], graph: CompactGraph) -> SlotRequest | None:
    """Return the jobspec as slots of leaves, or None if the skeleton has to be matched.

    ``text`` is the jobspec as it was given; its constraint is kept as text, to be answered for many nodes at once.
    Raises `Uncountable` for any other request.
    """
    types = types_in(jobspec.resources)
    levels = types & graph.state.tree.types
    if levels:
        raise Uncountable(f"resources: {min(levels)!r} is a level of the graph")
    virtual = types & graph.virtual_types
    counted = types & graph.leaf_types
    if virtual and counted:
        raise Uncountable(
            f"resources: {min(counted)!r} is on physical nodes and {min(virtual)!r} below virtual ones: "
            "one jobspec can't ask for both, match them one after the other"
        )
    nested = _holds_nodes(jobspec.resources, exclusive=False, inside=False)
    if (virtual or nested) and counted:
        raise Uncountable(f"resources: {min(counted)!r} can't be asked for beside a node below a node")
    if virtual or nested or (types == {NODE} and not _may_be_physical(jobspec, text, graph)):
        return None
    return _slots(jobspec, text)


def types_in(resources: Collection[Resource]) -> set[str]:
    """Return every type that the resources name, slots excepted."""
    found: set[str] = set()
    for resource in resources:
        if resource.type != SLOT:
            found.add(resource.type)
        found |= types_in(resource.with_)
    return found


def _slots(jobspec: Jobspec, text: Mapping[str, Any]) -> SlotRequest:
    (slot, *others) = jobspec.resources
    leaves = slot.with_
    if slot.type != SLOT or others or not leaves:
        raise Uncountable("resources: a graph with counts takes one entry, slots of leaves")
    for leaf in leaves:
        if leaf.type in (SLOT, NODE) or leaf.with_ or leaf.label or leaf.exclusive is False:
            raise Uncountable(f"resources: {leaf.type!r} isn't a plain leaf of a slot")
    counts = [one.count for one in (slot, *leaves)]
    if any(count.minimum != count.maximum or not count.minimum for count in counts):
        raise Uncountable("resources: a count that isn't one number, 1 or more")
    if len({leaf.type for leaf in leaves}) < len(leaves):
        raise Uncountable("resources: a slot names one leaf type twice")
    return SlotRequest(
        slots=slot.count.minimum,
        leaves=tuple((leaf.type, leaf.count.minimum) for leaf in leaves),
        constraint=jobspec.constraint,
        constraint_text={} if jobspec.constraint is None else constraint_of(text),
    )


def constraint_of(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the constraint of a jobspec that has one."""
    constraint: Mapping[str, Any] = text["attributes"]["system"]["constraints"]
    return constraint


def _holds_nodes(resources: Sequence[Resource], *, exclusive: bool, inside: bool) -> bool:
    """Whether the request has a node below a node.

    The outer node may be a physical one, which the skeleton has without its leaves, so it can't be exclusive.
    """
    found = False
    for resource in resources:
        holds = exclusive or resource.type == SLOT
        if resource.type == NODE:
            holds = holds or resource.exclusive is True
            found |= inside
        below = _holds_nodes(resource.with_, exclusive=holds, inside=inside or resource.type == NODE)
        if below and resource.type == NODE and holds:
            raise Uncountable(
                "resources: a node that holds nodes can't be taken exclusively on a graph with counts"
            )
        found |= below
    return found


def _may_be_physical(jobspec: Jobspec, text: Mapping[str, Any], graph: CompactGraph) -> bool:
    """Whether a request for bare nodes may mean physical ones. Raises `Uncountable` if it may mean virtual ones too."""
    constraint = jobspec.constraint
    state = graph.state
    virtual = graph.has_virtual_node(constraint)
    if constraint is None:
        physical = bool(state.by_path)
    else:
        physical = state.index.holds_anywhere(constraint_of(text), constraint, state.table)
    if virtual and physical:
        raise Uncountable(
            "resources: the node asked for may be a physical or a virtual one; "
            "say which by a constraint on the property virtual=true or virtual=false"
        )
    return not virtual
