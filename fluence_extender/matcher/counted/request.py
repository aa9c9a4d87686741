"""Which of the shapes that arithmetic can answer a jobspec has.

Three shapes cover what clusters ask: slots of leaves anywhere (``slot[n]{leaves}``), slots on so many nodes
(``node[m]{slot[n]{leaves}}``), and whole nodes (``slot[n]{node[1]{leaves}}``). The jobspec is read by the walker's own
reader, so what is malformed is refused alike (fluxion reference 3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fluence_extender.matcher.counted.document import NODE
from fluence_extender.matcher.counted.uncountable import Uncountable
from fluence_extender.matcher.embedded.count import UNSIGNED_MAX, Count
from fluence_extender.matcher.embedded.jobspec import SLOT, Jobspec, Resource, read_jobspec
from fluence_extender.matcher.embedded.planner import whole_seconds
from fluence_extender.matcher.errors import InvalidJobspec

GRAPH_END = 3_153_600_000
"""The end of the graph's time in seconds, and with it the longest duration (fluxion reference 1.8)."""


class Shape(Enum):
    """What is counted: slots of leaves, nodes with slots in them, or slots that are whole nodes."""

    SLOTS = "slots"
    NODES = "nodes"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Request:
    """A jobspec that arithmetic can answer. ``duration`` is in whole seconds."""

    shape: Shape
    slots: Count
    nodes: Count
    leaves: tuple[tuple[str, Count], ...]
    exclusive_nodes: bool
    duration: int
    constraint: Callable[[Any], bool] | None
    constraint_text: Mapping[str, Any]
    impossible: bool
    """Whether no graph can ever hold it, such as a count of 0 or a leaf that must have children."""


ONE = Count(1, 1)


def types_in(resources: Collection[Resource]) -> set[str]:
    """Every type that the resources name, slots left out."""
    found: set[str] = set()
    for resource in resources:
        if resource.type != SLOT:
            found.add(resource.type)
        found |= types_in(resource.with_)
    return found


def labels_in(resources: Collection[Resource]) -> dict[str, str]:
    """The labels of the resources by type, slots left out; R shows them on the vertices that were matched."""
    found: dict[str, str] = {}
    for resource in resources:
        found |= labels_in(resource.with_)
        if resource.type != SLOT and resource.label:
            found[resource.type] = resource.label
    return found


def read(jobspec: Any, knows_type: Callable[[str], bool]) -> Jobspec:
    """Read a jobspec; plain counts may be larger here than libreapi_cli's 32 bits. Raises `InvalidJobspec`."""
    large: list[int] = []
    parsed = read_jobspec(_with_small_counts(jobspec, large), knows_type)
    if large:
        _restore(parsed.resources, jobspec["resources"])
    return parsed


def _with_small_counts(value: Any, large: list[int], depth: int = 0) -> Any:
    """``value`` with counts beyond 32 bits cut to the largest that the reader takes; they are noted in ``large``."""
    if depth == 0:
        if isinstance(value, Mapping) and isinstance(value.get("resources"), list):
            resources = [_with_small_counts(one, large, 1) for one in value["resources"]]
            return {**value, "resources": resources} if large else value
        return value
    if not isinstance(value, Mapping) or depth > 8:
        return value
    count = value.get("count")
    if type(count) is int and UNSIGNED_MAX < count < 2**53:
        large.append(count)
        value = {**value, "count": UNSIGNED_MAX}
    below = value.get("with")
    if isinstance(below, list):
        value = {**value, "with": [_with_small_counts(one, large, depth + 1) for one in below]}
    return value


def _restore(parsed: list[Resource], given: list[Any]) -> None:
    for resource, fields in zip(parsed, given, strict=True):
        count = fields["count"]
        if type(count) is int and count > UNSIGNED_MAX:
            resource.count = Count(count, count)
        if resource.with_:
            _restore(resource.with_, fields["with"])


def duration_of(jobspec: Jobspec) -> int:
    """The duration in whole seconds. Raises `InvalidJobspec`."""
    duration = whole_seconds(jobspec.duration, GRAPH_END)
    if duration is None:
        raise InvalidJobspec(
            f"attributes.system.duration: must be from 0 to {GRAPH_END} seconds, and is {jobspec.duration}"
        )
    return duration


def as_request(jobspec: Jobspec, text: Any) -> Request:
    """``jobspec`` as one of the shapes. Raises `Uncountable` where it has none of them.

    ``text`` is the jobspec as it was given; its constraint is kept as text, to be answered for many nodes at once.
    """
    duration = duration_of(jobspec)
    shape, slots, nodes, node, slot = _shape(jobspec.resources)
    leaves = node.with_ if shape is Shape.WHOLE and node is not None else slot.with_
    for leaf in leaves:
        if leaf.type in (SLOT, NODE):
            raise Uncountable(f"a {leaf.type} can't be asked for below a node here")
        if leaf.exclusive is False:
            raise Uncountable(f"{leaf.type}: 'exclusive: false' contradicts the slot above it")
    names = [leaf.type for leaf in leaves]
    counts = [leaf.count for leaf in leaves]
    return Request(
        shape=shape,
        slots=slots,
        nodes=nodes,
        leaves=tuple(zip(names, counts, strict=True)),
        exclusive_nodes=node is not None and node.exclusive is True,
        duration=duration,
        constraint=jobspec.constraint,
        constraint_text=constraint_of(text) if jobspec.constraint is not None else {},
        impossible=(
            any(leaf.with_ for leaf in leaves)
            or len(set(names)) < len(names)
            or not all(count.minimum for count in (slots, nodes, *counts))
            or (not leaves and shape is not Shape.WHOLE)
        ),
    )


def _shape(resources: list[Resource]) -> tuple[Shape, Count, Count, Resource | None, Resource]:
    """The shape, how many slots and nodes, the node and the slot."""
    if len(resources) != 1:
        raise Uncountable("resources: only one entry at the top can be matched on a graph with counts")
    top = resources[0]
    if top.type == SLOT:
        if len(top.with_) == 1 and top.with_[0].type == NODE:
            node = top.with_[0]
            if node.count != ONE:
                raise Uncountable("resources[0].with[0].count: a slot can hold one node, not several")
            if node.exclusive is False:
                raise Uncountable("node: 'exclusive: false' contradicts the slot above it")
            return Shape.WHOLE, top.count, ONE, node, top
        return Shape.SLOTS, top.count, ONE, None, top
    if top.type == NODE and len(top.with_) == 1 and top.with_[0].type == SLOT:
        return Shape.NODES, top.with_[0].count, top.count, top, top.with_[0]
    raise Uncountable(
        "resources[0]: a graph with counts takes slots of leaves, nodes with slots of leaves, or slots of whole nodes"
    )


def constraint_of(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """The constraint of a jobspec that has one."""
    constraint: Mapping[str, Any] = text["attributes"]["system"]["constraints"]
    return constraint
