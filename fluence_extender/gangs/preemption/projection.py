"""Where a gang will fit once its victims are gone, checked node by node against the ledger as it is now.

A plan may have been made on a copy of the ledger, or some steps ago. It stays good for as long as each of its nodes has
capacity for the pods that are planned there. This is checked without a new plan, and only on the nodes that have
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand, grouped
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.plan import Planner
from fluence_extender.room.ledger import Ledger

Departs = Callable[[str], bool]
"""Returns whether the capacity of the pod of that uid is expected to come free."""

NODE_COST = 30
"""The cost of looking at one node, where a trial on n nodes costs n."""

AT_ONCE = 100
"""Up to this many nodes that have changed meanwhile are checked again in the step that decides."""


class Projection:
    """``places`` for all of ``demands``, which are pods of ``gang`` without devices, claims and host ports.

    ``seen`` is the position in the journal of nodes when the places were found, None for now.
    """

    def __init__(
        self,
        ledger: Ledger,
        planner: Planner,
        gang: object,
        demands: Sequence[Demand],
        places: Iterable[Assignment],
        seen: int | None = None,
    ) -> None:
        self._ledger = ledger
        self._planner = planner
        self._gang = gang
        node_of = {place.uid: place.node for place in places}
        self._on: dict[str, list[Demand]] = {}
        for demand in demands:
            self._on.setdefault(node_of[demand.pod.uid], []).append(demand)
        self._count = len(demands)
        self._alike = demands[0] if len(grouped(demands)) == 1 else None
        self._suitable: dict[str, Node] = {}
        self._labels: dict[str, Mapping[str, str]] | None = None
        if any(demand.constraints for demand in demands):
            # The nodes may have been chosen for their labels, so a node whose labels have changed is no longer good.
            changed = () if seen is None else planner.eligibility.journal.since(seen)
            still = self._on if changed is not None else ()
            nodes = {name: planner.node(name) for name in still if name not in (changed or ())}
            self._labels = {name: node.labels for name, node in nodes.items() if node is not None}
        self._needed = {
            name: Resources.total(demand.pod.requests for demand in some) for name, some in self._on.items()
        }

    @property
    def nodes(self) -> Collection[str]:
        """Return the nodes of the places."""
        return self._on.keys()

    def open(self, passing: frozenset[object]) -> bool:
        """Return whether no node is closed to the gang; nodes that are held for the gangs ``passing`` are open."""
        ledger = self._ledger
        closed = ledger.held_nodes.closed_to(self._gang, passing)
        return closed.isdisjoint(self._on) and ledger.overcommitted.isdisjoint(self._on)

    def good(self, name: str, departs: Departs) -> bool:
        """Return whether the node has room for its planned pods once the departing pods are gone."""
        return self._suits(name) and not self.short(name, departs)

    def good_everywhere(self, departs: Departs, passing: frozenset[object]) -> bool:
        """Return whether all places are good now."""
        return self.open(passing) and all(self.good(name, departs) for name in self._on)

    def short(self, name: str, departs: Departs) -> bool:
        """Return whether the node is one of the places and lacks capacity for its pods unless more pods depart."""
        needed = self._needed.get(name)
        if needed is None:
            return False
        account = self._ledger.accounts.get(name)
        if account is None or not all(
            map(departs, self._ledger.gang_nodes.of_others(account.users, self._gang))
        ):
            return True
        left = dict(self._ledger.accounts[name].free.items())
        for uid, use in account.users.items():
            if departs(uid):
                for resource, amount in use.items():
                    left[resource] = left.get(resource, 0) + amount
        return any(amount > left.get(resource, 0) for resource, amount in needed.items())

    def _suits(self, name: str) -> bool:
        """Return whether the pods may still run on the node, apart from its free capacity."""
        node = self._planner.node(name)
        if node is None or (self._labels is not None and node.labels != self._labels.get(name)):
            return False
        if node is self._suitable.get(name):
            return True
        if any(name in demand.barred or refusal(demand.pod, node) for demand in self._on[name]):
            return False
        self._suitable[name] = node
        return True


def project(
    ledger: Ledger,
    planner: Planner,
    gang: object,
    demands: Sequence[Demand],
    places: Collection[Assignment],
    seen: int | None = None,
) -> Projection | None:
    """Return a `Projection`; None if the pods can't be judged node by node, or if one of them has no place."""
    node_of = {place.uid: place.node for place in places}
    pods = [demand.pod for demand in demands]
    if any(
        pod.devices or pod.ruled or pod.host_ports or pod.claims or pod.uid not in node_of for pod in pods
    ):
        return None
    room = ledger.room()
    if room.keeps_apart and any(node_of[pod.uid] in room.kept_from(pod) for pod in pods):
        # The pods that keep one away have to go, too.
        return None
    return Projection(ledger, planner, gang, demands, places, seen)
