"""The graph as the matcher has it: nodes, virtual resources, devices, and the order in which nodes are filled.

Of the resources that are declared those hang in it that the present nodes allow: one whose parent is away, or whose
name a node has, waits. Invariant: a change costs what it touches, not what the cluster is large.
"""

from __future__ import annotations

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
from fluence_extender.ledger.order import NodeOrder
from fluence_extender.model.node import Node
from fluence_extender.model.notation import encode_idset
from fluence_extender.model.resources import NOTHING, Resources

log = structlog.get_logger(__name__)

KEPT_IDSETS = 16

Send = Callable[[Removal | Addition], None]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change that can be made in place: a node that leaves, one that joins (both: it has changed), resources.

    ``out`` and ``into`` are the resources that stop and begin to hang in the graph, ``declared`` all there are then.
    """

    leaving: str | None
    joining: Node | None
    out: tuple[VirtualResource, ...]
    into: tuple[VirtualResource, ...]
    declared: VirtualResources
    hung: tuple[VirtualResource, ...] | None = None
    """All that hang in it then, where ``declared`` is new."""


class ClusterGraph:
    """See the module docstring. ``made_of`` is the allocatable that each node's vertices were made of, ``leaves`` their
    counts."""

    def __init__(
        self,
        nodes: Iterable[Node],
        declared: VirtualResources,
        units: Units,
        levels: Mapping[str, str],
    ) -> None:
        """Build the whole; ``units`` are the finest, memory is counted in larger blocks where a node has very much."""
        present = {node.name: node for node in nodes}
        self.units = widened(units, (node.allocatable for node in present.values()))
        self.declared = declared
        fitting = self._fitting(declared.resources, present.keys(), levels)
        self._hung = {id(one): one for one in fitting}
        self.containment = build_containment(present.values(), self.hung, units=self.units, levels=levels)
        self.catalogue = device_catalogue(self.containment)
        self.made_of = {name: node.allocatable for name, node in present.items()}
        self.leaves = {name: leaf_counts(amounts, self.units) for name, amounts in self.made_of.items()}
        vertex = self.containment.vertex
        self._ranks = {name: vertex(path).rank for name, path in self.containment.nodes.items()}
        self._idsets: dict[tuple[str, ...], str] = {}
        self.order = NodeOrder((self.rank(name), name) for name in present)
        self._concerned = _concerned(declared)

    @property
    def nodes(self) -> Mapping[str, str]:
        """The path of each physical node."""
        return self.containment.nodes

    @property
    def empty(self) -> bool:
        """Whether there is nothing below the root, so that no matcher can be made of it."""
        return not self.containment.nodes and not self.containment.devices

    @property
    def hung(self) -> VirtualResources:
        """Those of the declared resources that hang in the graph."""
        return VirtualResources(self.declared.source, tuple(self._hung.values()))

    def rank(self, node: str) -> int:
        """The rank of a node's vertex. Raises `KeyError`."""
        return self._ranks[node]

    def idset(self, nodes: Collection[str]) -> str:
        """The ranks of ``nodes`` as an RFC 22 idset. Raises `KeyError`.

        The last ones are kept: the same nodes are asked about again and again, nearly all of them as a rule.
        """
        asked = tuple(nodes)
        found = self._idsets.get(asked)
        if found is None:
            if len(self._idsets) >= KEPT_IDSETS:
                self._idsets.clear()
            found = self._idsets[asked] = encode_idset(map(self.rank, asked))
        return found

    def unseen(self, node: str, allocatable: Resources) -> Resources:
        """What a node has gained and the graph hasn't, zeros left out."""
        gained = allocatable - self.made_of.get(node, NOTHING)
        return Resources({name: amount for name, amount in gained.items() if amount > 0})

    # Changes in place.

    def plan(
        self, leaving: str | None, joining: Node | None, declared: VirtualResources | None = None
    ) -> Edit | None:
        """Plan a change in place; None where the graph has to be built anew, because a node needs larger units."""
        if joining is not None and widened(self.units, (joining.allocatable,)) != self.units:
            return None
        name = joining.name if joining is not None else leaving
        names = _Present(self.containment.nodes, leaving, joining.name if joining is not None else None)
        if declared is not None:
            target = self._fitting(declared.resources, names, self.containment.levels)
            out, into = edited_resources(self.hung, VirtualResources(declared.source, target))
            return Edit(leaving, joining, out, into, declared, target)
        concerned = self._concerned.get(name or "", ())
        fitting = self._fitting(concerned, names, self.containment.levels)
        hung = [one for one in concerned if id(one) in self._hung]
        out = tuple(one for one in hung if one not in fitting or one.parent == leaving)
        into = tuple(one for one in fitting if one not in hung or one.parent == leaving)
        return Edit(leaving, joining, out, into, self.declared)

    def leaving_devices(self, edit: Edit) -> list[str]:
        """The paths of the devices that an edit takes out."""
        roots = [
            f"{self.containment.parent_path(one.parent)}/{name}" for one in edit.out for name in one.names
        ]
        return [path for root in roots for path in self.containment.walk(root) if self._is_device(path)]

    def _is_device(self, path: str) -> bool:
        return path in self.containment.devices

    def carry_out(self, edit: Edit, send: Send) -> list[str]:
        """Make a planned change, telling ``send`` of each part before it is made; the paths of the new devices."""
        gone = set(self.leaving_devices(edit))
        known = len(self.containment.devices) - len(gone)
        for one in edit.out:
            if one.parent != edit.leaving:
                for removal in plan_resource_removal(self.containment, one):
                    self._make(removal, send)
        if edit.leaving is not None:
            self.order.remove(self.rank(edit.leaving))
            self._idsets.clear()
            self._make(plan_node_removal(self.containment, edit.leaving), send)
            del self._ranks[edit.leaving]
            del self.leaves[edit.leaving], self.made_of[edit.leaving]
        if edit.joining is not None:
            node = edit.joining
            self._idsets.clear()
            self._make(plan_node(self.containment, node, edit.into), send)
            self._ranks[node.name] = self.containment.vertex(self.containment.nodes[node.name]).rank
            self.made_of[node.name] = node.allocatable
            self.leaves[node.name] = leaf_counts(node.allocatable, self.units)
            self.order.add(self.rank(node.name), node.name)
        for one in edit.into:
            if edit.joining is None or one.parent != edit.joining.name:
                self._make(plan_resource(self.containment, one), send)
        come = list(self.containment.devices)[known:]
        if gone or come:
            self.catalogue = changed_catalogue(self.catalogue, self.containment, gone, come)
        self._declare(edit)
        return come

    def _make(self, change: Removal | Addition, send: Send) -> None:
        send(change)
        apply(self.containment, change)

    def _declare(self, edit: Edit) -> None:
        if edit.hung is not None:
            self.declared = edit.declared
            self._concerned = _concerned(edit.declared)
            self._hung = {id(one): one for one in edit.hung}
            return
        for one in edit.out:
            del self._hung[id(one)]
        for one in edit.into:
            self._hung[id(one)] = one

    # While the graph lags behind.

    def mask_devices(self, nodes: Collection[str], declared: VirtualResources) -> None:
        """Offer only the devices that there still are, when the graph can't be changed in place."""
        removed, _ = edited_resources(self.hung, declared)
        tops = {f"{self.containment.parent_path(one.parent)}/{name}" for one in removed for name in one.names}
        whole = device_catalogue(self.containment)
        self.catalogue = DeviceCatalogue(
            tuple(
                device
                for device in whole.devices
                if (not device.node or device.node in nodes)
                and not any(device.path == top or device.path.startswith(f"{top}/") for top in tops)
            )
        )

    @staticmethod
    def _fitting(
        resources: Iterable[VirtualResource], names: Set[str], levels: Mapping[str, str]
    ) -> tuple[VirtualResource, ...]:
        """The resources that the present nodes allow; what is wrong with the others is logged.

        A parent node that has gone, or a node that takes a backend's name, must not stop everything else.
        """
        kept: list[VirtualResource] = []
        for one in resources:
            problems = check_against_cluster(VirtualResources("", (one,)), names, levels)
            for problem in problems:
                log.warning("a virtual resource is left out", problem=str(problem))
            if not problems:
                kept.append(one)
        return tuple(kept)


class _Present(Set[str]):
    """The names of the nodes as they will be, without a copy of them all."""

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


def _concerned(declared: VirtualResources) -> dict[str, list[VirtualResource]]:
    """By name of a node: the resources that its coming and going may let hang in the graph or not."""
    found: dict[str, list[VirtualResource]] = {}
    for top in declared.resources:
        named = {name for one in top.walk() for name in one.names}
        for name in named if top.parent == CLUSTER_PARENT else {*named, top.parent}:
            found.setdefault(name, []).append(top)
    return found
