"""A copy of the ledger, for plans without some of the pods or at a later time.

A copy has its own capacity, and the exact search decides there whether a gang fits. The places that it finds are a
projection, which never becomes an allocation of the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.pod import Pod
from fluence_extender.placement.ledger_port import PlanningRules
from fluence_extender.room.capacity import CapacityTable, CopiedCapacity
from fluence_extender.room.claims import DeviceRooms
from fluence_extender.room.devices import DeviceUse
from fluence_extender.room.kept_apart import KeptApart
from fluence_extender.room.pod_use import PodUse, RemovablePods


class PlanningCopy:
    """A `LedgerPort` for a planner, from which pods can be removed and to which they can be restored.

    The graph is that of the ``rules``. ``tables`` are the free amounts of nodes, and their amounts when nothing runs.
    The copy changes them, so nothing else may use them. If ``within`` isn't None, only these nodes are used.
    ``allocations`` are those of pods with devices and of pods that were placed here.
    """

    def __init__(
        self,
        rules: PlanningRules,
        tables: tuple[CapacityTable, CapacityTable],
        holders: Mapping[str, PodUse],
    ) -> None:
        self.free = CopiedCapacity(tables[0])
        self.whole = CopiedCapacity(tables[1])
        self.graph = rules.graph
        self.allocations: dict[str, PodUse] = dict(holders)
        self.within: Collection[str] | None = None
        self._rules = rules
        self._removed: set[str] = set()
        self._placed: dict[str, tuple[Pod, str]] = {}
        self._kept_apart: KeptApart | None = None
        self._all_known: tuple[str, ...] = ()
        self._rooms: DeviceRooms | None = None

    def closed(self, gang: object, without: Collection[str] = ()) -> set[str]:
        """Return the nodes that ``gang`` may not use, if the pods ``without`` were gone too."""
        closed = self._rules.closed(gang, self._removed.union(without) if without else self._removed)
        if self.within is not None:
            closed |= self.free.now().rows.keys() - set(self.within)
        return closed

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of ``names`` that the copy has, in the order in which the policy fills nodes."""
        rows = self.free.now().rows
        if len(rows) < len(names):
            return self._rules.in_order([name for name in rows if name in names])
        ordered = self._rules.in_order(names)
        # A plan made in another thread, or in steps, may name nodes that have joined since the copy was made.
        if ordered is not self._all_known:
            if not all(map(rows.__contains__, ordered)):
                return tuple(filter(rows.__contains__, ordered))
            self._all_known = ordered
        return ordered

    @property
    def spreads(self) -> bool:
        """Whether the policy takes the nodes with the most room first."""
        return self._rules.spreads

    def device_use(self) -> DeviceUse:
        """Return how much of each virtual device is held here."""
        shares = (share for held in self.allocations.values() for share in held.assignment.devices)
        return DeviceUse(self.graph.catalogue, shares)

    @property
    def device_rooms(self) -> DeviceRooms:
        """How many pods with claims nodes host without the pods that were removed; copied once it is needed."""
        if self._rooms is None:
            self._rooms = self._rules.device_rooms.copy()
        self._rooms.without(self._removed)
        return self._rooms

    @property
    def kept_apart(self) -> KeptApart:
        """The rules of pods about others, with the pods of this copy only; copied once it is needed."""
        if self._kept_apart is None:
            self._kept_apart = self._rules.kept_apart.copy()
            for pod, node in self._placed.values():
                self._kept_apart.put(pod, node, bound=False)
        self._kept_apart.without(self._removed)
        return self._kept_apart

    def take_all(self, places: Sequence[tuple[Pod, Assignment]], gang: object) -> None:
        """Allocate places. The pods then wait for the devices that they claim."""
        uses: list[PodUse] = []
        for pod, assignment in places:
            uses.append(PodUse(assignment, pod.requests, pod.host_ports))
            if pod.claims:
                self.device_rooms.put(pod.uid, assignment.node, pod.claims)
        self.allocations.update((use.uid, use) for use in uses)
        for pod, assignment in places:
            self._placed[pod.uid] = pod, assignment.node
            if self._kept_apart is not None:
                self._kept_apart.put(pod, assignment.node, bound=False)
        self.free.add_all_free([(use.assignment.node, use.requests, use.ports) for use in uses], -1)

    def undo(self, uids: Iterable[str]) -> None:
        """Release what these pods hold in the copy."""
        uses: list[PodUse] = []
        for uid in uids:
            if self._rooms is not None:
                self._rooms.drop(uid)
            if uid in self._placed:
                del self._placed[uid]
                if self._kept_apart is not None:
                    self._kept_apart.drop(uid)
                uses.append(self.allocations.pop(uid))
        self.free.add_all_free([(use.assignment.node, use.requests, use.ports) for use in uses], 1)

    def remove(self, use: PodUse) -> None:
        """Remove a pod that holds ``use``."""
        self._removed.add(use.uid)
        self.allocations.pop(use.uid, None)
        self._add_free(use, 1)

    def restore(self, use: PodUse) -> None:
        """Restore a removed pod."""
        self._removed.remove(use.uid)
        if use.assignment.devices or use.uid in self._placed:
            self.allocations[use.uid] = use
        self._add_free(use, -1)

    def _add_free(self, use: PodUse, sign: int) -> None:
        self.free.add_free(use.assignment.node, use.requests, use.ports, sign)

    def remove_all(self, uids: Collection[str], removable: RemovablePods) -> None:
        """Remove many pods of ``removable``, which counts in this copy's table."""
        self._removed.update(uids)
        removable.add_free(uids, 1)

    def restore_all(self, uids: Collection[str], removable: RemovablePods) -> None:
        """Restore many removed pods."""
        self._removed.difference_update(uids)
        removable.add_free(uids, -1)
