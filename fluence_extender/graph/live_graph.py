"""The resource graph of a matcher: nodes, virtual resources, devices, and the order in which nodes are filled.

Only the declared resources that the present nodes allow are attached. A resource waits while its parent node is away or
while a node has its name. Invariant: the cost of a change depends on the touched part and not on the cluster's size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import structlog

from fluence_extender.graph.catalogue import DeviceCatalogue, changed_catalogue, device_catalogue
from fluence_extender.graph.changes import (
    Removal,
    apply,
    edited_resources,
    plan_node,
    plan_node_removal,
    plan_resource,
    plan_resource_removal,
)
from fluence_extender.graph.cluster_graph import build_containment, check_against_cluster
from fluence_extender.graph.growth import Addition
from fluence_extender.graph.units import Units, leaf_counts, widened
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources
from fluence_extender.model.node import Node
from fluence_extender.model.notation import encode_idset
from fluence_extender.model.resources import NOTHING, Resources

log = structlog.get_logger(__name__)

MOST_IDSETS = 16
"""The most encoded sets of nodes that a graph caches."""

FEW = 16
"""If at most one node in this many is requested, a sort is faster than a filter of the order of all nodes."""

Send = Callable[[Removal | Addition], None]
"""Receives each part of an edit before it is applied."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A planned change in place: a node that leaves, a node that joins (both for a changed node), or resources.

    ``removed`` and ``added`` are the resources to detach and to attach. ``declared`` are all declared resources after
    the edit. ``attached`` are all attached resources after it, or None when ``declared`` hasn't changed.
    """

    leaving: str | None
    joining: Node | None
    removed: tuple[VirtualResource, ...]
    added: tuple[VirtualResource, ...]
    declared: VirtualResources
    attached: tuple[VirtualResource, ...] | None = None


class LiveGraph:
    """The graph of a cluster, which follows the cluster by edits.

    ``built_from`` is the allocatable from which each node's vertices were made, and ``leaves`` are their counts.
    ``units`` may count memory in larger blocks than was asked for, because one node has very much memory.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        declared: VirtualResources,
        units: Units,
        levels: Mapping[str, str],
    ) -> None:
        """Build the graph of ``nodes``; ``units`` are the finest to count in."""
        present = {node.name: node for node in nodes}
        self.units = widened(units, (node.allocatable for node in present.values()))
        self.declared = declared
        allowed = _allowed(declared.resources, present.keys(), levels)
        self._attached = {id(one): one for one in allowed}
        self.containment = build_containment(present.values(), self.attached, units=self.units, levels=levels)
        self.catalogue = device_catalogue(self.containment)
        self.built_from = {name: node.allocatable for name, node in present.items()}
        self.leaves = {name: leaf_counts(amounts, self.units) for name, amounts in self.built_from.items()}
        vertex = self.containment.vertex
        self._ranks = {name: vertex(path).rank for name, path in self.containment.nodes.items()}
        self._idsets: dict[tuple[str, ...], str] = {}
        self._order = _NodeOrder((self.rank(name), name) for name in present)
        self._affected = _affected_by_node(declared)

    @property
    def nodes(self) -> Mapping[str, str]:
        """The path of each physical node, by name."""
        return self.containment.nodes

    @property
    def levels(self) -> Mapping[str, str]:
        """The topology levels, outermost first, with the node labels that name them."""
        return self.containment.levels

    @property
    def empty(self) -> bool:
        """Whether there is nothing below the root, so that no matcher can be made from the graph."""
        return not self.containment.nodes and not self.containment.devices

    @property
    def attached(self) -> VirtualResources:
        """The declared resources that are in the graph."""
        return VirtualResources(self.declared.source, tuple(self._attached.values()))

    def rank(self, node: str) -> int:
        """Return the rank of a node's vertex. Raises `KeyError`."""
        return self._ranks[node]

    def idset(self, nodes: Collection[str]) -> str:
        """Return the ranks of ``nodes`` as an RFC 22 idset. Raises `KeyError`.

        The last results are cached, because callers pass the same nodes repeatedly, usually nearly all of them.
        """
        key = tuple(nodes)
        found = self._idsets.get(key)
        if found is None:
            if len(self._idsets) >= MOST_IDSETS:
                self._idsets.clear()
            found = self._idsets[key] = encode_idset(map(self.rank, key))
        return found

    def all_in_order(self, descending: bool) -> tuple[str, ...]:
        """Return all nodes by rank."""
        return self._order.names(descending)

    def in_order(self, names: Collection[str], descending: bool) -> tuple[str, ...]:
        """Return those of ``names`` that are nodes of the graph, by rank."""
        if len(names) * FEW < len(self.nodes):
            present = [name for name in names if name in self.nodes]
            return tuple(sorted(present, key=self.rank, reverse=descending))
        wanted = names if isinstance(names, Set) else set(names)
        return tuple(name for name in self.all_in_order(descending) if name in wanted)

    def level_values(self, node: Node) -> tuple[str, ...]:
        """Return the labels of a node that name its topology levels."""
        return tuple(node.labels.get(label, "") for label in self.levels.values())

    def lacking(self, node: str, allocatable: Resources) -> Resources:
        """Return the amounts that a node has gained and that aren't in the graph yet, without zeros."""
        gained = allocatable - self.built_from.get(node, NOTHING)
        return Resources({name: amount for name, amount in gained.items() if amount > 0})

    # Changes in place.

    def plan_edit(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None = None
    ) -> Edit | None:
        """Plan a change in place; None when the graph must be rebuilt because a node needs larger units."""
        if joining is not None and widened(self.units, (joining.allocatable,)) != self.units:
            return None
        name = joining.name if joining is not None else leaving
        names = _PresentNames(self.containment.nodes, leaving, joining.name if joining is not None else None)
        if declared is not None:
            target = _allowed(declared.resources, names, self.levels)
            removed, added = edited_resources(self.attached, VirtualResources(declared.source, target))
            return Edit(leaving, joining, removed, added, declared, target)
        affected = self._affected.get(name or "", ())
        allowed = _allowed(affected, names, self.levels)
        attached = [one for one in affected if id(one) in self._attached]
        removed = tuple(one for one in attached if one not in allowed or one.parent == leaving)
        added = tuple(one for one in allowed if one not in attached or one.parent == leaving)
        return Edit(leaving, joining, removed, added, self.declared)

    def leaving_devices(self, edit: Edit) -> list[str]:
        """Return the paths of the devices that an edit removes."""
        devices = self.containment.devices
        roots = [
            f"{self.containment.parent_path(one.parent)}/{name}" for one in edit.removed for name in one.names
        ]
        return [path for root in roots for path in self.containment.walk(root) if path in devices]

    def apply_edit(self, edit: Edit, send: Send) -> list[str]:
        """Apply a planned edit, passing each part to ``send`` first; return the paths of the new devices."""
        gone = set(self.leaving_devices(edit))
        known = len(self.containment.devices) - len(gone)
        for one in edit.removed:
            if one.parent != edit.leaving:
                for removal in plan_resource_removal(self.containment, one):
                    self._apply(removal, send)
        if edit.leaving is not None:
            self._order.remove(self.rank(edit.leaving))
            self._idsets.clear()
            self._apply(plan_node_removal(self.containment, edit.leaving), send)
            del self._ranks[edit.leaving]
            del self.leaves[edit.leaving], self.built_from[edit.leaving]
        if edit.joining is not None:
            node = edit.joining
            self._idsets.clear()
            self._apply(plan_node(self.containment, node, edit.added), send)
            self._ranks[node.name] = self.containment.vertex(self.containment.nodes[node.name]).rank
            self.built_from[node.name] = node.allocatable
            self.leaves[node.name] = leaf_counts(node.allocatable, self.units)
            self._order.add(self.rank(node.name), node.name)
        for one in edit.added:
            if edit.joining is None or one.parent != edit.joining.name:
                self._apply(plan_resource(self.containment, one), send)
        new = list(self.containment.devices)[known:]
        if gone or new:
            self.catalogue = changed_catalogue(self.catalogue, self.containment, gone, new)
        self._note_resources(edit)
        return new

    def _apply(self, change: Removal | Addition, send: Send) -> None:
        send(change)
        apply(self.containment, change)

    def _note_resources(self, edit: Edit) -> None:
        if edit.attached is not None:
            self.declared = edit.declared
            self._affected = _affected_by_node(edit.declared)
            self._attached = {id(one): one for one in edit.attached}
            return
        for one in edit.removed:
            del self._attached[id(one)]
        for one in edit.added:
            self._attached[id(one)] = one

    # While the graph can't follow the cluster.

    def mask_devices(self, nodes: Collection[str], declared: VirtualResources) -> None:
        """Offer only the devices that still exist, when the graph can't be changed in place."""
        removed, _ = edited_resources(self.attached, declared)
        tops = {f"{self.containment.parent_path(one.parent)}/{name}" for one in removed for name in one.names}
        everything = device_catalogue(self.containment)
        self.catalogue = DeviceCatalogue(
            tuple(
                device
                for device in everything.devices
                if (not device.node or device.node in nodes)
                and not any(device.path == top or device.path.startswith(f"{top}/") for top in tops)
            )
        )


class _NodeOrder:
    """The names of nodes by rank, from the lowest.

    Invariant: a change costs no sorting, and the whole order is copied at most once between two changes.
    """

    def __init__(self, ranked: Iterable[tuple[int, str]]) -> None:
        pairs = sorted(ranked)
        self._ranks = [rank for rank, _ in pairs]
        self._names = [name for _, name in pairs]
        self._copies: dict[bool, tuple[str, ...]] = {}

    def add(self, rank: int, name: str) -> None:
        index = bisect_left(self._ranks, rank)
        self._ranks.insert(index, rank)
        self._names.insert(index, name)
        self._copies.clear()

    def remove(self, rank: int) -> None:
        index = bisect_left(self._ranks, rank)
        del self._ranks[index], self._names[index]
        self._copies.clear()

    def names(self, descending: bool) -> tuple[str, ...]:
        if descending not in self._copies:
            self._copies[descending] = tuple(reversed(self._names) if descending else self._names)
        return self._copies[descending]


class _PresentNames(Set[str]):
    """The names of the nodes as they will be after an edit, without a copy of all names."""

    def __init__(self, nodes: Mapping[str, str], leaving: str | None, joining: str | None) -> None:
        self._nodes = nodes
        self._leaving = leaving
        self._joining = joining

    def __contains__(self, name: object) -> bool:
        return name == self._joining or (name in self._nodes and name != self._leaving)

    def __iter__(self) -> Iterator[str]:
        if self._joining is not None:
            yield self._joining
        yield from (name for name in self._nodes if name not in (self._leaving, self._joining))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _allowed(
    resources: Iterable[VirtualResource], names: Set[str], levels: Mapping[str, str]
) -> tuple[VirtualResource, ...]:
    """Return the resources that the present nodes allow, and log the problems of the others.

    A parent node that has gone, or a node that takes a backend's name, must not stop everything else.
    """
    allowed: list[VirtualResource] = []
    for one in resources:
        problems = check_against_cluster(VirtualResources("", (one,)), names, levels)
        for problem in problems:
            log.warning("a virtual resource is left out", problem=str(problem))
        if not problems:
            allowed.append(one)
    return tuple(allowed)


def _affected_by_node(declared: VirtualResources) -> dict[str, list[VirtualResource]]:
    """Return, by the name of a node, the resources that may have to be attached or detached when it comes or goes."""
    found: dict[str, list[VirtualResource]] = {}
    for top in declared.resources:
        named = {name for one in top.walk() for name in one.names}
        for name in named if top.parent == CLUSTER_PARENT else {*named, top.parent}:
            found.setdefault(name, []).append(top)
    return found
