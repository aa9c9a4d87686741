"""Planning as if some pods were gone: on a copy of the accounts, so that the ledger never notices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from fluence_extender.graph.catalogue import Device
from fluence_extender.ledger.pod_use import PodUse, PodUses, RemovablePods, device_uses, pod_use
from fluence_extender.model.assignment import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import grouped
from fluence_extender.placement.eligibility import EligibilityIndex, refusal
from fluence_extender.placement.ledger_port import CapacitySource, Graph
from fluence_extender.placement.plan import Demand, Planner, SettledMember
from fluence_extender.placement.planning_copy import PlanningCopy, Rules
from fluence_extender.placement.search import capacity
from fluence_extender.placement.topology import Topology
from fluence_extender.placement.topology_constraints import topology_constraints

_SEARCHED = Reason(ReasonCode.BUSY, "busy: all devices are searched for together")


class Standing(PodUses, Rules, Protocol):
    """What a trial is made on: the ledger, or a copy of them."""

    @property
    def free(self) -> CapacitySource:
        """What the nodes have left."""
        ...

    @property
    def whole(self) -> CapacitySource:
        """What the nodes have when nothing runs."""
        ...

    @property
    def graph(self) -> Graph:
        """The resource graph."""
        ...


class Trial:
    """A copy of ``ledger`` as they are now, on which a gang's questions are answered, whatever becomes of the ledger.

    ``topology`` follows the same nodes as ``eligibility``. ``removable`` are pods that may be asked about; what others
    use is read from the ledger then. ``devices`` says whether the gang asks for devices.
    """

    def __init__(
        self,
        ledger: Standing,
        eligibility: EligibilityIndex,
        topology: Topology | None = None,
        devices: bool = True,
    ) -> None:
        self._ledger = ledger
        self._copy = PlanningCopy(
            (ledger.free.now().copy(), ledger.whole.now()),
            ledger.graph,
            ledger,
            device_uses(ledger) if devices else {},
            _SearchedDevices(),
        )
        self._planner = Planner(self._copy, eligibility, topology)
        self.removable = RemovablePods(self._copy.free.now())
        self._gone: frozenset[str] = frozenset()
        self._read: dict[str, PodUse | None] = {}
        self._asked: tuple[Sequence[Demand], bool] | None = None

    def place(
        self,
        demands: Sequence[Demand],
        gang: object,
        settled: Sequence[SettledMember],
        without: frozenset[str],
        within: Collection[str] | None = None,
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go once those of the uids ``without`` have gone, on nodes of ``within``; or None."""
        self._remove(without)
        self._copy.within = within
        found = self._planner.find(demands, gang, settled)
        if found is not None:
            self._copy.undo([demand.pod.uid for demand in demands])
        return found

    def fits(
        self,
        demands: Sequence[Demand],
        gang: object,
        settled: Sequence[SettledMember],
        without: frozenset[str],
    ) -> bool:
        """Whether `place` would find places on any nodes; ask about the same ``demands`` (that object) each time."""
        if not self._alike(demands):
            return self.place(demands, gang, settled, without) is not None
        self._remove(without)
        self._copy.within = None
        shape = self._planner.shape(demands[0], len(demands), gang)
        return int(capacity(shape, self._copy.free.now()).sum()) >= len(demands)

    def _alike(self, demands: Sequence[Demand]) -> bool:
        """Whether all are equal and may go to any nodes, so that it is enough to count how many these take."""
        if self._asked is None or self._asked[0] is not demands:
            free = not any(
                one.pod.devices or topology_constraints(one.pod, one.levels, one.job_size) for one in demands
            )
            self._asked = demands, free and len(grouped(demands, {})) == 1
        return self._asked[1]

    def put(
        self, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go, and there they are for the questions that follow; or None."""
        return self._planner.find(demands, gang, settled)

    def put_where_confined(self, demands: Iterable[Demand], gang: object) -> dict[str, str]:
        """Put pods without devices, ports and bonds, one by one, on the first of the nodes that each is confined to.

        Returns the nodes by uid; who finds none that takes it is left out. For many this is much quicker than `put`.
        """
        table, nodes, shut = self._copy.free.now(), self._planner.eligibility.nodes, self._copy.closed(gang)
        found: dict[str, str] = {}
        for demand in demands:
            asked = self._copy.rounded(demand.pod.requests)
            size = table.size(asked)
            for name in demand.pod.confined_to:
                row, node = table.rows.get(name), nodes.get(name)
                if row is None or node is None or name in shut or name in demand.barred:
                    continue
                if refusal(demand.pod, node) is not None:
                    continue
                if ((table.free[row, : len(size)] >= size) | (size == 0)).all():
                    self._copy.take_all([(demand.pod, Assignment(demand.pod.uid, name))], gang)
                    found[demand.pod.uid] = name
                    break
        return found

    def _remove(self, uids: frozenset[str]) -> None:
        """Let exactly the pods of these uids be gone."""
        back, going = self.removable.split(self._gone - uids), self.removable.split(uids - self._gone)
        self._copy.bring_all_back(back[0], self.removable)
        for use in self._single(back[1]):
            self._copy.bring_back(use)
        self._copy.end_all(going[0], self.removable)
        for use in self._single(going[1]):
            self._copy.end(use)
        self._gone = uids

    def _single(self, uids: Collection[str]) -> Iterator[PodUse]:
        for uid in uids:
            if uid not in self._read:
                self._read[uid] = self.removable.apart.get(uid) or pod_use(self._ledger, uid)
            use = self._read[uid]
            if use is not None:
                yield use


class _SearchedDevices:
    """The devices of a trial: those of all members are always searched for together."""

    def draft(self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()) -> Reason:
        """Leave it to the search."""
        return _SEARCHED

    def hold(self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]) -> tuple[DeviceShare, ...]:
        """What the search has chosen."""
        return tuple(device.share(amount) for some in chosen for device, amount in some)

    def give_up(self, uid: str) -> None:
        """There are no drafts."""

    def end(self, shares: Iterable[DeviceShare], back: bool) -> None:
        """The search looks at who holds what."""
